"""What a pace is: seconds per step, where they come from, and what speaks for them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from lucid_pipelines.tracker.groups import Column
from lucid_pipelines.tracker.steady import Steady


class PaceSource(StrEnum):
    """Where the seconds per step come from."""

    PRINTED = "printed"
    RATE = "rate"
    CLOCK = "timestamps"
    ELAPSED = "elapsed"
    THROUGHPUT = "throughput"
    REMAINING = "remaining"


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds per step over the steady window.

    Attributes:
        seconds: the mean.
        source: what it was computed from.
        steady: spread and counts.
        column: the number that gave it, ``None`` for clocks.
        corroborated: whether a second, independent source agrees.
        disputed: whether one contradicts.
        unit: ``step``, or ``epoch`` where ``seconds`` is what an epoch takes.
    """

    seconds: float
    source: PaceSource
    steady: Steady
    column: Column | None
    corroborated: bool = False
    disputed: bool = False
    unit: str = "step"
