"""Observe running attempts and record what is certain: starts and ends. What cannot be seen changes nothing (R-1)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from lucid_pipelines.control.system import System
from lucid_pipelines.domain.errors import LucidError, NotFoundError
from lucid_pipelines.domain.job import Attempt, ExitRecord
from lucid_pipelines.domain.states import AttemptState, Cause, Outcome
from lucid_pipelines.ports import Observation, Sight
from lucid_pipelines.store import ActiveAttempt, Intent

_log = logging.getLogger(__name__)
WHO = "observer"
_NEVER_STARTED_AFTER_S = 30.0
"""A launch that was made and shows no sign of life for so long is fenced and taken as lost."""
_NOT_LET_IN_AFTER_S = 900.0
"""So long may the cluster's own scheduler keep an attempt waiting; then it is placed anew (R-23)."""
_BY_ITS_SCHEDULER = {
    "timed_out": (Outcome.FAILED_USER, Cause.USER, False),
    "preempted": (Outcome.EVICTED, Cause.INFRASTRUCTURE, True),
    "cancelled": (Outcome.CANCELLED, Cause.USER, False),
}
"""What the cluster's own scheduler ended: outcome, cause, and whether the job goes back into the queue (R-34)."""
_STOPPED_BY_USER = "cancelled"


@dataclass(frozen=True, slots=True)
class ObservedChanges:
    """How many attempts were found started, ended, and out of sight."""

    started: int = 0
    ended: int = 0
    unobserved: int = 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """How an ended attempt is recorded."""

    outcome: Outcome
    cause: Cause | None
    why: str
    requeue: bool = False
    never_pack: bool = False
    detail: str | None = None


def observe(system: System, active: Sequence[ActiveAttempt]) -> ObservedChanges:
    """Poll every active attempt once and write down what became certain."""
    if not active:
        return ObservedChanges()
    seen = system.cluster.poll([item.attempt.attempt_id for item in active])
    started = ended = unobserved = 0
    for item in active:
        observation = seen[item.attempt.attempt_id]
        if observation.sight is Sight.UNOBSERVED:
            unobserved += 1
            continue
        try:
            started += _record_started(system, item.attempt, observation)
            ended += _record_what_ended(system, item, observation)
        except Exception as error:  # noqa: BLE001 one attempt (a fence that fails) must not hide the others
            is_ours = not isinstance(error, LucidError)
            _log.warning("cannot record %s: %s", item.attempt.attempt_id, error, exc_info=is_ours)
            system.store.counters.add("observations_failed", now=system.clock.now())
    if unobserved:
        system.store.counters.add("attempts_unobserved", unobserved, now=system.clock.now())
    return ObservedChanges(started, ended, unobserved)


def judge(attempt: Attempt, exit: ExitRecord, *, cancel_requested: bool) -> Verdict:
    """Decide how an attempt ended from its exit record alone; log text never outranks it (R-2, R-5)."""
    if exit.reason == "fenced" and cancel_requested:
        return Verdict(Outcome.CANCELLED, Cause.USER, "cancelled by its user; its wrapper had died")
    if exit.reason == "fenced":
        return Verdict(Outcome.LOST, Cause.INFRASTRUCTURE, exit.detail or "fenced after its wrapper had died")
    if exit.reason == "spawn_failed":
        return Verdict(Outcome.FAILED_USER, Cause.USER, exit.detail or "the command could not be started")
    if exit.reason in _BY_ITS_SCHEDULER:
        outcome, cause, requeue = _BY_ITS_SCHEDULER[exit.reason]
        if cancel_requested:
            outcome, cause, requeue = Outcome.CANCELLED, Cause.USER, False
        return Verdict(outcome, cause, exit.detail or exit.reason.replace("_", " "), requeue=requeue)
    if exit.exit_code == 0 and exit.reason != "stopped":
        return Verdict(Outcome.COMPLETED, None, "exited with 0")
    if exit.reason == "stopped":
        if cancel_requested:
            return Verdict(Outcome.CANCELLED, Cause.USER, "cancelled by its user")
        if attempt.stop_requeue is False:
            why = attempt.stop_reason or "stopped for good"
            return Verdict(Outcome.FAILED_USER, Cause.USER, why, detail=why)
        return Verdict(
            Outcome.EVICTED,
            Cause.CONTROL_PLANE,
            attempt.stop_reason or "stopped by the scheduler",
            requeue=True,
            never_pack=attempt.stop_never_pack,
        )
    how = f"signal {exit.signal}" if exit.signal is not None else f"exit code {exit.exit_code}"
    return Verdict(Outcome.FAILED_UNKNOWN, Cause.UNKNOWN, f"ended with {how}")


def end_failed_launch(system: System, item: ActiveAttempt) -> int:
    """End an attempt whose launch was given up (``Intent.failed``), once nothing of it can come to life any more.

    Returns:
        1 when this call recorded the end.

    Raises:
        ExternalError: it cannot be fenced now; the next ``observe`` tries again.
    """
    observation = system.cluster.poll([item.attempt.attempt_id])[item.attempt.attempt_id]
    return _record_lost(system, item, observation, "its launch was given up")


