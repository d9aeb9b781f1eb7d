"""Train a duration model on history as of a moment, and judge it on what came later."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.domain.history import HistoryRow
from lucid_pipelines.models.additive.fitting import MIN_ROWS, FitSettings, ProgressCallback, fit_additive
from lucid_pipelines.models.additive.monotone import Direction, make_monotone
from lucid_pipelines.models.additive.schema import FeatureKind
from lucid_pipelines.models.artefacts.document import Trained, data_sha256, golden_matrix, read_matrix, seal
from lucid_pipelines.models.conformal import Intervals
from lucid_pipelines.models.duration.features import build_lessons, duration_features
from lucid_pipelines.models.duration.model import DurationModel, evidence_groups
from lucid_pipelines.models.duration.selecting import Teaching, select_rows
from lucid_pipelines.models.duration.training_set import TrainingSet
from lucid_pipelines.models.kinds import ModelKind
from lucid_pipelines.models.metrics import mean_absolute_error, r_squared, spearman
from lucid_pipelines.models.naming.buckets import BucketSettings, NameBuckets
from lucid_pipelines.models.naming.fitting import fit_buckets

_LARGE, _HUGE = 100_000, 400_000
_CALIBRATE_ON = 200_000
_INTERACTIONS = 6


@dataclass(frozen=True, slots=True)
class DurationSettings:
    """How a duration model is trained.

    Attributes:
        teaching: which runs say how long a job takes.
        monotone: features whose contribution shall only rise or fall, applied after training.
        calibration_frac: newest share of the rows on which the intervals are calibrated.
        categories, min_category_rows: how many users and buckets get a term of their own, and from how many rows.
    """

    fit: FitSettings = field(default_factory=lambda: FitSettings(interactions=_INTERACTIONS))
    teaching: Teaching = Teaching.HELD
    monotone: Mapping[str, Direction] = field(default_factory=dict)
    buckets: BucketSettings = field(default_factory=BucketSettings)
    calibration_frac: float = 0.2
    categories: int = 100
    min_category_rows: int = 100

    def to_json(self) -> dict[str, Any]:
        return {
            "fit": self.fit.to_json(),
            "teaching": self.teaching.value,
            "monotone": {name: direction.value for name, direction in self.monotone.items()},
            "calibration_frac": self.calibration_frac,
            "categories": self.categories,
            "min_category_rows": self.min_category_rows,
        }


def train_duration(
    rows: Iterable[HistoryRow],
    as_of: datetime,
    settings: DurationSettings | None = None,
    *,
    source: str = "",
    progress: ProgressCallback | None = None,
    metrics: Mapping[str, Any] | None = None,
    created_at: datetime | None = None,
    left_out: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """Train on the attempts that had ended at ``as_of`` and seal the model.

    Rows that cannot be used (later than ``as_of``, times in the future, NaN durations, …) are left out and counted
    by reason in the document.

    Args:
        left_out: what a reader left out before, by reason; it is counted too.

    Returns:
        The document; ``DurationModel.from_document`` reads it.

    Raises:
        InputError: fewer than 20 usable rows; the reasons why others were left out are named.
    """
    settings = settings or DurationSettings()
    lessons = prepare_lessons(rows, as_of, settings, left_out)
    return fit_duration(lessons, settings, source=source, progress=progress, metrics=metrics, created_at=created_at)


def prepare_lessons(
    rows: Iterable[HistoryRow], as_of: datetime, settings: DurationSettings, left_out: Mapping[str, int] | None = None
) -> TrainingSet:
    """The features step: what can be learned from history as of a moment.

    Raises:
        InputError: fewer than 20 usable rows.
    """
    selection = select_rows(rows, as_of)
    buckets = fit_buckets(
        (row.name for row in sorted(selection.rows, key=lambda row: row.submitted_at)), settings.buckets
    )
    lessons, _ = build_lessons(selection.rows, buckets.bucket, settings.teaching)
    missing = Counter(left_out or {}) + Counter(selection.left_out)
    missing["outcome_does_not_teach"] += len(selection.rows) - len(lessons.rows)
    missing = +missing
    if len(lessons.rows) < MIN_ROWS:
        raise InputError(
            f"a duration model needs at least {MIN_ROWS} usable runs before {as_of:%Y-%m-%d %H:%M} UTC; "
            f"got {len(lessons.rows)} (left out: {_told(missing)})"
        )
    return TrainingSet.of(lessons, buckets, as_of, missing)


def fit_duration(
    lessons: TrainingSet,
    settings: DurationSettings | None = None,
    *,
    source: str = "",
    progress: ProgressCallback | None = None,
    metrics: Mapping[str, Any] | None = None,
    created_at: datetime | None = None,
) -> dict[str, Any]:
    """The training step: fit, calibrate and seal."""
    settings = settings or DurationSettings()
    buckets = lessons.buckets
    matrix, features = _with_categories(lessons, settings)
    intervals, report = _calibrate(lessons, matrix, features, buckets, settings)
    fit = _fit_of(settings, len(matrix))
    additive = fit_additive(
        matrix, lessons.target, features, fit, groups=lessons.blocks, offset=_offset(settings), progress=progress
    )
    for name, direction in settings.monotone.items():
        additive, _ = make_monotone(additive, name, direction)
    model = DurationModel(additive, buckets, settings.teaching, intervals)
    goldens = golden_matrix(matrix)
    return seal(
        ModelKind.DURATION,
        model.to_json(),
        Trained(
            len(matrix),
            data_sha256(matrix, lessons.target),
            lessons.as_of,
            source,
            dict(lessons.left_out),
            {**settings.to_json(), "fit": fit.to_json()},
        ),
        golden_inputs=goldens,
        golden_outputs=model.predict_log(read_matrix(goldens)),
        metrics={**report, **(metrics or {})},
        created_at=created_at,
    )


def _told(left_out: Counter[str]) -> str:
    return ", ".join(f"{count:,} {reason}" for reason, count in left_out.most_common()) or "none"


def judge_logs(predicted: npt.NDArray[np.float64], durations_s: npt.NDArray[np.float64]) -> dict[str, float | None]:
    """Quality of predicted log(1 + seconds): order, and error on both scales."""
    actual = np.log1p(durations_s)
    return {
        "spearman": spearman(predicted, actual),
        "r2_log": r_squared(predicted, actual),
        "r2_s": r_squared(np.expm1(predicted), durations_s),
        "mae_log": mean_absolute_error(predicted, actual),
    }


def _with_categories(
    lessons: TrainingSet, settings: DurationSettings
) -> tuple[npt.NDArray[np.float64], tuple[Any, ...]]:
    """The matrix with codes for the commonest users and buckets, and its schema."""
    users = lessons.users
    features = duration_features(_commonest(users, settings), _commonest(lessons.row_buckets, settings))
    matrix = lessons.matrix.copy()
    for position, feature in enumerate(features):
        if feature.kind is FeatureKind.NOMINAL:
            code = {category: float(i) for i, category in enumerate(feature.categories)}
            values = users if feature.name == "user" else lessons.row_buckets
            matrix[:, position] = [np.nan if v is None else code.get(v, -1.0) for v in values]
    # A rare user is a stranger to the model, in training as later.
    return matrix, features


def _commonest(values: Iterable[str | None], settings: DurationSettings) -> tuple[str, ...]:
    counts = Counter(value for value in values if value is not None)
    common = [(v, n) for v, n in counts.most_common(settings.categories) if n >= settings.min_category_rows]
    return tuple(sorted(value for value, _ in common))


def _calibrate(
    lessons: TrainingSet,
    matrix: npt.NDArray[np.float64],
    features: tuple[Any, ...],
    buckets: NameBuckets,
    settings: DurationSettings,
) -> tuple[Intervals | None, dict[str, Any]]:
    """Intervals from the newest rows by a model of the runs that had ended before; and what a constraint cost."""
    edge = float(np.quantile(lessons.known_at_s, 1.0 - settings.calibration_frac))
    older, newer = lessons.ended_at_s < edge, lessons.known_at_s >= edge
    if older.sum() < 2 * MIN_ROWS or newer.sum() < MIN_ROWS:
        return None, {}
    learn = np.flatnonzero(older)[-_CALIBRATE_ON:]
    fit = _fit_of(settings, len(learn))
    additive = fit_additive(
        matrix[learn],
        lessons.target[learn],
        features,
        replace(fit, bags=min(fit.bags, 3)),
        groups=lessons.blocks[learn],
        offset=_offset(settings),
    )
    report: dict[str, Any] = {}
    actual = lessons.durations_s[newer]
    if settings.monotone:
        report["before_monotone"] = judge_logs(additive.predict(matrix[newer]), actual)
        changes: dict[str, Any] = {}
        for name, direction in settings.monotone.items():
            additive, change = make_monotone(additive, name, direction)
            changes[name] = {
                "direction": direction.value,
                "bins": change.bins,
                "bins_changed": change.bins_changed,
                "largest_change": change.largest_change,
            }
        report["after_monotone"] = judge_logs(additive.predict(matrix[newer]), actual)
        report["monotone"] = changes
    model = DurationModel(additive, buckets, settings.teaching)
    served = model.served_log(matrix[newer])
    known = ~np.isnan(served)
    residuals = (lessons.target[newer] - served)[known]
    groups = [g for g, k in zip(evidence_groups(matrix[newer]), known.tolist(), strict=True) if k]
    report["calibration"] = {"rows": int(known.sum()), **judge_logs(served[known], actual[known])}
    return Intervals.calibrate(residuals, groups), report


def _offset(settings: DurationSettings) -> str:
    """The plain estimate that the terms correct: steady for how long GPUs are held, fresh for how long work takes."""
    return "typical" if settings.teaching is Teaching.HELD else "recent"


def _fit_of(settings: DurationSettings, rows: int) -> FitSettings:
    """Fewer bags for many rows, where one bag already has little variance; smaller leaves for few rows.

    What is to be monotone stands in no pair: the sum of both would still go up and down.
    """
    fit = settings.fit
    bags = fit.bags if rows < _LARGE else min(fit.bags, 3 if rows < _HUGE else 2)
    leaf = max(2, min(fit.min_samples_leaf, rows // 50))
    return replace(fit, bags=bags, min_samples_leaf=leaf, alone=tuple(settings.monotone))
