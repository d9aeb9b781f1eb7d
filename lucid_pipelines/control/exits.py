"""Drain the outbox of abnormal exits: gather -> locate -> classify -> decide -> act, one exit at a time.

Until a stage knows more, the exit record alone speaks: the cause is unknown unless the record says it. A restart
is proposed only for what cannot be the job's own fault, within a budget, and done only in mode ``live``.
"""

from __future__ import annotations

from dataclasses import dataclass

from lucid_pipelines.control.system import System
from lucid_pipelines.domain.errors import LucidError, StateError
from lucid_pipelines.domain.job import Attempt, Job
from lucid_pipelines.domain.states import Cause, JobState, Mode, Outcome
from lucid_pipelines.store import ActionState, Claim, Exit

WHO = "failure_handler"
MAX_RESTARTS = 3
_CLAIM_TTL_S = 120.0
_RESTARTABLE = frozenset({Outcome.LOST, Outcome.FAILED_INFRASTRUCTURE, Outcome.CONTROL_PLANE_ERROR})


@dataclass(frozen=True, slots=True)
class ExitReport:
    """What is known of one abnormal exit and what was done about it.

    Attributes:
        rule: the numbered rule that decided.
        restart: whether a restart is advised; ``acted`` whether it was done.
    """

    job_id: str
    attempt_id: str
    outcome: Outcome
    cause: Cause
    rule: str
    restart: bool
    acted: bool
    detail: str

    def to_json(self) -> dict[str, object]:
        return {
            "job_id": self.job_id,
            "attempt_id": self.attempt_id,
            "outcome": self.outcome.value,
            "cause": self.cause.value,
            "rule": self.rule,
            "restart": self.restart,
            "acted": self.acted,
            "detail": self.detail,
        }


def claim_exits(system: System, worker: str, limit: int = 25) -> list[Claim[Exit]]:
    """Claim the oldest abnormal exits that nobody has handled."""
    return system.store.exits.claim(worker=worker, now=system.clock.now(), limit=limit, ttl_s=_CLAIM_TTL_S)


def handle_exit(system: System, claim: Claim[Exit]) -> ExitReport | None:
    """Report one exit, propose or do what the mode allows, and mark it handled.

    Returns:
        The report, or ``None`` when it could not be finished now and will be tried again.
    """
    try:
        report = _handle(system, claim.item)
        system.store.exits.complete(claim, now=system.clock.now(), result=report.to_json())
    except StateError:
        system.store.counters.add("exits_stale", now=system.clock.now())
        return None
    except LucidError as error:
        system.store.exits.retry_later(claim, now=system.clock.now(), delay_s=30.0, error=str(error))
        return None
    return report


def _handle(system: System, exit: Exit) -> ExitReport:
    job = system.store.jobs.get(exit.job_id)
    attempt = system.store.attempts.get(exit.attempt_id)
    rule, restart = restart_rule(job, attempt, exit.outcome)
    mode = system.settings.modes.restart
    acted = False
    if restart and mode is not Mode.OFF:
        acted = _propose(system, job, attempt, rule, mode)
    return ExitReport(
        job_id=job.job_id,
        attempt_id=attempt.attempt_id,
        outcome=exit.outcome,
        cause=exit.cause or Cause.UNKNOWN,
        rule=rule,
        restart=restart,
        acted=acted,
        detail=job.detail or "",
    )


def restart_rule(job: Job, attempt: Attempt, outcome: Outcome) -> tuple[str, bool]:
    """Which rule decides about a restart, read from top to bottom, and what it says."""
    if job.spec.never_restart:
        return "1 the job says never", False
    if job.cancel_requested_at is not None:
        return "2 its user cancelled it", False
    if outcome not in _RESTARTABLE:
        return "3 nothing shows that the infrastructure is to blame", False
    if job.restart_count >= MAX_RESTARTS:
        return f"4 the budget of {MAX_RESTARTS} restarts is used up", False
    if attempt.number <= job.restart_count:
        return "5 a later attempt is on its way", False
    return "6 lost through no fault of its own", True


def _propose(system: System, job: Job, attempt: Attempt, rule: str, mode: Mode) -> bool:
    now = system.clock.now()
    action, _ = system.store.actions.propose(
        "restart",
        job.job_id,
        mode,
        {"attempt_id": attempt.attempt_id},
        why=rule,
        now=now,
        key=f"restart:{attempt.attempt_id}",
    )
    if mode is not Mode.LIVE or action.state is not ActionState.PROPOSED:
        return action.state is ActionState.EXECUTED
    if job.state in (JobState.FAILED, JobState.LOST):
        system.store.jobs.requeue(job.job_id, who=WHO, why=rule, now=now)
    system.store.actions.executed(action.action_id, now=now)
    return True
