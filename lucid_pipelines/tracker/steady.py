"""The steady part of a run of measurements: pauses, warm-up and compilation left out (section 13 of the paper)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from lucid_pipelines.domain.quantiles import quantile

STEADY_STEPS = 50
"""How many of the newest steps the tracker looks at."""
MIN_RECORDS = 8
MAX_OUTLIER_SHARE = 0.3
"""More than this share on one side is no outlier but a second mode (a job whose steps alternate)."""
SHIFT_RUN = 4
"""So many newest measurements together on one side are a new pace."""
_MAD_TO_SIGMA = 1.4826
_LARGEST_PRINTED = 1e15


@dataclass(frozen=True, slots=True)
class Steady:
    """A mean over the steady part of a window.

    Attributes:
        mean: weighted mean of what was kept.
        low, high: 10 % and 90 % quantiles of what was kept.
        kept, dropped: how many measurements.
    """

    mean: float
    low: float
    high: float
    kept: int
    dropped: int


def steady_mean(values: Sequence[float], weights: Sequence[float] | None = None) -> Steady | None:
    """Mean without two-sided outliers; ``None`` for no measurement.

    A side is cut only where few values lie on it: pauses for evaluation or checkpoints are rare, while a job
    whose steps alternate between fast and slow keeps both. Nor are the newest values cut when they lie there
    together: then the job has a new pace.

    Args:
        values: measurements, oldest first (seconds per step).
        weights: how many steps each covers.
    """
    if not values:
        return None
    weights = [1.0] * len(values) if weights is None else weights
    middle = median(values)
    spread = _MAD_TO_SIGMA * median([abs(value - middle) for value in values])
    margin = max(4.0 * spread, 0.25 * abs(middle))
    limit = MAX_OUTLIER_SHARE * len(values)
    high = {i for i, value in enumerate(values) if value > middle + margin}
    low = {i for i, value in enumerate(values) if value < middle - margin}
    dropped = {i for side in (high, low) if len(side) <= limit and not _is_shift(side, len(values)) for i in side}
    kept = [i for i in range(len(values)) if i not in dropped]
    weight = sum(weights[i] for i in kept)
    if weight <= 0:
        return None
    ordered = sorted(values[i] for i in kept)
    return Steady(
        mean=sum(values[i] * weights[i] for i in kept) / weight,
        low=quantile(ordered, 0.1),
        high=quantile(ordered, 0.9),
        kept=len(kept),
        dropped=len(dropped),
    )


def _is_shift(side: set[int], count: int) -> bool:
    """Whether the newest measurements lie there together: the job changed its pace, it did not pause."""
    return all(count - 1 - back in side for back in range(SHIFT_RUN))


def granularity(values: Sequence[float]) -> float:
    """The coarsest power of ten of which all the values are multiples: how precisely they were printed."""
    values = [value for value in values if abs(value) < _LARGEST_PRINTED]
    step = 1.0
    for _ in range(9):
        if all(abs(value / step - round(value / step)) < 1e-6 for value in values):
            return step
        step /= 10
    return 0.0
