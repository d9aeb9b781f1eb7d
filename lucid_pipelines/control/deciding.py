"""Show the policy what there is, and turn its decisions into rows: placements and stops, each in one transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from lucid_pipelines.control.system import System
from lucid_pipelines.domain.cluster import Inventory
from lucid_pipelines.domain.decision import Decision, Hold, Pack, Reason, Stage, Start, Stop
from lucid_pipelines.domain.errors import StateError
from lucid_pipelines.domain.job import Job
from lucid_pipelines.domain.states import JobState
from lucid_pipelines.domain.view import ClusterView, QueuedJob, RunningJob
from lucid_pipelines.placement import ClusterState
from lucid_pipelines.store import ActiveAttempt, QueueView

WHO = "scheduler"


@dataclass(frozen=True, slots=True)
class Applied:
    """What came of one pass's decisions."""

    started: int = 0
    packed: int = 0
    stopped: int = 0
    held: int = 0
    refused: int = 0
    """Decisions that no longer fitted the rows; the next pass decides anew."""


def build_view(inventory: Inventory, queue: QueueView, now: datetime) -> ClusterView:
    """The cluster as the policy sees it, from one consistent reading of the state database."""
    unusable: dict[str, set[int]] = {}
    gpus_of = {node.name: [gpu.index for gpu in node.gpus] for node in inventory.nodes}
    for reason in queue.isolated:
        all_gpus = gpus_of.get(reason.node, [])
        unusable.setdefault(reason.node, set()).update(all_gpus if reason.gpu_index is None else [reason.gpu_index])
    for node in inventory.nodes:
        unusable.setdefault(node.name, set()).update(node.isolated_gpu_indices)
    held = {item.attempt.attempt_id for item in queue.active}
    for slot in queue.slots:
        if slot.attempt_id not in held:  # a slot without a running job: nothing may be placed on it
            unusable.setdefault(slot.node, set()).add(slot.gpu_index)
    state = ClusterState.of(
        inventory.nodes,
        queued=[queued_job(job, order) for order, job in enumerate(queue.waiting) if job.state is JobState.QUEUED],
        running=[_running_job(item, queue) for item in queue.active],
        unusable_gpus=unusable,
    )
    return state.view(now.timestamp(), explain=True)


def queued_job(job: Job, sequence: int) -> QueuedJob:
    """A waiting job as a policy knows it."""
    return QueuedJob(
        job_id=job.job_id,
        vc=job.spec.vc,
        gpus=job.spec.gpus,
        submitted_s=job.submitted_at.timestamp(),
        sequence=sequence,
        user=job.spec.user,
        name=job.spec.name,
        estimate=job.estimate if job.estimate is not None and job.estimate.duration_s is not None else None,
        profile=job.profile,
        never_pack=job.never_pack,
        attempt_count=job.attempt_count,
        attained_gpu_s=job.ran_s * job.spec.gpus,
        attained_s=job.ran_s,
    )


def apply(system: System, queue: QueueView, decisions: Sequence[Decision], now: datetime) -> Applied:
    """Write the decisions down, in their order. Nothing is launched here: that is the dispatcher's work."""
    jobs = {job.job_id: job for job in queue.waiting}
    active = {item.job.job_id: item for item in queue.active}
    counts: Counter[str] = Counter()
    for decision in decisions:
        match decision:
            case Hold():
                counts["held"] += 1
            case Start() | Pack():
                counts[_place(system, jobs[decision.job_id], decision, now)] += 1
            case Stop():
                counts[_stop(system, active[decision.job_id], decision, now)] += 1
            case _:
                counts["refused"] += 1
                system.store.counters.add(f"decision_not_live_{type(decision).__name__.lower()}", now=now)
    return Applied(counts["started"], counts["packed"], counts["stopped"], counts["held"], counts["refused"])


def _place(system: System, job: Job, decision: Start | Pack, now: datetime) -> str:
    partner = decision.partner_job_id if isinstance(decision, Pack) else None
    profiling = isinstance(decision, Start) and decision.stage is Stage.PROFILE
    try:
        system.store.attempts.place(
            job.job_id,
            decision.placement,
            who=WHO,
            why=f"{system.policy.name}: {'packed with ' + partner if partner else 'placed'} on {decision.placement}",
            now=now,
            reasons=[reason.to_json() for reason in decision.reasons],
            partner_job_id=partner,
            profiling=profiling,
            expected_version=job.version,
        )
    except StateError:
        system.store.counters.add("placements_refused", now=now)
        return "refused"
    return "packed" if partner else "started"


def _stop(system: System, item: ActiveAttempt, decision: Stop, now: datetime) -> str:
    _, asked_first = system.store.attempts.request_stop(
        item.attempt.attempt_id,
        reason=decision.cause.value,
        requeue=decision.requeue,
        never_pack=decision.never_pack,
        who=WHO,
        now=now,
        evidence=_reasons(decision.reasons),
    )
    return "stopped" if asked_first else "refused"


def _reasons(reasons: Sequence[Reason]) -> list[dict[str, object]]:
    return [reason.to_json() for reason in reasons]


def _running_job(item: ActiveAttempt, queue: QueueView) -> RunningJob:
    job, attempt = item.job, item.attempt
    by_attempt = {other.attempt.attempt_id: other.job.job_id for other in queue.active}
    started = (attempt.started_at or attempt.placed_at).timestamp()
    return RunningJob(
        job=queued_job(job, 0),
        placement=attempt.placement,
        slots=(),
        started_s=started,
        as_of_s=started,
        speed_frac=None if item.partner_attempt_ids else 1.0,
        partners=tuple(by_attempt[other] for other in item.partner_attempt_ids if other in by_attempt),
        stage=Stage.PROFILE if attempt.profiling else Stage.MAIN,
    )
