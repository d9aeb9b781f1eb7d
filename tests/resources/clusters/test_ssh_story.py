"""The whole control loop over machines reached by SSH, each with a network and a disk of its own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lucid_pipelines.client import Client
from tests.support_control.story import BAD_NODE, LIVE, PAIRS, tell_of_a_pair, tell_story
from tests.support_control.worlds import make_settings
from tests.support_ssh.machines import Machines, can_make_namespaces

pytestmark = [pytest.mark.slow, pytest.mark.ssh]


@pytest.mark.long
def test_the_demonstration_runs_with_nothing_changed_but_the_settings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machines = Machines(tmp_path / "machines", 2, apart=can_make_namespaces())
    try:
        nodes = [
            {"name": f"node-{n}", "gpus": 4, "vc": "all", "host": m.host, "port": m.port, "ssh_root": str(m.root)}
            for n, m in enumerate(machines.machines, start=1)
        ]
        nodes[0]["failing_checks"] = list(BAD_NODE)
        cluster = {
            "kind": "ssh",
            "gpus": "virtual",
            "nodes": nodes,
            "sample_interval_s": 1.0,
            "ssh": {"key_file": machines.key, "known_hosts": [machines.known_hosts]},
        }
        settings = make_settings(tmp_path / "home", cluster=cluster, **LIVE)
        with Client(settings=settings) as client:
            story = tell_story(client, tmp_path, sys.executable, vc="all")
            client.system.cluster.close()  # pyright: ignore[reportAttributeAccessIssue]
        with capsys.disabled():
            print(f"\nssh story: { ({name: round(s, 1) for name, s in story.phases_s.items()}) } s")
    finally:
        machines.close()


def test_a_pair_shares_a_gpu(tmp_path: Path) -> None:
    machines = Machines(tmp_path / "machines", 1)
    try:
        machine = machines[0]
        node = {"name": "node-1", "gpus": 1, "vc": "all", "host": machine.host, "port": machine.port}
        cluster = {
            "kind": "ssh",
            "gpus": "virtual",
            "nodes": [{**node, "ssh_root": str(machine.root)}],
            "sample_interval_s": 0.5,
            "warmup_s": 0.5,
            "ssh": {"key_file": machines.key, "known_hosts": [machines.known_hosts]},
        }
        with Client(settings=make_settings(tmp_path / "home", cluster=cluster, **PAIRS)) as client:
            tell_of_a_pair(client, vc="all")
            client.system.cluster.close()  # pyright: ignore[reportAttributeAccessIssue]
    finally:
        machines.close()
