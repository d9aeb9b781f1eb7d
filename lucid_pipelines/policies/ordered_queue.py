"""A queue in priority order that is kept, not rebuilt.

Jobs with the same GPU demand lie in one bucket, each a sorted list. So a pass can pass over every job of a
demand that has just failed without looking at it, and costs as much as it starts, not as much as waits.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Container, Hashable, Iterable, Iterator
from itertools import chain
from typing import Generic, TypeVar

Key = tuple[float, ...]
Entry = tuple[Key, int, str]
"""Priority (small first), sequence number, job id."""
AnyBucket = TypeVar("AnyBucket", bound=Hashable)
"""What names a bucket: a number of GPUs, say, or a demand with its GPU type."""


class OrderedQueue(Generic[AnyBucket]):
    """Entries in ascending order, in buckets."""

    __slots__ = ("_entries", "buckets")

    def __init__(self) -> None:
        self.buckets: dict[AnyBucket, list[Entry]] = {}
        self._entries: dict[str, tuple[AnyBucket, Entry]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._entries

    def add(self, job_id: str, key: Key, sequence: int, bucket: AnyBucket) -> None:
        entry = (key, sequence, job_id)
        self._entries[job_id] = (bucket, entry)
        entries = self.buckets.get(bucket)
        if entries is None:
            self.buckets[bucket] = [entry]
        else:
            insort(entries, entry)

    def discard(self, job_id: str) -> bool:
        """Take a job out; returns whether it was in."""
        found = self._entries.pop(job_id, None)
        if found is None:
            return False
        bucket, entry = found
        entries = self.buckets[bucket]
        del entries[bisect_left(entries, entry)]
        if not entries:
            del self.buckets[bucket]
        return True

    def bucket(self, job_id: str) -> AnyBucket | None:
        """Where the job is; ``None`` when it is not in the queue."""
        found = self._entries.get(job_id)
        return None if found is None else found[0]

    def key(self, job_id: str) -> Key:
        return self._entries[job_id][1][0]

    def sequence(self, job_id: str) -> int:
        return self._entries[job_id][1][1]

    def position(self, job_id: str) -> int:
        """How many entries come before the job."""
        entry = self._entries[job_id][1]
        return sum(bisect_left(entries, entry) for entries in self.buckets.values())

    def first(self) -> Entry | None:
        """The entry that comes before all others."""
        return min([entries[0] for entries in self.buckets.values()], default=None)

    def walk(self, leave_out: Container[AnyBucket] = ()) -> Walk[AnyBucket]:
        """A walk over the queue, but for the buckets to ``leave_out``."""
        return Walk(self.buckets, leave_out)

    def __iter__(self) -> Iterator[str]:
        buckets = self.buckets.values()
        return (entry[2] for entry in (heapq.merge(*buckets) if len(buckets) > 1 else chain(*buckets)))


class Walk(Generic[AnyBucket]):
    """One pass over a queue in order, from which whole buckets can be dropped.

    The queue must not change during the walk.
    """

    __slots__ = ("_heap",)

    def __init__(self, buckets: dict[AnyBucket, list[Entry]], leave_out: Container[AnyBucket] = ()) -> None:
        self._heap: list[tuple[Entry, int, list[Entry], AnyBucket]] = [
            (entries[0], 0, entries, bucket) for bucket, entries in buckets.items() if bucket not in leave_out
        ]
        if len(self._heap) > 1:
            heapq.heapify(self._heap)

    def peek(self) -> tuple[Entry, AnyBucket] | None:
        """The next entry and its bucket; ``None`` at the end."""
        if not self._heap:
            return None
        top = self._heap[0]
        return top[0], top[3]

    def advance(self) -> None:
        """Go on behind the entry that ``peek`` shows."""
        _, index, entries, bucket = self._heap[0]
        if index + 1 < len(entries):
            heapq.heapreplace(self._heap, (entries[index + 1], index + 1, entries, bucket))
        else:
            heapq.heappop(self._heap)

    def add_behind(self, queue: OrderedQueue[AnyBucket], buckets: Iterable[AnyBucket]) -> None:
        """Add buckets that were left out, if their first entry comes behind the one that ``peek`` shows."""
        here = self._heap[0][0]
        for bucket in buckets:
            entries = queue.buckets[bucket]
            if entries[0] > here:
                heapq.heappush(self._heap, (entries[0], 0, entries, bucket))

    def drop_bucket(self) -> None:
        """Leave out the rest of the bucket of the entry that ``peek`` shows."""
        heapq.heappop(self._heap)
