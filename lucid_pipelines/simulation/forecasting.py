"""A forecast of submissions for replays that are given none, made of the past of each moment only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lucid_pipelines.domain.trace import TraceJob
from lucid_pipelines.domain.view import Forecast

SLOT_S = 600.0
_DAY_SLOTS = 144
_DAYS = 7
_LAG_SLOTS = 6
"""The forecast of a slot is read up to five slots before: nothing later than six may be in it."""


def forecast_from_past(jobs: Sequence[TraceJob]) -> Forecast:
    """Predict each 10-minute slot as the mean of the same slot on up to seven days before.

    On the first day it is the mean of all slots that ended at least an hour before. Jobs are in order of
    submission.
    """
    begin_s = jobs[0].submit_s // SLOT_S * SLOT_S
    slots = np.array([(job.submit_s - begin_s) // SLOT_S for job in jobs], dtype=np.int64)
    count = int(slots[-1]) + 1 + _LAG_SLOTS
    submitted = np.bincount(slots, minlength=count).astype(float)
    gpus = np.bincount(slots, weights=[job.gpus for job in jobs], minlength=count)
    starts_s = begin_s + SLOT_S * np.arange(count)
    return Forecast(starts_s.tolist(), _predict(submitted).tolist(), _predict(gpus).tolist())


def _predict(observed: np.ndarray) -> np.ndarray:
    count = len(observed)
    total, days = np.zeros(count), np.zeros(count)
    for day in range(1, _DAYS + 1):
        shift = day * _DAY_SLOTS
        if shift < count:
            total[shift:] += observed[:-shift]
            days[shift:] += 1
    before = np.concatenate([[0.0], np.cumsum(observed)])[:count]
    ended = np.arange(count)
    so_far = np.zeros(count)
    lag = min(_LAG_SLOTS, count)
    so_far[lag:] = before[: count - lag] / np.maximum(ended[: count - lag], 1)
    return np.where(days > 0, total / np.maximum(days, 1), so_far)
