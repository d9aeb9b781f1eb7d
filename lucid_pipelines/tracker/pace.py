"""Seconds per step: printed, from a rate, from clocks, from throughput — in that order of trust, cross-checked."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from lucid_pipelines.tracker.clock_pace import pace_by_clock
from lucid_pipelines.tracker.counters import Counter
from lucid_pipelines.tracker.groups import Column, Group, Series, gather_series
from lucid_pipelines.tracker.meaning import Role
from lucid_pipelines.tracker.pace_types import Pace, PaceSource
from lucid_pipelines.tracker.steady import MIN_RECORDS, STEADY_STEPS, Steady, granularity, steady_mean
from lucid_pipelines.tracker.ticks import Tick, behaviour
from lucid_pipelines.tracker.timeline import typical_stride

MAX_RECORDS = 50
AGREEMENT = 1.3
"""Two measurements within this factor agree."""
COARSE_SHARE = 0.07
"""A printed value whose rounding exceeds this share is only used when nothing finer exists."""
USELESS_SHARE = 0.3
LONGEST_UNITLESS_S = 300.0
LONGEST_STEP_S = 1e7
"""Four months: no step takes longer."""
_STEADY_CLOCK = 3
MAX_CLOCK_SPREAD = 0.4


def find_pace(counter: Counter, groups: Sequence[Group], span_s: Callable[[], float | None]) -> Pace | None:
    """Seconds per step, or ``None`` when nothing in the log tells.

    Args:
        counter: the step counter.
        groups: every template of the window.
        span_s: gives the seconds between the first and the last timestamp of the log, if it has any; asked only
            where a time was printed without its unit.
    """
    pace = _find_pace(counter, groups, span_s)
    if pace is None or not pace.seconds <= LONGEST_STEP_S:
        return None
    return replace(pace, unit=_unit(pace, counter))


def _find_pace(counter: Counter, groups: Sequence[Group], span_s: Callable[[], float | None]) -> Pace | None:
    stride = typical_stride(counter.ticks)
    amount = min(MAX_RECORDS, max(MIN_RECORDS, math.ceil(STEADY_STEPS / stride)))
    ticks = counter.ticks[-4 * MAX_RECORDS :]
    related = related_series(counter, groups)
    clock = pace_by_clock(ticks, related, amount)
    eta = _from_remaining(ticks, related)
    rate = _from_rate(related, amount)
    best, best_trust = None, 0.0
    coarse: Pace | None = None
    for series in related:
        candidate = _from_series(series, counter, stride, amount, clock, eta, rate, span_s)
        if candidate is None:
            continue
        pace, share = candidate
        if share > USELESS_SHARE:
            continue
        if share > COARSE_SHARE:
            coarse = coarse or pace
            continue
        trust = _trust(pace, series.beside)
        if clock is not None and _agree(pace.seconds, clock.seconds):
            trust += 1.0
        if best is None or trust > best_trust:
            best, best_trust = pace, trust
    if best is not None and clock is not None and _unit(best, counter) == counter.unit:
        best = _weigh(best, clock)
    if best is not None:
        return best
    if clock is not None:
        agrees = coarse is not None and _agree(coarse.seconds, clock.seconds, 1 + USELESS_SHARE)
        return Pace(clock.seconds, clock.source, clock.steady, clock.column, corroborated=agrees)
    return coarse or _from_throughput(counter, related, amount) or eta


def _unit(pace: Pace, counter: Counter) -> str:
    """What ``pace`` is the time of: where epochs are counted, a time named as a step's still is a step's.

    The rate of a bar that counts epochs is one of epochs, whatever it calls them.
    """
    if counter.unit == "step" or pace.column is None:
        return counter.unit
    if pace.source is PaceSource.THROUGHPUT:
        return "step"
    of_steps = pace.column.role in (Role.STEP_TIME, Role.STEP_RATE)
    return "step" if of_steps and not counter.column.field.bar else counter.unit


def related_series(counter: Counter, groups: Sequence[Group]) -> list[Series]:
    """Quantities of the counter's own records first, then of training reports interleaved with them."""
    own = {id(tick.record) for tick in counter.ticks}
    first = counter.ticks[0].record.order
    inside: list[Column] = []
    beside: list[Column] = []
    for group in groups:
        if not group.phase.may_be_training:
            continue
        columns = [c for c in group.columns if not c.meaning.is_evaluation]
        if any(id(record) in own for record in group.records):
            inside += columns
        elif group.last_order >= first and _is_report(group, counter):
            beside += columns
    return [*gather_series(inside, own), *gather_series(beside, beside=True)]


