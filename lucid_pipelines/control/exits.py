"""Drain the outbox of abnormal exits: gather -> locate -> classify -> diagnose -> decide -> propose, one at a time.

What is decided becomes an *action* (restart, isolate) in the state database: shadow ones are only recorded, those in
mode ``approve`` wait for a named person, live ones are carried out when their time has come (``recovering.py``).
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache

from lucid_pipelines.control.failure_facts import (
    ISOLATE,
    RESTART,
    failure_facts,
    recovery_settings,
    recovery_state,
)
from lucid_pipelines.control.failure_pages import write_page
from lucid_pipelines.control.notices import Occasion, tell
from lucid_pipelines.control.system import System
from lucid_pipelines.domain.errors import ExternalError, LucidError, StateError
from lucid_pipelines.domain.job import Attempt, Job
from lucid_pipelines.domain.states import Cause, Mode, Outcome
from lucid_pipelines.failures.diagnosis import Tools, shipped_tools
from lucid_pipelines.failures.evidence import Finding, Suspect
from lucid_pipelines.failures.facts import FailureFacts
from lucid_pipelines.failures.handler import Conclusion, Examination, conclude, examine
from lucid_pipelines.failures.plan import DiagnosisPlan
from lucid_pipelines.failures.policy import (
    IsolationDecision,
    IsolationVerb,
    RestartDecision,
    RestartVerb,
    Standing,
)
from lucid_pipelines.failures.recovery import newest_complete
from lucid_pipelines.failures.report import headline
from lucid_pipelines.ports import CheckResult
from lucid_pipelines.store import ActionState, Claim, Exit

_log = logging.getLogger(__name__)
WHO = "failure_handler"
_CLAIM_TTL_S = 180.0
_RETRY_S, _MAX_RETRY_S = 30.0, 600.0
_HELD = "held: "
_LONGEST_HOLD = timedelta(days=1)
_MAX_TRIES = 3
"""So often is an exit handled whose diagnosis breaks. One that waits for something outside is never given up."""


@dataclass(frozen=True, slots=True)
class ExitReport:
    """What is known of one abnormal exit and what was decided about it.

    Attributes:
        suspects: parts that are suspected: node and GPU index, the latter ``None`` for a whole node.
        signature: names the root error; equal for failures that are the same again.
        restart_rule: the numbered rule that decided about a restart.
        lost_s: run time since the newest complete checkpoint (or the start), which has to be run again.
        page: the report for people, Markdown.
        look_again_at: when to decide again, because what was decided now is to wait; ``None`` = decided for good.
    """

    job_id: str
    attempt_id: str
    user: str
    outcome: Outcome
    cause: Cause
    signature: str
    suspects: tuple[tuple[str, int | None], ...]
    headline: str
    component: str | None
    confidence: float
    root_line: int | None
    root_text: str | None
    restart: str
    restart_rule: str
    isolations: tuple[str, ...]
    lost_s: float | None
    page: str
    look_again_at: datetime | None = None

    def to_json(self) -> dict[str, object]:
        return {
            "job_id": self.job_id,
            "attempt_id": self.attempt_id,
            "user": self.user,
            "signature": self.signature,
            "suspects": [list(suspect) for suspect in self.suspects],
            "outcome": self.outcome.value,
            "cause": self.cause.value,
            "headline": self.headline,
            "component": self.component,
            "confidence": round(self.confidence, 3),
            "root_line": self.root_line,
            "root_text": self.root_text,
            "restart": self.restart,
            "restart_rule": self.restart_rule,
            "isolations": list(self.isolations),
            "lost_s": self.lost_s,
        }


def claim_exits(system: System, worker: str, limit: int = 25) -> list[Claim[Exit]]:
    """Claim the oldest abnormal exits that nobody has handled."""
    return system.store.exits.claim(worker=worker, now=system.clock.now(), limit=limit, ttl_s=_CLAIM_TTL_S)


def handle_exit(system: System, claim: Claim[Exit]) -> ExitReport | None:
    """Diagnose one exit, propose what follows, and mark it handled.

    Safe to be killed anywhere: everything that is written has a key of its own, and an exit that was not marked is
    handled again.

    Returns:
        The report, or ``None`` when it could not be finished now and will be tried again, or was given up.
    """
    try:
        report = _handle(system, claim.item)
        if not _put_off(system, claim, report):
            system.store.exits.complete(claim, now=system.clock.now(), result=report.to_json())
    except StateError:
        system.store.counters.add("exits_stale", now=system.clock.now())
        return None
    except ExternalError as error:
        _try_again(system, claim, error)
        return None
    except Exception as error:  # noqa: BLE001 logs hold anything: one that breaks us must not stop the outbox
        _log.exception("the exit of %s cannot be diagnosed", claim.item.attempt_id)
        if claim.tries < _MAX_TRIES:
            _try_again(system, claim, error)
        else:
            _give_up(system, claim, error)
        return None
    return report


def _put_off(system: System, claim: Claim[Exit], report: ExitReport) -> bool:
    """Leave an exit in the outbox whose decision is to wait: a shared cause may pass, a budget come free (R-19)."""
    now, again = system.clock.now(), report.look_again_at
    if again is None or now - claim.item.at > _LONGEST_HOLD:
        return False
    delay_s = max(_RETRY_S, (again - now).total_seconds())
    system.store.counters.add("exits_held", now=now)
    system.store.exits.retry_later(claim, now=now, delay_s=delay_s, error=_HELD + report.restart_rule)
    return True


def _try_again(system: System, claim: Claim[Exit], error: Exception) -> None:
    now = system.clock.now()
    system.store.counters.add("exits_retried", now=now)
    delay_s = min(_RETRY_S * claim.tries, _MAX_RETRY_S)
    with _unless_lost():
        system.store.exits.retry_later(claim, now=now, delay_s=delay_s, error=_told(error))


def _give_up(system: System, claim: Claim[Exit], error: Exception) -> None:
    """The job keeps what its exit record says; that there is no diagnosis is told, counted and kept."""
    now = system.clock.now()
    system.store.counters.add("exits_undiagnosed", now=now)
    why = f"attempt {claim.item.attempt_id} could not be diagnosed: {_told(error)}"
    with _unless_lost():
        system.store.jobs.annotate(claim.item.job_id, who=WHO, why=why, now=now)
        system.store.exits.complete(claim, now=now, result={"undiagnosed": _told(error)})


def _told(error: Exception) -> str:
    return str(error) if isinstance(error, LucidError) else f"{type(error).__name__}: {error}"


@cache
def _tools() -> Tools:
    """Rules and text model, loaded once per process."""
    return shipped_tools()


@contextmanager
def _unless_lost() -> Iterator[None]:
    try:
        yield
    except StateError:
        return  # somebody else has the exit now


def _handle(system: System, exit: Exit) -> ExitReport:
    job, attempt = system.store.jobs.get(exit.job_id), system.store.attempts.get(exit.attempt_id)
    facts = failure_facts(system, job, attempt, exit)
    examination = examine(facts, _tools(), language_model=system.language_model, idle_nodes=_idle_nodes(system))
    _count_language_model(system, examination)
    results = _run_checks(system, examination.plan)
    conclusion = conclude(examination, recovery_state(system, job), recovery_settings(system), results)
    finding = examination.finding
    outcome, cause = _settled(exit, finding)
    said = headline(facts, finding)
    is_current = _is_current(system, job, attempt)
    write_page(system, attempt, conclusion.page)
    if is_current and not _was_told(system, attempt):
        system.store.jobs.annotate(
            job.job_id,
            who=WHO,
            why=said,
            now=system.clock.now(),
            evidence={"attempt_id": attempt.attempt_id, **examination.diagnosis.to_json()},
            outcome=outcome,
            cause=cause,
            detail=_detail(finding, job.detail or said),
        )
    _propose(system, job, attempt, conclusion)
    _tell(system, job, attempt, conclusion, said)
    restart = conclusion.decision.restart
    may_act = restart.standing in (Standing.ACT, Standing.AWAIT_APPROVAL) and facts.is_end_observed
    is_waiting = restart.verb is RestartVerb.HOLD and may_act
    return ExitReport(
        job_id=job.job_id,
        attempt_id=attempt.attempt_id,
        user=job.spec.user,
        outcome=outcome,
        cause=cause,
        signature=finding.signature,
        suspects=tuple((suspect.node, suspect.gpu_index) for suspect in finding.suspects),
        headline=said,
        component=finding.component.value if finding.component else None,
        confidence=finding.confidence,
        root_line=examination.diagnosis.root_line,
        root_text=examination.diagnosis.root_text,
        restart=f"{restart.verb.value} ({restart.standing.value})",
        restart_rule=restart.rule,
        isolations=tuple(
            f"{i.suspect}: {i.verb.value} ({i.standing.value}), {i.rule}" for i in conclusion.decision.isolations
        ),
        lost_s=_lost_s(facts),
        page=conclusion.page,
        look_again_at=restart.not_before if is_waiting and is_current else None,
    )


def _was_told(system: System, attempt: Attempt) -> bool:
    """Whether the job's story has this attempt's diagnosis: a handler that died, or waits, comes here again."""
    return any(
        event.who == WHO and isinstance(event.evidence, dict) and event.evidence.get("attempt_id") == attempt.attempt_id
        for event in system.store.events.of_job(attempt.job_id)
    )


def _lost_s(facts: FailureFacts) -> float | None:
    """Run time that was lost; ``None`` for an attempt that never began."""
    if facts.attempt.started_at is None:
        return None
    ended_at = facts.exit.ended_at if facts.exit is not None else facts.as_of
    saved = newest_complete([c for c in facts.checkpoints if facts.started_at <= c.written_at <= ended_at])
    return max(0.0, (ended_at - (saved.written_at if saved is not None else facts.started_at)).total_seconds())


def _is_current(system: System, job: Job, attempt: Attempt) -> bool:
    """Whether the attempt is still the job's last word: somebody may have put it back into the queue."""
    newest = system.store.attempts.of_job(job.job_id)[-1]
    return newest.attempt_id == attempt.attempt_id and job.state.is_terminal


