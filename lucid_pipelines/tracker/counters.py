"""Which number of a log is the step: named, monotone, in records that speak of training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log2

from lucid_pipelines.tracker.groups import Column, Group
from lucid_pipelines.tracker.lanes import one_lane
from lucid_pipelines.tracker.meaning import Role
from lucid_pipelines.tracker.records import Kind
from lucid_pipelines.tracker.ticks import Tick, behaviour

MIN_EVIDENCE = 2.0
MAX_EVIDENCE = 4.5
"""Beyond this, more evidence does not make one counter better than another."""
MIN_SCORE = 4.0
LEANING = 3.0
MAX_STEPS = 1e15
"""No training makes more; a number beyond is something else."""
ANNOUNCED = 2.5
"""What an announcement of training is worth to a bar that has nothing else to show."""


@dataclass(frozen=True)
class Counter:
    """The step counter that was chosen.

    Attributes:
        column: where it stands in the newest template.
        ticks: its readings in every template that carries it, oldest first.
        unit: ``step`` or ``epoch``.
        score: how much speaks for it.
        lines: how many lines print it; more than ``ticks`` where several processes do, of which one is read.
    """

    column: Column
    ticks: tuple[Tick, ...]
    unit: str
    score: float
    lines: int

    @property
    def newest(self) -> Tick:
        return self.ticks[-1]


def find_counter(
    groups: Sequence[Group], last_order: int, *, training_announced: bool = False
) -> tuple[Counter | None, str | None]:
    """Choose the step counter; the second item says why there is none.

    Args:
        groups: the templates of the window.
        last_order: of the newest display state, to know what is stale.
        training_announced: whether the log says that training starts; then a bar without a name may be its.
    """
    reporting = [g for g in groups if g.training_losses and g.evidence >= MIN_EVIDENCE]
    announced = _announced_totals(groups)
    candidates: list[Counter] = []
    seen_counter = False
    for group in groups:
        if not group.phase.may_be_training:
            continue
        for column in group.columns:
            rank = _rank(column)
            if rank is None:
                continue
            loops = _without_other_loops(_split_by_total(_gather(column, groups)), groups)
            own = {id(record) for record in group.records}
            for printed in loops:
                ticks = one_lane(printed)
                if not any(id(tick.record) in own for tick in ticks):
                    continue
                backing = _backing(column, training_announced)
                if ticks[-1].total in announced:
                    backing = ANNOUNCED + 0.5
                score = _score(column, rank, ticks, reporting, last_order, backing)
                seen_counter = seen_counter or score is not None
                if score is not None and score >= MIN_SCORE:
                    unit = "epoch" if column.role is Role.EPOCH else "step"
                    candidates.append(Counter(column, tuple(ticks), unit, score, len(printed)))
    best = max(candidates, key=lambda c: _standing(c, candidates), default=None)
    if best is not None:
        return _densest(best, candidates), None
    if not groups:
        return None, "no line of the log carries numbers that could be progress"
    if not seen_counter:
        return None, "no number of the log counts upward as steps do"
    return None, "what counts upward in the log shows no sign of training"


def _backing(column: Column, training_announced: bool) -> float:
    if not training_announced:
        return 0.0
    if column.field.bar:
        return ANNOUNCED
    named = column.role is Role.STEP and column.group.evidence >= 1.5
    return MIN_EVIDENCE if named else 0.0


def _announced_totals(groups: Sequence[Group]) -> frozenset[float]:
    """Totals that the log names as such: a bar that runs up to one of them is the training's."""
    return frozenset(
        value
        for group in groups
        for column in group.columns
        if column.role is Role.TOTAL_STEPS and column.field.words <= 5 and len(set(column.values)) == 1
        for value in column.values[-1:]
        if value > 1
    )


def _rank(column: Column) -> float | None:
    """How good a name for a step counter; ``None`` when it cannot be one."""
    field, known = column.field, column.meaning
    if known.is_evaluation or field.aside or not field.integral or (field.unit and field.unit == "%"):
        return None
    if field.words > 5:
        return None
    match known.role:
        case Role.STEP:
            return 3.0 * known.weight
        case Role.EPOCH if field.kind is Kind.FRACTION or not field.name.lower().endswith("epochs"):
            return 0.8
        case Role.ITEMS:
            return 0.4 if field.kind is Kind.FRACTION else None
        case Role.UNNAMED | Role.OTHER if field.kind is Kind.FRACTION:
            return (2.4 if field.bar else 2.0) if column.index < 12 else None
        case Role.UNNAMED if field.kind is Kind.NUMBER and column.index <= 2 and not field.unit:
            return 1.2 + 0.2 * (column.index == 1)
    return None


