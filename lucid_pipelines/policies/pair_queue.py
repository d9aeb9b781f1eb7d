"""Waiting jobs that may share GPUs, by what the pairing rules see of them.

A bucket whose first job found no partner sleeps until something happens that could change that: a new candidate
of its size, a new job in it, another sharing mode. So a pass looks at few buckets, however many wait.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable

from lucid_pipelines.domain.view import QueuedJob
from lucid_pipelines.placement import Newcomer, Resident
from lucid_pipelines.policies.ordered_queue import Entry, Key, OrderedQueue

Bucket = tuple[int, Hashable]
"""GPUs and pack class."""


class PairQueue:
    """The packable waiting jobs of one virtual cluster."""

    __slots__ = ("_awake", "_by_gpus", "_queue")

    def __init__(self) -> None:
        self._queue: OrderedQueue[Bucket] = OrderedQueue()
        self._awake: set[Bucket] = set()
        self._by_gpus: dict[int, dict[Bucket, Newcomer]] = {}

    def enter(self, job: QueuedJob, key: Key, bucket: Bucket, lightest: Newcomer) -> None:
        """Args:
        lightest: a job of this bucket that takes no time; whom it cannot join nobody of the bucket can.
        """
        self._queue.add(job.job_id, key, job.sequence, bucket)
        self._by_gpus.setdefault(bucket[0], {}).setdefault(bucket, lightest)
        self._awake.add(bucket)

    def leave(self, job_id: str) -> None:
        bucket = self._queue.bucket(job_id)
        if bucket is None:
            return
        self._queue.discard(job_id)
        if bucket in self._queue.buckets:
            self._awake.add(bucket)
        else:
            self._awake.discard(bucket)
            del self._by_gpus[bucket[0]][bucket]

    def wake(self) -> None:
        """Look again at every job."""
        self._awake.update(*self._by_gpus.values())

    def wake_for(self, resident: Resident, may_join: Callable[[Newcomer, Resident], bool], *, same_gpus: bool) -> None:
        """Look again at the jobs, of the same size or of any, that may join a new candidate."""
        sizes = (resident.gpus,) if same_gpus else tuple(self._by_gpus)
        for gpus in sizes:
            for bucket, lightest in self._by_gpus.get(gpus, {}).items():
                if bucket not in self._awake and may_join(lightest, resident):
                    self._awake.add(bucket)

    def walk(self) -> PairWalk:
        """The jobs of the buckets that are awake, in order."""
        return PairWalk(self._queue.buckets, self._awake)


class PairWalk:
    """One pass over the buckets that are awake; the queue must not change meanwhile."""

    __slots__ = ("_awake", "_heap")

    def __init__(self, buckets: dict[Bucket, list[Entry]], awake: set[Bucket]) -> None:
        self._awake = awake
        self._heap: list[tuple[Entry, int, list[Entry], Bucket]] = [
            (buckets[bucket][0], 0, buckets[bucket], bucket) for bucket in awake
        ]
        heapq.heapify(self._heap)

    def peek(self) -> tuple[Entry, Bucket] | None:
        return (self._heap[0][0], self._heap[0][3]) if self._heap else None

    def advance(self) -> None:
        """Go on behind a job that has been started."""
        _, index, entries, bucket = self._heap[0]
        if index + 1 < len(entries):
            heapq.heapreplace(self._heap, (entries[index + 1], index + 1, entries, bucket))
        else:
            heapq.heappop(self._heap)

    def sleep(self) -> None:
        """No job of the bucket at hand finds a partner until something changes."""
        self._awake.discard(heapq.heappop(self._heap)[3])
