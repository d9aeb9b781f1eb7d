"""Walk through history with models that are trained again every so often: what a schedule would have predicted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.domain.history import HistoryRow
from lucid_pipelines.models.duration.model import DurationModel, seconds
from lucid_pipelines.models.duration.training import DurationSettings, train_duration
from lucid_pipelines.models.updating.judging import judge_duration


@dataclass(frozen=True, slots=True)
class WalkedRow:
    """One attempt and what the schedule's model of that time said of it.

    Attributes:
        trained_as_of: when that model was trained.
    """

    attempt_id: str
    job_id: str
    duration_s: float
    predicted_s: float
    trained_as_of: datetime


def walk_forward(
    rows: Sequence[HistoryRow],
    begin: datetime,
    until: datetime,
    every: timedelta | None = None,
    settings: DurationSettings | None = None,
) -> list[WalkedRow]:
    """Predict the attempts submitted from ``begin`` to ``until`` under a retraining schedule.

    Args:
        every: ``None`` = the model of ``begin`` serves to the end; else a new one is trained at every step.

    Raises:
        InputError: too few rows before ``begin``, or a step that is not positive.
    """
    if every is not None and every <= timedelta(0):
        raise InputError(f"the time between two trainings must be above 0; got {every}")
    settings = settings or DurationSettings()
    walked: list[WalkedRow] = []
    at = begin
    end_of_history = max(row.ended_at for row in rows)
    while at < until:
        following = until if every is None else min(at + every, until)
        model = DurationModel.from_document(train_duration(rows, at, settings))
        judged = judge_duration({"model": model}, rows, at, end_of_history, teaching=settings.teaching)
        in_step = judged.lessons.known_at_s < following.timestamp()
        predicted = seconds(judged.served["model"])
        for i in np.flatnonzero(in_step).tolist():
            row = judged.lessons.rows[i]
            assert row.duration_s is not None
            walked.append(WalkedRow(row.attempt_id, row.job_id, row.duration_s, float(predicted[i]), at))
        at = following
    return walked
