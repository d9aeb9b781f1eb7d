"""Judge duration models on a window: each row is predicted with what had ended when its job was submitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from lucid_pipelines.domain.history import HistoryRow
from lucid_pipelines.models.duration.baselines import baseline_logs
from lucid_pipelines.models.duration.features import Lessons, build_lessons
from lucid_pipelines.models.duration.model import DurationModel, evidence_groups
from lucid_pipelines.models.duration.selecting import Teaching, select_rows, teaches
from lucid_pipelines.models.duration.training import judge_logs
from lucid_pipelines.models.metrics import coverage_frac, spearman

Vector = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Judged:
    """Predictions and outcomes of one window.

    Attributes:
        lessons: the judged attempts and what became of them.
        served: log(1 + seconds) by each model and baseline.
        numbers: quality of each.
    """

    lessons: Lessons
    served: Mapping[str, Vector]
    numbers: Mapping[str, Mapping[str, Any]]

    @property
    def rows(self) -> int:
        return len(self.lessons.rows)


def judge_duration(
    models: Mapping[str, DurationModel],
    rows: Sequence[HistoryRow],
    begin: datetime,
    until: datetime,
    *,
    teaching: Teaching = Teaching.HELD,
) -> Judged:
    """Judge models and baselines on the attempts that were submitted from ``begin`` and had ended at ``until``.

    Args:
        rows: history, the window's own rows included; rows that cannot be used are left out.
        teaching: which runs are judged on.
    """
    usable = select_rows(rows, until).rows
    since_s = begin.timestamp()
    served: dict[str, Vector] = {}
    numbers: dict[str, dict[str, Any]] = {}
    lessons: Lessons | None = None
    for name, model in models.items():
        lessons, matrix = _matrix(model, usable, since_s, teaching)
        log = model.served_log(matrix)
        # Where nothing is known at all, the model would say nothing; it is judged as if it had said 0.
        served[name] = np.nan_to_num(log)
        numbers[name] = {**judge_logs(served[name], lessons.durations_s), **_coverage(model, matrix, log, lessons)}
    if lessons is None:
        lessons, _ = build_lessons(usable, lambda name: name, teaching, since_s=since_s)
        lessons = lessons.take(_of(lessons, teaching))
    for name, log in baseline_logs(usable, lessons.rows, lessons.known_at_s).items():
        served[name] = log
        numbers[name] = dict(judge_logs(log, lessons.durations_s))
    return Judged(lessons, served, numbers)


def lead_sd(judged: Judged, first: str, second: str, rounds: int = 100) -> float | None:
    """Spread of the difference of two Spearman correlations, resampling whole user-days; ``None`` with under 5."""
    blocks = judged.lessons.blocks
    count = int(blocks.max(initial=-1)) + 1
    if count < 5:
        return None
    members = [np.flatnonzero(blocks == block) for block in range(count)]
    actual = judged.lessons.target
    random = np.random.default_rng(0)
    leads: list[float] = []
    for _ in range(rounds):
        pick = np.concatenate([members[i] for i in random.integers(0, count, count)])
        pair = [spearman(judged.served[name][pick], actual[pick]) for name in (first, second)]
        if pair[0] is not None and pair[1] is not None:
            leads.append(pair[0] - pair[1])
    return float(np.std(leads)) if len(leads) > 1 else None


def model_matrix(
    model: DurationModel, rows: Sequence[HistoryRow], begin: datetime, until: datetime, teaching: Teaching
) -> tuple[Lessons, Vector]:
    """The attempts that ``judge_duration`` judges on, and what the model sees of them."""
    return _matrix(model, select_rows(rows, until).rows, begin.timestamp(), teaching)


def _matrix(
    model: DurationModel, usable: Sequence[HistoryRow], since_s: float, teaching: Teaching
) -> tuple[Lessons, Vector]:
    buckets = model.buckets.copy()
    buckets.bucket_many(row.name for row in sorted(usable, key=lambda row: row.submitted_at))
    lessons, _ = build_lessons(usable, buckets.bucket, model.teaching, since_s=since_s, every_outcome=True)
    lessons = lessons.take(_of(lessons, teaching))
    return lessons, model.with_codes(lessons.matrix, [row.user for row in lessons.rows], lessons.buckets)


def _of(lessons: Lessons, teaching: Teaching) -> npt.NDArray[np.bool_]:
    return np.array([teaches(row.outcome, teaching) for row in lessons.rows], dtype=bool)


def _coverage(model: DurationModel, matrix: Vector, served: Vector, lessons: Lessons) -> dict[str, Any]:
    ends = model.interval_log(matrix, served, 0.8)
    known = ~np.isnan(served)
    if ends is None or not known.any():
        return {}
    low, high = (end[known] for end in ends)
    groups = np.array(evidence_groups(matrix))[known]
    actual = lessons.target[known]
    return {
        "coverage_80": coverage_frac(low, high, actual),
        "interval_factor_median": float(np.exp(np.median(high - low))),
        "coverage_80_by_group": {
            str(group): coverage_frac(low[groups == group], high[groups == group], actual[groups == group])
            for group in np.unique(groups)
        },
        "rows_by_group": {str(group): int((groups == group).sum()) for group in np.unique(groups)},
    }
