"""How the outcome answers to each setting: an additive model (EBM) of the sweep itself.

A row is one replay; its target is the log ratio of a measure to the default point's in the same scenario, so what
differs between scenarios is already taken out. All replays of one point are held back together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lucid_pipelines.models.additive.schema import Feature
from lucid_pipelines.models.explaining import GlobalExplanation, explain_globally
from lucid_pipelines.models.metrics import r_squared
from lucid_pipelines.tuning.space import Setting
from lucid_pipelines.tuning.sweep import Sweep, Trial

if TYPE_CHECKING:
    from lucid_pipelines.models.additive.model import AdditiveModel

_FOLDS = 5
_MIN_POINTS = 12
_MIN_ROWS = 20


@dataclass(frozen=True)
class Level:
    """One value of a setting.

    Attributes:
        change_frac: modelled change of the measure against the default value, all else equal (−0.05 = 5 % less).
        error_frac: standard deviation over the bags of the model.
    """

    value: float
    change_frac: float
    error_frac: float


@dataclass(frozen=True)
class Response:
    """One measure.

    Attributes:
        r2: of the log ratio, on points that the model had not seen; below 0 the response is noise.
        importance: mean absolute contribution by setting, the largest first.
        levels: by setting.
        explanation: shapes with error bands, for plots.
    """

    measure: str
    rows: int
    points: int
    r2: float | None
    importance: tuple[tuple[str, float], ...]
    levels: dict[str, tuple[Level, ...]]
    explanation: GlobalExplanation

    def to_json(self) -> dict[str, Any]:
        return {
            "measure": self.measure,
            "rows": self.rows,
            "points": self.points,
            "r2": self.r2,
            "importance": [{"setting": name, "importance": value} for name, value in self.importance],
            "levels": {
                name: [{"value": v.value, "change_frac": v.change_frac, "error_frac": v.error_frac} for v in levels]
                for name, levels in self.levels.items()
            },
        }


def respond(sweep: Sweep, space: Sequence[Setting], measure: str) -> Response | None:
    """The response of one measure; ``None`` with too few points for one."""
    rows, target, groups = _rows(sweep, space, measure)
    if len(set(groups.tolist())) < _MIN_POINTS or len(rows) < _MIN_ROWS:
        return None
    features = [Feature(setting.name, unit=setting.unit, description=setting.meaning) for setting in space]
    model = _fit(rows, target, features, groups, bags=4)
    whole = explain_globally(model)
    levels: dict[str, tuple[Level, ...]] = {}
    for position, setting in enumerate(space):
        shape = next(s for s in whole.shapes if s.feature == setting.name)
        place = [int(np.searchsorted(np.asarray(shape.cuts), value, side="right")) for value in setting.values]
        base = shape.scores[place[setting.values.index(setting.default)]]
        levels[setting.name] = tuple(
            Level(value, math.expm1(shape.scores[at] - base), shape.errors[at])
            for value, at in zip(setting.values, place, strict=True)
            if (rows[:, position] == value).any()
        )
    return Response(
        measure,
        len(rows),
        len(set(groups.tolist())),
        _unseen_r2(rows, target, groups, features),
        tuple(whole.importance),
        levels,
        whole,
    )


def _fit(
    rows: np.ndarray, target: np.ndarray, features: Sequence[Feature], groups: np.ndarray, *, bags: int
) -> AdditiveModel:
    # interpret takes seconds to import, and only a sweep with enough points needs it.
    from lucid_pipelines.models.additive.fitting import FitSettings, fit_additive

    settings = FitSettings(
        bags=bags, max_rounds=300, smoothing_rounds=20, learning_rate=0.1, min_samples_leaf=2, max_bins=16, jobs=1
    )
    return fit_additive(rows, target, features, settings, groups=groups)


def _rows(sweep: Sweep, space: Sequence[Setting], measure: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows: list[list[float]] = []
    target: list[float] = []
    groups: list[int] = []
    for trial in sweep.trials:
        for scenario in trial.measures:
            ratio = _log_ratio(trial, sweep.default, scenario, measure)
            if ratio is not None:
                rows.append([trial.values.get(setting.name, setting.default) for setting in space])
                target.append(ratio)
                groups.append(trial.number)
    return np.array(rows, dtype=np.float64).reshape(len(rows), len(space)), np.array(target), np.array(groups)


def _log_ratio(trial: Trial, default: Trial, scenario: str, measure: str) -> float | None:
    mine, theirs = trial.measures[scenario].get(measure), default.measures[scenario].get(measure)
    if mine is None or theirs is None:
        return None
    return math.log(max(mine, 1.0) / max(theirs, 1.0))


def _unseen_r2(rows: np.ndarray, target: np.ndarray, groups: np.ndarray, features: Sequence[Feature]) -> float | None:
    """Cross-validated over whole points."""
    points = np.unique(groups)
    fold_of = dict(zip(points.tolist(), (np.arange(len(points)) % _FOLDS).tolist(), strict=True))
    folds = np.array([fold_of[group] for group in groups.tolist()])
    predicted = np.full(len(target), np.nan)
    for fold in range(_FOLDS):
        learn = folds != fold
        if learn.sum() < _MIN_ROWS:
            return None
        model = _fit(rows[learn], target[learn], features, groups[learn], bags=2)
        predicted[~learn] = model.predict(rows[~learn])
    return r_squared(predicted, target)
