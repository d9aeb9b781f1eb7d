"""How many jobs the coming slots will bring: the trained model where one is in service, else the same slots of the
days before (Lucid, sections 8 and 10)."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta

import numpy as np

from lucid_pipelines.control.system import System
from lucid_pipelines.domain.errors import LucidError
from lucid_pipelines.domain.view import Forecast
from lucid_pipelines.models.artefacts import ModelKind, Registry
from lucid_pipelines.models.throughput import (
    MAX_HORIZON,
    SLOT_S,
    SubmissionSeries,
    ThroughputModel,
    count_submissions,
)

_log = logging.getLogger(__name__)
_DAYS = 7
_DAY_SLOTS = round(86_400 / SLOT_S)
_LEAST_SLOTS = 3
"""With fewer whole slots behind it a new site knows nothing of its own rhythm."""


def forecast_now(system: System, now: datetime) -> Forecast | None:
    """Predicted submissions of the slots that follow; ``None`` on a site too young to tell.

    The same object is returned until the next slot begins.
    """
    memory, now_s = system.memory, now.timestamp()
    if now_s < memory.forecast_until_s:
        return memory.forecast
    memory.forecast_until_s = (now_s // SLOT_S + 1) * SLOT_S
    try:
        memory.forecast = _predict(system, now)
    except LucidError as error:
        _log.warning("no forecast: %s", error)
        system.store.counters.add("forecasts_failed", now=now)
        memory.forecast = None
    return memory.forecast


def seasonal(known: SubmissionSeries, slots: int = MAX_HORIZON) -> Forecast:
    """Each coming slot as the mean of the same slot on up to seven days before; without one, as the mean of all."""
    count = len(known)
    starts = [known.begin_s + known.slot_s * (count + ahead) for ahead in range(slots)]
    predicted: list[list[float]] = []
    for values in (known.jobs, known.gpus):
        overall = float(np.mean(values))
        row: list[float] = []
        for ahead in range(slots):
            before = [count + ahead - day * _DAY_SLOTS for day in range(1, _DAYS + 1)]
            same = [float(values[slot]) for slot in before if 0 <= slot < count]
            row.append(sum(same) / len(same) if same else overall)
        predicted.append(row)
    return Forecast(starts, predicted[0], predicted[1])


def _predict(system: System, now: datetime) -> Forecast | None:
    known = _submissions(system, now)
    if known is None:
        return None
    model = _model(system, now)
    return seasonal(known) if model is None else model.forecast(known)


def _submissions(system: System, now: datetime) -> SubmissionSeries | None:
    """Jobs submitted in whole slots of the last week; ``None`` when too few slots have passed since the first job."""
    end_s = now.timestamp() // SLOT_S * SLOT_S
    since = datetime.fromtimestamp(end_s, UTC) - timedelta(days=_DAYS)
    found = system.store.jobs.submissions(since=since)
    if not found:
        return None
    begin = datetime.fromtimestamp(found[0][0].timestamp() // SLOT_S * SLOT_S, UTC)
    until = datetime.fromtimestamp(end_s, UTC)
    if until - begin < timedelta(seconds=_LEAST_SLOTS * SLOT_S):
        return None
    return count_submissions(found, begin=begin, until=until)


def _model(system: System, now: datetime) -> ThroughputModel | None:
    registry = Registry(system.settings.artefacts / "models")
    if registry.in_service(ModelKind.THROUGHPUT) is None:
        return None
    try:
        return ThroughputModel.from_document(registry.read(ModelKind.THROUGHPUT))
    except LucidError as error:
        # Counted and told; the plain forecast takes its place.
        _log.warning("the throughput model in service cannot be used: %s", error)
        system.store.counters.add("throughput_model_refused", now=now)
        return None
