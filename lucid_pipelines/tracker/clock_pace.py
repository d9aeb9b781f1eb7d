"""Seconds per step by clocks: timestamps and elapsed times of successive readings."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from lucid_pipelines.tracker.groups import Column, Series
from lucid_pipelines.tracker.meaning import Role
from lucid_pipelines.tracker.pace_types import Pace, PaceSource
from lucid_pipelines.tracker.steady import STEADY_STEPS, steady_mean
from lucid_pipelines.tracker.ticks import Tick, behaviour
from lucid_pipelines.tracker.timeline import Interval, clock_intervals, elapsed_intervals

_ENOUGH_INTERVALS = 6


def pace_by_clock(ticks: Sequence[Tick], related: Sequence[Series], amount: int) -> Pace | None:
    """Seconds per step by timestamps of the readings' own lines, of the same report, or by elapsed times.

    Args:
        ticks: readings of the step counter.
        related: quantities printed with it.
        amount: how many of the newest intervals are looked at.
    """
    best = _from_intervals(clock_intervals(ticks), amount, PaceSource.CLOCK, None)
    if best is not None:
        return best
    if not any(tick.record.time for tick in ticks[-2:]):
        dated = next((s for s in related if s.beside and s.newest.time is not None and _same_steps(s, ticks)), None)
        if dated is not None:
            best = _from_intervals(clock_intervals(ticks, dated), amount, PaceSource.CLOCK, None)
    if best is not None:
        return best
    for series in related:
        known = series.meaning
        is_plain = series.column.field.name.lower() in ("time", "total time", "time elapsed")
        is_elapsed = known.role is Role.ELAPSED or (known.role is Role.TIME and (known.scale_s is not None or is_plain))
        if not is_elapsed:
            continue
        moves = behaviour(series.values)
        if moves.ups < 2 or moves.breaks > moves.ups // 5:
            continue
        intervals = elapsed_intervals(ticks, series, known.scale_s or _scale_of_date(series.values[-1]))
        found = _from_intervals(intervals, amount, PaceSource.ELAPSED, series.column)
        if found is not None:
            return found
    return None


def _same_steps(series: Series, ticks: Sequence[Tick]) -> bool:
    """Whether the lines of a series count steps as the readings do: lines of one report."""
    stride = behaviour([tick.step for tick in ticks]).typical
    return any(
        column.role is Role.STEP and behaviour(column.values).typical == stride
        for column in series.column.group.columns
    )


def _scale_of_date(value: float) -> float:
    """Factor to seconds of an elapsed time or a date as a number: dates in ms, µs and ns give themselves away."""
    return next((factor for least, factor in ((1.4e18, 1e-9), (1.4e15, 1e-6), (1.4e12, 1e-3)) if value >= least), 1.0)


def _from_intervals(
    intervals: Sequence[Interval], amount: int, source: PaceSource, column: Column | None
) -> Pace | None:
    recent = _newest(intervals, amount)
    if not recent or sum(i.seconds for i in recent) <= 0:
        return None
    steady = steady_mean([i.seconds / i.steps for i in recent], [i.steps for i in recent])
    if steady is None or steady.mean <= 0:
        return None
    return Pace(steady.mean, source, steady, column)


def _newest(intervals: Sequence[Interval], amount: int) -> list[Interval]:
    """The newest intervals: as many as cover the steady window, at least three, at most ``amount``."""
    chosen: list[Interval] = []
    steps = 0.0
    for interval in reversed(intervals):
        if interval.steps <= 0:
            continue
        if len(chosen) >= amount or (steps >= STEADY_STEPS and len(chosen) >= min(amount, _ENOUGH_INTERVALS)):
            break
        if len(chosen) >= 3 and interval.steps > 3 * median([i.steps for i in chosen]):
            # Readings further back have gaps (most of them fell out of the window): pauses hide in them.
            break
        chosen.append(interval)
        steps += interval.steps
    return chosen[::-1]
