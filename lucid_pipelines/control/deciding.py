"""Show the policy what there is, and turn its decisions into rows: placements and stops, each in one transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from lucid_pipelines.control import packing
from lucid_pipelines.control.facts import Facts, GpuKey, Restraint, gather
from lucid_pipelines.control.lending import carry_out_lending
from lucid_pipelines.control.live_state import build
from lucid_pipelines.control.pool import profiler_vc
from lucid_pipelines.control.sampling import measured_profile
from lucid_pipelines.control.system import System
from lucid_pipelines.domain.cluster import Inventory, Placement
from lucid_pipelines.domain.decision import Continue, Decision, Hold, LendNodes, Pack, Reason, Stage, Start, Stop
from lucid_pipelines.domain.errors import StateError
from lucid_pipelines.domain.job import Job
from lucid_pipelines.domain.states import JobState
from lucid_pipelines.domain.view import ClusterView, Forecast
from lucid_pipelines.store import ActiveAttempt, QueueView

WHO = "scheduler"
_PAIRS_AT_ONCE = 25
"""So many pairs are looked at in one pass: each asks the node and takes a few writes. The others come in the next."""


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


@dataclass
class _Application:
    """One pass's decisions on their way into the rows."""

    system: System
    now: datetime
    jobs: dict[str, Job]
    active: dict[str, ActiveAttempt]
    facts: Facts
    counts: Counter[str] = field(default_factory=Counter)
    freed: set[GpuKey] = field(default_factory=set)
    """GPUs of attempts that this pass stops: free in the policy's eyes, not yet in the world."""
    pairs_looked_at: int = 0


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
    system: System, queue: QueueView, decisions: Sequence[Decision], now: datetime, facts: Facts | None = None
) -> Applied:
    """Write the decisions down, in their order. Nothing is launched here: that is the dispatcher's work."""
    facts = facts or Facts((), {}, {}, {})
    jobs = {job.job_id: job for job in queue.waiting}
    active = {item.job.job_id: item for item in queue.active}
    this = _Application(system, now, jobs, active, facts)
    for decision in decisions:
        match decision:
            case Hold():
                continue
            case Start():
                this.counts[_start(this, decision)] += 1
            case Pack():
                this.counts[_pack(this, decision)] += 1
            case Stop():
                this.counts[_stop(this, decision)] += 1
            case Continue():
                this.counts[_continue(this, decision)] += 1
            case LendNodes():
                this.counts[carry_out_lending(system, decision, queue, now)] += 1
            case _:
                this.counts["refused"] += 1
                system.store.counters.add(f"decision_not_live_{type(decision).__name__.lower()}", now=now)
    return Applied(**this.counts)


def _start(this: _Application, decision: Start) -> str:
    if this.freed & _gpus(decision.placement):
        return "deferred"
    return _place(this, this.jobs[decision.job_id], decision, None)


def _pack(this: _Application, decision: Pack) -> str:
    if this.freed & _gpus(decision.placement) or this.pairs_looked_at >= _PAIRS_AT_ONCE:
        return "deferred"
    this.pairs_looked_at += 1
    job, partner = this.jobs[decision.job_id], this.active.get(decision.partner_job_id)
    if partner is None or partner.attempt.started_at is None:
        return "deferred"  # a partner is seen running before anybody joins it
    clearance = packing.clear(this.system, job, partner, decision, this.now)
    if not clearance.go:
        return clearance.instead
    result = _place(this, job, decision, decision.partner_job_id)
    if result == "packed":
        packing.carried_out(this.system, clearance, this.now)
    return result


def _place(this: _Application, job: Job, decision: Start | Pack, partner: str | None) -> str:
    system = this.system
    profiling = isinstance(decision, Start) and decision.stage is Stage.PROFILE
    why = "packed with " + partner if partner else "profiled" if profiling else "placed"
    try:
        system.store.attempts.place(
            job.job_id,
            decision.placement,
            who=WHO,
            why=f"{system.policy.name}: {why} on {decision.placement}",
            now=this.now,
            reasons=[reason.to_json() for reason in decision.reasons],
            partner_job_id=partner,
            profiling=profiling,
            expected_version=job.version,
            gpu_sharing=_gpu_sharing(this, decision.placement),
        )
    except StateError:
        system.store.counters.add("placements_refused", now=this.now)
        return "refused"
    return "packed" if partner else "started"


def _gpu_sharing(this: _Application, placement: Placement) -> str | None:
    """How the GPUs would be shared; nothing of virtual ones, which nobody shares in truth."""
    names = set(placement.node_names)
    gpus = [gpu for node in this.facts.nodes if node.name in names for gpu in node.gpus]
    return this.system.settings.packing.gpu_sharing if any(not gpu.is_virtual for gpu in gpus) else None


def _stop(this: _Application, decision: Stop) -> str:
    item = this.active[decision.job_id]
    _, asked_first = this.system.store.attempts.request_stop(
        item.attempt.attempt_id,
        reason=decision.cause.value,
        requeue=decision.requeue,
        never_pack=decision.never_pack,
        who=WHO,
        now=this.now,
        evidence=_reasons(decision.reasons),
    )
    this.freed |= _gpus(item.attempt.placement)
    if asked_first:
        packing.stopped(this.system, item, decision, this.now)
    return "stopped" if asked_first else "refused"


def _continue(this: _Application, decision: Continue) -> str:
    attempt = this.active[decision.job_id].attempt
    done = this.system.store.attempts.go_on(
        attempt.attempt_id,
        who=WHO,
        now=this.now,
        profile=measured_profile(this.system, attempt),
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
    for job in stranded:
        why = "no node profiles here; it will be looked at while it runs"
        system.store.jobs.transition(job.job_id, {JobState.PROFILE_QUEUED}, JobState.QUEUED, who=WHO, why=why, now=now)
    return len(stranded)


def _gpus(placement: Placement) -> set[GpuKey]:
    return {(share.node, index) for share in placement.shares for index in share.gpu_indices}


def _reasons(reasons: Sequence[Reason]) -> list[dict[str, object]]:
    return [reason.to_json() for reason in reasons]
