"""Readings of a number that may be a counter, and how it moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from lucid_pipelines.tracker.window import Record


class Tick(NamedTuple):
    """One reading of the step counter."""

    record: Record
    step: float
    total: float | None


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How a column of integers moves.

    Attributes:
        ups: how often it grew.
        stays: how often it repeated itself.
        resets: how often it fell back to the start of an epoch.
        breaks: how often it fell in any other way.
        typical: median growth, ``None`` if it never grew.
        regular: share of growths near the typical one.
    """

    ups: int
    stays: int
    resets: int
    breaks: int
    typical: float | None
    regular: float

    @property
    def counts(self) -> bool:
        """Whether it behaves like a counter."""
        return self.ups >= 1 and self.breaks <= max(1, (self.ups + self.stays) // 10) and self.resets <= self.ups


def behaviour(values: Sequence[float], totals: Sequence[float | None] | None = None) -> Behaviour:
    """Describe a column that might be a counter."""
    ups: list[float] = []
    stays = resets = breaks = 0
    for index, (before, after) in enumerate(pairwise(values)):
        if after > before:
            ups.append(after - before)
        elif after == before:
            stays += 1
        else:
            total = totals[index] if totals else None
            typical = median(ups) if ups else max(1.0, after)
            finished = total is not None and before >= total - 2 * typical
            restarted = after <= 2 * typical and before >= after + typical
            if finished or restarted:
                resets += 1
            else:
                breaks += 1
    typical = median(ups) if ups else None
    near = sum(abs(up - typical) <= 0.5 * typical for up in ups) if typical else 0
    return Behaviour(len(ups), stays, resets, breaks, typical, near / len(ups) if ups else 0.0)
