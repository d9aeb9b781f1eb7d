"""Show the policy what there is, and turn its decisions into rows: placements and stops, each in one transaction."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from lucid_pipelines.control import packing
from lucid_pipelines.control.facts import Facts, GpuKey, Restraint, gather
from lucid_pipelines.control.lending import carry_out_lending
from lucid_pipelines.control.live_state import build
from lucid_pipelines.control.pool import profiler_vc
from lucid_pipelines.control.sampling import GpuReadings, measured_profile
from lucid_pipelines.control.system import System
from lucid_pipelines.domain.cluster import Inventory, Placement
from lucid_pipelines.domain.decision import Continue, Decision, Hold, LendNodes, Pack, Reason, Stage, Start, Stop
from lucid_pipelines.domain.errors import ExternalError, LucidError, StateError
from lucid_pipelines.domain.job import Job, Profile
from lucid_pipelines.domain.states import JobState, Mode
from lucid_pipelines.domain.view import ClusterView, Forecast
from lucid_pipelines.store import ActiveAttempt, QueueView

_log = logging.getLogger(__name__)
WHO = "scheduler"
_PAIRS_AT_ONCE = 25
"""So many pairs are looked at in one pass: each asks the node. The others come in the next."""
_AT_ONCE = 32
"""So many decisions are one transaction: it keeps other writers of a SQLite file waiting for about a tenth of a
second."""


@dataclass(frozen=True, slots=True)
class Applied:
    """What came of one pass's decisions."""

    started: int = 0
    packed: int = 0
    stopped: int = 0
    continued: int = 0
    lent: int = 0
    held: int = 0
    """Jobs that wait on."""
    refused: int = 0
    """Decisions that no longer fitted the rows; the next pass decides anew."""
    deferred: int = 0
    """Decisions whose time comes later: their GPUs are being freed, or a partner is only starting."""
    withheld: int = 0
    """Decisions that this site lets nobody, or a person, take: recorded as proposals."""

    @property
    def changed(self) -> int:
        """Decisions that changed rows."""
        return self.started + self.packed + self.stopped + self.continued + self.lent


@dataclass(frozen=True, slots=True)
class _Application:
    """What one pass's decisions need on their way into the rows."""

    system: System
    queue: QueueView
    now: datetime
    facts: Facts
    looks: dict[str, packing.Look]
    profiles: dict[str, Profile | None]
    """What was measured of attempts that go on where they were profiled."""


def build_view(
    system: System,
    inventory: Inventory,
    queue: QueueView,
    now: datetime,
    *,
    restraint: Restraint = Restraint(),
    forecast: Forecast | None = None,
    focus: str | None = None,
) -> ClusterView:
    """The cluster as the policy sees it, built anew, with a reason for every job that waits."""
    facts = gather(system, inventory, queue, system.memory.facts, restraint)
    return build(facts).view(now.timestamp(), forecast=forecast, explain=True, focus=focus)


def apply(
    system: System,
    queue: QueueView,
    decisions: Sequence[Decision],
    now: datetime,
    facts: Facts | None = None,
    readings: GpuReadings | None = None,
) -> Applied:
    """Write the decisions down, in their order. Nothing is launched here: that is the dispatcher's work.

    Many of them are one transaction: what one process can write at once, the others need not wait for one by one.
    """
    told = [decision for decision in decisions if not isinstance(decision, Hold)]
    if not told:
        return Applied()
    wanted: list[tuple[Pack, Job, ActiveAttempt]] = []
    for decision in told:
        if isinstance(decision, Pack) and len(wanted) < _PAIRS_AT_ONCE:
            partner = queue.active_job(decision.partner_job_id)
            # A partner is seen running before anybody joins it.
            if partner is not None and partner.attempt.started_at is not None:
                wanted.append((decision, queue.jobs[decision.job_id], partner))
    looks = packing.look(system, wanted, now, readings or GpuReadings(system.cluster))
    going_on = [_active(queue, decision.job_id).attempt for decision in told if isinstance(decision, Continue)]
    profiles = {attempt.attempt_id: measured_profile(system, attempt) for attempt in going_on}
    this = _Application(system, queue, now, facts or Facts((), {}, {}, {}), looks, profiles)
    counts: Counter[str] = Counter()
    freed: frozenset[GpuKey] = frozenset()
    for start in range(0, len(told), _AT_ONCE):
        chunk = told[start : start + _AT_ONCE]
        written, freed = system.store.together(partial(_write_down, this, chunk, freed))
        system.store.counters.drop_held()
        counts += written
    return Applied(**counts)


def _write_down(
    this: _Application, decisions: Sequence[Decision], freed: frozenset[GpuKey]
) -> tuple[Counter[str], frozenset[GpuKey]]:
    """Some of a pass's decisions; one that cannot be written down is left out, and counted.

    Args:
        freed: GPUs of attempts that this pass has stopped: free in the policy's eyes, not yet in the world.
    """
    counts: Counter[str] = Counter()
    for decision in decisions:
        try:
            result = _write_one(this, decision, freed)
        except ExternalError:
            raise
        except Exception as error:  # noqa: BLE001 one decision must never keep the others from being carried out
            _log.warning("cannot write down %s: %s", decision, error, exc_info=not isinstance(error, LucidError))
            this.system.store.counters.add("decisions_broken", now=this.now)
            result = "refused"
        counts[result] += 1
        stopped = this.queue.active_job(decision.job_id) if isinstance(decision, Stop) else None
        if stopped is not None:
            freed |= _gpus(stopped.attempt.placement)
    this.system.store.counters.write_held()
    return counts, freed


