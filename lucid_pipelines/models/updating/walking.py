"""Walk through history with models that are trained again every so often: what a schedule would have predicted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.domain.history import HistoryRow
from lucid_pipelines.domain.view import QueuedJob
from lucid_pipelines.models.duration.model import DurationModel, seconds
from lucid_pipelines.models.duration.predicting import DurationPredictor
from lucid_pipelines.models.duration.selecting import teaches
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
    *,
    live: bool = True,
    models: dict[datetime, DurationModel] | None = None,
) -> list[WalkedRow]:
    """Predict the attempts submitted from ``begin`` to ``until`` under a retraining schedule.

    Args:
        every: ``None`` = the model of ``begin`` serves to the end; else a new one is trained at every step.
        live: runs that ended since the training are known to the features, as they are in service. ``False`` = the
            model knows nothing later than its training, as the published one.
        models: trained models by moment, used and added to: several walks need to train each once.

    Raises:
        InputError: too few rows before ``begin``, or a step that is not positive.
    """
    if every is not None and every <= timedelta(0):
        raise InputError(f"the time between two trainings must be above 0; got {every}")
    settings = settings or DurationSettings()
    walked: list[WalkedRow] = []
    known = {} if models is None else models
    at = begin
    end_of_history = max(row.ended_at for row in rows)
    while at < until:
        following = until if every is None else min(at + every, until)
        model = known.get(at)
        if model is None:
            model = known[at] = DurationModel.from_document(train_duration(rows, at, settings))
        step = (
            _live(model, rows, at, end_of_history, settings) if live else _frozen(model, rows, at, following, settings)
        )
        walked += [
            WalkedRow(row.attempt_id, row.job_id, row.duration_s, predicted_s, at)
            for row, known_at_s, predicted_s in step
            if row.duration_s is not None and known_at_s < following.timestamp()
        ]
        at = following
    return walked


_Step = list[tuple[HistoryRow, float, float]]
"""Attempt, the moment at which it was asked about, predicted seconds."""


def _live(
    model: DurationModel, rows: Sequence[HistoryRow], at: datetime, until: datetime, settings: DurationSettings
) -> _Step:
    judged = judge_duration({"model": model}, rows, at, until, teaching=settings.teaching)
    predicted = seconds(judged.served["model"]).tolist()
    return list(zip(judged.lessons.rows, judged.lessons.known_at_s.tolist(), predicted, strict=True))


def _frozen(
    model: DurationModel, rows: Sequence[HistoryRow], at: datetime, following: datetime, settings: DurationSettings
) -> _Step:
    predictor = DurationPredictor.from_rows(model, rows, at)
    asked = [row for row in rows if at <= row.submitted_at < following and teaches(row.outcome, settings.teaching)]
    jobs = [
        QueuedJob(row.job_id, row.vc, row.gpus, row.submitted_at.timestamp(), user=row.user, name=row.name)
        for row in asked
    ]
    estimates = predictor.estimate_many(jobs, at.timestamp())
    return [
        (row, job.submitted_s, 0.0 if estimate is None or estimate.duration_s is None else estimate.duration_s)
        for row, job, estimate in zip(asked, jobs, estimates, strict=True)
    ]
