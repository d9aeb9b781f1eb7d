"""Cancel, stop and put back: what people and policies ask of jobs that may already hold GPUs."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import select, update

from lucid_pipelines.domain.errors import NotFoundError, StateError
from lucid_pipelines.domain.job import Attempt, Job
from lucid_pipelines.domain.states import AttemptState, JobState
from lucid_pipelines.store import tables
from lucid_pipelines.store.changing import JobRow, change_job, lock_job, move_job, note
from lucid_pipelines.store.codec import attempt_from_row, job_from_row
from lucid_pipelines.store.database import Transaction
from lucid_pipelines.store.ids import job_id_of
from lucid_pipelines.store.intents import insert_intent
from lucid_pipelines.store.records import CancelResult, EventKind, IntentKind

_ATTEMPTS = tables.attempts
_REQUEUED_FROM = (JobState.FAILED, JobState.LOST, JobState.EVICTED)


def cancel(tx: Transaction, job_id: str, *, who: str, why: str, now: datetime) -> CancelResult:
    """See ``Jobs.request_cancel``."""
    row = lock_job(tx, job_id)
    state = JobState(row["state"])
    if state is JobState.CANCELLED or (row["cancel_requested_at"] is not None and not state.is_terminal):
        return CancelResult(job_from_row(row), changed=False)
    if state.is_terminal:
        raise StateError(f"the job has ended and cannot be cancelled: {job_id} is {state}")
    if not state.is_active:
        values = {"cancel_requested_at": now}
        moved = move_job(tx, row, JobState.CANCELLED, who=who, why=why, now=now, values=values)
        return CancelResult(job_from_row(moved), changed=True)
    row = change_job(tx, row, {"cancel_requested_at": now})
    note(tx, row, EventKind.CANCEL_REQUESTED, who=who, why=why, now=now)
    attempt = _open_attempt(tx, row)
    _ask_to_stop(tx, row, attempt, reason=why, requeue=False, never_pack=False, now=now)
    return CancelResult(job_from_row(row), changed=True)


def stop(
    tx: Transaction,
    attempt_id: str,
    *,
    reason: str,
    requeue: bool,
    never_pack: bool,
    who: str,
    now: datetime,
    evidence: object,
) -> tuple[Attempt, bool]:
    """See ``Attempts.request_stop``."""
    row = lock_job(tx, job_id_of(attempt_id))
    attempt = lock_attempt(tx, attempt_id)
    if attempt["state"] == AttemptState.ENDED or attempt["stop_requested_at"] is not None:
        return attempt_from_row(attempt), False
    row = change_job(tx, row, {})
    changed = _ask_to_stop(tx, row, attempt, reason=reason, requeue=requeue, never_pack=never_pack, now=now)
    note(tx, row, EventKind.STOP_REQUESTED, who=who, why=reason, now=now, evidence=evidence)
    return attempt_from_row(changed), True


def requeue(
    tx: Transaction,
    job_id: str,
    *,
    who: str,
    why: str,
    now: datetime,
    avoid: tuple[str, ...],
    never_pack: bool,
    evidence: object,
) -> Job:
    """See ``Jobs.requeue``."""
    row = lock_job(tx, job_id)
    state = JobState(row["state"])
    if state not in _REQUEUED_FROM:
        raise StateError(f"only a failed, lost or evicted job is put back; {job_id} is {state}")
    if row["cancel_requested_at"] is not None:
        raise StateError(f"its user asked to cancel the job; it is not put back: {job_id}")
    values: dict[str, Any] = {"restart_count": row["restart_count"] + (state is not JobState.EVICTED)}
    if avoid:
        values["avoid_nodes"] = list(dict.fromkeys([*(row["avoid_nodes"] or ()), *avoid]))
    if never_pack:
        values["never_pack"] = True
    moved = move_job(
        tx,
        row,
        JobState.QUEUED,
        who=who,
        why=why,
        now=now,
        kind=EventKind.REQUEUED,
        evidence=evidence,
        values=values,
    )
    return job_from_row(moved)


def lock_attempt(tx: Transaction, attempt_id: str) -> dict[str, Any]:
    """Return the attempt's row, locked. Lock its job first."""
    query = select(_ATTEMPTS).where(_ATTEMPTS.c.attempt_id == attempt_id).with_for_update()
    row = tx.execute(query).mappings().first()
    if row is None:
        raise NotFoundError(f"no attempt has this id: {attempt_id!r}")
    return dict(row)


def _open_attempt(tx: Transaction, job: JobRow) -> dict[str, Any]:
    mine = (_ATTEMPTS.c.job_id == job["job_id"]) & (_ATTEMPTS.c.state != AttemptState.ENDED.value)
    row = tx.execute(select(_ATTEMPTS).where(mine).with_for_update()).mappings().one()
    return dict(row)


def _ask_to_stop(
    tx: Transaction,
    job: JobRow,
    attempt: dict[str, Any],
    *,
    reason: str,
    requeue: bool,
    never_pack: bool,
    now: datetime,
) -> dict[str, Any]:
    """Mark the attempt and leave the stop intent; a stop that stands already is left as it is."""
    if attempt["stop_requested_at"] is not None:
        return attempt
    values = {
        "state": AttemptState.STOPPING.value,
        "stop_requested_at": now,
        "stop_reason": reason,
        "stop_requeue": requeue,
        "stop_never_pack": never_pack,
    }
    tx.execute(update(_ATTEMPTS).where(_ATTEMPTS.c.attempt_id == attempt["attempt_id"]).values(values))
    insert_intent(
        tx,
        key=f"stop:{attempt['attempt_id']}",
        kind=IntentKind.STOP,
        payload={"reason": reason, "grace_s": job["spec"].get("grace_s")},
        job_id=job["job_id"],
        attempt_id=attempt["attempt_id"],
        now=now,
    )
    return attempt | values
