"""How fast two jobs will run together: a monotone law of both utilisations, corrected for workloads known here.

``speed = top − slope · max(0, u₁ + u₂ − knee)``: two jobs that together leave the GPU idle at times hardly hinder
each other; beyond that every further point of demand costs both. The law is fitted with slopes that cannot be
negative, so more utilisation never predicts a faster pair.

On top of it, a configuration and a workload that have been measured beside others carry two small corrections:
how much they suffer and how much they make others suffer beyond the law, shrunk towards zero where few pairs
say so. A job that nobody has measured gets the law alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.models.packing.pairs import Configuration, PairArrays

Vector = npt.NDArray[np.float64]
SHRINKAGE = 5.0
"""A correction that rests on so many pairs is believed by half."""
KNEES = (0.7, 0.8, 0.9, 1.0, 1.1)
MIN_PAIRS = 10


@dataclass(frozen=True, slots=True)
class Correction:
    """Added to the own speed, and to the partner's."""

    own: float = 0.0
    partner: float = 0.0


@dataclass(frozen=True)
class PairSpeeds:
    """The law and the corrections by configuration and by workload."""

    top: float
    slope: float
    knee: float
    floor: float
    configurations: Mapping[str, Correction] = field(default_factory=dict)
    workloads: Mapping[str, Correction] = field(default_factory=dict)

    def law(self, demand_frac: npt.ArrayLike) -> Vector:
        """Speed at a total utilisation (fraction, 0 to 2), equal for both jobs."""
        over = np.maximum(np.asarray(demand_frac, dtype=np.float64) - self.knee, 0.0)
        return np.maximum(self.top - self.slope * over, self.floor)

    def correction(self, configuration: str | None, workload: str | None) -> Correction:
        """What is known of a job beyond its profile; zero for a stranger."""
        one = self.configurations.get(configuration or "", Correction())
        two = self.workloads.get(workload or "", Correction())
        return Correction(one.own + two.own, one.partner + two.partner)

    def speeds(
        self, first_util_pct: float, second_util_pct: float, first: Correction, second: Correction
    ) -> tuple[float, float]:
        """Predicted speeds of both, relative to running alone."""
        base = float(self.law((first_util_pct + second_util_pct) / 100.0))
        return (
            max(base + first.own + second.partner, self.floor),
            max(base + second.own + first.partner, self.floor),
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "top": self.top,
            "slope": self.slope,
            "knee": self.knee,
            "floor": self.floor,
            "configurations": {k: [v.own, v.partner] for k, v in sorted(self.configurations.items())},
            "workloads": {k: [v.own, v.partner] for k, v in sorted(self.workloads.items())},
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> PairSpeeds:
        """Read what ``to_json`` wrote.

        Raises:
            InputError: a part is missing, or the law is not monotone.
        """
        try:
            law = [float(document[name]) for name in ("top", "slope", "knee", "floor")]
            tables = [
                {str(k): Correction(float(v[0]), float(v[1])) for k, v in document[name].items()}
                for name in ("configurations", "workloads")
            ]
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise InputError(f"this is no pair-speed model; train it again: {error!r}") from error
        if law[1] < 0:
            raise InputError(f"the slope of a pair-speed model cannot be negative; got {law[1]}")
        return cls(law[0], law[1], law[2], law[3], tables[0], tables[1])


def fit_speeds(
    arrays: PairArrays,
    configurations: Sequence[Configuration],
    chosen: npt.NDArray[np.bool_] | None = None,
    *,
    knee: float | None = None,
) -> PairSpeeds:
    """Fit law and corrections to measured pairs.

    Args:
        chosen: pairs to learn from; default all.
        knee: fixed; default the one of ``KNEES`` with the least squared error.

    Raises:
        InputError: fewer than ``MIN_PAIRS`` pairs whose both utilisations are known.
    """
    use = np.ones(len(arrays.first), dtype=bool) if chosen is None else chosen.copy()
    demand = demands(arrays, configurations)
    use &= ~np.isnan(demand)
    if use.sum() < MIN_PAIRS:
        raise InputError(f"a pair-speed model needs {MIN_PAIRS} measured pairs of profiled jobs; got {int(use.sum())}")
    speeds = arrays.speeds[use]
    knees = KNEES if knee is None else (knee,)
    laws = [_fit_law(demand[use], speeds.mean(axis=1), candidate) for candidate in knees]
    top, slope, bend, _ = min(laws, key=lambda law: law[3])
    floor = float(np.floor(speeds.min() * 20) / 20)
    law = PairSpeeds(top, slope, bend, floor)
    return _with_corrections(law, arrays, configurations, use, demand)


def demands(arrays: PairArrays, configurations: Sequence[Configuration]) -> Vector:
    """Total GPU utilisation of each pair as a fraction; NaN where one is unknown."""
    util = np.array([np.nan if (u := c.profile.gpu_util_pct) is None else u for c in configurations])
    return (util[arrays.first] + util[arrays.second]) / 100.0


def predict_pairs(
    model: PairSpeeds, arrays: PairArrays, configurations: Sequence[Configuration], *, known: bool = True
) -> Vector:
    """Predicted speeds of every pair of a table (pairs × 2).

    Args:
        known: use the corrections; without, every job is a stranger.
    """
    base = model.law(demands(arrays, configurations))
    if not known:
        return np.stack([base, base], axis=1)
    found = [model.correction(item.name, item.workload) for item in configurations]
    own = np.array([item.own for item in found])
    partner = np.array([item.partner for item in found])
    first = base + own[arrays.first] + partner[arrays.second]
    second = base + own[arrays.second] + partner[arrays.first]
    return np.maximum(np.stack([first, second], axis=1), model.floor)


def _fit_law(demand: Vector, speed: Vector, knee: float) -> tuple[float, float, float, float]:
    """Least squares of one slope that cannot be negative; returns top, slope, knee, squared error."""
    over = np.maximum(demand - knee, 0.0)
    centred = over - over.mean()
    spread = float((centred**2).sum())
    slope = max(0.0, -float((centred * speed).sum()) / spread) if spread > 0 else 0.0
    top = float(speed.mean()) + slope * float(over.mean())
    return top, slope, knee, float(((top - slope * over - speed) ** 2).sum())


def _with_corrections(
    law: PairSpeeds,
    arrays: PairArrays,
    configurations: Sequence[Configuration],
    use: npt.NDArray[np.bool_],
    demand: Vector,
) -> PairSpeeds:
    """Ridge regression of what the law leaves over on who suffers and who makes suffer."""
    names = [item.name for item in configurations]
    workloads = sorted({item.workload for item in configurations})
    group = np.array([workloads.index(item.workload) for item in configurations])
    own = np.concatenate([arrays.first[use], arrays.second[use]])
    other = np.concatenate([arrays.second[use], arrays.first[use]])
    left = np.concatenate([arrays.speeds[use, 0], arrays.speeds[use, 1]]) - np.tile(law.law(demand[use]), 2)
    n, g = len(names), len(workloads)
    design = np.zeros((len(own), 2 * (n + g)))
    row = np.arange(len(own))
    for offset, column in ((0, own), (n, other), (2 * n, group[own]), (2 * n + g, group[other])):
        design[row, offset + column] = 1.0
    weights = np.linalg.solve(design.T @ design + SHRINKAGE * np.eye(design.shape[1]), design.T @ left)
    seen = np.unique(own)
    seen_groups = np.unique(group[own])
    return PairSpeeds(
        law.top,
        law.slope,
        law.knee,
        law.floor,
        {names[i]: Correction(float(weights[i]), float(weights[n + i])) for i in seen},
        {workloads[i]: Correction(float(weights[2 * n + i]), float(weights[2 * n + g + i])) for i in seen_groups},
    )