def _count_language_model(system: System, examination: Examination) -> None:
    outcome = examination.language
    if outcome is not None:
        name = "accepted" if outcome.rejected is None else outcome.rejected.value
        system.store.counters.add(f"failures_model_{name}", now=system.clock.now())


def _detail(finding: Finding, recorded: str) -> str:
    """One line for lists: the root error itself where the log has it, else what the exit record said."""
    found = finding.diagnosis
    if found.root_text is None:
        return recorded
    where = f" (log line {found.root_line})" if found.root_line is not None else ""
    return found.root_text.strip()[:200] + where


def _settled(exit: Exit, finding: Finding) -> tuple[Outcome, Cause]:
    """The exit record's own word stays unless it did not know and the evidence does."""
    knew = exit.outcome not in (Outcome.FAILED_UNKNOWN,)
    if knew or finding.category is None:
        return exit.outcome, exit.cause or Cause.UNKNOWN
    return finding.category.outcome, finding.category.cause


def _idle_nodes(system: System) -> list[str]:
    busy = {slot.node for slot in system.store.queue.view().slots}
    return [node.name for node in system.cluster.inventory().nodes if node.name not in busy]


def _run_checks(system: System, plan: DiagnosisPlan) -> list[CheckResult] | None:
    if not plan.checks:
        return None
    results: list[CheckResult] = []
    for check in plan.checks:
        try:
            results.append(system.cluster.check(check.node, check.test.name))
        except ExternalError as error:
            now = system.clock.now()
            results.append(CheckResult(check.node, check.test.name, None, f"could not be run: {error}", now))
    return results


