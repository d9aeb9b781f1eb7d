"""Sharing scores of measured configurations, computed from how fast their pairs ran.

Source: Lucid paper, section 8: Tiny (0) above 0.95 mean normalised speed, Medium (1) above 0.85, Jumbo (2) below.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.models.packing.pairs import PairArrays

Scores = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Mean pair speeds that separate the classes."""

    tiny_above: float = 0.95
    medium_above: float = 0.85

    def __post_init__(self) -> None:
        if not 0 < self.medium_above <= self.tiny_above:
            raise InputError(f"the thresholds must be 0 < medium <= tiny; got {self.medium_above}, {self.tiny_above}")

    def scores(self, speeds: npt.NDArray[np.float64]) -> Scores:
        """0, 1 or 2 for each mean speed; NaN stays NaN."""
        scores = np.where(speeds > self.tiny_above, 0.0, np.where(speeds > self.medium_above, 1.0, 2.0))
        return np.where(np.isnan(speeds), np.nan, scores)


def mean_speeds(
    arrays: PairArrays, configurations: int, chosen: npt.NDArray[np.bool_] | None = None
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Mean speed of the pairs of each configuration (both jobs of a pair count), and how many pairs there are.

    Args:
        chosen: pairs to look at; default all.

    Returns:
        Means (NaN for a configuration without pairs) and counts.
    """
    use = np.ones(len(arrays.first), dtype=bool) if chosen is None else chosen
    pair_speed = arrays.mean_speed[use]
    # A configuration beside itself is one measurement, not two.
    both = np.concatenate([arrays.first[use], arrays.second[use][arrays.first[use] != arrays.second[use]]])
    speed = np.concatenate([pair_speed, pair_speed[arrays.first[use] != arrays.second[use]]])
    counts = np.bincount(both, minlength=configurations)
    sums = np.bincount(both, weights=speed, minlength=configurations)
    with np.errstate(invalid="ignore"):
        return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan), counts