def _is_report(group: Group, counter: Counter) -> bool:
    """Whether a template without the counter belongs to the same report of several lines.

    It must come as often, and either speak of training itself or be a bare row of one name and one number.
    """
    inside = sum(record.order >= counter.ticks[0].record.order for record in group.records)
    if inside < 0.3 * min(len(counter.ticks), 64):
        return False
    is_row = len(group.columns) == 1 and group.shape.is_bare and group.columns[0].field.words <= 3
    tells_pace = any(c.role in (Role.STEP_RATE, Role.STEP_TIME) and c.field.words <= 4 for c in group.columns)
    return group.evidence >= 1.0 or is_row or (tells_pace and len(group.columns) <= 2)


def _from_series(
    series: Series,
    counter: Counter,
    stride: float,
    amount: int,
    clock: Pace | None,
    eta: Pace | None,
    rate: Pace | None,
    span_s: Callable[[], float | None],
) -> tuple[Pace, float] | None:
    column, known = series.column, series.meaning
    raw = [v for v in series.values[-amount:] if math.isfinite(v) and v > 0]
    if not raw or len(raw) < 0.5 * min(len(series.values), amount):
        return None
    rough = granularity([v for v in series.values if math.isfinite(v)]) / 2 / (sum(raw) / len(raw))
    if known.role is Role.STEP_RATE:
        steady = steady_mean([(known.scale_s or 1.0) / v for v in raw])
        return (Pace(steady.mean, PaceSource.RATE, steady, column), rough) if steady else None
    own_time = Role.EPOCH_TIME if counter.unit == "epoch" else Role.STEP_TIME
    if known.role not in (own_time, Role.STEP_TIME, Role.TIME) or (column.field.aside and known.scale_s is None):
        return None
    if _is_sum(series.values):
        return None
    steady = steady_mean(raw)
    if steady is None:
        return None
    scale = _scale(steady.mean, known.scale_s, clock, eta, stride, span_s, counter, known.role)
    if scale is None:
        return None
    per_step = _steps_covered(series, steady.mean * scale, stride, clock or eta or rate)
    if per_step is None:
        return None
    factor = scale / per_step
    scaled = Steady(steady.mean * factor, steady.low * factor, steady.high * factor, steady.kept, steady.dropped)
    return Pace(scaled.mean, PaceSource.PRINTED, scaled, column), rough


def _is_sum(values: Sequence[float]) -> bool:
    """Whether a time only grows: a sum since the start, or a counter in disguise."""
    moves = behaviour(values)
    falls = moves.breaks + moves.resets
    grows = moves.ups >= 3 and falls <= moves.ups // 10 and len(set(values)) > 3
    # Several processes may print every value again; a step's time that is printed coarsely also falls.
    return grows and (moves.ups > 3 * moves.stays or (falls == 0 and moves.ups >= 6))


def _scale(
    value: float,
    scale_s: float | None,
    clock: Pace | None,
    eta: Pace | None,
    stride: float,
    span_s: Callable[[], float | None],
    counter: Counter,
    role: Role,
) -> float | None:
    """Factor to seconds of a time that may have been printed without a unit."""
    if scale_s is not None:
        return scale_s
    witness = clock or eta
    if witness is not None:
        for factor in (1.0, 1e-3):
            for steps in (1.0, stride):
                if _agree(value * factor / steps, witness.seconds, 1.5):
                    return factor
    span = span_s()
    if span is not None and span > 0:
        covered = counter.newest.step - counter.ticks[0].step if role is Role.STEP_TIME else len(counter.ticks)
        if value * max(covered, 1.0) > 2.0 * span:
            return 1e-3
    return 1.0 if value <= LONGEST_UNITLESS_S else None


def _steps_covered(series: Series, seconds: float, stride: float, witness: Pace | None) -> float | None:
    """How many steps a printed time covers: one, or all since the last report; ``None`` when that stays open.

    A witness (clock, remaining time, rate) decides where there is one. Without, a name says it: ``time`` is a
    step's by custom, while ``took 3 s`` or a bare time in parentheses could be either.
    """
    if stride <= 1:
        return 1.0
    if witness is not None:
        as_step = abs(math.log(seconds / witness.seconds))
        as_interval = abs(math.log(seconds / stride / witness.seconds))
        nearer = stride if as_interval < as_step else 1.0
        if series.role is Role.TIME or min(as_step, as_interval) < math.log(AGREEMENT):
            return nearer
        return 1.0
    field = series.column.field
    is_fine = field.unit == "ms" and not field.name and not field.aside
    return 1.0 if series.role is Role.STEP_TIME or series.meaning.weight > 0.5 or is_fine else None


