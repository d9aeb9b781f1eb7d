"""When waiting jobs will start, by the estimates of what runs and of what is ahead of them (R-28)."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from lucid_pipelines.domain.job import Attempt, Estimate, Job
from lucid_pipelines.store import QueueView

Duration = Callable[[Estimate], float | None]


@dataclass(frozen=True, slots=True)
class StartPrediction:
    """When a job should start; ``low_at`` to ``high_at`` by the ends of the estimates' intervals.

    Fragmentation, pairs, and shorter jobs that come later are not foreseen. Unknown is ``None``: an estimate, or an
    interval, is missing.
    """

    at: datetime | None
    low_at: datetime | None = None
    high_at: datetime | None = None


def predicted_starts(
    queue: QueueView, order: Sequence[str], vc: str, gpus: int, now: datetime
) -> Mapping[str, StartPrediction]:
    """Play the estimates forward on the GPU count of one virtual cluster.

    Args:
        order: its waiting jobs, in the policy's order.
        gpus: how many GPUs it has.
    """
    expected = _play(queue, order, vc, gpus, now, lambda estimate: estimate.duration_s)
    early = _play(queue, order, vc, gpus, now, lambda estimate: estimate.low_s)
    late = _play(queue, order, vc, gpus, now, lambda estimate: estimate.high_s)
    return {job_id: StartPrediction(expected[job_id], early[job_id], late[job_id]) for job_id in order}


def _play(
    queue: QueueView, order: Sequence[str], vc: str, gpus: int, now: datetime, duration: Duration
) -> dict[str, datetime | None]:
    starts: dict[str, datetime | None] = dict.fromkeys(order)
    by_id = {job.job_id: job for job in queue.waiting}
    ends: list[tuple[float, int]] = []
    held: set[tuple[str, int]] = set()
    for item in queue.active:
        if item.job.spec.vc != vc:
            continue
        mine = {(share.node, index) for share in item.attempt.placement.shares for index in share.gpu_indices}
        remaining_s = _remaining_s(item.job, item.attempt, now, duration)
        if remaining_s is None:
            return starts
        heapq.heappush(ends, (remaining_s, len(mine - held)))  # two that share free their GPUs once
        held |= mine
    free, clock_s = gpus - len(held), 0.0
    for job_id in order:
        job = by_id[job_id]
        if job.spec.gpus > gpus:
            continue  # it holds nobody up: it can never start
        while free < job.spec.gpus:
            if not ends:
                return starts
            clock_s, freed = heapq.heappop(ends)
            free += freed
        starts[job_id] = now + timedelta(seconds=clock_s)
        took_s = duration(job.estimate) if job.estimate is not None else None
        if took_s is None:
            return starts
        free -= job.spec.gpus
        heapq.heappush(ends, (clock_s + took_s, job.spec.gpus))
    return starts


def _remaining_s(job: Job, attempt: Attempt, now: datetime, duration: Duration) -> float | None:
    expected_s = duration(job.estimate) if job.estimate is not None else None
    if expected_s is None:
        return None
    begun = attempt.started_at or attempt.placed_at
    return max(0.0, expected_s - (now - begun).total_seconds())
