"""Features of a coming slot, made only of slots that had ended when it was predicted.

A slot is predicted ``horizon`` slots ahead: the newest slot that its features may use is ``horizon`` slots before
it. With slots of ten minutes, the published model's information is a horizon of 6: one hour old.
Source: Lucid paper, section 10: calendar, trend, rolling means and medians, weighted soft sums.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lucid_pipelines.models.additive.schema import Feature, Matrix

Vector = npt.NDArray[np.float64]

MAX_HORIZON = 6
MEANS = (3, 6, 18, 144)
MEDIANS = (6, 12, 36)
HALF_LIVES = (3, 6, 18, 72)
_DAY_S = 86_400.0
_SEASON_DAYS = 7
_SEASON_WIDTH = 3

FEATURES: tuple[Feature, ...] = (
    Feature("hour", unit="h", description="hour of the day of the predicted slot, UTC"),
    Feature("weekday", unit="d", description="day of the week, Monday = 0, UTC"),
    Feature("day_of_month", unit="d", description="day of the month, UTC"),
    Feature("horizon", unit="slots", description="slots between the newest known slot and the predicted one"),
    Feature("last", description="the newest known slot"),
    Feature("second_last", description="the slot before it"),
    *(Feature(f"mean_{w}", description=f"mean of the newest {w} known slots") for w in MEANS),
    *(Feature(f"median_{w}", description=f"median of the newest {w} known slots") for w in MEDIANS),
    *(Feature(f"soft_{h}", description=f"exponentially weighted mean, half-life {h} slots") for h in HALF_LIVES),
    Feature("trend", description="mean of the newest 6 minus that of the newest 36 known slots"),
    Feature("day_mean", description="mean of the same slot on the seven days before"),
    Feature("day_median", description="median over seven days of the mean of the hour around the same slot"),
    Feature("week", description="mean of the hour around the same slot a week before"),
)
NAMES = tuple(feature.name for feature in FEATURES)


class Past:
    """Rolling statistics of a series, each aligned to the last slot that it uses; computed once."""

    def __init__(self, values: Vector, slot_s: float) -> None:
        self.values = values
        self.day = round(_DAY_S / slot_s)
        self.means = {w: _rolling_mean(values, w) for w in (*MEANS, 36)}
        self.medians = {w: _rolling_median(values, w) for w in MEDIANS}
        self.soft = {h: _soft(values, h) for h in HALF_LIVES}
        self.around = _centred_mean(values, _SEASON_WIDTH)

    def at(self, table: Vector, slots: npt.NDArray[np.intp]) -> Vector:
        """Values at these slots; NaN outside of the series."""
        inside = (slots >= 0) & (slots < len(table))
        return np.where(inside, table[np.clip(slots, 0, max(len(table) - 1, 0))] if len(table) else np.nan, np.nan)

    def season(self, slots: npt.NDArray[np.intp], newest: npt.NDArray[np.intp]) -> tuple[Vector, Vector, Vector]:
        """Same-slot statistics over past days that lie wholly in what is known."""
        same, around = [], []
        for day in range(1, _SEASON_DAYS + 1):
            before = slots - day * self.day
            same.append(np.where(before <= newest, self.at(self.values, before), np.nan))
            whole = before + _SEASON_WIDTH - 1 <= newest
            around.append(np.where(whole, self.at(self.around, before), np.nan))
        stacked, wide = np.stack(same), np.stack(around)
        return _nan_mean(stacked), _nan_median(wide), wide[-1]


def build(past: Past, starts_s: Vector, slots: npt.NDArray[np.intp], horizons: npt.NDArray[np.intp]) -> Matrix:
    """Features of slots, each predicted ``horizons`` slots ahead.

    Args:
        past: the series; slots beyond its end may be asked for.
        starts_s: begin of each asked slot, seconds since 1970-01-01 UTC.
        slots: position of each asked slot in the series.

    Returns:
        rows × ``FEATURES``; NaN where the series does not reach back far enough.
    """
    newest = slots - horizons
    days = np.floor(starts_s / _DAY_S)
    dates = days.astype("datetime64[D]")
    day_of_month = (dates - dates.astype("datetime64[M]")).astype(np.int64) + 1
    day_mean, day_median, week = past.season(slots, newest)
    columns = [
        (starts_s - days * _DAY_S) / 3600.0,
        # 1970-01-01 was a Thursday.
        (days + 3) % 7,
        day_of_month.astype(np.float64),
        horizons.astype(np.float64),
        past.at(past.values, newest),
        past.at(past.values, newest - 1),
        *(past.at(past.means[w], newest) for w in MEANS),
        *(past.at(past.medians[w], newest) for w in MEDIANS),
        *(past.at(past.soft[h], newest) for h in HALF_LIVES),
        past.at(past.means[6], newest) - past.at(past.means[36], newest),
        day_mean,
        day_median,
        week,
    ]
    return np.stack(columns, axis=1)


def _rolling_mean(values: Vector, width: int) -> Vector:
    sums = np.cumsum(np.concatenate([[0.0], values]))
    result = np.full(len(values), np.nan)
    if len(values) >= width:
        result[width - 1 :] = (sums[width:] - sums[:-width]) / width
    return result


def _rolling_median(values: Vector, width: int) -> Vector:
    result = np.full(len(values), np.nan)
    if len(values) >= width:
        result[width - 1 :] = np.median(np.lib.stride_tricks.sliding_window_view(values, width), axis=1)
    return result


def _soft(values: Vector, half_life: float) -> Vector:
    keep = 0.5 ** (1.0 / half_life)
    result = np.empty(len(values))
    level, weight = 0.0, 0.0
    for index, value in enumerate(values.tolist()):
        level = level * keep + value
        weight = weight * keep + 1.0
        result[index] = level / weight
    return result


def _centred_mean(values: Vector, half: int) -> Vector:
    """Mean of the slots from ``half`` before to ``half - 1`` after."""
    result = np.full(len(values), np.nan)
    rolled = _rolling_mean(values, 2 * half)
    if len(values) >= 2 * half:
        result[half : len(values) - half + 1] = rolled[2 * half - 1 :]
    return result


def _nan_mean(stacked: Vector) -> Vector:
    known = ~np.isnan(stacked)
    count = known.sum(axis=0)
    return np.where(count > 0, np.where(known, stacked, 0.0).sum(axis=0) / np.maximum(count, 1), np.nan)


def _nan_median(stacked: Vector) -> Vector:
    ordered = np.sort(stacked, axis=0)
    count = (~np.isnan(stacked)).sum(axis=0)
    low = np.take_along_axis(ordered, np.maximum((count - 1) // 2, 0)[None], axis=0)[0]
    high = np.take_along_axis(ordered, np.minimum(count // 2, len(ordered) - 1)[None], axis=0)[0]
    return np.where(count > 0, (low + high) / 2.0, np.nan)
