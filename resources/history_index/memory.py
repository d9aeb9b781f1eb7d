"""A history index that lives in this process only: for replays, where nothing has to last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from lucid_pipelines.domain.similarity import (
    HistoryFilter,
    IndexEntry,
    PastJob,
    SimilarJob,
    SimilarJobs,
    VectorSpace,
    why_fewer,
)
from lucid_pipelines.resources.history_index.partitions import Partitions, facets_of
from lucid_pipelines.resources.history_index.vectors import checked_question, checked_vector


class MemoryIndex:
    """Past jobs of one vector space, by exact search."""

    def __init__(self, space: VectorSpace) -> None:
        self._space = space
        self._memory = Partitions(space.dimension)
        self._entries: dict[str, IndexEntry] = {}
        self._by_number: list[PastJob] = []

    @property
    def space(self) -> VectorSpace:
        return self._space

    def add(self, entries: Sequence[IndexEntry]) -> int:
        """Store past jobs; one that is there already is replaced. Returns how many were new."""
        latest = {entry.job.job_id: entry for entry in entries}
        checked = {name: checked_vector(entry.vector, self._space.dimension) for name, entry in latest.items()}
        known = [name for name in latest if name in self._entries]
        if known:
            self.remove(known)
        for name, entry in latest.items():
            self._entries[name] = IndexEntry(entry.job, checked[name])  # pyright: ignore[reportArgumentType]  (a list takes 8 times the memory)
            self._append(self._entries[name])
        return len(latest) - len(known)

    def search(
        self, vector: Sequence[float], k: int, as_of: datetime, where: HistoryFilter, threshold: float
    ) -> SimilarJobs:
        """The ``k`` most similar jobs of those that had ended at ``as_of`` and pass ``where``: exact."""
        question = checked_question(vector, self._space.dimension, k, as_of)
        eligible, hits = self._memory.search(question, k + 1, as_of.timestamp(), where)
        kept = [hit for hit in hits if hit.similarity >= threshold][:k]
        rejected = next((hit.similarity for hit in hits if hit.similarity < threshold), None)
        matches = tuple(SimilarJob(self._by_number[hit.number], min(1.0, hit.similarity)) for hit in kept)
        total = len(self._entries)
        reason = None if len(matches) == k else why_fewer(len(matches), k, total, eligible, rejected, threshold)
        return SimilarJobs(matches, k, as_of, threshold, total, eligible, rejected, reason)

    def remove(self, job_ids: Sequence[str]) -> int:
        """Forget past jobs. Returns how many were there."""
        there = {name for name in job_ids if name in self._entries}
        for name in there:
            del self._entries[name]
        if there:
            self._memory, self._by_number = Partitions(self._space.dimension), []
            for entry in self._entries.values():
                self._append(entry)
        return len(there)

    def count(self) -> int:
        return len(self._entries)

    def jobs(self) -> Iterator[PastJob]:
        """Every past job, by job id."""
        return iter([self._entries[name].job for name in sorted(self._entries)])

    def _append(self, entry: IndexEntry) -> None:
        job, facets = entry.job, facets_of(entry.job)
        number = len(self._by_number)
        self._by_number.append(job)
        vector = None if self._memory.knows(facets, job.digest) else checked_vector(entry.vector, self._space.dimension)
        self._memory.add(job.job_id, number, facets, job.digest, job.ended_at.timestamp(), vector)
