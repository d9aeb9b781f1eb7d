"""The one place where a job's row changes: lock it, check the arrow, count the version, tell the story."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, select

from lucid_pipelines.domain.errors import NotFoundError, StateError, did_you_mean
from lucid_pipelines.domain.states import JobState, Outcome, require_transition
from lucid_pipelines.store import tables
from lucid_pipelines.store.codec import estimate_to_json, profile_to_json
from lucid_pipelines.store.database import Transaction
from lucid_pipelines.store.records import EventKind, JobChanges

_JOBS = tables.jobs
_NEAR_SCAN = 2000
JobRow = dict[str, Any]


def lock_job(tx: Transaction, job_id: str) -> JobRow:
    """Return the job's row, locked until the transaction ends. Jobs are locked before anything of theirs."""
    row = tx.locked(_JOBS, job_id=job_id)
    if row is None:
        raise job_not_found(tx.connection, job_id)
    return row


def job_not_found(connection: Connection, text: str) -> NotFoundError:
    """The error for an unknown job, naming the nearest id or name among the newest jobs."""
    newest = select(_JOBS.c.job_id, _JOBS.c.name).order_by(_JOBS.c.submitted_at.desc()).limit(_NEAR_SCAN)
    known = {word for row in connection.execute(newest) for word in row}
    return NotFoundError(f"no job has this id or name{did_you_mean(text, known)}: {text!r}")


def change_job(tx: Transaction, row: JobRow, values: dict[str, Any]) -> JobRow:
    """Write ``values`` into a locked job; its version counts up. Returns the new row."""
    values = values | {"version": row["version"] + 1}
    if tx.change(_JOBS, values, job_id=row["job_id"], version=row["version"]) != 1:
        raise StateError(f"somebody else changed the job first; read it again: {row['job_id']}")
    tx.changed.add(row["job_id"])
    return row | values


def move_job(
    tx: Transaction,
    row: JobRow,
    to_state: JobState,
    *,
    who: str,
    why: str,
    now: datetime,
    kind: EventKind = EventKind.STATE,
    evidence: object = None,
    as_of: datetime | None = None,
    values: dict[str, Any] | None = None,
) -> JobRow:
    """Move a locked job along an arrow of the plan, with what follows from it and an event.

    Entering the queue stamps ``queued_at`` and wipes the last end; an end stamps ``ended_at``. A worker's
    claim on the job is void afterwards.
    """
    from_state = JobState(row["state"])
    require_transition(from_state, to_state)
    changed: dict[str, Any] = {
        "state": to_state.value,
        "state_at": now,
        "locked_by": None,
        "lock_token": None,
        "locked_until": None,
        "lock_tries": 0,
    }
    if to_state in (JobState.QUEUED, JobState.PROFILE_QUEUED):
        changed |= {"queued_at": now, "started_at": None, "ended_at": None}
        changed |= {"outcome": None, "cause": None, "exit_code": None, "detail": None}
    if to_state.is_terminal:
        changed["ended_at"] = now
    if to_state is JobState.CANCELLED:
        changed["outcome"] = Outcome.CANCELLED.value
    new = change_job(tx, row, changed | (values or {}))
    tx.event(row["job_id"], kind, from_state, to_state, at=now, who=who, why=why, evidence=evidence, as_of=as_of)
    return new


def note(
    tx: Transaction,
    row: JobRow,
    kind: EventKind,
    *,
    who: str,
    why: str,
    now: datetime,
    evidence: object = None,
    as_of: datetime | None = None,
) -> None:
    """Append an event that leaves the state as it is."""
    state = JobState(row["state"])
    tx.event(row["job_id"], kind, state, state, at=now, who=who, why=why, evidence=evidence, as_of=as_of)


def column_values(changes: JobChanges) -> dict[str, Any]:
    """Typed changes as the columns of the table."""
    values: dict[str, Any] = dict(changes)
    if "estimate" in changes:
        values["estimate"] = estimate_to_json(changes["estimate"])
    if "profile" in changes:
        values["profile"] = profile_to_json(changes["profile"])
    return values