def _record_what_ended(system: System, item: ActiveAttempt, observation: Observation) -> int:
    match observation.sight:
        case Sight.EXITED:
            return _record_exit(system, item, observation)
        case Sight.VANISHED:
            return _record_lost(system, item, observation, "its processes are gone and left no exit record")
        case Sight.QUEUED if not observation.is_let_in and _is_kept_waiting(system, item.attempt, observation.as_of):
            return _record_lost(system, item, observation, f"its cluster does not let it in: {observation.detail}")
        case Sight.NOT_STARTED if _is_overdue(system, item.attempt, observation.as_of):
            return _record_lost(system, item, observation, "it was launched and never came to life")
        case _:
            return 0


def _record_started(system: System, attempt: Attempt, observation: Observation) -> int:
    if attempt.started_at is not None or observation.started_at is None:
        return 0
    now = system.clock.now()
    return int(
        system.store.attempts.record_started(
            attempt.attempt_id, observation.started_at, who=WHO, now=now, as_of=observation.as_of
        )
    )


def _record_exit(system: System, item: ActiveAttempt, observation: Observation) -> int:
    exit = observation.exit
    assert exit is not None, "an exited attempt comes with its record"
    verdict = judge(item.attempt, exit, cancel_requested=item.job.cancel_requested_at is not None)
    if exit.reason == "fenced":
        given_up = None if item.job.cancel_requested_at else _given_up(system, item.attempt)
        verdict = given_up or verdict
    # The scheduler asked for this stop before the user cancelled: the store makes it a cancellation.
    result = system.store.attempts.record_end(
        item.attempt.attempt_id,
        exit,
        verdict.outcome,
        who=WHO,
        now=system.clock.now(),
        cause=verdict.cause,
        why=verdict.why,
        requeue=verdict.requeue,
        never_pack=verdict.never_pack,
        detail=None if verdict.outcome is Outcome.COMPLETED else verdict.detail or exit.detail or verdict.why,
        evidence={"reason": exit.reason, "exit_code": exit.exit_code, "signal": exit.signal},
        as_of=observation.as_of,
    )
    return int(result.changed)


def _record_lost(system: System, item: ActiveAttempt, observation: Observation, why: str) -> int:
    # Fenced first: once the row says "lost" its GPUs are given to others.
    killed = system.cluster.fence(item.attempt.attempt_id)
    after = system.cluster.poll([item.attempt.attempt_id])[item.attempt.attempt_id]
    if after.sight is Sight.EXITED and after.exit is not None and after.exit.reason != "fenced":
        return _record_exit(system, item, after)  # its own record came after all
    verdict = _given_up(system, item.attempt)
    if item.job.cancel_requested_at is not None:  # it is gone, as its user wished: nothing to repair
        verdict = Verdict(Outcome.CANCELLED, Cause.USER, f"cancelled by its user; {why}")
    requeue = verdict is None and (observation.sight is Sight.QUEUED or observation.never_ran)
    if requeue:  # nothing of it ever ran: it is placed anew
        cause = Cause.CONTROL_PLANE
        if observation.never_ran:
            cause, why = Cause.INFRASTRUCTURE, observation.detail or "its nodes were lost before it had started"
        system.store.counters.add("attempts_not_let_in", now=system.clock.now())
        verdict = Verdict(Outcome.EVICTED, cause, why, requeue=True)
    if verdict is None:
        system.store.counters.add("attempts_lost", now=system.clock.now())
        why = f"{why} ({observation.detail})" if observation.detail else why
        verdict = Verdict(Outcome.LOST, Cause.INFRASTRUCTURE, why)
    result = system.store.attempts.record_end(
        item.attempt.attempt_id,
        None,
        verdict.outcome,
        who=WHO,
        now=system.clock.now(),
        cause=verdict.cause,
        why=verdict.why,
        requeue=verdict.requeue,
        detail=verdict.detail or verdict.why,
        evidence={"sight": observation.sight.value, "processes_killed": killed, "detail": observation.detail},
        as_of=observation.as_of,
    )
    return int(result.changed)


def _given_up(system: System, attempt: Attempt) -> Verdict | None:
    """How an attempt ends whose launch was given up; ``None`` when it was not."""
    launch = _launch(system, attempt)
    if launch is None or not launch.failed:
        return None
    result = launch.result or {}
    is_users = result.get("is_users") is True
    return Verdict(
        Outcome.FAILED_USER if is_users else Outcome.CONTROL_PLANE_ERROR,
        Cause.USER if is_users else Cause.CONTROL_PLANE,
        f"cannot be launched (tried {result.get('tries')} times)",
        detail=str(result.get("error")),
    )


def _is_kept_waiting(system: System, attempt: Attempt, now: datetime) -> bool:
    launch = _launch(system, attempt)
    done_at = launch.done_at if launch is not None else attempt.placed_at
    return done_at is not None and (now - done_at).total_seconds() > _NOT_LET_IN_AFTER_S


def _is_overdue(system: System, attempt: Attempt, now: datetime) -> bool:
    if attempt.state is AttemptState.ENDED:
        return False
    launch = _launch(system, attempt)
    if launch is None:
        return True  # done so long ago that it has been pruned
    if launch.done_at is None:
        return False
    return launch.failed or (now - launch.done_at).total_seconds() > _NEVER_STARTED_AFTER_S


def _launch(system: System, attempt: Attempt) -> Intent | None:
    try:
        return system.store.intents.get(f"launch:{attempt.attempt_id}")
    except NotFoundError:
        return None
