"""What running jobs and the control plane itself look like now: one batch per interval."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from lucid_pipelines.control.system import System
from lucid_pipelines.domain.cluster import GpuSample
from lucid_pipelines.domain.errors import ExternalError, NotFoundError
from lucid_pipelines.domain.job import Attempt, Job
from lucid_pipelines.domain.states import JobState

_TAIL_BYTES = 4096


@dataclass(frozen=True, slots=True)
class JobMetrics:
    """One running job. Unknown is ``None``."""

    job: Job
    attempt: Attempt
    run_s: float | None
    gpu_util_pct: float | None
    memory_used_mib: float | None
    log_bytes: int | None
    last_line: str | None


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
    """Sample the GPUs once, keep the samples by attempt, and read the end of every running job's log."""
    now = system.clock.now()
    queue = system.store.queue.view()
    samples = _samples(system)
    jobs = [_job_metrics(system, item.job, item.attempt, samples, now) for item in queue.active]
    counts = system.store.jobs.counts()
    _, oldest = system.store.exits.pending()
    plane = PlaneMetrics(
        at=now,
        running=len(queue.active),
        waiting=sum(counts[state] for state in JobState if not state.is_terminal and not state.is_active),
        gpus=sum(node.gpu_count for node in system.cluster.inventory().nodes),
        gpus_busy=len({(slot.node, slot.gpu_index) for slot in queue.slots}),
        exit_lag_s=(now - oldest).total_seconds() if oldest else 0.0,
        open_intents=system.store.intents.open_count(),
    )
    return plane, jobs


def _samples(system: System) -> dict[tuple[str, int], GpuSample]:
    try:
        return {(sample.node, sample.gpu_index): sample for sample in system.cluster.sample()}
    except ExternalError:
        system.store.counters.add("gpu_samples_failed", now=system.clock.now())
        return {}


def _job_metrics(
    system: System, job: Job, attempt: Attempt, samples: dict[tuple[str, int], GpuSample], now: datetime
) -> JobMetrics:
    mine = [
        samples[share.node, index]
        for share in attempt.placement.shares
        for index in share.gpu_indices
        if (share.node, index) in samples
    ]
    if mine:
        system.store.metrics.add_gpu_samples(mine, attempt_id=attempt.attempt_id)
    log_bytes, last_line = _end_of_log(system, attempt)
    return JobMetrics(
        job=job,
        attempt=attempt,
        run_s=(now - attempt.started_at).total_seconds() if attempt.started_at else None,
        gpu_util_pct=_mean([sample.gpu_util_pct for sample in mine]),
        memory_used_mib=_mean([sample.memory_used_mib for sample in mine]),
        log_bytes=log_bytes,
        last_line=last_line,
    )


def _end_of_log(system: System, attempt: Attempt) -> tuple[int | None, str | None]:
    try:
        size = system.cluster.read_log(attempt.attempt_id, 0, 1).size
        chunk = system.cluster.read_log(attempt.attempt_id, max(0, size - _TAIL_BYTES), _TAIL_BYTES)
    except (NotFoundError, ExternalError):
        return None, None
    text = chunk.data.decode("utf-8", errors="replace").replace("\r", "\n")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return size, lines[-1][:200] if lines else None


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
