"""Recurring templates: records of one form, their numbers as columns over time, and what speaks for training."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

from lucid_pipelines.tracker.meaning import Meaning, Role, meaning
from lucid_pipelines.tracker.phase import Phase, phase_of
from lucid_pipelines.tracker.records import Field, Kind, Shape
from lucid_pipelines.tracker.window import Record

_SAME_COUNT = 5
NO_TRAINING = -5.0


@dataclass(frozen=True)
class Column:
    """One number of a template over time.

    Attributes:
        group: the template.
        index: position in the record.
        field: its name and unit.
        meaning: what the name says.
    """

    group: Group
    index: int
    field: Field
    meaning: Meaning

    @property
    def role(self) -> Role:
        return self.meaning.role

    @cached_property
    def values(self) -> list[float]:
        return [record.parsed.values[self.index].number for record in self.group.records]

    @cached_property
    def totals(self) -> list[float | None]:
        return [record.parsed.values[self.index].total for record in self.group.records]

    def value_of(self, record: Record) -> float:
        return record.parsed.values[self.index].number

    @property
    def key(self) -> tuple[str, Kind, int]:
        """Columns of different templates with one key carry one quantity."""
        fields = self.group.shape.fields[: self.index]
        if self.field.name:
            name = self.field.name.lower()
            return (name, self.field.kind, -1 - sum(f.name.lower() == name for f in fields))
        position = sum(f.kind is self.field.kind and not f.name for f in fields)
        return ("%bar" if self.field.bar else "", self.field.kind, position)


@dataclass(frozen=True)
class Group:
    """The records of one template, oldest first."""

    shape: Shape
    records: tuple[Record, ...]

    @cached_property
    def phase(self) -> Phase:
        return phase_of(self.shape)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The numbers of the template.

        ``loss 154 6.98`` names the first of two numbers that belong together: where it counts upward and the
        second is a decimal without a name, the first is the step and the second the loss.
        """
        columns = [Column(self, index, field, meaning(field)) for index, field in enumerate(self.shape.fields)]
        for first, second in pairwise(tuple(columns)):
            if first.role is not Role.LOSS or not first.field.integral or len(set(first.values)) < 3:
                continue
            if first.values[-1] <= first.values[0]:
                continue  # of several processes one may lag: it need not grow from line to line
            columns[first.index] = replace(first, meaning=Meaning(Role.STEP, 0.6, noun="step"))
            if not (second.field.name or second.field.integral or second.field.aside or second.field.unit):
                columns[second.index] = replace(second, meaning=first.meaning)
        return tuple(columns)

    def of_role(self, *roles: Role) -> list[Column]:
        return [column for column in self.columns if column.role in roles]

    @cached_property
    def training_losses(self) -> list[Column]:
        """Columns that may be the training loss, the likeliest first; not asides such as averages."""
        if self.phase is Phase.EVALUATION:
            return []
        found = [
            c for c in self.of_role(Role.LOSS) if not c.meaning.is_evaluation and not c.field.aside and not _is_count(c)
        ]
        return sorted(found, key=lambda c: (-c.meaning.weight, c.index))

    @cached_property
    def evidence(self) -> float:
        """How much speaks for these records being reports of training; 3 and more is much, below 1 little."""
        if not self.phase.may_be_training:
            return NO_TRAINING
        score = 2.0 if self.phase is Phase.TRAINING else 0.0
        roles = {c.role for c in self.columns if not c.meaning.is_evaluation}
        if self.training_losses:
            score += 2.0 + self.training_losses[0].meaning.weight
        elif Role.LOSS in roles and not any(_is_count(c) for c in self.of_role(Role.LOSS)):
            score += 2.0  # parts of a loss only
        score += sum(weight for role, weight in _EVIDENCE.items() if role in roles)
        if any(c.role is Role.STEP and c.meaning.weight >= 1.0 for c in self.columns):
            score += 0.5
        if Role.STEP in roles and Role.EPOCH in roles:
            score += 0.3
        if any(field.words > 5 for field in self.shape.fields):
            score -= 1.0
        return score

    @property
    def last_order(self) -> int:
        return self.records[-1].order


def _is_count(column: Column) -> bool:
    """Whether a column shows one whole number again and again: nothing that is learnt does that."""
    return column.field.integral and len(column.values) >= _SAME_COUNT and len(set(column.values)) == 1


@dataclass(frozen=True)
class Series:
    """One quantity over time, gathered from every template that carries it, oldest first.

    Attributes:
        column: in the template that carried it last.
        records, values: one for each reading.
        beside: whether it stands in other lines than the step counter.
    """

    column: Column
    records: tuple[Record, ...]
    values: tuple[float, ...]
    beside: bool = False

    @property
    def role(self) -> Role:
        return self.column.meaning.role

    @property
    def meaning(self) -> Meaning:
        return self.column.meaning

    @property
    def newest(self) -> Record:
        return self.records[-1]


