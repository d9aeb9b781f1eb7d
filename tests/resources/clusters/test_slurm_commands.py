"""What Slurm's commands say of a job that ends while we ask for its end."""

from __future__ import annotations

from pathlib import Path

import pytest

from lucid_pipelines.domain.errors import ExternalError, UnreachableError
from lucid_pipelines.resources.clusters.slurm_commands import SlurmCommands


def _scancel(folder: Path, said: str) -> SlurmCommands:
    program = folder / "scancel"
    program.write_text(f"#!/bin/sh\necho '{said}' >&2\nexit 1\n", encoding="utf-8")
    program.chmod(0o755)
    return SlurmCommands(folder=folder)


@pytest.mark.parametrize(
    "said",
    [
        "scancel: error: Kill job error on job id 39: Invalid job id specified",
        "scancel: error: Kill job error on job id 39: Job/step already completing or completed",
    ],
)
def test_a_job_that_has_just_ended_may_be_cancelled(tmp_path: Path, said: str) -> None:
    commands = _scancel(tmp_path, said)
    commands.cancel("--batch", "--signal=TERM", "39")
    assert commands.counts == {"scancel": 1}


def test_any_other_refusal_is_told(tmp_path: Path) -> None:
    commands = _scancel(tmp_path, "scancel: error: Kill job error on job id 39: Access/permission denied")
    with pytest.raises(ExternalError, match="permission denied"):
        commands.cancel("39")


def test_a_silent_controller_is_unreachable(tmp_path: Path) -> None:
    commands = _scancel(tmp_path, "scancel: error: Unable to contact slurm controller (connect failure)")
    with pytest.raises(UnreachableError):
        commands.cancel("39")
