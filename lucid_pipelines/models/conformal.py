"""Prediction intervals from residuals on rows that the model had not seen (split conformal prediction).

The residuals come from a window after the training rows, because time is what separates a model from what it
predicts. Groups (how much evidence a prediction rests on) get quantiles of their own where they have enough rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lucid_pipelines.domain.errors import InputError

Vector = npt.NDArray[np.float64]
LEVELS = (0.5, 0.8, 0.9)
MIN_GROUP = 50
MIN_ROWS = 20
ALL = "all"


@dataclass(frozen=True)
class Intervals:
    """Residual quantiles by group and level.

    Attributes:
        bounds: group → level → (low, high), to be added to a prediction on the model's scale.
        counts: calibration rows by group; ``all`` stands for every row.
    """

    bounds: Mapping[str, Mapping[float, tuple[float, float]]]
    counts: Mapping[str, int]

    @classmethod
    def calibrate(
        cls, residuals: npt.ArrayLike, groups: Sequence[str], levels: Sequence[float] = LEVELS
    ) -> Intervals | None:
        """Quantiles of ``actual − predicted``; ``None`` with fewer than ``MIN_ROWS`` rows: then there is no interval.

        Each side leaves out half of what the level leaves out; the ranks carry the finite-sample correction.
        """
        data = np.asarray(residuals, dtype=np.float64)
        if len(data) < MIN_ROWS:
            return None
        names = np.asarray(groups)
        chosen = {ALL: data} | {str(g): data[names == g] for g in np.unique(names) if (names == g).sum() >= MIN_GROUP}
        bounds = {name: {level: _bounds(rows, level) for level in levels} for name, rows in chosen.items()}
        return cls(bounds, {name: len(rows) for name, rows in chosen.items()})

    def of(self, predicted: npt.ArrayLike, groups: Sequence[str], level: float) -> tuple[Vector, Vector]:
        """Interval ends for predictions on the model's scale.

        Raises:
            InputError: a level that was not calibrated.
        """
        if level not in self.bounds[ALL]:
            known = ", ".join(f"{value:g}" for value in self.bounds[ALL])
            raise InputError(f"calibrated levels are {known}; not {level:g}")
        pairs = np.array([self.bounds.get(group, self.bounds[ALL])[level] for group in groups])
        centre = np.asarray(predicted, dtype=np.float64)
        pairs = pairs.reshape(len(centre), 2)
        return centre + pairs[:, 0], centre + pairs[:, 1]

    def to_json(self) -> dict[str, Any]:
        return {
            name: {"rows": self.counts[name], "levels": {f"{k:g}": list(v) for k, v in levels.items()}}
            for name, levels in self.bounds.items()
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Intervals:
        bounds = {
            name: {float(level): (float(ends[0]), float(ends[1])) for level, ends in item["levels"].items()}
            for name, item in document.items()
        }
        if ALL not in bounds:
            raise InputError(f"intervals need the group {ALL!r}; got {', '.join(bounds)}")
        return cls(bounds, {name: int(item["rows"]) for name, item in document.items()})


def _bounds(residuals: Vector, level: float) -> tuple[float, float]:
    ordered = np.sort(residuals)
    count = len(ordered)
    away = (1.0 - level) / 2.0
    low = int(np.floor(away * (count + 1))) - 1
    high = int(np.ceil((1.0 - away) * (count + 1))) - 1
    # With too few rows for the level the widest interval that was seen is the best there is.
    return float(ordered[max(low, 0)]), float(ordered[min(high, count - 1)])
