"""Decide what to do: numbered rules, read top to bottom; the first that applies gives the answer.

Restart and isolation are decided apart, each with its own mode. Nothing here acts: a decision is data, and says
which rule it rests on.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from lucid_pipelines.domain.states import Mode
from lucid_pipelines.failures.evidence import Finding, Suspect, Witness
from lucid_pipelines.failures.facts import Checkpoint, FailureFacts
from lucid_pipelines.failures.plan import CheckSummary
from lucid_pipelines.failures.recovery import (
    RecoverySettings,
    RecoveryState,
    backoff_s,
    is_mass_failure,
    isolated_nodes,
    isolation_quota,
    newest_complete,
)
from lucid_pipelines.failures.vocabulary import Category, Component, Ending, Restart

_ISOLATABLE = frozenset({Component.GPU, Component.NVLINK, Component.NODE, Component.NETWORK})
_NODE_WIDE = frozenset({Component.NVLINK, Component.NODE, Component.NETWORK})
_NODE_WIDE_FAMILIES = frozenset({"gpu-bus", "node-driver"})


class RestartVerb(StrEnum):
    """What is to become of the job."""

    RESTART = "restart"
    REPORT = "report"
    """Tell the user; nothing is restarted."""
    HOLD = "hold"
    """Wait: for an observation, a shared cause to pass, or a budget."""
    ASK = "ask"
    """A person must decide."""


class IsolationVerb(StrEnum):
    """What is to become of a part."""

    ISOLATE = "isolate"
    WATCH = "watch"
    HOLD = "hold"
    NONE = "none"


class Standing(StrEnum):
    """How far a decision may go, by the mode of its automation."""

    ACT = "act"
    AWAIT_APPROVAL = "await_approval"
    RECORD_ONLY = "record_only"
    """Shadow: scored later against what happened."""
    OFF = "off"


@dataclass(frozen=True, slots=True)
class RestartDecision:
    """Attributes:
    rule: number and words of the rule that decided.
    not_before: for ``RESTART`` and ``HOLD``: when it may be done, or looked at again.
    checkpoint: where to resume; ``None`` = from the start.
    avoid: parts that the job must not be placed on.
    lapses_at: when a request for approval lapses.
    """

    verb: RestartVerb
    standing: Standing
    rule: str
    not_before: datetime | None = None
    checkpoint: Checkpoint | None = None
    avoid: tuple[Suspect, ...] = ()
    lapses_at: datetime | None = None

    @property
    def is_to_be_done(self) -> bool:
        return self.verb is RestartVerb.RESTART and self.standing is Standing.ACT


@dataclass(frozen=True, slots=True)
class IsolationDecision:
    """Attributes:
    suspect: the part; ``None`` where none is named.
    decide_by: an isolation has a deadline and a way out (R-15): the part is tested again before it.
    is_alarm: a person should look at once (quota reached, stuck).
    """

    verb: IsolationVerb
    standing: Standing
    rule: str
    suspect: Suspect | None = None
    reason: str = ""
    decide_by: datetime | None = None
    lapses_at: datetime | None = None
    is_alarm: bool = False

    @property
    def is_to_be_done(self) -> bool:
        return self.verb is IsolationVerb.ISOLATE and self.standing is Standing.ACT


@dataclass(frozen=True, slots=True)
class Decision:
    """Everything that follows from one failure."""

    restart: RestartDecision
    isolations: tuple[IsolationDecision, ...]
    is_mass_failure: bool


def decide(
    finding: Finding,
    facts: FailureFacts,
    state: RecoveryState,
    settings: RecoverySettings,
    checks: CheckSummary | None = None,
) -> Decision:
    """Decide about restart and isolation.

    Args:
        checks: results of the diagnosis plan; ``None`` = it has not been run.
    """
    mass = is_mass_failure(settings, state)
    isolations = tuple(_isolations(finding, state, settings, checks, mass=mass))
    return Decision(_restart(finding, facts, state, settings, mass=mass), isolations, mass)


# ---------------------------------------------------------------- restart


def _restart(
    finding: Finding, facts: FailureFacts, state: RecoveryState, settings: RecoverySettings, *, mass: bool
) -> RestartDecision:
    now = state.now
    standing = _standing(settings.restart_mode)
    mine = [r for r in state.restarts if r.job_id == facts.job.job_id]
    told = _told(finding)

    def answer(
        verb: RestartVerb, rule: str, *, not_before: datetime | None = None, asks: bool = False
    ) -> RestartDecision:
        lapses = now + timedelta(seconds=settings.approval_s) if asks else None
        return RestartDecision(verb, standing, rule, not_before=not_before, lapses_at=lapses)

    # R1. The end was not observed: no restart without positive evidence.
    if not facts.is_end_observed:
        return answer(
            RestartVerb.HOLD, "R1: the end of the attempt was not observed", not_before=now + timedelta(seconds=60)
        )
    # R2. Nothing failed: finished, cancelled, preempted, out of time.
    if finding.ending is not Ending.FAILED and finding.ending not in (Ending.UNKNOWN, Ending.ROOT_LOST):
        return answer(RestartVerb.REPORT, f"R2: nothing to mend: {finding.ending.value}")
    # R3. The automation is off.
    if settings.restart_mode is Mode.OFF:
        return RestartDecision(RestartVerb.REPORT, Standing.OFF, "R3: restarts are switched off")
    # R4. The job says never.
    if facts.job.spec.never_restart:
        return answer(RestartVerb.REPORT, "R4: the job asks never to be restarted")
    # R5. The cause is not known: a person is asked.
    if finding.category is None:
        return answer(RestartVerb.ASK, "R5: the cause is not known", asks=True)
    # R6. The user's own error: a restart repeats it.
    if finding.category is Category.USER_SCRIPT:
        return answer(RestartVerb.REPORT, f"R6: {told}: a restart would repeat it")
    # R7. A cause that a restart does not cure, or that a person must mend first.
    is_unsure = finding.restart is Restart.UNSURE
    if not finding.restart.is_automatic and not is_unsure:
        why = (
            "a person must mend the cause first"
            if finding.restart is Restart.AFTER_FIX
            else "a restart does not cure it"
        )
        return answer(RestartVerb.REPORT, f"R7: {told}: {why}")
    # R8. The same root error came back after a restart of this job: a loop.
    window = timedelta(seconds=settings.loop_window_s)
    if any(r.signature == finding.signature and now - r.restarted_at <= window for r in mine):
        return answer(RestartVerb.REPORT, "R8: the same error came back after a restart: stopped")
    # R9. Many jobs fail at once: a shared cause. Wait for it to pass; restart in batches later.
    if mass:
        return answer(RestartVerb.HOLD, "R9: many jobs fail at once: wait for the shared cause",
            not_before=now + timedelta(seconds=settings.mass_window_s))  # fmt: skip
    # R10. Budgets of the job and of the cause.
    if len(mine) >= settings.max_restarts_per_job:
        return answer(RestartVerb.REPORT, f"R10: restarted {len(mine)} times already: budget of the job used up")
    if sum(r.component is finding.component for r in mine) >= settings.max_restarts_per_cause:
        return answer(RestartVerb.REPORT, "R10: budget for this cause used up")
    # R11. Budget of the cluster: later, not never.
    hour = [r for r in state.restarts if now - r.restarted_at < timedelta(hours=1)]
    if len(hour) >= settings.max_restarts_per_hour:
        return answer(RestartVerb.HOLD, "R11: too many restarts in the last hour",
            not_before=min(r.restarted_at for r in hour) + timedelta(hours=1))  # fmt: skip
    # R12. Where to resume. Without a complete checkpoint only short runs begin again by themselves.
    checkpoint = newest_complete(facts.checkpoints)
    ran = (facts.exit.ended_at if facts.exit else now) - facts.started_at
    if checkpoint is None and ran > timedelta(seconds=settings.from_scratch_below_s):
        return answer(RestartVerb.ASK, "R12: no complete checkpoint, and a long run would begin again", asks=True)
    # R13. Not sure enough: a person confirms, whatever the mode.
    avoid = tuple(dict.fromkeys((*state.avoid, *finding.suspects)))
    when = now + timedelta(seconds=backoff_s(settings, len(mine)))
    if is_unsure or finding.confidence < settings.min_confidence:
        rule = f"R13: {told}, but only {finding.confidence:.2f} sure" + (", by its wording" if is_unsure else "")
        lapses = now + timedelta(seconds=settings.approval_s)
        return RestartDecision(RestartVerb.RESTART, _at_most_ask(standing), rule, when, checkpoint, avoid, lapses)
    # R14. Restart elsewhere, after the back-off.
    lapses = now + timedelta(seconds=settings.approval_s) if standing is Standing.AWAIT_APPROVAL else None
    where = " from its newest complete checkpoint" if checkpoint else " from the start"
    return RestartDecision(
        RestartVerb.RESTART, standing, f"R14: {told}: restart{where}", when, checkpoint, avoid, lapses
    )


# ---------------------------------------------------------------- isolation


def _isolations(
    finding: Finding, state: RecoveryState, settings: RecoverySettings, checks: CheckSummary | None, *, mass: bool
) -> list[IsolationDecision]:
    # I1. Only infrastructure that sits in a node can be isolated.
    if (
        finding.ending is not Ending.FAILED
        or finding.category is not Category.INFRASTRUCTURE
        or finding.component not in _ISOLATABLE
    ):
        return []
    standing = _standing(settings.isolate_mode)
    confirmed = checks.confirmed if checks is not None else ()
    suspects = tuple(dict.fromkeys((*confirmed, *finding.suspects)))
    # I2. No part is named: watch, do not guess.
    if not suspects:
        return [IsolationDecision(IsolationVerb.WATCH, standing, "I2: the evidence names no part")]
    return [_isolation(finding, suspect, state, settings, checks, standing, mass=mass) for suspect in suspects]


def _isolation(
    finding: Finding,
    suspect: Suspect,
    state: RecoveryState,
    settings: RecoverySettings,
    checks: CheckSummary | None,
    standing: Standing,
    *,
    mass: bool,
) -> IsolationDecision:
    part = _part_to_isolate(finding, suspect)
    now = state.now

    def answer(verb: IsolationVerb, rule: str, *, is_alarm: bool = False) -> IsolationDecision:
        return IsolationDecision(verb, standing, rule, part, is_alarm=is_alarm)

    # I3. The automation is off.
    if settings.isolate_mode is Mode.OFF:
        return IsolationDecision(IsolationVerb.NONE, Standing.OFF, "I3: isolation is switched off", part)
    # I4. Already isolated, by us or by another: nothing to add, and never overwrite.
    if any(_covers(held.suspect, part) for held in state.isolations):
        return answer(IsolationVerb.NONE, "I4: it is isolated already")
    # I5. Many jobs fail at once: a shared cause, not so many bad nodes.
    if mass:
        return answer(IsolationVerb.HOLD, "I5: many jobs fail at once: no part is isolated for it")
    # I6. Tests contradict the suspicion.
    is_confirmed = checks is not None and any(_covers(part, c) or _covers(c, part) for c in checks.confirmed)
    if checks is not None and checks.is_cleared and not is_confirmed:
        return answer(IsolationVerb.WATCH, "I6: every test that could be run passed: watch it")
    # I7. A failed test, or two witnesses that do not depend on one another.
    witnesses = _witnesses_against(finding, suspect)
    if not is_confirmed and len(witnesses) < 2:
        return answer(IsolationVerb.WATCH, f"I7: only {_named(witnesses)} speaks against it: test it first")
    # I8. The quota, by count and by share; release and advice go on.
    held = isolated_nodes(state.isolations, settings.owner)
    quota = isolation_quota(settings, len(state.node_gpus))
    if part.node not in held and len(held) >= quota:
        return answer(
            IsolationVerb.HOLD, f"I8: quota of {quota} isolated nodes reached: a person must decide", is_alarm=True
        )
    # I9. Never the last usable node of its virtual cluster.
    if part.gpu_index is None and _is_last_node(part.node, state):
        return answer(IsolationVerb.HOLD, "I9: it is the last usable node of its virtual cluster", is_alarm=True)
    # I10. Isolate, with an owner, a deadline and a way out.
    why = "a test failed" if is_confirmed else "two witnesses: " + _named(witnesses)
    component = finding.component.value if finding.component else "?"
    reason = f"{settings.owner}: {component} suspected ({why}); {finding.signature}"
    lapses = now + timedelta(seconds=settings.approval_s) if standing is Standing.AWAIT_APPROVAL else None
    return IsolationDecision(IsolationVerb.ISOLATE, standing, f"I10: {why}", part, reason,
        now + timedelta(seconds=settings.isolation_s), lapses)  # fmt: skip


def _part_to_isolate(finding: Finding, suspect: Suspect) -> Suspect:
    family = finding.diagnosis.classified.family
    is_node_wide = finding.component in _NODE_WIDE or (family is not None and family.name in _NODE_WIDE_FAMILIES)
    return Suspect(suspect.node) if is_node_wide else suspect


def _witnesses_against(finding: Finding, suspect: Suspect) -> frozenset[Witness]:
    """Independent witnesses that accuse this very part (or its node)."""
    return frozenset(
        t.witness
        for t in finding.testimony
        if t.accuses and t.component is not None and t.node == suspect.node
        and (t.gpu_index is None or suspect.gpu_index is None or t.gpu_index == suspect.gpu_index)
    )  # fmt: skip


def _covers(held: Suspect, part: Suspect) -> bool:
    return held.node == part.node and (held.gpu_index is None or held.gpu_index == part.gpu_index)


def _is_last_node(node: str, state: RecoveryState) -> bool:
    vc = state.node_vc.get(node)
    gone = {i.suspect.node for i in state.isolations if i.suspect.gpu_index is None}
    others = [n for n, v in state.node_vc.items() if v == vc and n != node and n not in gone]
    return vc is not None and not others


def _named(witnesses: frozenset[Witness]) -> str:
    return " and ".join(sorted(w.value for w in witnesses)) or "nobody"


# ---------------------------------------------------------------- shared


def _standing(mode: Mode) -> Standing:
    match mode:
        case Mode.LIVE:
            return Standing.ACT
        case Mode.APPROVE:
            return Standing.AWAIT_APPROVAL
        case Mode.SHADOW:
            return Standing.RECORD_ONLY
        case Mode.OFF:
            return Standing.OFF


def _at_most_ask(standing: Standing) -> Standing:
    return Standing.AWAIT_APPROVAL if standing is Standing.ACT else standing


def _told(finding: Finding) -> str:
    parts = [p.value for p in (finding.category, finding.component) if p is not None]
    family = finding.diagnosis.classified.family
    return (family.title if family is not None else "failure") + f" ({', '.join(parts)})"