def _from_rate(related: Sequence[Series], amount: int) -> Pace | None:
    """Seconds per step from a printed rate, to judge other numbers by."""
    for series in related:
        if series.role is Role.STEP_RATE:
            values = [(series.meaning.scale_s or 1.0) / v for v in series.values[-amount:] if v > 0]
            steady = steady_mean(values)
            if steady is not None:
                return Pace(steady.mean, PaceSource.RATE, steady, series.column)
    return None


def _from_remaining(ticks: Sequence[Tick], related: Sequence[Series]) -> Pace | None:
    """Seconds per step from a printed remaining time; for judging other numbers, and as a last resort."""
    for series in related:
        if series.role is not Role.REMAINING:
            continue
        by_record = {id(r): value for r, value in zip(series.records, series.values, strict=True)}
        found = [
            by_record[id(t.record)] * (series.meaning.scale_s or 1.0) / (t.total - t.step)
            for t in ticks[-MAX_RECORDS:]
            if id(t.record) in by_record and t.total is not None and t.total - t.step >= 20
        ]
        steady = steady_mean([value for value in found if value > 0])
        if steady is not None and steady.mean > 0:
            return Pace(steady.mean, PaceSource.REMAINING, steady, series.column)
    return None


def _from_throughput(counter: Counter, related: Sequence[Series], amount: int) -> Pace | None:
    """Batch size, from a counter of samples or a printed one, divided by samples a second."""
    rates = sorted(
        (s for s in related if s.role is Role.ITEM_RATE and s.meaning.noun), key=lambda s: s.meaning.is_averaged
    )
    for rate in rates:
        batch = _items_per_step(rate, counter, related)
        if batch is None:
            continue
        values = [batch / (v * (rate.meaning.scale_s or 1.0)) for v in rate.values[-amount:] if v > 0]
        steady = steady_mean(values)
        if steady is not None:
            return Pace(steady.mean, PaceSource.THROUGHPUT, steady, rate.column)
    return None


def _items_per_step(rate: Series, counter: Counter, related: Sequence[Series]) -> float | None:
    noun = rate.meaning.noun.rstrip("s")
    own = {id(tick.record): tick for tick in counter.ticks}
    for series in related:
        known = [(own[id(r)].step, v) for r, v in zip(series.records, series.values, strict=True) if id(r) in own]
        if series.role is Role.ITEMS and len(known) >= 2 and noun in series.column.field.name.lower():
            steps, items = known[-1][0] - known[0][0], known[-1][1] - known[0][1]
            if steps > 0 and items > 0:
                return items / steps
        is_batch = series.role is Role.BATCH_SIZE and series.meaning.weight >= 1.0
        if is_batch and noun in ("sample", "image", "seq", "sequence"):
            return series.values[-1]
    return None


_SOURCE_TRUST: dict[PaceSource, float] = {PaceSource.PRINTED: 2.0, PaceSource.RATE: 1.9}


def _trust(pace: Pace, beside: bool) -> float:
    known = pace.column.meaning if pace.column else None
    trust = _SOURCE_TRUST.get(pace.source, 1.0) - (0.5 if beside else 0.0)
    if known is None:
        return trust
    if known.role is Role.TIME:
        trust -= 0.5
    if known.role is Role.EPOCH_TIME:
        trust -= 1.6
    return trust + 0.3 * known.weight - (0.2 if known.is_averaged else 0.0)


def _weigh(printed: Pace, clock: Pace) -> Pace:
    """Printed time against the clock.

    Agreement strengthens it. A printed time well below what the clock shows covers a part of the step only, and
    one that the name leaves open is settled by a steady clock. One well above the clock, named as a step's,
    stays: the counter then counts something smaller than steps.
    """
    if _agree(printed.seconds, clock.seconds):
        return replace(printed, corroborated=True)
    spread = (clock.steady.high - clock.steady.low) / clock.seconds
    is_steady = clock.steady.kept >= _STEADY_CLOCK and spread < MAX_CLOCK_SPREAD
    is_open = printed.column is not None and printed.column.role is Role.TIME
    if is_steady and (printed.seconds < clock.seconds or is_open):
        return replace(clock, disputed=True)
    return replace(printed, disputed=True)


def _agree(a: float, b: float, factor: float = AGREEMENT) -> bool:
    return a > 0 and b > 0 and max(a, b) / min(a, b) <= factor
