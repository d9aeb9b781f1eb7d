"""Running jobs that a waiting job may join, in order of start, with a memory of what has been added."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator

from lucid_pipelines.placement import Resident

_LOG_KEPT = 1024


class Candidates:
    """A set of residents in order of start.

    ``mark`` and ``since`` tell what is new, so that who found no partner before only looks at those.
    """

    __slots__ = ("_by_id", "_forgotten", "_log", "_sorted", "mark")

    def __init__(self) -> None:
        self._sorted: list[tuple[int, str]] = []
        self._by_id: dict[str, tuple[int, Resident]] = {}
        self._log: list[str] = []
        self._forgotten = 0
        self.mark = 0
        """The present moment, for ``since``."""

    def put(self, order: int, resident: Resident) -> None:
        """Add a resident, or replace what is known of it."""
        job_id = resident.job_id
        if job_id not in self._by_id:
            insort(self._sorted, (order, job_id))
        self._by_id[job_id] = (order, resident)
        self._log.append(job_id)
        self.mark += 1
        if len(self._log) > 2 * _LOG_KEPT:
            del self._log[:_LOG_KEPT]
            self._forgotten += _LOG_KEPT

    def remove(self, job_id: str) -> None:
        found = self._by_id.pop(job_id, None)
        if found is not None:
            del self._sorted[bisect_left(self._sorted, (found[0], job_id))]

    def since(self, mark: int) -> Iterator[Resident]:
        """Residents that were put after ``mark``, in order of start."""
        skip = mark - self._forgotten
        if skip <= 0:
            return (self._by_id[job_id][1] for _, job_id in self._sorted)
        by_id = self._by_id
        new = self._log[skip:]
        if len(new) == 1:
            found = by_id.get(new[0])
            return iter(() if found is None else (found[1],))
        entries = [by_id[job_id] for job_id in set(new) if job_id in by_id]
        if len(entries) > 1:
            entries.sort()
        return iter([resident for _, resident in entries])
