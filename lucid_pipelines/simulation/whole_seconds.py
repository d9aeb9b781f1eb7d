"""Work that is done second by second, with the rounding of the published artifact (PEERS.md 1.7).

It subtracts a job's rate from its remainder once a second; the sum of the roundings decides in which second some
packed jobs end.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import lru_cache
from operator import neg

import numpy as np


def count_down(remaining_s: float, rate: float, seconds: int) -> float:
    """What is left after ``seconds`` subtractions of ``rate``."""
    if seconds <= 0:
        return remaining_s
    if rate == 1.0:
        return remaining_s - seconds
    if remaining_s > 0:
        steps = _steps_to_nothing(remaining_s, rate)
        if seconds < len(steps):
            return float(steps[seconds])
    return float(_subtractions(remaining_s, rate, seconds)[-1])


def whole_seconds_left(remaining_s: float, rate: float) -> int:
    """How many subtractions of ``rate`` it takes until nothing is left."""
    if remaining_s <= 0:
        return 0
    if rate == 1.0:
        return math.ceil(remaining_s)  # taking 1 off a number above 1 rounds nothing
    return bisect_left(_steps_to_nothing(remaining_s, rate), 0.0, key=neg)


@lru_cache(maxsize=64)
def _steps_to_nothing(remaining_s: float, rate: float) -> np.ndarray:
    """What is left after 0, 1, 2, … subtractions, until nothing is. A job's end is foretold from the same row that
    it is counted down by when its rate changes."""
    return _subtractions(remaining_s, rate, math.ceil(remaining_s / rate) + 2)


def _subtractions(remaining_s: float, rate: float, seconds: int) -> np.ndarray:
    terms = np.full(seconds + 1, rate)
    terms[0] = remaining_s
    return np.subtract.accumulate(terms)