def _tell(system: System, job: Job, attempt: Attempt, conclusion: Conclusion, said: str) -> None:
    """Leave notices: of the failure, and of what waits for a person or was taken out of use."""
    finding, decision = conclusion.examination.finding, conclusion.decision
    facts = {
        "job": job.job_id,
        "attempt": str(attempt.number),
        "user": job.spec.user,
        "placement": str(attempt.placement),
        "category": finding.category.value if finding.category else "unknown",
        "component": finding.component.value if finding.component else "none",
        "confidence": f"{finding.confidence:.2f}",
        "restart": f"{decision.restart.verb.value} ({decision.restart.rule})",
        "root": (finding.diagnosis.root_text or "not found").strip(),
    }
    tell(system, Occasion.FAILURE, attempt.attempt_id, said, conclusion.page, facts)
    asked = [
        action
        for action in system.store.actions.find(states=[ActionState.PROPOSED], modes=[Mode.APPROVE])
        if action.payload.get("attempt_id") == attempt.attempt_id
    ]
    for action in asked:
        subject = f"{action.kind} of {action.target} waits for your approval"
        text = f"{said}\n\n{action.why}\n\n`lucid actions approve {action.action_id}`"
        tell(
            system, Occasion.APPROVAL, str(action.action_id), subject, text, {**facts, "action": str(action.action_id)}
        )