def _gather(column: Column, groups: Sequence[Group]) -> list[Tick]:
    """Readings of the same quantity from every template of the same activity, in order.

    A template that says little of training lends its readings only where they fit between the others.
    """
    ticks = _ticks(column)
    low, high = min(t.step for t in ticks), max(t.step for t in ticks)
    reach = 3.0 * (behaviour([t.step for t in ticks]).typical or 1.0)
    for group in groups:
        if not group.phase.may_be_training or group is column.group:
            continue
        other = next((c for c in group.columns if c.key == column.key and c.role == column.role), None)
        if other is None or _rank(other) is None or not _akin(other, column):
            continue
        found = _ticks(other)
        if len(found) > 2 and len({t.step for t in found}) == 1 and high > low:
            continue  # the same number in the same words again and again is no reading
        if group.evidence < MIN_EVIDENCE and not all(low - reach <= t.step <= high + reach for t in found):
            continue
        ticks += found
    ticks.sort(key=lambda tick: tick.record.order)
    # An epoch's own steps and the steps of all epochs may go by one name, in different lines.
    alone = _ticks(column)
    return alone if _counts(alone) and not _counts(ticks) and len(alone) > 2 else ticks


def _counts(ticks: Sequence[Tick]) -> bool:
    return behaviour([tick.step for tick in ticks], [tick.total for tick in ticks]).counts


def _ticks(column: Column) -> list[Tick]:
    values = ((record, record.parsed.values[column.index]) for record in column.group.records)
    return [
        Tick(record, value.number, value.total if value.total is None or value.total <= MAX_STEPS else None)
        for record, value in values
    ]


def _akin(other: Column, column: Column) -> bool:
    if column.role is Role.UNNAMED:
        names = [f.name for f in column.group.shape.fields]
        return [f.name for f in other.group.shape.fields][: len(names)] == names[: len(other.group.shape.fields)]
    return True


