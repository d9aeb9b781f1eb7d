"""Ends that the controller has forgotten are read from a real slurmdbd, all with one command."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from lucid_pipelines.ports import Sight
from lucid_pipelines.resources.clusters import wrapper
from lucid_pipelines.resources.clusters.slurm_findings import examine
from tests.support_slurm.slurm_cluster import SlurmTestbed, short_folder
from tests.support_slurm.slurm_harness import SlurmHarness

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.slurm]


@pytest.fixture(scope="module")
def testbed() -> Iterator[SlurmTestbed]:
    folder = short_folder()
    testbed = SlurmTestbed(folder / "slurm", nodes=1, accounting=True, min_job_age_s=2)
    yield testbed
    testbed.close()
    shutil.rmtree(folder, ignore_errors=True)


def test_how_forgotten_jobs_ended_is_asked_of_accounting_once_for_all(tmp_path: Path, testbed: SlurmTestbed) -> None:
    harness = SlurmHarness(tmp_path, testbed)
    try:
        by_user, crashed, unrecorded = (harness.start(s) for s in ("sleep 60", "exit 3", "sleep 60"))
        harness.wait(lambda: (harness.folder(crashed) / wrapper.EXIT).exists(), "it ends")
        for attempt in (by_user, unrecorded):
            testbed.run("scancel", str(harness.submitted(attempt)))
        harness.wait(lambda: (harness.folder(unrecorded) / wrapper.EXIT).exists(), "it ends")
        (harness.folder(unrecorded) / wrapper.EXIT).unlink()  # as when the node lost its disk with it
        harness.wait(lambda: harness.slurm.commands.jobs() == [], "the controller forgets them")
        assert testbed.accounting is not None
        testbed.accounting.stop_daemon()
        deaf = harness.reopen().poll([by_user, crashed, unrecorded])
        assert {deaf[by_user].sight, deaf[unrecorded].sight} == {Sight.UNOBSERVED}, "nothing is concluded"
        assert "accounting does not answer" in str(deaf[by_user].detail)
        assert deaf[crashed].sight is Sight.EXITED, "its own record needs no other word"
        testbed.accounting.start_daemon(testbed.environ_of_all)
        cluster = harness.reopen()
        harness.wait(lambda: not any("does not answer" in f.text for f in examine(cluster)), "it answers again")
        before = cluster.commands.counts.get("sacct", 0)
        seen = cluster.poll([by_user, crashed, unrecorded])
        assert cluster.commands.counts["sacct"] == before + 1
        ends = {name: seen[name].exit for name in (by_user, crashed, unrecorded)}
        assert {name: end.reason for name, end in ends.items() if end} == {
            by_user: "cancelled",
            crashed: "exited",
            unrecorded: "cancelled",
        }
        assert seen[unrecorded].source == "slurm:sacct"
        cluster.poll([crashed])
        assert cluster.commands.counts["sacct"] == before + 1, "only what is not known is asked for"
    finally:
        harness.close()
