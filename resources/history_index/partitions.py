"""Vectors in memory, one contiguous block for each combination of hard filters: filter first, then exact search."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lucid_pipelines.domain.similarity import HistoryFilter, PastJob

Facets: TypeAlias = tuple[str | None, str | None, int | None]
"""Task type, GPU family, class of GPU counts."""

_FIRST_ROWS = 64


def facets_of(job: PastJob) -> Facets:
    """The partition that a past job belongs to."""
    return job.task_type, job.gpu_family, job.gpu_count_class


def admits(where: HistoryFilter, facets: Facets) -> bool:
    """Whether a partition passes the filters."""
    wanted = (where.task_type, where.gpu_family, where.gpu_count_class)
    return all(want is None or want == has for want, has in zip(wanted, facets, strict=True))


@dataclass(frozen=True, slots=True)
class Hit:
    """One row that was found."""

    similarity: float
    ended_at_s: float
    number: int


class Partition:
    """Rows of one combination of facets. Rows with one content share a vector."""

    def __init__(self, dimension: int) -> None:
        self._vectors = _Growing((dimension,), np.float32)
        self._slots: dict[str, int] = {}
        self._slot = _Growing((), np.int64)
        self._ended = _Growing((), np.float64)
        self._number = _Growing((), np.int64)

    def __len__(self) -> int:
        return self._slot.count

    def knows(self, digest: str) -> bool:
        """Whether a content's vector is here already."""
        return digest in self._slots

    def add(self, number: int, digest: str, ended_at_s: float, vector: NDArray[np.float32] | None) -> None:
        """Append a row; ``vector`` may be ``None`` when the digest is known here."""
        slot = self._slots.get(digest)
        if slot is None:
            if vector is None:
                raise KeyError(digest)
            slot = self._slots[digest] = self._vectors.count
            self._vectors.append(vector)
        self._slot.append(slot)
        self._ended.append(ended_at_s)
        self._number.append(number)

    def search(
        self, vector: NDArray[np.float32], k: int, as_of_s: float, exclude: frozenset[int]
    ) -> tuple[int, list[Hit]]:
        """How many rows were eligible, and the best ``k`` of them."""
        ended, numbers = self._ended.filled, self._number.filled
        eligible = ended <= as_of_s
        for number in exclude:
            eligible &= numbers != number
        count = int(eligible.sum())
        if count == 0:
            return 0, []
        scores = (self._vectors.filled @ vector)[self._slot.filled]
        scores[~eligible] = -np.inf
        wanted = min(k, count)
        # All rows that tie with the k-th are looked at: of equally similar ones the newest are taken.
        least = np.partition(scores, len(scores) - wanted)[len(scores) - wanted]
        chosen = np.flatnonzero(scores >= least)
        hits = [Hit(float(scores[row]), float(ended[row]), int(numbers[row])) for row in chosen]
        return count, best_hits(hits, k)


class _Growing:
    """An array that is appended to in constant time on average."""

    def __init__(self, shape: tuple[int, ...], dtype: type[np.generic]) -> None:
        self._data: NDArray[Any] = np.empty((_FIRST_ROWS, *shape), dtype=dtype)
        self.count = 0

    def append(self, value: object) -> None:
        if self.count == len(self._data):
            grown = np.empty((2 * len(self._data), *self._data.shape[1:]), dtype=self._data.dtype)
            grown[: self.count] = self._data
            self._data = grown
        self._data[self.count] = value
        self.count += 1

    @property
    def filled(self) -> NDArray[Any]:
        return self._data[: self.count]


def best_hits(hits: Iterable[Hit], k: int) -> list[Hit]:
    """The ``k`` best: most similar first, then the newest, then the last stored."""
    return sorted(hits, key=lambda hit: (-hit.similarity, -hit.ended_at_s, -hit.number))[:k]


class Partitions:
    """All rows of one vector space."""

    def __init__(self, dimension: int) -> None:
        self._dimension = dimension
        self._parts: dict[Facets, Partition] = {}
        self._numbers: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._numbers

    def knows(self, facets: Facets, digest: str) -> bool:
        """Whether a content's vector is in a partition already."""
        part = self._parts.get(facets)
        return part is not None and part.knows(digest)

    def add(
        self,
        job_id: str,
        number: int,
        facets: Facets,
        digest: str,
        ended_at_s: float,
        vector: NDArray[np.float32] | None,
    ) -> None:
        """Append one row."""
        part = self._parts.setdefault(facets, Partition(self._dimension))
        part.add(number, digest, ended_at_s, vector)
        self._numbers[job_id] = number

    def search(
        self, vector: NDArray[np.float32], k: int, as_of_s: float, where: HistoryFilter
    ) -> tuple[int, list[Hit]]:
        """How many rows were eligible, and the best ``k``."""
        numbers = (self._numbers.get(job_id) for job_id in where.exclude_job_ids)
        exclude = frozenset(number for number in numbers if number is not None)
        total, hits = 0, list[Hit]()
        for part in self._admitted(where):
            count, found = part.search(vector, k, as_of_s, exclude)
            total += count
            hits += found
        return total, best_hits(hits, k)

    def _admitted(self, where: HistoryFilter) -> Iterator[Partition]:
        return (part for facets, part in self._parts.items() if admits(where, facets))

    @property
    def sizes(self) -> Mapping[Facets, int]:
        """Rows of each partition."""
        return {facets: len(part) for facets, part in self._parts.items()}
