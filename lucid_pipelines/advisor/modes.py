"""Groups of durations that lie far apart: to be reported, never averaged (paper section 18)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lucid_pipelines.advisor.evidence import EvidenceItem


@dataclass(frozen=True, slots=True)
class DurationMode:
    """Durations that belong together.

    Attributes:
        center_s: weighted geometric mean.
        weight_frac: share of all evidence.
        job_ids: most weighty first.
    """

    center_s: float
    low_s: float
    high_s: float
    weight_frac: float
    similarity: float
    job_ids: tuple[str, ...]


def duration_modes(items: Sequence[EvidenceItem], gap_ratio: float) -> tuple[DurationMode, ...]:
    """Split durations wherever one is more than ``gap_ratio`` times the next shorter one; weightiest first."""
    used = sorted((item for item in items if item.weight > 0), key=lambda item: item.job.duration_s or 0.0)
    total = sum(item.weight for item in used)
    groups: list[list[EvidenceItem]] = []
    for item in used:
        if groups and duration_of(item) <= gap_ratio * duration_of(groups[-1][-1]):
            groups[-1].append(item)
        else:
            groups.append([item])
    return tuple(sorted((_mode(group, total) for group in groups), key=lambda mode: -mode.weight_frac))


def duration_of(item: EvidenceItem) -> float:
    """Seconds of a job that is used as evidence."""
    assert item.job.duration_s is not None
    return item.job.duration_s


def _mode(group: Sequence[EvidenceItem], total: float) -> DurationMode:
    weight = sum(item.weight for item in group)
    center = math.exp(sum(item.weight * math.log(duration_of(item)) for item in group) / weight)
    ordered = sorted(group, key=lambda item: -item.weight)
    return DurationMode(
        center_s=center,
        low_s=duration_of(group[0]),
        high_s=duration_of(group[-1]),
        weight_frac=weight / total,
        similarity=max(item.similarity for item in group),
        job_ids=tuple(item.job.job_id for item in ordered),
    )
