"""Intervals that say what they cover (R-30)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

MIN_RESIDUALS = 30
MAX_RESIDUALS = 1_000
"""Newest past predictions that count: an advisor changes with its history."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A duration's interval and the share of cases that it is made to hold."""

    low_s: float
    high_s: float
    coverage_frac: float


def conformal_interval(center_s: float, residuals: Sequence[float], coverage_frac: float) -> Interval | None:
    """Scale past errors to this prediction; ``None`` with too few of them.

    Args:
        residuals: ln(actual / predicted), newest last.
    """
    errors = sorted(residuals[-MAX_RESIDUALS:])
    count = len(errors)
    outside = (1.0 - coverage_frac) / 2.0
    # The rank carries the finite-sample correction; beyond the ends there is no quantile to name.
    low_rank, high_rank = math.floor((count + 1) * outside), math.ceil((count + 1) * (1.0 - outside))
    if count < MIN_RESIDUALS or low_rank < 1 or high_rank > count:
        return None
    return Interval(
        center_s * math.exp(errors[low_rank - 1]), center_s * math.exp(errors[high_rank - 1]), coverage_frac
    )


def empirical_interval(durations_s: Sequence[float], coverage_frac: float) -> Interval | None:
    """Order statistics of the evidence itself; ``None`` below three values.

    A new value of the same kind lies between the i-th smallest and i-th largest of n with a chance of
    (n + 1 - 2 i) / (n + 1); with few values that is less than asked for, and the interval says so.
    """
    ordered = sorted(durations_s)
    count = len(ordered)
    if count < 3:
        return None
    rank = max(1, math.floor((count + 1) * (1.0 - coverage_frac) / 2.0))
    return Interval(ordered[rank - 1], ordered[count - rank], (count + 1 - 2 * rank) / (count + 1))
