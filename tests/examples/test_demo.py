"""The demonstration's job file: complete, varied, more than fits at once."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

EXAMPLES = Path(__file__).parents[2] / "examples"
KEYS = {"name", "user", "vc", "gpus", "command", "workdir", "env", "amp", "never_restart", "long_cold_start", "labels"}
GPUS_PER_VC = 4


@pytest.fixture(scope="module")
def jobs() -> list[dict[str, Any]]:
    content = yaml.safe_load((EXAMPLES / "demo.yaml").read_text())
    assert set(content) == {"jobs"}
    return content["jobs"]


def seconds(job: dict[str, Any]) -> float:
    arguments = shlex.split(job["command"])
    return float(arguments[arguments.index("--seconds") + 1])


def test_every_entry_is_well_formed(jobs: list[dict[str, Any]]) -> None:
    for job in jobs:
        assert {"name", "user", "vc", "gpus", "command", "workdir"} <= set(job) <= KEYS
        assert (EXAMPLES / job["workdir"] / shlex.split(job["command"])[1]).is_file()
        assert all(isinstance(value, str) for value in job["env"].values())
        assert job["env"]["OMP_NUM_THREADS"] == "1"
    names = [job["name"] for job in jobs]
    assert len(set(names)) == len(names)


def test_users_sizes_and_virtual_clusters_differ(jobs: list[dict[str, Any]]) -> None:
    assert len({job["user"] for job in jobs}) >= 4
    assert {job["gpus"] for job in jobs} == {1, 2, 4}
    assert {job["vc"] for job in jobs} == {"vision", "nlp"}
    assert len({job["workdir"] for job in jobs}) >= 8


@pytest.mark.parametrize(("label", "count"), [("cancel", 1), ("crash", 1), ("ecc", 1), ("sweep", 8)])
def test_the_special_jobs_are_labelled(jobs: list[dict[str, Any]], label: str, count: int) -> None:
    assert sum(job.get("labels", {}).get("demo") == label for job in jobs) == count


def test_the_sweep_is_short(jobs: list[dict[str, Any]]) -> None:
    assert all(2 <= seconds(job) <= 4 for job in jobs if job["workdir"] == "sweep")


def test_there_is_more_work_than_gpus_and_it_ends_in_time(jobs: list[dict[str, Any]]) -> None:
    for vc in ("vision", "nlp"):
        own = [job for job in jobs if job["vc"] == vc]
        assert sum(job["gpus"] for job in own) > 2 * GPUS_PER_VC
        gpu_s = sum(job["gpus"] * seconds(job) for job in own if job["workdir"] != "cancel-me")
        assert 25 < gpu_s / GPUS_PER_VC < 60  # the least time that this needs; with starts and gaps about twice that


def test_options_in_commands_exist(jobs: list[dict[str, Any]]) -> None:
    for job in jobs:
        source = (EXAMPLES / job["workdir"] / "train.py").read_text()
        for argument in shlex.split(job["command"]):
            assert not argument.startswith("--") or f'"{argument}"' in source
