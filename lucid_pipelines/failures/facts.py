"""Gather: everything that is known of a failed attempt, as one frozen value with its as-of time (R-2, R-3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path

from lucid_pipelines.domain.cluster import GpuSample, Placement
from lucid_pipelines.domain.job import Attempt, ExitRecord, Job
from lucid_pipelines.failures.vocabulary import Category, Component
from lucid_pipelines.failures.xid import XidReport, XidTable

_MARGIN = timedelta(minutes=10)


class SchedulerEnd(StrEnum):
    """How the scheduler or the control plane says that the attempt ended (R-34: outranks signals)."""

    CANCELLED = "cancelled"
    PREEMPTED = "preempted"
    TIME_LIMIT = "time_limit"
    EVICTED = "evicted"
    NODE_FAILED = "node_failed"


@dataclass(frozen=True, slots=True)
class CounterReading:
    """A hardware counter of one GPU, with when and by what it was read.

    Attributes:
        name: ``ecc_uncorrectable``, ``row_remap_failure``, ``nvlink_errors``, ``pcie_replays``, …
        increased_by: growth during the attempt; ``None`` when there is no earlier reading to compare with.
    """

    node: str
    gpu_index: int
    name: str
    value: float
    increased_by: float | None
    read_at: datetime
    source: str


@dataclass(frozen=True, slots=True)
class PeerState:
    """Another job, or another node of the same job, seen at the time of the failure (R-16)."""

    node: str
    job_id: str
    is_healthy: bool | None
    as_of: datetime


@dataclass(frozen=True, slots=True)
class PastFailure:
    """A failure that was diagnosed before, of any job of the cluster."""

    job_id: str
    user: str
    node: str | None
    gpu_index: int | None
    category: Category | None
    component: Component | None
    signature: str
    failed_at: datetime


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One checkpoint of the job, as its directory shows it (R-33).

    Attributes:
        step: training step that it holds; ``None`` when it cannot be told.
        is_complete: all shards, sizes and the marker are there; ``None`` = not checked.
    """

    path: str
    step: int | None
    is_complete: bool | None
    written_at: datetime


@dataclass(frozen=True, slots=True)
class FailureFacts:
    """What the handler knows about one abnormal end.

    Attributes:
        exit: the exit record, the only source of truth about the end; ``None`` = not observed (R-1).
        is_vanished: positive evidence that the processes are gone although there is no exit record.
        as_of: when all this was read.
        logs: files of the attempt, one or one per rank.
        telemetry_lost: nodes of the attempt whose telemetry stopped: a finding of its own, not a fault.
        job_failures: earlier failures of the same job, oldest first.
        cluster_failures: failures of other jobs in the recent past, oldest first.
    """

    job: Job
    attempt: Attempt
    exit: ExitRecord | None
    as_of: datetime
    is_vanished: bool = False
    scheduler_end: SchedulerEnd | None = None
    logs: tuple[Path, ...] = ()
    counters: tuple[CounterReading, ...] = ()
    xids: tuple[XidReport, ...] = ()
    peers: tuple[PeerState, ...] = ()
    telemetry_lost: tuple[str, ...] = ()
    job_failures: tuple[PastFailure, ...] = ()
    cluster_failures: tuple[PastFailure, ...] = ()
    checkpoints: tuple[Checkpoint, ...] = ()

    @property
    def is_end_observed(self) -> bool:
        """Whether it is known that the attempt ended: without that nothing may be done (R-1, R-2)."""
        return self.exit is not None or self.is_vanished or self.scheduler_end is not None

    @property
    def placement(self) -> Placement:
        return self.attempt.placement

    @property
    def started_at(self) -> datetime:
        return self.attempt.started_at or self.attempt.placed_at


def gather(
    job: Job,
    attempt: Attempt,
    as_of: datetime,
    table: XidTable,
    *,
    exit_record: ExitRecord | None = None,
    is_vanished: bool = False,
    scheduler_end: SchedulerEnd | None = None,
    logs: Iterable[Path] = (),
    counters: Iterable[CounterReading] = (),
    xids: Iterable[XidReport] = (),
    samples: Iterable[GpuSample] = (),
    peers: Iterable[PeerState] = (),
    failures: Iterable[PastFailure] = (),
    checkpoints: Iterable[Checkpoint] = (),
) -> FailureFacts:
    """Keep of everything that was read what belongs to this attempt: its nodes, its GPUs, its time.

    Args:
        table: says how long an Xid may count as evidence (R-14).
        samples: telemetry around the end; Xids in it are taken over, and nodes without any sample are named.
        failures: earlier diagnosed failures of the whole cluster, this job's included.
    """
    used = {(share.node, index) for share in attempt.placement.shares for index in share.gpu_indices}
    nodes = set(attempt.placement.node_names)
    since = (attempt.started_at or attempt.placed_at) - _MARGIN
    sampled = list(samples)
    reports = [*xids, *_xids_of(sampled)]
    kept_xids = tuple(
        sorted(
            {
                r
                for r in reports
                if r.node in nodes and _is_ours(r, used) and r.seen_at >= since and r.is_valid(table, as_of)
            },
            key=lambda r: (r.seen_at, r.node, r.gpu_index if r.gpu_index is not None else -1, r.code),
        )
    )
    seen_nodes = {sample.node for sample in sampled}
    lost = tuple(sorted(nodes - seen_nodes)) if sampled else ()
    past = sorted(failures, key=lambda f: f.failed_at)
    return FailureFacts(
        job=job,
        attempt=attempt,
        exit=exit_record if exit_record is not None else attempt.exit,
        as_of=as_of,
        is_vanished=is_vanished,
        scheduler_end=scheduler_end,
        logs=tuple(logs),
        counters=tuple(c for c in counters if (c.node, c.gpu_index) in used and c.read_at >= since),
        xids=kept_xids,
        peers=tuple(p for p in peers if p.node in nodes),
        telemetry_lost=lost,
        job_failures=tuple(f for f in past if f.job_id == job.job_id),
        cluster_failures=tuple(f for f in past if f.job_id != job.job_id),
        checkpoints=tuple(sorted(checkpoints, key=lambda c: c.written_at)),
    )


def place_of_rank(placement: Placement, rank: int | None) -> tuple[str, int] | None:
    """Node and GPU index of a global rank (nodes in rank order, GPUs ascending); ``None`` when unknown."""
    places: Sequence[tuple[str, int]] = [(s.node, i) for s in placement.shares for i in s.gpu_indices]
    return places[rank] if rank is not None and 0 <= rank < len(places) else None


def _is_ours(report: XidReport, used: set[tuple[str, int]]) -> bool:
    return report.gpu_index is None or (report.node, report.gpu_index) in used


def _xids_of(samples: Iterable[GpuSample]) -> Iterable[XidReport]:
    for sample in samples:
        for code in sample.xid_errors:
            yield XidReport(code, sample.node, sample.gpu_index, sample.sampled_at)
