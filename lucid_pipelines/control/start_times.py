"""When waiting jobs will start, by the estimates of what runs and of what is ahead of them (R-28)."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from lucid_pipelines.domain.cluster import Node
from lucid_pipelines.domain.job import Attempt, Estimate, Job
from lucid_pipelines.store import QueueView

Duration = Callable[[Estimate], float | None]


@dataclass(frozen=True, slots=True)
class StartPrediction:
    """When a job should start; ``low_at`` to ``high_at`` by the ends of the estimates' intervals.

    Fragmentation, pairs, and shorter jobs that come later are not foreseen. Unknown is ``None``: an estimate, or an
    interval, is missing, or what it waits for has run longer than estimated.
    """

    at: datetime | None
    low_at: datetime | None = None
    high_at: datetime | None = None


def predicted_starts(
    queue: QueueView, order: Sequence[str], nodes: Collection[Node], now: datetime
) -> Mapping[str, StartPrediction]:
    """Play the estimates forward on the GPUs of one virtual cluster.

    Args:
        order: its waiting jobs, in the policy's order.
        nodes: those that work for it.
    """
    expected = _play(queue, order, nodes, now, lambda estimate: estimate.duration_s)
    early = _play(queue, order, nodes, now, lambda estimate: estimate.low_s, may_be_over=True)
    late = _play(queue, order, nodes, now, lambda estimate: estimate.high_s)
    return {job_id: StartPrediction(expected[job_id], early[job_id], late[job_id]) for job_id in order}


def _play(
    queue: QueueView,
    order: Sequence[str],
    nodes: Collection[Node],
    now: datetime,
    duration: Duration,
    *,
    may_be_over: bool = False,
) -> dict[str, datetime | None]:
    starts: dict[str, datetime | None] = dict.fromkeys(order)
    by_id = {job.job_id: job for job in queue.waiting}
    gpus, names = sum(node.gpu_count for node in nodes), {node.name for node in nodes}
    ends_s: dict[tuple[str, int], float] = {}
    for item in queue.active:
        mine = [(s.node, index) for s in item.attempt.placement.shares if s.node in names for index in s.gpu_indices]
        if not mine:
            continue
        remaining_s = _remaining_s(item.job, item.attempt, now, duration)
        if remaining_s is None:
            return starts
        if remaining_s < 0.0:  # it runs longer than that: when it ends is not known, and nobody is told that it does
            remaining_s = 0.0 if may_be_over else math.inf
        for key in mine:  # a GPU that two share is free when both have ended
            ends_s[key] = max(ends_s.get(key, 0.0), remaining_s)
    ends = [(end_s, 1) for end_s in ends_s.values()]
    heapq.heapify(ends)
    free, clock_s = gpus - len(ends_s), 0.0
    for job_id in order:
        job = by_id[job_id]
        if job.spec.gpus > gpus:
            continue  # it holds nobody up: it can never start
        while free < job.spec.gpus:
            if not ends:
                return starts
            clock_s, freed = heapq.heappop(ends)
            if clock_s == math.inf:
                return starts
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
    return expected_s - (now - begun).total_seconds()
