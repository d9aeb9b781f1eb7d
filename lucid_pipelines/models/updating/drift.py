"""Whether the world still looks like the rows that a model was trained on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.domain.history import HistoryRow
from lucid_pipelines.models.additive.model import AdditiveModel
from lucid_pipelines.models.additive.schema import Matrix
from lucid_pipelines.models.duration.model import DurationModel
from lucid_pipelines.models.metrics import bootstrap_sd
from lucid_pipelines.models.throughput.features import MAX_HORIZON, Past, build
from lucid_pipelines.models.throughput.model import ThroughputModel
from lucid_pipelines.models.throughput.series import SubmissionSeries
from lucid_pipelines.models.updating.judging import judge_duration, model_matrix

Vector = npt.NDArray[np.float64]
LARGE_SHIFT = 0.25
"""Above this population stability index a feature counts as shifted, by custom."""
COVERAGE_SLACK = 0.05
_CALENDAR = frozenset({"weekday", "day_of_month", "horizon"})
_DAY_S = 86_400.0
_MIN_ROWS = 30
_MEDIAN_SLACK = 0.4
"""A model of the median lies below the mean of skewed counts without having drifted."""


@dataclass(frozen=True, slots=True)
class DriftFinding:
    """One check.

    Attributes:
        check: ``input``, ``coverage`` or ``residual``.
        name: the feature, level or trend looked at.
        value, bound: what was found and from where on it counts.
    """

    check: str
    name: str
    value: float
    bound: float
    has_drifted: bool


@dataclass(frozen=True, slots=True)
class DriftReport:
    """All checks of one model on one window."""

    rows: int
    findings: tuple[DriftFinding, ...]

    @property
    def has_drifted(self) -> bool:
        return any(finding.has_drifted for finding in self.findings)

    def to_json(self) -> dict[str, Any]:
        return {
            "rows": self.rows,
            "has_drifted": self.has_drifted,
            "findings": [
                {
                    "check": f.check,
                    "name": f.name,
                    "value": f.value,
                    "bound": f.bound,
                    "has_drifted": f.has_drifted,
                }
                for f in self.findings
            ],
        }


def duration_drift(model: DurationModel, rows: Sequence[HistoryRow], begin: datetime, until: datetime) -> DriftReport:
    """Check a duration model on the attempts submitted from ``begin`` that had ended at ``until``.

    Raises:
        InputError: fewer than 30 of them.
    """
    lessons, matrix = model_matrix(model, rows, begin, until, model.teaching)
    _require(len(lessons.rows))
    judged = judge_duration({"model": model}, rows, begin, until, teaching=model.teaching)
    findings = list(input_shift(model.additive, matrix, lessons.blocks))
    coverage = judged.numbers["model"].get("coverage_80")
    if coverage is not None:
        findings.append(_coverage(float(coverage), len(lessons.rows)))
    findings += residual_trend(lessons.target - judged.served["model"], lessons.known_at_s, lessons.blocks)
    return DriftReport(len(lessons.rows), tuple(findings))


def throughput_drift(model: ThroughputModel, series: SubmissionSeries, begin: datetime, until: datetime) -> DriftReport:
    """Check a throughput model on the slots of a window, one hour ahead.

    Raises:
        InputError: fewer than 30 of them.
    """
    starts = series.starts_s()
    positions = np.flatnonzero((starts >= begin.timestamp()) & (starts + series.slot_s <= until.timestamp()))
    _require(len(positions))
    past = Past(series.jobs, series.slot_s)
    matrix = build(past, starts[positions], positions, np.full(len(positions), MAX_HORIZON))
    actual = series.jobs[positions]
    days = (starts[positions] // _DAY_S).astype(np.intp)
    findings = input_shift(model.targets["jobs"].model, matrix, days)
    if model.targets["jobs"].intervals is not None:
        low, high = model.interval(matrix, "jobs", 0.8)
        findings.append(_coverage(float(((actual >= low) & (actual <= high)).mean()), len(positions)))
    residuals = actual - model.predict(matrix, "jobs")
    findings += residual_trend(residuals, starts[positions], days, slack_frac=_MEDIAN_SLACK)
    return DriftReport(len(positions), tuple(findings))


def input_shift(model: AdditiveModel, matrix: Matrix, blocks: npt.NDArray[np.intp]) -> list[DriftFinding]:
    """Population stability index of every feature, over the bins and training weights of its own shape function.

    Bins are joined until each holds a tenth of the training weight. What chance alone would show, one bin less than
    there are per independent block of rows, is added to the bound: rows of one day are not independent, and the
    mean of a day takes only as many values as there are days. The calendar is left out, because every window shows
    other dates than the training rows.
    """
    independent = len(np.unique(blocks))
    findings: list[DriftFinding] = []
    for feature, was, now in model.distributions(matrix):
        if feature in _CALENDAR:
            continue
        joined = _joined(was)
        expected = np.bincount(joined, weights=was) + 0.5
        found = np.bincount(joined, weights=now) + 0.5
        expected, found = expected / expected.sum(), found / found.sum()
        index = float(((found - expected) * np.log(found / expected)).sum())
        bound = LARGE_SHIFT + (len(expected) - 1) / max(independent, 1)
        findings.append(DriftFinding("input", feature, index, bound, index > bound))
    return findings


def residual_trend(
    residuals: Vector, at_s: Vector, blocks: npt.NDArray[np.intp], slack_frac: float = 0.1
) -> list[DriftFinding]:
    """Whether outcomes lie above or below predictions: on the whole, and more so from day to day.

    Both count when they are beyond three times their own spread over blocks of rows that belong together and
    beyond ``slack_frac`` of the residuals' own size.
    """
    size = float(np.abs(residuals).mean())
    findings: list[DriftFinding] = []
    bias = float(residuals.mean())
    sd = bootstrap_sd(residuals, groups=blocks)
    if sd is not None:
        bound = max(3.0 * sd, slack_frac * size)
        findings.append(DriftFinding("residual", "bias", bias, bound, abs(bias) > bound))
    days = (at_s - at_s.min()) / _DAY_S
    if days.max() >= 3.0 and sd is not None:
        centred = days - days.mean()
        slope_parts = centred * (residuals - bias) / float((centred**2).mean())
        slope = float(slope_parts.mean())
        slope_sd = bootstrap_sd(slope_parts, groups=blocks)
        if slope_sd is not None:
            bound = max(3.0 * slope_sd, slack_frac * size / float(days.max()))
            findings.append(DriftFinding("residual", "trend_per_day", slope, bound, abs(slope) > bound))
    return findings


def _joined(weights: Vector) -> npt.NDArray[np.intp]:
    """A coarser bin for each bin: neighbours together, each about a tenth of the weight."""
    total = weights.sum()
    if total <= 0:
        return np.zeros(len(weights), dtype=np.intp)
    middle = (np.cumsum(weights) - weights / 2) / total
    return np.unique(np.minimum(middle * 10, 9).astype(np.intp), return_inverse=True)[1]


def _coverage(found: float, rows: int, level: float = 0.8) -> DriftFinding:
    bound = level - COVERAGE_SLACK - 3.0 * float(np.sqrt(level * (1 - level) / rows))
    return DriftFinding("coverage", f"{level:g}", found, bound, found < bound)


def _require(rows: int) -> None:
    if rows < _MIN_ROWS:
        raise InputError(f"a drift check needs {_MIN_ROWS} rows in its window; got {rows}")
