"""Readings of the counter as one line over time: epochs joined, times attached."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from lucid_pipelines.logs import LineTime
from lucid_pipelines.tracker.groups import Series
from lucid_pipelines.tracker.steady import granularity
from lucid_pipelines.tracker.ticks import Tick

_MIN_RESOLUTIONS = 8.0
_PAUSE = 5.0


@dataclass(frozen=True, slots=True)
class Interval:
    """From one reading to a later one: how many steps, how many seconds."""

    steps: float
    seconds: float


def positions(ticks: Sequence[Tick]) -> list[float]:
    """Steps since some fixed point, for the readings since the last break; earlier ones are left out.

    Where a counter starts again at the end of an epoch, the epoch's length is added; where it falls back for
    another reason (a restart from a checkpoint), only what follows is kept.
    """
    if not ticks:
        return []
    found = [ticks[0].step]
    base = 0.0
    for before, after in pairwise(ticks):
        if after.step < before.step:
            if _is_epoch_end(before, after):
                base += before.total or 0.0
            else:
                found, base = [], 0.0
        found.append(base + after.step)
    return found


def typical_stride(ticks: Sequence[Tick]) -> float:
    """Median number of steps between readings; 1 when there is no telling."""
    strides = [steps for _, _, steps in _strides(ticks)]
    return median(strides) if strides else 1.0


def clock_intervals(ticks: Sequence[Tick], series: Series | None = None) -> list[Interval]:
    """Intervals by the timestamps of the readings' own lines, or by those of a series of the same report."""
    times = [tick.record.time for tick in ticks]
    if series is not None:
        times = [None if at is None else series.records[at].time for at in _nearest(series, ticks)]
    dated = [(tick, time) for tick, time in zip(ticks, times, strict=True) if time is not None]
    found: list[Interval] = []
    for before, after, steps in _strides([tick for tick, _ in dated]):
        seconds = dated[before][1].seconds_until(dated[after][1])
        if seconds is not None and seconds >= 0:
            found.append(Interval(steps, seconds))
    return _merged(found, _resolution_s([time for _, time in dated]))


def elapsed_intervals(ticks: Sequence[Tick], series: Series, scale_s: float) -> list[Interval]:
    """Intervals by a series of elapsed times, which may stand in other lines of the same report."""
    aligned = align(series, ticks)
    found: list[Interval] = []
    for before, after, steps in _strides(ticks):
        start, end = aligned[before], aligned[after]
        if start is not None and end is not None and end >= start:
            found.append(Interval(steps, (end - start) * scale_s))
    known = [value for value in aligned if value is not None]
    return _merged(found, granularity(known) * scale_s if known else 0.0)


def _strides(ticks: Sequence[Tick]) -> Iterator[tuple[int, int, float]]:
    """Pairs of readings between which steps were made, and how many; across an epoch's end where its length is known.

    Readings that repeat a step (of other ranks) are passed over; a fall that no epoch explains begins anew.
    """
    last = 0
    for index in range(1, len(ticks)):
        before, after = ticks[last], ticks[index]
        steps = after.step - before.step
        if steps == 0:
            continue
        if steps < 0 and _is_epoch_end(before, after):
            assert before.total is not None
            steps += before.total
        if steps > 0:
            yield last, index, steps
        last = index


def _is_epoch_end(before: Tick, after: Tick) -> bool:
    total = before.total
    return total is not None and after.total == total and before.step >= 0.5 * total and after.step <= 0.5 * total


def align(series: Series, ticks: Sequence[Tick]) -> list[float | None]:
    """The value that belongs to each reading: of the same line, else of the nearest line."""
    return [None if at is None else series.values[at] for at in _nearest(series, ticks)]


def _nearest(series: Series, ticks: Sequence[Tick]) -> Iterator[int | None]:
    orders = [record.order for record in series.records]
    for tick in ticks:
        at = bisect_left(orders, tick.record.order)
        near = [i for i in (at - 1, at) if 0 <= i < len(orders)]
        yield min(near, key=lambda i: abs(orders[i] - tick.record.order), default=None)


def _merged(intervals: list[Interval], resolution_s: float) -> list[Interval]:
    """Join neighbours until each is long against the clock's resolution, so that rounding does not matter."""
    if not intervals:
        return []
    intervals = _without_pauses(intervals, resolution_s)
    wanted = _MIN_RESOLUTIONS * resolution_s
    if median([i.seconds for i in intervals]) >= wanted:
        return intervals
    joined: list[Interval] = []
    steps = seconds = 0.0
    for interval in reversed(intervals):
        steps += interval.steps
        seconds += interval.seconds
        if seconds >= wanted:
            joined.append(Interval(steps, seconds))
            steps = seconds = 0.0
    return joined[::-1]


def _without_pauses(intervals: list[Interval], resolution_s: float) -> list[Interval]:
    """Leave out intervals far longer than the rest, as long as they are few: joined with neighbours they would hide."""
    ordered = sorted(interval.seconds / interval.steps for interval in intervals)
    usual = ordered[: max(1, int(0.9 * len(ordered)))]
    pace = sum(usual) / len(usual)
    kept = [i for i in intervals if i.seconds <= _PAUSE * (pace * i.steps + resolution_s)]
    return kept if len(kept) >= 0.8 * len(intervals) else intervals


def _resolution_s(times: Sequence[LineTime]) -> float:
    stamps = [time.at_s for time in times]
    if not stamps:
        return 0.0
    return 1.0 if len({round(stamp % 1.0, 6) for stamp in stamps}) == 1 else 0.001
