"""The way out of an isolation: at its deadline the part is tested again, given back or told of (R-15, R-17, R-18)."""

from __future__ import annotations

from dataclasses import dataclass

from lucid_pipelines.control.failure_facts import ISOLATE, isolation_records, recovery_settings
from lucid_pipelines.control.notices import Occasion, tell
from lucid_pipelines.control.system import System
from lucid_pipelines.domain.errors import ExternalError, StateError
from lucid_pipelines.failures.plan import tests_for
from lucid_pipelines.failures.recovery import IsolationRecord
from lucid_pipelines.failures.release import ReleaseDecision, ReleaseVerb, review
from lucid_pipelines.failures.vocabulary import Component
from lucid_pipelines.ports import CheckResult
from lucid_pipelines.store import Action, NodeReason

WHO = "failure_handler"


@dataclass(frozen=True, slots=True)
class Reviewed:
    """One isolation of ours and what became of it."""

    reason: NodeReason
    decision: ReleaseDecision


def review_isolations(system: System) -> list[Reviewed]:
    """Look at every isolation again; test those whose deadline has come, give back what passes, tell of the rest.

    Safe to repeat: an isolation is lifted once, an alarm is told once a day.
    """
    now, settings = system.clock.now(), recovery_settings(system)
    reasons = system.store.nodes.isolated()
    records = isolation_records(reasons)
    found: list[Reviewed] = []
    for reason, first in zip(reasons, review(records, [], now, settings), strict=True):
        decision = first
        if first.verb in (ReleaseVerb.TEST, ReleaseVerb.ALARM) and first.isolation.owner == settings.owner:
            results = _tests(system, reason)
            tested = review([first.isolation], results, system.clock.now(), settings)[0]
            decision = tested if any(result.passed is not None for result in results) else first
        _carry_out(system, reason, decision)
        if decision.verb is not ReleaseVerb.KEEP:
            found.append(Reviewed(reason, decision))
    return found


def _tests(system: System, reason: NodeReason) -> list[CheckResult]:
    """Results of the tests that speak for what was suspected. Disturbing ones only while nothing runs there."""
    action = _action_of(system, reason)
    said = action.payload.get("component") if action is not None else None
    is_busy = any(slot.node == reason.node for slot in system.store.queue.view().slots)
    results: list[CheckResult] = []
    for test in tests_for(Component(said) if said else None):
        if test.needs_idle_node and is_busy:
            continue
        try:
            results.append(system.cluster.check(reason.node, test.name))
        except ExternalError:
            continue  # not run: it says nothing
    return results


def _carry_out(system: System, reason: NodeReason, decision: ReleaseDecision) -> None:
    now = system.clock.now()
    action = _action_of(system, reason)
    if decision.verb is ReleaseVerb.RESTORE:
        try:
            system.store.nodes.lift(reason.reason_id, owner=reason.owner, by=f"{WHO}: {decision.rule}", now=now)
        except StateError:
            return
        _score(system, action, confirmed=False, why=decision.rule)
        part = _part(decision.isolation)
        key = f"lifted:{reason.reason_id}"
        tell(system, Occasion.ISOLATION, key, f"{part} is in use again", decision.rule, {"node": reason.node})
    elif decision.verb is ReleaseVerb.ALARM:
        if decision.rule.startswith("3"):
            _score(system, action, confirmed=True, why=decision.rule)
        system.store.counters.add("isolations_stuck", now=now)
        key = f"stuck:{reason.reason_id}:{now:%Y-%m-%d}"
        subject = f"{_part(decision.isolation)} needs a person: {decision.rule}"
        tell(system, Occasion.ISOLATION, key, subject, f"{reason.reason}\n\n{decision.rule}", {"node": reason.node})


def _score(system: System, action: Action | None, *, confirmed: bool, why: str) -> None:
    if action is not None and action.scored_at is None:
        score = {"good": confirmed, "why": why}
        system.store.actions.score(action.action_id, score, now=system.clock.now())


def _action_of(system: System, reason: NodeReason) -> Action | None:
    """The action that set an isolation, which its evidence names."""
    evidence = reason.evidence if isinstance(reason.evidence, dict) else {}
    number = evidence.get("action")
    if not isinstance(number, int):
        return None
    return next((a for a in system.store.actions.find(kind=ISOLATE, limit=500) if a.action_id == number), None)


def _part(isolation: IsolationRecord) -> str:
    suspect = isolation.suspect
    return suspect.node if suspect.gpu_index is None else f"GPU {suspect.gpu_index} of {suspect.node}"
