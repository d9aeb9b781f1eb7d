"""Running jobs of one virtual cluster in the order of a policy."""

from __future__ import annotations

from bisect import bisect_left, insort
from itertools import accumulate

from lucid_pipelines.policies.ordered_queue import Key

Entry = tuple[Key, int, str, int]
"""Key, order of starting, job id, GPUs."""


class RunningOrder:
    """A sorted list with the GPUs that its beginning adds up to."""

    __slots__ = ("_by_id", "_sums", "entries")

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._by_id: dict[str, Entry] = {}
        self._sums: list[int] | None = None

    def add(self, job_id: str, key: Key, started: int, gpus: int) -> None:
        entry = self._by_id[job_id] = (key, started, job_id, gpus)
        insort(self.entries, entry)
        self._sums = None

    def discard(self, job_id: str) -> None:
        entry = self._by_id.pop(job_id, None)
        if entry is not None:
            del self.entries[bisect_left(self.entries, entry)]
            self._sums = None

    def rekey(self, job_id: str, key: Key) -> bool:
        """Move a job; returns whether its key is another one."""
        entry = self._by_id.get(job_id)
        if entry is None or entry[0] == key:
            return False
        self.discard(job_id)
        self.add(job_id, key, entry[1], entry[3])
        return True

    def index(self, key: Key, *, after_equals: bool) -> int:
        """How many jobs come before one with ``key``."""
        limit = (key, float("inf") if after_equals else -1)
        return bisect_left(self.entries, limit)  # pyright: ignore[reportArgumentType]  (a shorter tuple compares)

    def gpus_before(self, index: int) -> int:
        """GPUs of the first ``index`` jobs."""
        if self._sums is None:
            self._sums = [0, *accumulate(entry[3] for entry in self.entries)]
        return self._sums[index]
