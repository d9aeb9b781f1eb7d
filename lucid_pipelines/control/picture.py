"""The cluster at one moment, for `lucid top` and `lucid nodes`: gathered once, then only shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from lucid_pipelines.control.deciding import build_view
from lucid_pipelines.control.facts import GpuKey
from lucid_pipelines.control.forecasting import forecast_now
from lucid_pipelines.control.packing import restraint
from lucid_pipelines.control.pool import effective_inventory, profiler_vc
from lucid_pipelines.control.start_times import StartPrediction, predicted_starts
from lucid_pipelines.control.system import System
from lucid_pipelines.domain.cluster import GpuSample, Inventory
from lucid_pipelines.domain.decision import Decision, Hold, Pack, Start
from lucid_pipelines.domain.errors import ExternalError
from lucid_pipelines.domain.job import Job
from lucid_pipelines.domain.states import JobState
from lucid_pipelines.placement import ModeRules, choose_mode
from lucid_pipelines.store import Loan, Pair, PairVerdict, QueueView

_PAIR_WORDS = {
    PairVerdict.WATCHED: "settling",
    PairVerdict.KEPT: "doing well",
    PairVerdict.SPLIT: "to be split",
    PairVerdict.UNKNOWN: "cannot be told",
}


@dataclass(frozen=True, slots=True)
class PoolFacts:
    """The profiling pool: its nodes, those lent to it among them."""

    nodes: tuple[str, ...]
    gpus: int
    gpus_busy: int
    waiting: int
    profiling: int
    window_s: float
    max_gpus: int


@dataclass(frozen=True, slots=True)
class PairFacts:
    """One pair, in words for people."""

    placement: str
    first_job_id: str
    later_job_id: str
    together_s: float
    speed_frac: Mapping[str, float]
    state: str
    why: str | None


@dataclass(frozen=True, slots=True)
class Picture:
    """Everything that the displays show.

    Attributes:
        inventory: every node in the virtual cluster for which it works now.
        order: waiting jobs in the order in which they will be considered, by virtual cluster.
        sharing: the sharing mode now and the numbers behind it.
    """

    at: datetime
    queue: QueueView
    inventory: Inventory
    samples: Mapping[GpuKey, GpuSample]
    loans: tuple[Loan, ...]
    pairs: tuple[PairFacts, ...]
    pool: PoolFacts | None
    order: tuple[Job, ...]
    starts: Mapping[str, StartPrediction]
    sharing: Mapping[str, object]


def take_picture(system: System, *, with_order: bool = True) -> Picture:
    """Look at everything once.

    Args:
        with_order: also ask the policy for the order of the queue and play the estimates forward.
    """
    now = system.clock.now()
    queue = system.store.queue.view()
    declared = system.cluster.inventory()
    inventory = effective_inventory(system, declared, queue.loans)
    order: list[Job] = []
    starts: dict[str, StartPrediction] = {}
    if with_order and queue.waiting:
        view = build_view(
            system,
            declared,
            queue,
            now,
            restraint=restraint(system, queue, now),
            forecast=forecast_now(system, now),
            focus="",
        )
        order, starts = _ordered(queue, system.policy.decide(view), inventory, now)
    return Picture(
        at=now,
        queue=queue,
        inventory=inventory,
        samples=_samples(system),
        loans=queue.loans,
        pairs=tuple(_pair(pair, now) for pair in system.store.pairs.open()),
        pool=_pool(system, queue, inventory),
        order=tuple(order),
        starts=starts,
        sharing=_sharing(system, now),
    )


def _ordered(
    queue: QueueView, decisions: Sequence[Decision], inventory: Inventory, now: datetime
) -> tuple[list[Job], dict[str, StartPrediction]]:
    waiting = {job.job_id: job for job in queue.waiting}
    placed = [d.job_id for d in decisions if isinstance(d, Start | Pack) and d.job_id in waiting]
    held = [d for d in decisions if isinstance(d, Hold) and d.job_id in waiting]
    held.sort(key=lambda hold: (waiting[hold.job_id].spec.vc, hold.ahead_count))
    order = [waiting[job_id] for job_id in placed] + [waiting[hold.job_id] for hold in held]
    starts: dict[str, StartPrediction] = {}
    for vc in {job.spec.vc for job in order}:
        mine = [job.job_id for job in order if job.spec.vc == vc and job.state is JobState.QUEUED]
        starts |= predicted_starts(queue, mine, [node for node in inventory.nodes if node.vc == vc], now)
    return order, starts


def _samples(system: System) -> dict[GpuKey, GpuSample]:
    try:
        return {(sample.node, sample.gpu_index): sample for sample in system.cluster.sample()}
    except ExternalError:
        return {}  # shown as unknown


def _pair(pair: Pair, now: datetime) -> PairFacts:
    speeds = (pair.measured or {}).get("speed_frac") or {}
    return PairFacts(
        placement=str(pair.placement),
        first_job_id=pair.first_attempt_id.rpartition("-a")[0],
        later_job_id=pair.later_attempt_id.rpartition("-a")[0],
        together_s=(now - pair.formed_at).total_seconds(),
        speed_frac={str(job_id): float(value) for job_id, value in speeds.items()},
        state=_PAIR_WORDS[pair.verdict],
        why=pair.why,
    )


def _pool(system: System, queue: QueueView, inventory: Inventory) -> PoolFacts | None:
    name, rules = profiler_vc(system), system.policy.profiling
    nodes = [node for node in inventory.nodes if node.vc == name]
    if rules is None or not nodes:
        return None
    names = {node.name for node in nodes}
    return PoolFacts(
        nodes=tuple(sorted(names)),
        gpus=sum(node.gpu_count for node in nodes),
        gpus_busy=len({(slot.node, slot.gpu_index) for slot in queue.slots if slot.node in names}),
        waiting=sum(job.state is JobState.PROFILE_QUEUED for job in queue.waiting),
        profiling=sum(item.job.state is JobState.PROFILING for item in queue.active),
        window_s=rules.profile_window_s,
        max_gpus=rules.profile_max_gpus,
    )


def _sharing(system: System, now: datetime) -> dict[str, object]:
    packing = system.settings.packing
    rules = ModeRules(off_below_jobs=packing.off_below_jobs, apathetic_below_jobs=packing.apathetic_below_jobs)
    return choose_mode(forecast_now(system, now), now.timestamp(), rules)[1].to_json()
