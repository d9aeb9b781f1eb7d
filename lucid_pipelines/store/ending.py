"""Record how an attempt ended: once, with everything that follows from it, in one transaction."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import delete, select, update

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.domain.job import ExitRecord, Profile
from lucid_pipelines.domain.states import AttemptState, Cause, JobState, Outcome
from lucid_pipelines.store import tables
from lucid_pipelines.store.cancelling import lock_attempt
from lucid_pipelines.store.changing import JobRow, lock_job, move_job
from lucid_pipelines.store.codec import attempt_from_row, exit_to_json, job_from_row, profile_to_json
from lucid_pipelines.store.database import Transaction
from lucid_pipelines.store.estimates import score_estimates
from lucid_pipelines.store.history import insert_history
from lucid_pipelines.store.ids import job_id_of
from lucid_pipelines.store.pairs import end_pairs
from lucid_pipelines.store.records import EndResult, EventKind
from lucid_pipelines.store.types import as_utc

_ATTEMPTS = tables.attempts
_END_STATE = {
    Outcome.COMPLETED: JobState.COMPLETED,
    Outcome.CANCELLED: JobState.CANCELLED,
    Outcome.EVICTED: JobState.EVICTED,
    Outcome.LOST: JobState.LOST,
}
_NORMAL = frozenset({Outcome.COMPLETED, Outcome.CANCELLED, Outcome.EVICTED})


@dataclass(frozen=True, slots=True)
class End:
    """What the caller knows about the end of an attempt. See ``Attempts.record_end``."""

    exit: ExitRecord | None
    outcome: Outcome
    cause: Cause | None
    requeue: bool
    never_pack: bool
    avoid_nodes: tuple[str, ...]
    profile: Profile | None
    detail: str | None
    who: str
    why: str
    evidence: object
    as_of: datetime | None


def record_end(tx: Transaction, attempt_id: str, end: End, now: datetime) -> EndResult:
    """See ``Attempts.record_end``."""
    job = lock_job(tx, job_id_of(attempt_id))
    attempt = lock_attempt(tx, attempt_id)
    if attempt["state"] == AttemptState.ENDED:
        return EndResult(job_from_row(job), attempt_from_row(attempt), changed=False)
    outcome = end.outcome
    if outcome is Outcome.EVICTED and job["cancel_requested_at"] is not None:
        outcome = Outcome.CANCELLED  # a stop that was meant as an eviction met the user's wish
    if end.requeue and outcome is Outcome.COMPLETED:
        raise InputError(f"a completed attempt is not put back: {attempt_id}")

    ended_at, started_at = _span(attempt, end, now)
    run_s = None if started_at is None else (ended_at - started_at).total_seconds()
    profile = end.profile or (end.exit.profile if end.exit else None)
    attempt |= {
        "state": AttemptState.ENDED.value,
        "started_at": started_at,
        "ended_at": ended_at,
        "outcome": outcome.value,
        "cause": end.cause.value if end.cause else None,
        "exit_record": exit_to_json(end.exit),
    }
    changed = {name: attempt[name] for name in _ENDED_COLUMNS}
    tx.execute(update(_ATTEMPTS).where(_ATTEMPTS.c.attempt_id == attempt_id).values(changed))
    shared = attempt["partner_job_id"] is not None
    tx.execute(delete(tables.gpu_slots).where(tables.gpu_slots.c.attempt_id == attempt_id))
    end_pairs(tx, attempt_id, ended_at)
    _void_open_intents(tx, attempt_id, now)
    _to_outbox(tx, attempt, outcome, end.cause, now)
    insert_history(tx, job, attempt, run_s=run_s, outcome=outcome, cause=end.cause, profile=profile, packed=shared)
    if outcome.teaches_duration and run_s is not None:
        score_estimates(tx, job["job_id"], run_s, now)
    job = _move(tx, job, attempt, end, outcome, run_s=run_s, profile=profile, now=now)
    return EndResult(job_from_row(job), attempt_from_row(_reread(tx, attempt_id)), changed=True)


_ENDED_COLUMNS = ("state", "started_at", "ended_at", "outcome", "cause", "exit_record")


def _span(attempt: dict[str, Any], end: End, now: datetime) -> tuple[datetime, datetime | None]:
    """End and start of the run; the exit record knows best, and time never runs backward."""
    ended_at = as_utc(end.exit.ended_at if end.exit else now)
    started_at = attempt["started_at"]
    if end.exit is not None and end.exit.started_at is not None:
        started_at = as_utc(end.exit.started_at)
    if started_at is not None and started_at > ended_at:
        started_at = ended_at
    return ended_at, started_at


def _void_open_intents(tx: Transaction, attempt_id: str, now: datetime) -> None:
    """Launch and stop are moot once the attempt has ended; a fence stays wanted."""
    intents = tables.intents
    moot = (intents.c.attempt_id == attempt_id) & intents.c.done_at.is_(None) & intents.c.kind.in_(("launch", "stop"))
    void = {"done_at": now, "result": {"void": "the attempt has ended"}, "lock_token": None, "locked_until": None}
    tx.execute(update(intents).where(moot).values(void))


def _to_outbox(tx: Transaction, attempt: dict[str, Any], outcome: Outcome, cause: Cause | None, now: datetime) -> None:
    row = {
        "attempt_id": attempt["attempt_id"],
        "job_id": attempt["job_id"],
        "at": now,
        "outcome": outcome.value,
        "cause": cause.value if cause else None,
        "abnormal": outcome not in _NORMAL,
        "available_at": now,
        "lock_tries": 0,
    }
    tx.insert_or_ignore(tables.exits, row)


def _move(
    tx: Transaction,
    job: JobRow,
    attempt: dict[str, Any],
    end: End,
    outcome: Outcome,
    *,
    run_s: float | None,
    profile: Profile | None,
    now: datetime,
) -> JobRow:
    state = JobState(job["state"])
    values: dict[str, Any] = {
        "outcome": outcome.value,
        "cause": end.cause.value if end.cause else None,
        "exit_code": end.exit.exit_code if end.exit else None,
        "detail": end.detail or (end.exit.detail if end.exit else None),
        "ended_at": attempt["ended_at"],
        "ran_s": job["ran_s"] + (run_s or 0.0),
    }
    if attempt["started_at"] is not None:
        values["started_at"] = attempt["started_at"]
    if outcome is Outcome.EVICTED:
        del values["ended_at"]  # the attempt ended, the job goes on
    kept: dict[str, Any] = {"ran_s": values["ran_s"]}
    if profile is not None:
        kept["profile"] = profile_to_json(profile)
    if end.never_pack:
        kept["never_pack"] = True
    if end.avoid_nodes:
        kept["avoid_nodes"] = list(dict.fromkeys([*(job["avoid_nodes"] or ()), *end.avoid_nodes]))
    evidence = {
        "attempt_id": attempt["attempt_id"],
        "outcome": outcome.value,
        "cause": values["cause"],
        "exit_code": values["exit_code"],
        "signal": end.exit.signal if end.exit else None,
        "run_s": run_s,
        "evidence": end.evidence,
    }
    to_state = _END_STATE.get(outcome, JobState.FAILED)
    from_pool = state is JobState.PROFILING and outcome is Outcome.EVICTED
    if from_pool:  # leaving the profiling pool is no eviction in the plan's picture
        to_state = JobState.QUEUED if end.requeue else JobState.PROFILE_QUEUED
        values = {}
    job = move_job(
        tx,
        job,
        to_state,
        who=end.who,
        why=end.why or outcome.value,
        now=now,
        kind=EventKind.ENDED,
        evidence=evidence,
        as_of=end.as_of,
        values=values | kept,
    )
    wanted_back = end.requeue and not from_pool and job["cancel_requested_at"] is None
    if not wanted_back or outcome is Outcome.CANCELLED:
        return job
    restarts = job["restart_count"] + (outcome is not Outcome.EVICTED)
    return move_job(
        tx,
        job,
        JobState.QUEUED,
        who=end.who,
        why=end.why or outcome.value,
        now=now,
        kind=EventKind.REQUEUED,
        values={"restart_count": restarts},
    )


def _reread(tx: Transaction, attempt_id: str) -> dict[str, Any]:
    return dict(tx.execute(select(_ATTEMPTS).where(_ATTEMPTS.c.attempt_id == attempt_id)).mappings().one())
