"""How good predictions are: plain functions of what was predicted and what happened."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]


def spearman(first: npt.ArrayLike, second: npt.ArrayLike) -> float | None:
    """Rank correlation, ties at their mean rank; ``None`` when either side is constant or shorter than 2."""
    a, b = _ranks(first), _ranks(second)
    if len(a) < 2 or a.std() == 0 or b.std() == 0:
        return None
    return float(np.corrcoef(a, b)[0, 1])


def r_squared(predicted: npt.ArrayLike, actual: npt.ArrayLike) -> float | None:
    """1 − squared error ÷ variance; below 0 is worse than the mean; ``None`` when nothing varies."""
    y = np.asarray(actual, dtype=np.float64)
    spread = float(((y - y.mean()) ** 2).sum()) if len(y) else 0.0
    if spread == 0:
        return None
    return 1.0 - float(((y - np.asarray(predicted)) ** 2).sum()) / spread


def mean_absolute_error(predicted: npt.ArrayLike, actual: npt.ArrayLike) -> float | None:
    """In the units of what is predicted; ``None`` when nothing was."""
    if not np.size(actual):
        return None
    return float(np.abs(np.asarray(predicted, dtype=np.float64) - np.asarray(actual)).mean())


def coverage_frac(low: npt.ArrayLike, high: npt.ArrayLike, actual: npt.ArrayLike) -> float | None:
    """Share of what happened that lies within its interval, ends included; ``None`` when nothing happened."""
    y = np.asarray(actual, dtype=np.float64)
    if not len(y):
        return None
    return float(((y >= np.asarray(low)) & (y <= np.asarray(high))).mean())


def bootstrap_sd(values: npt.ArrayLike, *, groups: npt.ArrayLike | None = None, rounds: int = 200) -> float | None:
    """Standard deviation of the mean of ``values`` under resampling whole groups.

    Rows of one group (one user's day) are alike; resampling single rows would claim a precision that is not
    there. ``None`` with fewer than two groups.
    """
    data = np.asarray(values, dtype=np.float64)
    members = np.arange(len(data)) if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1]
    count = int(members.max()) + 1 if len(members) else 0
    if count < 2:
        return None
    sums = np.bincount(members, weights=data, minlength=count)
    sizes = np.bincount(members, minlength=count)
    random = np.random.default_rng(0)
    picks = random.integers(0, count, (rounds, count))
    return float((sums[picks].sum(axis=1) / sizes[picks].sum(axis=1)).std())


def _ranks(values: npt.ArrayLike) -> Vector:
    _, position, counts = np.unique(np.asarray(values, dtype=np.float64), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2.0)[position]