def _split_by_total(ticks: Sequence[Tick]) -> list[list[Tick]]:
    """Bars of one look but different totals are different loops (training, evaluation): one list for each.

    Where the second number itself counts upward (``epoch/step``), it is the step and there is no total.
    """
    totals = {tick.total for tick in ticks}
    if len(totals) <= 1:
        return [list(ticks)]
    seconds = [Tick(tick.record, tick.total, None) for tick in ticks if tick.total is not None]
    shown = len({(tick.step, tick.total) for tick in ticks})
    if len(totals) > max(3, shown // 3) and _counts(one_lane(seconds)):
        return [seconds]
    return [[tick for tick in ticks if tick.total == total] for total in totals]


def _without_other_loops(loops: list[list[Tick]], groups: Sequence[Group]) -> list[list[Tick]]:
    """Leave out loops that look like the training's but are not: shorter, begun when that one was complete.

    A new epoch, announced or printed, may well have another length; an evaluation at the end has no epoch.
    """
    if len(loops) < 2:
        return loops
    ordered = sorted(loops, key=lambda ticks: ticks[0].record.order)
    kept = [ordered[0]]
    for ticks in ordered[1:]:
        before = max(kept, key=lambda other: other[0].total or 0.0)
        earlier = [tick for tick in before if tick.record.order < ticks[0].record.order]
        total, others = ticks[0].total, before[0].total
        shorter = total is not None and others is not None and total < others
        complete = bool(earlier) and others is not None and earlier[-1].step >= others - 1
        if shorter and complete and not _epoch_between(earlier[-1], ticks[0], groups):
            continue
        kept.append(ticks)
    return kept


def _epoch_between(before: Tick, after: Tick, groups: Sequence[Group]) -> bool:
    """Whether an epoch begins between two readings, by a line of its own or by a number in theirs."""
    first, last = before.record.order, after.record.order
    for group in groups:
        for column in group.of_role(Role.EPOCH):
            known = {r.order: v for r, v in zip(group.records, column.values, strict=True)}
            if first in known and last in known:
                return known[first] != known[last]
            if any(first < order < last for order in known):
                return True
    return False


def _standing(counter: Counter, candidates: Sequence[Counter]) -> float:
    """Score among others: one that leans on the losses of other lines yields to one that has its own beside it."""
    leans = not counter.column.group.training_losses and counter.column.role is not Role.STEP
    rival = leans and any(
        other.column.group.training_losses and other.newest.record.order >= counter.ticks[0].record.order
        for other in candidates
    )
    return counter.score - (LEANING if rival else 0.0)


def _densest(best: Counter, candidates: Sequence[Counter]) -> Counter:
    """Of several columns that print the same count, the one that prints it most often.

    A summary every few hundred steps may speak of training more clearly than the line of every step.
    """
    if best.column.role is not Role.STEP:
        return best
    stride = behaviour([tick.step for tick in best.ticks]).typical or 0.0
    chosen = best
    for other in candidates:
        if other.column.role is not Role.STEP or other is best or other.column.meaning.weight < 0.6:
            continue
        typical = behaviour([tick.step for tick in other.ticks]).typical or 0.0
        same = best.newest.step - stride <= other.newest.step <= best.newest.step + 2 * stride
        if same and 0 < typical < stride and other.newest.record.order >= best.newest.record.order - 8:
            chosen, stride = other, typical
    return chosen


def _score(
    column: Column,
    rank: float,
    ticks: Sequence[Tick],
    reporting: Sequence[Group],
    last_order: int,
    backing: float,
) -> float | None:
    """How much speaks for a column being the step; ``None`` when it does not behave like a counter."""
    group = column.group
    values = [tick.step for tick in ticks]
    if not all(0 <= value <= MAX_STEPS for value in values):
        return None
    if column.role is Role.EPOCH and any(c.meaning.weight >= 0.6 and _varies(c) for c in group.of_role(Role.STEP)):
        return None  # steps are printed beside the epochs: these are not the steps, whatever those do
    moves = behaviour(values, [tick.total for tick in ticks])
    named = column.role in (Role.STEP, Role.EPOCH)
    can_lean = named or any(field.bar for field in group.shape.fields)
    evidence = max(group.evidence, _companion(ticks, group, reporting) if can_lean else 0.0, backing)
    if len(set(values)) == 1:
        single = len(values) == 1 or column.role is Role.EPOCH
        if len(group.columns) > 1 or len(values) > 1:
            evidence = group.evidence if group.training_losses else 0.0
        if not single or not named or column.meaning.weight < 0.6 or evidence < 3.0:
            return None
        moved = 0.0
    elif not moves.counts:
        return None
    else:
        moved = 0.5 + moves.ups / (len(values) - 1) + 0.3 * moves.regular
    if not named and column.field.kind is Kind.NUMBER and (moves.regular < 0.6 or moves.ups < 2):
        return None
    if not named and not column.field.bar and not _reports(group):
        return None
    if column.field.kind is Kind.FRACTION and any(t.total is not None and t.total <= 0 for t in ticks):
        return None
    if evidence < MIN_EVIDENCE:
        return rank
    stale = 1.0 if last_order - ticks[-1].record.order > 4 * _span(ticks) + 200 else 0.0
    return rank + min(evidence, MAX_EVIDENCE) + moved + min(1.0, 0.2 * log2(len(ticks))) - stale


def _varies(column: Column) -> bool:
    return column.field.integral and len(set(column.values)) > 1


def _reports(group: Group) -> bool:
    """Whether the numbers beside a nameless counter, not just the words, speak of training."""
    measured = (Role.LEARNING_RATE, Role.GRADIENT, Role.STEP_TIME, Role.STEP_RATE, Role.REMAINING, Role.FLOP_RATE)
    by_name = any(c.meaning.is_training for c in group.of_role(Role.METRIC, Role.TIME, Role.ITEM_RATE))
    return bool(group.training_losses) or bool(group.of_role(*measured)) or by_name


def _span(ticks: Sequence[Tick]) -> float:
    if len(ticks) < 2:
        return 50.0
    return (ticks[-1].record.order - ticks[0].record.order) / (len(ticks) - 1)


def _companion(ticks: Sequence[Tick], group: Group, reporting: Sequence[Group]) -> float:
    """Evidence lent by another template that reports losses between this one's readings.

    It counts in full when the other template has no counter of its own and its records are interleaved with
    the readings, as loss lines are with the progress bar of the same loop.
    """
    best = 0.0
    first, last = ticks[0].record.order, ticks[-1].record.order + 2 * _span(ticks) + 8
    for other in reporting:
        if other is group:
            continue
        has_own = any(
            (c.role is Role.STEP or c.field.bar) and behaviour(c.values, c.totals).counts
            for c in other.columns
            if c.field.integral
        )
        inside = sum(first <= record.order <= last for record in other.records)
        newest_inside = first <= other.last_order <= last
        if newest_inside and inside >= 0.5 * len(other.records):
            best = max(best, (0.9 if not has_own else 0.5) * other.evidence)
    return best
