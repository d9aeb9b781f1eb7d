"""Find an embedder's ``T_score`` on the site's own history: the similarity from which durations agree.

``T_score`` belongs to the embedder: 0.85 for one is 0.98 for another (SEMANTIC_STACK, "Embedders").
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lucid_pipelines.domain.similarity import HistoryFilter, PastJob
from lucid_pipelines.ports import Embedder, HistoryIndex

AGREE_RATIO = 2.0
"""Durations within a factor of two agree."""
MIN_PAIRS = 50
NEIGHBOURS = 3


@dataclass(frozen=True, slots=True)
class ScoredPair:
    """A job and an earlier one: how alike they are, and whether their durations agree."""

    similarity: float
    agrees: bool


@dataclass(frozen=True, slots=True)
class Calibration:
    """The lowest threshold at which enough pairs agree.

    Attributes:
        threshold: ``None`` when no threshold reaches the precision asked for, or there are too few pairs.
        precision_frac: share of the pairs above it that agree.
        kept_frac: share of all pairs that lie above it.
        reason: why there is no threshold.
    """

    threshold: float | None
    precision_frac: float | None
    kept_frac: float | None
    pairs: int
    reason: str | None = None


def calibrate(pairs: Iterable[ScoredPair], precision_frac: float = 0.8) -> Calibration:
    """Choose the lowest similarity from which at least ``precision_frac`` of all pairs above it agree."""
    ordered = sorted(pairs, key=lambda pair: -pair.similarity)
    if len(ordered) < MIN_PAIRS:
        return Calibration(None, None, None, len(ordered), f"{MIN_PAIRS} pairs are wanted; there are {len(ordered)}")
    best: tuple[int, float] | None = None
    agreed = 0
    for count, pair in enumerate(ordered, start=1):
        agreed += pair.agrees
        is_last_of_equals = count == len(ordered) or ordered[count].similarity < pair.similarity
        # A handful of pairs at the top proves nothing.
        if is_last_of_equals and count >= MIN_PAIRS // 2 and agreed / count >= precision_frac:
            best = (count, agreed / count)
    if best is None:
        wanted = f"no similarity has {precision_frac:.0%} of the pairs above it agree"
        return Calibration(None, None, None, len(ordered), wanted)
    count, precision = best
    return Calibration(ordered[count - 1].similarity, precision, count / len(ordered), len(ordered))


def history_pairs(index: HistoryIndex, embedder: Embedder, limit: int = 2_000) -> Iterator[ScoredPair]:
    """Pairs of each completed job and its nearest neighbours of those that had ended when it was submitted.

    The newest ``limit`` jobs are asked for; nothing later than a job's submission is looked at.
    """
    completed = sorted((job for job in index.jobs() if job.teaches_duration), key=lambda job: job.submitted_at)
    asked = completed[-limit:]
    for start in range(0, len(asked), 256):
        chunk = asked[start : start + 256]
        vectors = embedder.embed([job.fingerprint for job in chunk])
        for job, vector in zip(chunk, vectors, strict=True):
            where = HistoryFilter(job.task_type, job.gpu_family, job.gpu_count_class, frozenset({job.job_id}))
            found = index.search(vector, NEIGHBOURS, job.submitted_at, where, -1.0)
            for match in found.matches:
                if match.job.teaches_duration:
                    yield ScoredPair(match.similarity, _agree(job, match.job))


def _agree(one: PastJob, other: PastJob) -> bool:
    assert one.duration_s is not None and other.duration_s is not None
    shorter, longer = sorted((one.duration_s, other.duration_s))
    return longer <= AGREE_RATIO * shorter