def _propose(system: System, job: Job, attempt: Attempt, conclusion: Conclusion) -> None:
    decision, finding = conclusion.decision, conclusion.examination.finding
    restart = decision.restart
    if restart.verb in (RestartVerb.RESTART, RestartVerb.ASK):
        isolated = [i.suspect for i in decision.isolations if i.verb is IsolationVerb.ISOLATE]
        at_once = isolated if all(i.standing is Standing.ACT for i in decision.isolations) else []
        _propose_restart(system, job, attempt, finding, restart, nodes_to_avoid(restart, at_once))
    for isolation in decision.isolations:
        if isolation.verb is IsolationVerb.ISOLATE and isolation.suspect is not None:
            _propose_isolation(system, attempt, finding, isolation, isolation.suspect)


def nodes_to_avoid(restart: RestartDecision, isolated: Collection[Suspect | None]) -> list[str]:
    """Nodes to keep the job off: of suspects that are whole nodes, and of GPUs that nothing else keeps it off.

    A GPU that is only suspected stays in use for others; the job that it failed does not try it again (R-19).
    """
    return sorted({suspect.node for suspect in restart.avoid if suspect.gpu_index is None or suspect not in isolated})


def _propose_restart(
    system: System,
    job: Job,
    attempt: Attempt,
    finding: Finding,
    restart: RestartDecision,
    avoid_nodes: list[str],
) -> None:
    mode = system.settings.modes.restart
    if mode is Mode.OFF:
        return
    if restart.lapses_at is not None and mode is Mode.LIVE:
        mode = Mode.APPROVE  # the policy asks for a person although restarts are live
    system.store.actions.propose(
        RESTART,
        job.job_id,
        mode,
        {
            "attempt_id": attempt.attempt_id,
            "signature": finding.signature,
            "component": finding.component.value if finding.component else None,
            "category": finding.category.value if finding.category else None,
            "avoid_nodes": avoid_nodes,
            "checkpoint": restart.checkpoint.path if restart.checkpoint else None,
            "checkpoint_step": restart.checkpoint.step if restart.checkpoint else None,
            "not_before": restart.not_before.isoformat() if restart.not_before else None,
            "lapses_at": restart.lapses_at.isoformat() if restart.lapses_at else None,
            "asks": restart.verb is RestartVerb.ASK,
        },
        why=restart.rule,
        now=system.clock.now(),
        key=f"restart:{attempt.attempt_id}",
    )


def _propose_isolation(
    system: System, attempt: Attempt, finding: Finding, isolation: IsolationDecision, suspect: Suspect
) -> None:
    mode = system.settings.modes.isolate
    if mode is Mode.OFF:
        return
    system.store.actions.propose(
        ISOLATE,
        str(suspect),
        mode,
        {
            "attempt_id": attempt.attempt_id,
            "component": finding.component.value if finding.component else None,
            "node": suspect.node,
            "gpu_index": suspect.gpu_index,
            "owner": recovery_settings(system).owner,
            "reason": isolation.reason or isolation.rule,
            "decide_by": isolation.decide_by.isoformat() if isolation.decide_by else None,
            "lapses_at": isolation.lapses_at.isoformat() if isolation.lapses_at else None,
            "not_before": None,
        },
        why=isolation.rule,
        now=system.clock.now(),
        key=f"isolate:{attempt.attempt_id}:{suspect}",
    )
