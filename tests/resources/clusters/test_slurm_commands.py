"""What Slurm's commands say of a job that ends while we ask for its end."""

from __future__ import annotations

from pathlib import Path

import pytest

from lucid_pipelines.domain.errors import ExternalError, UnreachableError
from lucid_pipelines.resources.clusters.slurm_commands import SlurmCommands
from tests.support_slurm import shapes

ENDED = [shapes.job(39, "COMPLETED")]
SAID = [
    ("scancel: error: Kill job error on job id 39: Invalid job id specified", 1),
    ("scancel: error: Kill job error on job id 39: Job/step already completing or completed", 1),
    ("", 229),  # 22.05, when the job ended between its own look and its own call
]


def commands_of(folder: Path, said: str, status: int, jobs: list[dict[str, object]]) -> SlurmCommands:
    (folder / "jobs").write_text(shapes.old_jobs(jobs), encoding="utf-8")
    for name, text in (("scancel", f"echo '{said}' >&2; exit {status}"), ("squeue", f"cat {folder}/jobs")):
        (folder / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        (folder / name).chmod(0o755)
    return SlurmCommands(folder=folder)


@pytest.mark.parametrize("jobs", [[], ENDED, [shapes.job(39, "COMPLETING")]])
@pytest.mark.parametrize(("said", "status"), SAID)
def test_a_job_that_has_just_ended_may_be_cancelled(
    tmp_path: Path, said: str, status: int, jobs: list[dict[str, object]]
) -> None:
    commands = commands_of(tmp_path, said, status, jobs)
    commands.cancel(39, "--batch", "--signal=TERM")
    assert commands.counts == {"scancel": 1, "squeue": 1}


@pytest.mark.parametrize(("said", "status"), [*SAID, ("Access/permission denied", 1)])
@pytest.mark.parametrize("state", ["RUNNING", "PENDING", "SUSPENDED"])
def test_a_refusal_counts_as_long_as_the_job_lives(tmp_path: Path, said: str, status: int, state: str) -> None:
    with pytest.raises(ExternalError, match=said or "229"):
        commands_of(tmp_path, said, status, [shapes.job(39, state)]).cancel(39)


def test_a_silent_controller_is_unreachable(tmp_path: Path) -> None:
    said = "scancel: error: Unable to contact slurm controller (connect failure)"
    with pytest.raises(UnreachableError):
        commands_of(tmp_path, said, 1, ENDED).cancel(39)
