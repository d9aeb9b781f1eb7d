"""Short ways to bring a store into a wanted state, through its public operations only."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from lucid_pipelines.domain.cluster import Placement
from lucid_pipelines.domain.job import Attempt, ExitRecord, Job, JobSpec
from lucid_pipelines.domain.states import JobState
from lucid_pipelines.store import Store

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    """``NOW`` and so many seconds."""
    return NOW + timedelta(seconds=seconds)


def make_spec(**changes: Any) -> JobSpec:
    """A plain spec with some fields changed."""
    fields: dict[str, Any] = {
        "name": "resnet",
        "user": "ada",
        "vc": "vision",
        "gpus": 1,
        "command": ("python", "train.py"),
    }
    return JobSpec(**(fields | changes))


def submitted(store: Store, now: datetime = NOW, **changes: Any) -> Job:
    return store.jobs.submit(make_spec(**changes), now)[0]


def queued(store: Store, now: datetime = NOW, *, to: JobState = JobState.QUEUED, **changes: Any) -> Job:
    """A job that has come as far as the queue (or the profiling queue)."""
    job = submitted(store, now, **changes)
    for state in (JobState.SNAPSHOTTED, JobState.ADVISED, to):
        job = store.jobs.transition(job.job_id, [job.state], state, who="intake", why="test", now=now)
    return job


def running(
    store: Store, now: datetime = NOW, *, node: str = "n1", gpus: tuple[int, ...] = (0,), **changes: Any
) -> Attempt:
    """An attempt that runs since ``now`` on the given GPUs of one node."""
    job = queued(store, now, gpus=len(gpus), **changes)
    attempt = store.attempts.place(job.job_id, Placement.of({node: gpus}), who="scheduler", now=now)
    store.attempts.record_started(attempt.attempt_id, now, who="poller", now=now)
    return store.attempts.get(attempt.attempt_id)


def exit_record(started: datetime = NOW, run_s: float = 60.0, code: int = 0, **changes: Any) -> ExitRecord:
    fields: dict[str, Any] = {
        "exit_code": code,
        "signal": None,
        "reason": "exited",
        "started_at": started,
        "ended_at": started + timedelta(seconds=run_s),
    }
    return ExitRecord(**(fields | changes))
