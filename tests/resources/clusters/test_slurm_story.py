"""The whole control loop in front of a real Slurm."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from lucid_pipelines.client import Client
from tests.support_control.story import BAD_NODE, LIVE, PAIRS, tell_of_a_pair, tell_story
from tests.support_control.worlds import make_settings
from tests.support_slurm.slurm_cluster import SlurmTestbed, short_folder

pytestmark = [pytest.mark.slow, pytest.mark.slurm]


@pytest.mark.long
def test_the_demonstration_runs_with_nothing_changed_but_the_settings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = short_folder()
    testbed = SlurmTestbed(folder / "slurm", nodes=2, gpus=4)
    try:
        cluster = {
            "kind": "slurm",
            "gpus": "virtual",
            "nodes": [{"name": "n1", "gpus": 4, "failing_checks": list(BAD_NODE)}, {"name": "n2", "gpus": 4}],
            "sample_interval_s": 1.0,
            "slurm": {"conf": testbed.conf, "partitions": ["gpu"], "python": sys.executable},
        }
        settings = make_settings(tmp_path / "home", cluster=cluster, **LIVE)
        with Client(settings=settings) as client:
            story = tell_story(client, tmp_path, sys.executable, vc="gpu")
            (bad,) = [node for node in client.system.cluster.inventory().nodes if node.isolations]
            assert bad.isolations[0].owner == "lucid", "kept free by us: Slurm knows whole nodes only"
        with capsys.disabled():
            print(f"\nslurm story: { ({name: round(s, 1) for name, s in story.phases_s.items()}) } s")
    finally:
        testbed.close()
        shutil.rmtree(folder, ignore_errors=True)


def test_a_pair_shares_a_gpu_through_typed_shards(tmp_path: Path) -> None:
    folder = short_folder()
    testbed = SlurmTestbed(folder / "slurm", nodes=1, gpus=1)
    try:
        cluster = {
            "kind": "slurm",
            "gpus": "virtual",
            "nodes": [{"name": "n1", "gpus": 1}],
            "sample_interval_s": 0.5,
            "warmup_s": 0.5,
            "slurm": {"conf": testbed.conf, "partitions": ["gpu"], "python": sys.executable},
        }
        with Client(settings=make_settings(tmp_path / "home", cluster=cluster, **PAIRS)) as client:
            tell_of_a_pair(client, vc="gpu")
    finally:
        testbed.close()
        shutil.rmtree(folder, ignore_errors=True)
