"""Train a throughput model on what was known at a moment, and judge it on later slots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.models.additive.fitting import FitSettings, ProgressCallback, fit_additive
from lucid_pipelines.models.additive.model import AdditiveModel
from lucid_pipelines.models.artefacts.document import Trained, data_sha256, golden_matrix, read_matrix, seal
from lucid_pipelines.models.conformal import Intervals
from lucid_pipelines.models.kinds import ModelKind
from lucid_pipelines.models.metrics import coverage_frac, mean_absolute_error
from lucid_pipelines.models.throughput.baselines import baseline_forecasts
from lucid_pipelines.models.throughput.features import FEATURES, MAX_HORIZON, Past, build
from lucid_pipelines.models.throughput.model import Target, ThroughputModel
from lucid_pipelines.models.throughput.series import SubmissionSeries

Vector = npt.NDArray[np.float64]
MIN_DAYS = 3.0
_SEASON_DAYS = 7
_LEVELS = 3
_DAY_S = 86_400.0


def _fit_settings() -> FitSettings:
    return FitSettings(
        bags=4,
        max_bins=32,
        min_samples_leaf=50,
        interactions=(("hour", "weekday"), ("hour", "median_12")),
    )


@dataclass(frozen=True, slots=True)
class ThroughputSettings:
    """How a throughput model is trained.

    Attributes:
        draws: how often each slot is shown, each time with another horizon of 1 to ``MAX_HORIZON``.
        huber_of_spread: errors beyond this share of the counts' median absolute deviation count linearly: the
            model aims at the median, and one burst of a thousand submissions does not bend it.
        calibration_frac: newest share of the slots on which intervals are calibrated.
    """

    fit: FitSettings = field(default_factory=_fit_settings)
    draws: int = 2
    huber_of_spread: float = 0.25
    calibration_frac: float = 0.2

    def to_json(self) -> dict[str, Any]:
        return {
            "fit": self.fit.to_json(),
            "draws": self.draws,
            "huber_of_spread": self.huber_of_spread,
            "calibration_frac": self.calibration_frac,
        }


def train_throughput(
    series: SubmissionSeries,
    as_of: datetime,
    settings: ThroughputSettings | None = None,
    *,
    source: str = "",
    progress: ProgressCallback | None = None,
    metrics: Mapping[str, Any] | None = None,
    created_at: datetime | None = None,
) -> dict[str, Any]:
    """Train on the slots that had ended at ``as_of`` and seal the model.

    Returns:
        The document; ``ThroughputModel.from_document`` reads it.

    Raises:
        InputError: fewer than ``MIN_DAYS`` days of slots, or counts that never change.
    """
    settings = settings or ThroughputSettings()
    known = series.before(as_of.astimezone(UTC).timestamp())
    if len(known) * known.slot_s < MIN_DAYS * _DAY_S:
        days = len(known) * known.slot_s / _DAY_S
        raise InputError(
            f"a throughput model needs {MIN_DAYS:g} days of submissions before {as_of}; got {days:.2f} days"
        )
    if known.jobs.min() == known.jobs.max():
        raise InputError(f"the number of submissions never changes; nothing can be learned: {known.jobs[0]:g} a slot")
    positions, horizons = _lessons(known, settings)
    starts = known.starts_s()[positions]
    targets: dict[str, Target] = {}
    rows: dict[str, Vector] = {}
    widths: dict[str, float | None] = {}
    for name, values in (("jobs", known.jobs), ("gpus", known.gpus)):
        matrix = build(Past(values, known.slot_s), starts, positions, horizons)
        targets[name], widths[name] = _fit_target(matrix, values[positions], positions, known, settings, progress)
        rows[name] = matrix
    model = ThroughputModel(known.slot_s, targets)
    goldens = golden_matrix(rows["jobs"])
    return seal(
        ModelKind.THROUGHPUT,
        model.to_json(),
        Trained(
            len(positions),
            data_sha256(rows["jobs"], rows["gpus"], known.jobs, known.gpus),
            as_of,
            source,
            dict(series.left_out),
            {**settings.to_json(), "huber_delta": widths},
        ),
        golden_inputs=goldens,
        golden_outputs=model.golden_answers(read_matrix(goldens)),
        metrics=metrics,
        created_at=created_at,
    )


def judge_throughput(
    model: ThroughputModel, series: SubmissionSeries, begin: datetime, until: datetime, horizon: int = MAX_HORIZON
) -> dict[str, Any]:
    """Mean absolute error and coverage on the slots of a window, with every baseline beside it.

    All of them know the slots up to ``horizon`` slots before the predicted one, and nothing later.

    Raises:
        InputError: the window holds no slot of the series.
    """
    first, last = (moment.astimezone(UTC).timestamp() for moment in (begin, until))
    starts = series.starts_s()
    positions = np.flatnonzero((starts >= first) & (starts + series.slot_s <= last))
    if not len(positions):
        raise InputError(f"no slot of the series lies in the window {begin} to {until}")
    report: dict[str, Any] = {"slots": len(positions), "horizon": horizon}
    for name, values in (("jobs", series.jobs), ("gpus", series.gpus)):
        past = Past(values, series.slot_s)
        actual = values[positions]
        matrix = build(past, starts[positions], positions, np.full(len(positions), horizon))
        predicted = model.predict(matrix, name)
        errors = {
            rule: mean_absolute_error(forecast, actual)
            for rule, forecast in baseline_forecasts(past, positions, horizon).items()
        }
        known = {rule: error for rule, error in errors.items() if error is not None}
        daily = _daily_errors(np.abs(predicted - actual), starts[positions])
        item: dict[str, Any] = {
            "mae": mean_absolute_error(predicted, actual),
            "mae_day_sd": float(daily.std(ddof=1)) if len(daily) > 1 else None,
            "baselines": errors,
            "best_baseline": min(known, key=known.__getitem__, default=None),
        }
        if model.targets[name].intervals is not None:
            item["coverage_80"] = coverage_frac(*model.interval(matrix, name, 0.8), actual)
        report[name] = item
    return report


def _lessons(
    known: SubmissionSeries, settings: ThroughputSettings
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Slots to learn from and how far ahead each is predicted; the first week only where there is not more."""
    day = round(_DAY_S / known.slot_s)
    first = min(_SEASON_DAYS * day, len(known) // 3)
    slots = np.arange(first, len(known))
    random = np.random.default_rng(settings.fit.seed)
    horizons = random.integers(1, MAX_HORIZON + 1, settings.draws * len(slots))
    return np.tile(slots, settings.draws), horizons


def _fit_target(
    matrix: Vector,
    actual: Vector,
    positions: npt.NDArray[np.intp],
    known: SubmissionSeries,
    settings: ThroughputSettings,
    progress: ProgressCallback | None,
) -> tuple[Target, float | None]:
    days = positions // max(1, round(_DAY_S / known.slot_s))
    edge = np.quantile(positions, 1.0 - settings.calibration_frac)
    older, newer = positions < edge, positions >= edge
    intervals, edges = None, ()
    if older.sum() >= 2 * newer.sum() > 0:
        held, _ = _fit(matrix[older], actual[older], days[older], settings, progress)
        predicted = np.maximum(held.predict(matrix[newer]), 0.0)
        edges = tuple(float(v) for v in np.unique(np.quantile(predicted, np.arange(1, _LEVELS) / _LEVELS)))
        levels = [str(int(level)) for level in np.searchsorted(np.asarray(edges), predicted)]
        intervals = Intervals.calibrate(actual[newer] - predicted, levels)
    model, width = _fit(matrix, actual, days, settings, progress)
    return Target(model, intervals, edges), width


def _fit(
    matrix: Vector,
    actual: Vector,
    days: npt.NDArray[np.intp],
    settings: ThroughputSettings,
    progress: ProgressCallback | None,
) -> tuple[AdditiveModel, float | None]:
    """The model, and the width beyond which errors count linearly; ``None`` = nowhere."""
    spread = float(np.median(np.abs(actual - np.median(actual))))
    # Where most slots are alike, the mean deviation stands in for a median of zero.
    scale = spread if spread > 0 else float(np.abs(actual - actual.mean()).mean())
    delta = settings.huber_of_spread * scale if scale > 0 else None
    fit = replace(settings.fit, min_samples_leaf=min(settings.fit.min_samples_leaf, len(actual) // 20))
    # A burst a hundred deltas away has almost no curvature, and a Newton step divides by it: on a quiet cluster, where
    # delta is small, boosting can run away. It then gets a wider delta, and at last squared errors.
    widths = [] if delta is None else [delta, 4.0 * delta, 16.0 * delta]
    for width in (*widths, None):
        model = fit_additive(matrix, actual, FEATURES, replace(fit, huber_delta=width), groups=days, progress=progress)
        if width is None or _stays_within(model.predict(matrix), actual):
            return model, width
    raise AssertionError("unreachable")


def _stays_within(predicted: Vector, actual: Vector) -> bool:
    """Whether predictions lie no further outside what happened than what happened is wide."""
    low, high = float(actual.min()), float(actual.max())
    return bool(predicted.min() >= 2.0 * low - high and predicted.max() <= 2.0 * high - low)


def _daily_errors(errors: Vector, starts_s: Vector) -> Vector:
    days = np.unique((starts_s // _DAY_S).astype(np.int64), return_inverse=True)[1]
    return np.asarray(np.bincount(days, weights=errors) / np.bincount(days), dtype=np.float64)
