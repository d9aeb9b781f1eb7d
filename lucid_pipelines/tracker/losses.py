"""The newest training loss, and the throughput and epoch printed beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lucid_pipelines.tracker.counters import Counter
from lucid_pipelines.tracker.groups import Column, Group, gather_series
from lucid_pipelines.tracker.meaning import Role
from lucid_pipelines.tracker.window import Record

MIN_EVIDENCE = 3.0
MIN_LONE_READINGS = 3
MAX_EPOCHS = 1e9


@dataclass(frozen=True)
class Reading:
    """One number with the record that it stands in."""

    value: float
    record: Record
    column: Column


def find_loss(groups: Sequence[Group], counter: Counter | None) -> Reading | None:
    """The newest training loss; ``None`` when the log prints none, or only of evaluations.

    Without a step counter a loss counts only where it recurs among other signs of training.
    """
    columns = [column for group in groups for column in group.training_losses]
    if counter is not None:
        first = counter.ticks[0].record.order
        own = {id(tick.record) for tick in counter.ticks}
        inside = [c for c in columns if any(id(r) in own for r in c.group.records)]
        beside = [
            c
            for c in columns
            if c not in inside
            and c.group.last_order >= first
            and (c.group.evidence >= MIN_EVIDENCE or _regular(c.group, counter))
        ]
        # Of the counter's own template only its own readings count: an evaluation may look alike.
        found = [*gather_series(inside, own), *gather_series(beside)]
    else:
        found = gather_series(
            [
                c
                for c in columns
                if c.group.evidence >= MIN_EVIDENCE + 1.0
                and len(c.group.columns) >= 2
                and len(c.group.records) >= MIN_LONE_READINGS
                and len(set(c.values)) > 1
            ]
        )
    best: Reading | None = None
    best_rank: tuple[float, ...] = ()
    for series in found:
        at = -1
        if _at_risk(series.newest, series.column) and len(series.values) > 2 and not _plausible(series.values):
            at = -2
        own_line = counter is not None and any(r is counter.newest.record for r in series.records)
        rare = counter is not None and len(series.values) < 0.1 * min(len(counter.ticks), 64)
        still = len(series.values) >= 5 and len(set(series.values)) == 1
        rank = (
            series.meaning.weight + (0.15 if own_line else 0.0) - (0.3 if rare or still else 0.0),
            -float(series.column.index),
            float(series.newest.order),
        )
        if best is None or rank > best_rank:
            best, best_rank = Reading(series.values[at], series.records[at], series.column), rank
    return best


def _at_risk(record: Record, column: Column) -> bool:
    """Whether a value is the last of an unfinished line, or of one to which another writer's text is glued."""
    last = column.index == len(column.group.shape.fields) - 1
    return last and (
        not record.complete
        or record.shape.tail != column.group.shape.tail
        or len(record.shape.fields) > column.index + 1
    )


def _regular(group: Group, counter: Counter) -> bool:
    """Whether a template comes about as often as the counter: one line of a report of several lines."""
    orders = [tick.record.order for tick in counter.ticks]
    inside = sum(orders[0] <= record.order for record in group.records)
    is_row = len(group.columns) == 1 and group.shape.is_bare and group.columns[0].field.words <= 3
    return inside >= 0.5 * min(len(orders), 64) and (group.evidence >= 1.0 or is_row)


def _plausible(values: Sequence[float]) -> bool:
    """Whether the last value, at a place where a line may be cut off or glued, was printed like those before."""
    if not all(math.isfinite(value) for value in values[-6:]):
        return True
    digits = [len(repr(value).rpartition(".")[2]) for value in values[-6:]]
    return min(digits[:-1]) - 1 <= digits[-1] <= max(digits[:-1]) + 1


def find_throughput(groups: Sequence[Group], counter: Counter | None) -> tuple[Reading, str] | None:
    """The newest printed throughput that is no plain step rate, and its unit."""
    if counter is None:
        return None
    from_own: list[tuple[float, Reading, str]] = []
    own = {id(tick.record) for tick in counter.ticks}
    for group in groups:
        if not group.phase.may_be_training:
            continue
        inside = any(id(r) in own for r in group.records)
        if not inside and not _regular(group, counter):
            continue
        for column in group.of_role(Role.ITEM_RATE, Role.FLOP_RATE):
            if column.meaning.is_evaluation or column.field.aside or not math.isfinite(column.values[-1]):
                continue
            rank = (2.0 if column.role is Role.ITEM_RATE else 1.0) + inside - 0.5 * column.meaning.is_averaged
            reading = Reading(column.values[-1], group.records[-1], column)
            from_own.append((rank - 0.01 * column.index, reading, _unit(column)))
    if not from_own:
        return None
    _, reading, unit = max(from_own, key=lambda item: (item[0], item[1].record.order))
    return reading, unit


def _unit(column: Column) -> str:
    if column.role is Role.FLOP_RATE:
        return column.field.unit or column.field.qualifier or column.meaning.noun
    noun = {
        "tok": "tokens",
        "toks": "tokens",
        "token": "tokens",
        "sample": "samples",
        "img": "images",
        "imgs": "images",
    }
    counted = noun.get(column.meaning.noun, column.meaning.noun) or "items"
    return f"{counted}/s"


def find_epoch(groups: Sequence[Group], counter: Counter | None) -> Reading | None:
    """The newest epoch printed with training reports."""
    best: Reading | None = None
    for group in groups:
        if not group.phase.may_be_training or group.evidence < 0.8:
            continue
        for column in group.of_role(Role.EPOCH):
            if column.field.aside or column.meaning.is_evaluation or not abs(column.values[-1]) <= MAX_EPOCHS:
                continue
            inside = counter is not None and any(r is counter.newest.record for r in group.records)
            reading = Reading(column.values[-1], group.records[-1], column)
            if best is None or inside or reading.record.order > best.record.order:
                best = reading
            if inside:
                return reading
            break
    return best
