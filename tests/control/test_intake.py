"""Submissions that nothing can be done with: each gets an answer, and none stands in the way of the others."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lucid_pipelines.client import Client
from lucid_pipelines.control.intake import IntakeResult, claim_batch, take_in
from lucid_pipelines.control.live_advisor import LiveAdvisor
from lucid_pipelines.control.system import System
from lucid_pipelines.domain.errors import InputError, NotFoundError
from lucid_pipelines.domain.job import Job, JobSpec
from lucid_pipelines.domain.states import Cause, JobState, Outcome
from tests.support_control.pretend import OwnClock, PretendCluster
from tests.support_control.worlds import take_in_all


@pytest.fixture
def system(client: Client) -> System:
    clock = OwnClock(client.system.clock.now())
    return System.of(client.settings, client.system.store, PretendCluster(clock), clock)


def submit(system: System, **fields: object) -> Job:
    spec = JobSpec(**{"name": "n", "user": "ada", "vc": "vision", "gpus": 1, "command": ("true",), **fields})  # type: ignore[arg-type]
    return system.store.jobs.submit(spec, system.clock.now())[0]


def late(system: System) -> System:
    """The same world when every claim of now has run out."""
    clock = OwnClock(system.clock.now() + timedelta(minutes=10))
    return System.of(system.settings, system.store, system.cluster, clock)


@pytest.mark.parametrize("workdir", ["x" * 5000, "a/" * 3000 + "b", "missing"])
def test_a_working_directory_that_cannot_be_fails_the_job_and_not_the_batch(system: System, workdir: str) -> None:
    bad, good = submit(system, workdir=workdir), submit(system)
    assert take_in_all(system) == ["refused", "queued"]
    failed = system.store.jobs.get(bad.job_id)
    assert (failed.state, failed.cause) == (JobState.FAILED, Cause.USER)
    assert system.store.jobs.get(good.job_id).state is JobState.QUEUED


def test_a_snapshot_that_is_gone_is_not_the_users_fault(client: Client, system: System, source: Path) -> None:
    (source / "train.py").write_text("pass")
    job = client.submit(["python", "train.py"], source_dir=source, vc="vision").job
    shutil.rmtree(client.settings.snapshots / "manifests")
    (client.settings.snapshots / "manifests").mkdir()
    assert take_in_all(system) == ["refused"]
    failed = system.store.jobs.get(job.job_id)
    assert (failed.outcome, failed.cause) == (Outcome.CONTROL_PLANE_ERROR, Cause.CONTROL_PLANE)
    assert "submit it again" in (failed.detail or "")


def test_a_damaged_snapshot_is_read_again_and_then_given_up(client: Client, system: System, source: Path) -> None:
    (source / "train.py").write_text("print('x' * 1000)")
    job = client.submit(["python", "train.py"], source_dir=source, vc="vision").job
    for path in (client.settings.snapshots / "blobs").rglob("*"):
        if path.is_file():
            path.chmod(0o644)
            path.write_bytes(b"something else")
    seen: list[str] = []
    while not system.store.jobs.get(job.job_id).state.is_terminal and len(seen) < 10:
        seen += take_in_all(system)
        system = late(system)
    assert seen == ["later", "later", "refused"]
    failed = system.store.jobs.get(job.job_id)
    assert (failed.outcome, failed.cause) == (Outcome.CONTROL_PLANE_ERROR, Cause.CONTROL_PLANE)
    assert not (client.settings.jobs / job.job_id / "code").exists(), "nothing half is left in place"


def test_a_strangers_code_folder_fails_the_job_visibly(client: Client, system: System, source: Path) -> None:
    job = client.submit(["true"], source_dir=source, vc="vision").job
    (client.settings.jobs / job.job_id / "code").mkdir(parents=True)
    (client.settings.jobs / job.job_id / "code" / "other.txt").write_text("mine")
    assert take_in_all(system) == ["refused"]
    assert system.store.jobs.get(job.job_id).cause is Cause.CONTROL_PLANE


def test_a_folder_that_cannot_be_made_is_tried_again(client: Client, system: System) -> None:
    job = submit(system)
    client.settings.jobs.mkdir(parents=True)
    (client.settings.jobs / job.job_id).write_text("in the way")
    assert take_in_all(system) == ["later"]
    (client.settings.jobs / job.job_id).unlink()
    assert take_in_all(late(system)) == ["queued"]


def test_an_advisor_that_breaks_costs_only_its_advice(client: Client, system: System, source: Path) -> None:
    def broken(residuals: Sequence[float]) -> Any:
        raise RecursionError("a program that nests too deep")

    (source / "train.py").write_text("pass")
    job = client.submit(["python", "train.py"], source_dir=source, vc="vision").job
    world = replace(system, advisor=LiveAdvisor(broken, 5.0))
    (claim,) = claim_batch(world, "intake")
    assert take_in(world, claim) is IntakeResult.QUEUED
    assert world.store.jobs.get(job.job_id).estimate is not None
    assert world.store.counters.all()["advice_advisor_failed"] == 1
    kept = world.store.advice.of_job(job.job_id)
    assert kept is not None
    assert "nests too deep" in kept.detail


def test_a_request_that_names_no_usable_folder_is_refused(client: Client, source: Path) -> None:
    for options in ({"source_dir": "/" + "x" * 5000}, {"source_dir": source, "workdir": "x" * 5000}):
        with pytest.raises(InputError, match="too long"):
            client.submit(["true"], **options)  # type: ignore[arg-type]
    assert client.jobs() == []


def test_waiting_for_an_unknown_job_says_so(client: Client) -> None:
    with pytest.raises(NotFoundError, match="j-000000000000"):
        client.wait(["j-000000000000"], timeout_s=1)


def test_a_job_of_a_virtual_cluster_that_was_removed_waits_and_says_why(client: Client, system: System) -> None:
    from lucid_pipelines.control.explaining import explain
    from lucid_pipelines.control.scheduling import run_pass

    orphan, other = submit(system, vc="removed"), submit(system, command=("ok",))
    take_in_all(system)
    report = run_pass(system, "window")
    assert report.applied.started == 1 and report.applied.held == 1
    told = explain(system, orphan.job_id)
    assert told.waiting is not None and told.waiting.cause == "unknown_vc"
    assert "never start" in told.summary
    assert system.store.jobs.get(other.job_id).state is JobState.RUNNING
    assert system.store.jobs.request_cancel(orphan.job_id, who="ada", now=system.clock.now()).changed