def _write_one(this: _Application, decision: Decision, freed: frozenset[GpuKey]) -> str:
    """One decision. Returns a word of ``Applied``."""
    match decision:
        case Start() | Pack() if freed & _gpus(decision.placement):
            return "deferred"
        case Start():
            return _start(this, decision)
        case Pack():
            return _pack(this, decision)
        case Stop():
            return _stop(this, decision)
        case Continue():
            return _continue(this, decision)
        case LendNodes():
            return carry_out_lending(this.system, decision, this.queue, this.now)
        case _:
            this.system.store.counters.add(f"decision_not_live_{type(decision).__name__.lower()}", now=this.now)
            return "refused"


def _pack(this: _Application, decision: Pack) -> str:
    seen = this.looks.get(decision.job_id)
    if seen is None and this.system.settings.modes.pack is not Mode.OFF:
        return "deferred"
    clearance = packing.clear(this.system, seen, this.now)
    if not clearance.go:
        return clearance.instead

    refused = "placements_refused"

    def pair() -> None:  # not without a yes that still stands
        nonlocal refused
        _place(this, decision, decision.partner_job_id)
        refused = "actions_stale"
        packing.carried_out(this.system, clearance, this.now)

    try:
        this.system.store.as_one(pair)
    except StateError:
        this.system.store.counters.add(refused, now=this.now)
        return "refused"
    return "packed"


def _start(this: _Application, decision: Start) -> str:
    try:
        _place(this, decision, None)
    except StateError:
        this.system.store.counters.add("placements_refused", now=this.now)
        return "refused"
    return "started"


def _place(this: _Application, decision: Start | Pack, partner: str | None) -> None:
    system, job = this.system, this.queue.jobs[decision.job_id]
    profiling = isinstance(decision, Start) and decision.stage is Stage.PROFILE
    why = "packed with " + partner if partner else "profiled" if profiling else "placed"
    system.store.attempts.place(
        job.job_id,
        decision.placement,
        who=WHO,
        why=f"{system.policy.name}: {why} on {decision.placement}{_in_spite(decision.reasons)}",
        now=this.now,
        reasons=[reason.to_json() for reason in decision.reasons],
        partner_job_id=partner,
        profiling=profiling,
        expected_version=job.version,
        gpu_sharing=_gpu_sharing(this, decision.placement),
    )


def _in_spite(reasons: Sequence[Reason]) -> str:
    """Said when a job runs again where it failed: its list of nodes to avoid left it no place at all."""
    avoid = next((reason.facts for reason in reasons if reason.rule == "avoid_nodes"), None)
    if avoid is None or not avoid.get("gave_way"):
        return ""
    return f", although it was to avoid {avoid.get('nodes')}: no other node here could ever hold it"


def _gpu_sharing(this: _Application, placement: Placement) -> str | None:
    """How the GPUs would be shared; nothing of virtual ones, which nobody shares in truth."""
    names = set(placement.node_names)
    gpus = [gpu for node in this.facts.nodes if node.name in names for gpu in node.gpus]
    return this.system.settings.packing.gpu_sharing if any(not gpu.is_virtual for gpu in gpus) else None


def _stop(this: _Application, decision: Stop) -> str:
    item = _active(this.queue, decision.job_id)
    _, asked_first = this.system.store.attempts.request_stop(
        item.attempt.attempt_id,
        reason=decision.cause.value,
        requeue=decision.requeue,
        never_pack=decision.never_pack,
        who=WHO,
        now=this.now,
        evidence=_reasons(decision.reasons),
    )
    if asked_first:
        packing.stopped(this.system, item, decision, this.now)
    return "stopped" if asked_first else "refused"


def _continue(this: _Application, decision: Continue) -> str:
    attempt = _active(this.queue, decision.job_id).attempt
    done = this.system.store.attempts.go_on(
        attempt.attempt_id,
        who=WHO,
        now=this.now,
        profile=this.profiles.get(attempt.attempt_id),
        evidence=_reasons(decision.reasons),
    )
    return "continued" if done else "refused"


def without_pool(system: System, queue: QueueView, facts: Facts, now: datetime) -> int:
    """Send jobs on that wait for a profiling pool which is not there (any more). Returns how many."""
    pool = profiler_vc(system)
    has_pool = pool is not None and any(node.vc == pool for node in facts.nodes)
    if has_pool:
        return 0
    stranded = [job for job in queue.waiting if job.state is JobState.PROFILE_QUEUED]
    for start in range(0, len(stranded), _AT_ONCE):
        system.store.together(partial(_send_on, system, stranded[start : start + _AT_ONCE], now))
    return len(stranded)


def _send_on(system: System, jobs: Sequence[Job], now: datetime) -> None:
    why = "no node profiles here; it will be looked at while it runs"
    for job in jobs:
        try:
            system.store.jobs.transition(
                job.job_id, {JobState.PROFILE_QUEUED}, JobState.QUEUED, who=WHO, why=why, now=now
            )
        except StateError:
            system.store.counters.add("moves_refused", now=now)  # cancelled a moment ago


def _active(queue: QueueView, job_id: str) -> ActiveAttempt:
    item = queue.active_job(job_id)
    if item is None:
        raise StateError(f"the job holds no GPUs: {job_id}")
    return item


def _gpus(placement: Placement) -> frozenset[GpuKey]:
    return frozenset((share.node, index) for share in placement.shares for index in share.gpu_indices)


def _reasons(reasons: Sequence[Reason]) -> list[dict[str, object]]:
    return [reason.to_json() for reason in reasons]
