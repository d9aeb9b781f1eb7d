"""Who has waited longest in a virtual cluster, and how often later arrivals have overtaken them (R-27).

A waiting job is overtaken when a job of the same virtual cluster that was submitted after it starts before it.
The older of two waiting jobs has been overtaken at least as often as the younger, so everything that is due is
a prefix of the order of submission.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator

Arrival = tuple[float, int]
"""Time of submission and sequence number."""


class Arrivals:
    """Waiting jobs in order of submission and the starts that overtook the oldest of them."""

    __slots__ = ("_later_starts", "_waiting")

    def __init__(self) -> None:
        self._waiting: list[tuple[float, int, str]] = []
        self._later_starts: list[Arrival] = []

    def add(self, submitted_s: float, sequence: int, job_id: str) -> None:
        entry = (submitted_s, sequence, job_id)
        if not self._waiting or entry > self._waiting[-1]:
            self._waiting.append(entry)
        else:
            insort(self._waiting, entry)

    def leave(self, submitted_s: float, sequence: int, job_id: str, *, started: bool) -> None:
        """A waiting job is gone; ``started`` counts against those that it overtook."""
        entry = (submitted_s, sequence, job_id)
        waiting = self._waiting
        position = bisect_left(waiting, entry)
        del waiting[position]
        if position == 0:
            self._forget_before_oldest()
        elif started:
            insort(self._later_starts, (submitted_s, sequence))

    def count_start(self, submitted_s: float, sequence: int) -> None:
        """Count a start that happened before this object was built."""
        if self._waiting and (submitted_s, sequence) > self._waiting[0][:2]:
            insort(self._later_starts, (submitted_s, sequence))

    def oldest(self) -> Iterator[tuple[float, int, str]]:
        """Waiting jobs, the longest waiting first."""
        return iter(self._waiting)

    def overtaken_count(self, submitted_s: float, sequence: int) -> int:
        """How many later arrivals have started while a job with this arrival waited."""
        return len(self._later_starts) - bisect_right(self._later_starts, (submitted_s, sequence))

    def due(
        self,
        now_s: float,
        max_overtakes: int | None,
        max_wait_s: float | None,
        started: Callable[[str], bool],
        just_started: list[Arrival],
    ) -> Iterator[str]:
        """Jobs that nobody may overtake any more, oldest first.

        Args:
            started: whether a job is started by the present pass and so no longer waits.
            just_started: the arrivals of those jobs, ascending; they count as starts.
        """
        for submitted_s, sequence, job_id in self._waiting:
            if started(job_id):
                continue
            is_due = max_wait_s is not None and now_s >= submitted_s + max_wait_s
            if not is_due and max_overtakes is not None:
                arrival = (submitted_s, sequence)
                count = self.overtaken_count(submitted_s, sequence)
                count += len(just_started) - bisect_right(just_started, arrival)
                is_due = count >= max_overtakes
            if not is_due:
                return
            yield job_id

    def _forget_before_oldest(self) -> None:
        if not self._waiting:
            self._later_starts.clear()
        elif self._later_starts:
            del self._later_starts[: bisect_left(self._later_starts, self._waiting[0][:2])]
