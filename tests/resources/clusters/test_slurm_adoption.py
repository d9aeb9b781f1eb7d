"""Users go on using ``sbatch --hold``: their jobs are taken in, placed, released and followed; nobody else's are."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lucid_pipelines.client import Client
from lucid_pipelines.control.adopting import adopt
from lucid_pipelines.domain.job import Job
from lucid_pipelines.domain.states import JobState, Outcome
from lucid_pipelines.store import ActionState
from tests.support_control.worlds import all_ended, drive, make_settings
from tests.support_slurm.slurm_cluster import SlurmTestbed, short_folder

HOSTILE = "a\"b'c\nd\x1b[31m é $(touch /tmp/never) \\"
pytestmark = [pytest.mark.slow, pytest.mark.slurm]


@pytest.fixture(scope="module")
def testbed() -> Iterator[SlurmTestbed]:
    folder = short_folder()
    testbed = SlurmTestbed(folder / "slurm", nodes=2, gpus=4)
    yield testbed
    testbed.close()
    shutil.rmtree(folder, ignore_errors=True)


def opened(folder: Path, testbed: SlurmTestbed, mode: str, **tags: str | None) -> Client:
    slurm = {"conf": testbed.conf, "partitions": ["gpu"], "python": sys.executable, "adopt": tags}
    cluster = {"kind": "slurm", "gpus": "virtual", "slurm": slurm}
    return Client(settings=make_settings(folder / "home", cluster=cluster, modes={"adopt": mode}))


def sbatch(testbed: SlurmTestbed, folder: Path, script: str, *options: str) -> str:
    """A user's own submission from a folder of theirs."""
    source = folder / 'their "code", $HOME é'
    source.mkdir(exist_ok=True)
    (source / "train.sh").write_text(f"#!/bin/bash\n{script}\n")
    return testbed.run("sbatch", "--parsable", f"--chdir={source}", *options, str(source / "train.sh")).strip()


def state_of(testbed: SlurmTestbed, number: str) -> str:
    return testbed.run("squeue", "-h", "--states=all", "-j", number, "-o", "%T %r").strip()


def taken_in(client: Client, number: str) -> Job:
    (job,) = [j for j in client.jobs(limit=None) if dict(j.spec.labels).get("adopted", "").startswith(f"{number}-")]
    return job


def test_a_held_job_is_placed_released_and_followed_to_its_end(tmp_path: Path, testbed: SlurmTestbed) -> None:
    ours = ("--hold", "--comment=lucid")
    good = sbatch(
        testbed, tmp_path, 'echo "on $CUDA_VISIBLE_DEVICES"; sleep 1', "--gres=gpu:2", *ours, f"--job-name={HOSTILE}"
    )
    bad = sbatch(testbed, tmp_path, "sleep 1; exit 3", "--gres=gpu:1", *ours)
    long = sbatch(testbed, tmp_path, "sleep 300", "--gres=gpu:1", *ours)
    theirs = sbatch(testbed, tmp_path, "sleep 1", "--gres=gpu:1", "--hold")
    array = sbatch(testbed, tmp_path, "sleep 1", "--gres=gpu:1", "--array=0-1", *ours)
    no_gpu = sbatch(testbed, tmp_path, "sleep 1", *ours)
    with opened(tmp_path, testbed, "live") as client:
        assert adopt(client.system) == 3
        assert adopt(client.system) == 0, "each is taken in once"
        jobs = {number: taken_in(client, number) for number in (good, bad, long)}
        assert jobs[good].spec.name == HOSTILE.replace("\n", " ").replace("\x1b", " ")
        assert jobs[good].spec.gpus == 2 and jobs[good].spec.snapshot_digest is not None
        ids = [job.job_id for job in jobs.values()]

        def cancel_the_long_one(now: list[Job]) -> bool:
            last = now[-1]
            if last.state is JobState.RUNNING and last.started_at and not last.cancel_requested_at:
                client.cancel(last.job_id, who="root")
            return all_ended(now)

        completed, failed, cancelled = drive(client, cancel_the_long_one, ids, timeout_s=60)
        assert (completed.state, completed.outcome) == (JobState.COMPLETED, Outcome.COMPLETED)
        assert (failed.state, failed.exit_code) == (JobState.FAILED, 3)
        assert (cancelled.state, cancelled.outcome) == (JobState.CANCELLED, Outcome.CANCELLED)
        (attempt,) = client.attempts(completed.job_id)
        (share,) = attempt.placement.shares
        asked_for = ",".join(map(str, share.gpu_indices))
        assert client.read_log(attempt.attempt_id, 0).data.decode() == f"on {asked_for}\n", "exactly its GPUs"
        assert state_of(testbed, good).startswith("COMPLETED")
        assert not Path("/tmp/never").exists()
    for number in (theirs, array, no_gpu):
        assert state_of(testbed, number) == "PENDING JobHeldUser", "what is not for us is not touched"
        testbed.run("scancel", number)


def test_in_shadow_it_only_says_what_it_would_take(tmp_path: Path, testbed: SlurmTestbed) -> None:
    held = sbatch(testbed, tmp_path, "true", "--gres=gpu:1", "--hold", "--comment=lucid")
    with opened(tmp_path, testbed, "shadow") as client:
        assert adopt(client.system) == 1
        assert adopt(client.system) == 0
        (action,) = client.system.store.actions.find(kind="adopt")
        assert (action.state, action.target.partition("-")[0]) == (ActionState.PROPOSED, held)
        assert client.jobs() == []
    assert state_of(testbed, held) == "PENDING JobHeldUser"
    with opened(tmp_path, testbed, "live") as client:
        assert adopt(client.system) == 1, "what was seen in shadow is taken in once it is live"
        assert adopt(client.system) == 0
        (job,) = drive(client, all_ended, [taken_in(client, held).job_id], timeout_s=60)
        assert job.state is JobState.COMPLETED


def test_a_site_may_give_us_every_held_job_of_a_partition(tmp_path: Path, testbed: SlurmTestbed) -> None:
    held = sbatch(testbed, tmp_path, "true", "--gres=gpu:1", "--hold", "--comment=of their own")
    free = sbatch(testbed, tmp_path, "sleep 1", "--gres=gpu:1")
    with opened(tmp_path, testbed, "live", comment=None, partition="gpu") as client:
        assert adopt(client.system) == 1, "a job that is not held is its user's own affair"
        (job,) = drive(client, all_ended, [taken_in(client, held).job_id], timeout_s=60)
        assert job.state is JobState.COMPLETED
        assert adopt(client.system) == 0
    assert not state_of(testbed, free).startswith("CANCELLED")


def test_a_job_that_its_user_released_is_left_alone(tmp_path: Path, testbed: SlurmTestbed) -> None:
    held = sbatch(testbed, tmp_path, "sleep 2", "--gres=gpu:1", "--hold", "--comment=lucid")
    with opened(tmp_path, testbed, "live") as client:
        adopt(client.system)
        testbed.run("scontrol", "release", held)
        (job,) = drive(client, all_ended, [taken_in(client, held).job_id], timeout_s=60)
        assert job.state is JobState.FAILED
        assert "released" in str(job.detail)
    assert not state_of(testbed, held).startswith("CANCELLED")
