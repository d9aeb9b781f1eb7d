"""Quantiles of a few numbers, for what must not wait for numpy to load."""

from __future__ import annotations

from collections.abc import Sequence


def quantile(ordered: Sequence[float], share: float) -> float:
    """Linear interpolation between the two nearest ranks, as ``numpy.quantile`` does by default.

    Args:
        ordered: at least one value, in ascending order.
        share: 0 to 1.
    """
    position = share * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])
