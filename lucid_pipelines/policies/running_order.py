"""Running jobs of one virtual cluster in the order of a policy."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

from lucid_pipelines.domain.view import RunningJob
from lucid_pipelines.policies.ordered_queue import Key

Entry = tuple[Key, int, str, int]
"""Key, order of starting, job id, GPUs."""


class RunningOrder:
    """A sorted list with the GPUs that its beginning adds up to.

    Most jobs run and end while nobody has to wait, and are never sorted in.
    """

    __slots__ = ("_by_id", "_demands", "_sums", "entries", "gpus", "unsorted")

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.unsorted: dict[str, RunningJob] = {}
        """Jobs that have not been needed in the order yet, in order of starting."""
        self.gpus = 0
        """GPUs of all of them, sorted or not."""
        self._demands: list[int] = []
        self._by_id: dict[str, Entry] = {}
        self._sums: list[int] | None = None

    def add(self, job_id: str, key: Key, started: int, gpus: int) -> None:
        entry = self._by_id[job_id] = (key, started, job_id, gpus)
        position = bisect_left(self.entries, entry)
        self.entries.insert(position, entry)
        self._demands.insert(position, gpus)
        self.gpus += gpus
        self._sums = None

    def add_unsorted(self, running: RunningJob) -> None:
        self.unsorted[running.job.job_id] = running
        self.gpus += running.job.gpus

    def take_unsorted(self) -> list[RunningJob]:
        """Jobs that are to be added now, if they have a key."""
        taken = list(self.unsorted.values())
        self.unsorted.clear()
        self.gpus -= sum([running.job.gpus for running in taken])
        return taken

    def discard(self, job_id: str) -> None:
        running = self.unsorted.pop(job_id, None)
        if running is not None:
            self.gpus -= running.job.gpus
            return
        entry = self._by_id.pop(job_id, None)
        if entry is not None:
            position = bisect_left(self.entries, entry)
            del self.entries[position], self._demands[position]
            self.gpus -= entry[3]
            self._sums = None

    def rekey(self, job_id: str, key: Key) -> bool:
        """Move a job; returns whether its key is another one."""
        entry = self._by_id.get(job_id)
        if entry is None or entry[0] == key:
            return False
        self.discard(job_id)
        self.add(job_id, key, entry[1], entry[3])
        return True

    def index(self, key: Key, shift: float, *, after_equals: bool) -> int:
        """How many jobs come before one with ``key``, to whose first item ``shift`` is added."""
        limit = ((key[0] + shift, *key[1:]) if shift else key, _INFINITE if after_equals else -1)
        return bisect_left(self.entries, limit)  # pyright: ignore[reportArgumentType]  (a shorter tuple compares)

    def sums(self) -> list[int]:
        """GPUs of the first 0, 1, 2, … jobs."""
        if self._sums is None:
            self._sums = [0, *accumulate(self._demands)]
        return self._sums


_INFINITE = float("inf")