def gather_series(
    columns: Sequence[Column], only: Container[int] | None = None, *, beside: bool = False
) -> list[Series]:
    """Join columns that carry one quantity; in the order in which the quantities first appear.

    Args:
        columns: what to join.
        only: ``id`` of the records to take; ``None`` = all.
        beside: stored in the result.
    """
    by_key: dict[tuple[object, ...], list[Column]] = {}
    for column in columns:
        by_key.setdefault((column.key, column.role), []).append(column)
    found: list[Series] = []
    for same in by_key.values():
        readings = [
            (record, value)
            for c in same
            for record, value in zip(c.group.records, c.values, strict=True)
            if only is None or id(record) in only
        ]
        if len(same) > 1:
            readings.sort(key=lambda reading: reading[0].order)
        if not readings:
            continue
        newest = max(same, key=lambda c: c.group.last_order)
        records, values = zip(*readings, strict=True)
        found.append(Series(newest, records, values, beside))
    return found


_EVIDENCE = {
    Role.LEARNING_RATE: 1.5,
    Role.GRADIENT: 1.5,
    Role.STEP: 1.0,
    Role.EPOCH: 0.9,
    Role.STEP_TIME: 0.6,
    Role.STEP_RATE: 0.5,
    Role.FLOP_RATE: 1.0,
    Role.ITEM_RATE: 0.3,
    Role.BATCH_SIZE: 0.3,
    Role.REMAINING: 0.3,
    Role.METRIC: 0.5,
    Role.ITEMS: 0.2,
}


def group_records(records: Sequence[Record]) -> list[Group]:
    """Gather the records of a window by template; templates that differ in unimportant ways are one.

    A record that goes on where those of a frequent template end (another writer's text was glued to it) counts
    as one of that template.
    """
    gathered: dict[_Template, list[Record]] = {}
    keys: dict[Shape, _Template] = {}
    for record in records:
        shape = record.shape
        key = keys.get(shape)
        if key is None:
            key = keys[shape] = _template(shape)
        gathered.setdefault(key, []).append(record)
    for key, host in _hosts(gathered).items():
        for record in gathered[key]:
            record.is_glued = True
        gathered[host] += gathered.pop(key)
    for key in _distorted(gathered):
        del gathered[key]
    groups: list[Group] = []
    for key, found in gathered.items():
        shape = next(r.shape for r in reversed(found) if _template(r.shape) == key)
        groups.append(Group(shape, tuple(sorted(found, key=lambda record: record.order))))
    return groups


_Template = tuple[tuple[tuple[str, Kind, bool, str], ...], str]
_MIN_HOST_FIELDS = 3
_FREQUENT = 8


def _template(shape: Shape) -> _Template:
    return tuple((f.name.lower(), f.kind, f.aside, f.free.lower()) for f in shape.fields), shape.tail.lower()


def _hosts(gathered: dict[_Template, list[Record]]) -> dict[_Template, _Template]:
    """For each template with something glued on, the template that it begins with."""
    plain = {
        names: (names, tail)
        for (names, tail), found in gathered.items()
        if not tail and len(names) >= _MIN_HOST_FIELDS and len(found) >= 2
    }
    glued: dict[_Template, _Template] = {}
    for key, found in gathered.items():
        names, tail = key
        lengths = range(len(names) if tail else len(names) - 1, _MIN_HOST_FIELDS - 1, -1)
        host = next((plain[names[:n]] for n in lengths if names[:n] in plain), None)
        if host is not None and host != key and len(found) < len(gathered[host]):
            glued[key] = host
    return {key: host for key, host in glued.items() if host not in glued}


def _distorted(gathered: dict[_Template, list[Record]]) -> list[_Template]:
    """Rare templates that begin like a frequent one and then leave it for good: glued in the middle of a number."""
    frequent = [key for key, found in gathered.items() if len(found) >= _FREQUENT and len(key[0]) >= _MIN_HOST_FIELDS]
    gone: list[_Template] = []
    for key, found in gathered.items():
        for host in frequent:
            if host is key or len(found) > 0.25 * len(gathered[host]):
                continue
            same = next((i for i, (a, b) in enumerate(zip(key[0], host[0], strict=False)) if a[:2] != b[:2]), None)
            if same is None or same < max(_MIN_HOST_FIELDS, 0.6 * len(host[0])):
                continue
            if {f[:2] for f in host[0][same:]}.isdisjoint(f[:2] for f in key[0][same:]):
                gone.append(key)
                break
    return gone
