"""Groups of durations that lie far apart: to be reported, never averaged (paper section 18).

Run times of one program scatter by themselves. Two groups are modes only when the gap between them is wide,
when each is more than a single run, and when they lie apart by several times of what each scatters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lucid_pipelines.advisor.evidence import EvidenceItem

SEPARATION = 5.0
"""Distance of two modes in units of their scatter, on the logarithmic scale."""
LEAST_SCATTER = math.log(1.1)
LEAST_RUNS = 2


@dataclass(frozen=True, slots=True)
class DurationMode:
    """Durations that belong together.

    Attributes:
        center_s: weighted geometric mean.
        scatter_ratio: one standard deviation of the logarithms, as a factor.
        weight_frac: share of all evidence.
        similarity: of its most similar job.
        job_ids: most weighty first.
    """

    center_s: float
    scatter_ratio: float
    low_s: float
    high_s: float
    weight_frac: float
    similarity: float
    job_ids: tuple[str, ...]


def duration_modes(items: Sequence[EvidenceItem], gap_ratio: float) -> tuple[DurationMode, ...]:
    """Groups of durations with wide gaps between them, the weightiest first.

    Args:
        items: evidence; what has no weight is left out.
        gap_ratio: the next longer duration must be more than this many times longer to begin a group.
    """
    used = sorted((item for item in items if item.weight > 0), key=duration_of)
    if not used:
        return ()
    groups: list[list[EvidenceItem]] = [[used[0]]]
    for item in used[1:]:
        if duration_of(item) > gap_ratio * duration_of(groups[-1][-1]):
            groups.append([item])
        else:
            groups[-1].append(item)
    while len(groups) > 1:
        worst = min(range(len(groups) - 1), key=lambda place: _apartness(groups[place], groups[place + 1]))
        if _apartness(groups[worst], groups[worst + 1]) >= SEPARATION:
            break
        groups[worst : worst + 2] = [groups[worst] + groups[worst + 1]]
    total = sum(item.weight for item in used)
    return tuple(sorted((_mode(group, total) for group in groups), key=lambda mode: -mode.weight_frac))


def duration_of(item: EvidenceItem) -> float:
    """Seconds of a job that is used as evidence."""
    assert item.job.duration_s is not None
    return item.job.duration_s


def _apartness(one: Sequence[EvidenceItem], other: Sequence[EvidenceItem]) -> float:
    if min(len(one), len(other)) < LEAST_RUNS:
        # A single run is an outlier of its neighbours, not a mode.
        return -1.0 / (1.0 + abs(_center(one) - _center(other)))
    scatter = math.sqrt((_variance(one) * len(one) + _variance(other) * len(other)) / (len(one) + len(other)))
    return abs(_center(one) - _center(other)) / max(scatter, LEAST_SCATTER)


def _center(group: Sequence[EvidenceItem]) -> float:
    weight = sum(item.weight for item in group)
    return sum(item.weight * math.log(duration_of(item)) for item in group) / weight


def _variance(group: Sequence[EvidenceItem]) -> float:
    center, weight = _center(group), sum(item.weight for item in group)
    return sum(item.weight * (math.log(duration_of(item)) - center) ** 2 for item in group) / weight


def _mode(group: Sequence[EvidenceItem], total: float) -> DurationMode:
    ordered = sorted(group, key=lambda item: -item.weight)
    durations = [duration_of(item) for item in group]
    return DurationMode(
        center_s=math.exp(_center(group)),
        scatter_ratio=math.exp(math.sqrt(_variance(group))),
        low_s=min(durations),
        high_s=max(durations),
        weight_frac=sum(item.weight for item in group) / total,
        similarity=max(item.similarity for item in group),
        job_ids=tuple(item.job.job_id for item in ordered),
    )
