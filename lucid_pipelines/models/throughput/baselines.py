"""Forecasts without a model, with the same information: the newest known slot is ``horizon`` slots old."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from lucid_pipelines.models.throughput.features import Past

Vector = npt.NDArray[np.float64]
Baseline = Callable[[Past, npt.NDArray[np.intp], int], Vector]


def _newest(past: Past, slots: npt.NDArray[np.intp], horizon: int) -> Vector:
    return past.at(past.values, slots - horizon)


def _hour_mean(past: Past, slots: npt.NDArray[np.intp], horizon: int) -> Vector:
    return past.at(past.means[6], slots - horizon)


def _two_hour_median(past: Past, slots: npt.NDArray[np.intp], horizon: int) -> Vector:
    return past.at(past.medians[12], slots - horizon)


def _yesterday(past: Past, slots: npt.NDArray[np.intp], horizon: int) -> Vector:
    del horizon
    return past.at(past.values, slots - past.day)


def _week_mean(past: Past, slots: npt.NDArray[np.intp], horizon: int) -> Vector:
    return past.season(slots, slots - horizon)[0]


BASELINES: dict[str, Baseline] = {
    "newest_slot": _newest,
    "rolling_mean_1h": _hour_mean,
    "rolling_median_2h": _two_hour_median,
    "same_slot_yesterday": _yesterday,
    "same_slot_mean_of_7_days": _week_mean,
}
"""Names say what they do with slots of ten minutes."""


def baseline_forecasts(past: Past, slots: npt.NDArray[np.intp], horizon: int) -> dict[str, Vector]:
    """Every baseline's forecast of these slots; 0 where the series does not reach back far enough."""
    return {name: np.nan_to_num(rule(past, slots, horizon), nan=0.0) for name, rule in BASELINES.items()}
