"""What running jobs and the control plane itself look like now: one batch per interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from lucid_pipelines.control.following import FOLLOWER, LOSS, STEP_TIME, Look
from lucid_pipelines.control.pair_watch import watch_pairs
from lucid_pipelines.control.proposal_scores import score_proposals
from lucid_pipelines.control.resuming import check_resumes
from lucid_pipelines.control.system import System
from lucid_pipelines.domain.cluster import GpuSample
from lucid_pipelines.domain.errors import ExternalError
from lucid_pipelines.domain.job import Attempt, Job
from lucid_pipelines.domain.states import JobState
from lucid_pipelines.store import Tracked

_CURVE_VALUES = 240
_PAIRS_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class JobMetrics:
    """One running job. Unknown is ``None``.

    Attributes:
        tracked: what its log says; ``None`` while it cannot be read.
    """

    job: Job
    attempt: Attempt
    run_s: float | None
    gpu_util_pct: float | None
    memory_used_mib: float | None
    log_bytes: int | None
    last_line: str | None
    tracked: Tracked | None = None


@dataclass(frozen=True, slots=True)
class Curves:
    """The course of one job, oldest first: time since its attempt began, in seconds, and the value."""

    job: Job
    loss: tuple[tuple[float, float], ...]
    step_time_s: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class PlaneMetrics:
    """The control plane at one moment. ``exit_lag_s`` is how long the oldest unhandled exit has waited (R-35)."""

    at: datetime
    running: int
    waiting: int
    gpus: int
    gpus_busy: int
    exit_lag_s: float
    open_intents: int


def collect(system: System) -> tuple[PlaneMetrics, list[JobMetrics]]:
    """Sample the GPUs once, keep the samples by attempt, and follow every running job's log."""
    now = system.clock.now()
    queue = system.store.queue.view()
    samples = _samples(system)
    jobs = [_job_metrics(system, look, samples, now) for look in FOLLOWER.look(system, queue.active)]
    watch_pairs(system, queue, system.cluster.inventory(), now, at_once=_PAIRS_AT_ONCE)
    score_proposals(system, now)
    check_resumes(system, queue.active)
    counts = system.store.jobs.counts()
    plane = PlaneMetrics(
        at=now,
        running=len(queue.active),
        waiting=sum(counts[state] for state in JobState if not state.is_terminal and not state.is_active),
        gpus=sum(node.gpu_count for node in system.cluster.inventory().nodes),
        gpus_busy=len({(slot.node, slot.gpu_index) for slot in queue.slots}),
        exit_lag_s=exit_lag_s(system),
        open_intents=system.store.intents.open_count(),
    )
    return plane, jobs


def _samples(system: System) -> dict[tuple[str, int], GpuSample]:
    try:
        return {(sample.node, sample.gpu_index): sample for sample in system.cluster.sample()}
    except ExternalError:
        system.store.counters.add("gpu_samples_failed", now=system.clock.now())
        return {}


def _job_metrics(system: System, look: Look, samples: dict[tuple[str, int], GpuSample], now: datetime) -> JobMetrics:
    attempt = look.attempt
    mine = [
        samples[share.node, index]
        for share in attempt.placement.shares
        for index in share.gpu_indices
        if (share.node, index) in samples
    ]
    if mine:
        system.store.metrics.add_gpu_samples(mine, attempt_id=attempt.attempt_id)
    return JobMetrics(
        job=look.job,
        attempt=attempt,
        run_s=(now - attempt.started_at).total_seconds() if attempt.started_at else None,
        gpu_util_pct=_mean([sample.gpu_util_pct for sample in mine]),
        memory_used_mib=_mean([sample.memory_used_mib for sample in mine]),
        log_bytes=look.log_bytes,
        last_line=look.last_line,
        tracked=look.tracked,
    )


def exit_lag_s(system: System) -> float:
    """How long the oldest unhandled abnormal exit has waited; 0 when none does (R-35)."""
    _, oldest = system.store.exits.pending()
    return (system.clock.now() - oldest).total_seconds() if oldest else 0.0


def curves(system: System, jobs: Sequence[JobMetrics], most: int) -> list[Curves]:
    """Loss and step time over time of the ``most`` newest jobs whose logs tell them."""
    told = [item for item in jobs if item.tracked is not None and item.tracked.progress.get("step") is not None]
    newest = sorted(told, key=lambda item: item.attempt.placed_at, reverse=True)[:most]
    return [curves_of(system, item.job, item.attempt) for item in newest]


def curves_of(system: System, job: Job, attempt: Attempt, last: int = _CURVE_VALUES) -> Curves:
    """Loss and step time of one attempt, its newest ``last`` values."""
    begin = attempt.started_at or attempt.placed_at
    both = [
        tuple(
            ((point.at - begin).total_seconds(), point.value)
            for point in system.store.metrics.points(attempt.attempt_id, name, last=last)
            if point.value is not None
        )
        for name in (LOSS, STEP_TIME)
    ]
    return Curves(job, *both)


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
