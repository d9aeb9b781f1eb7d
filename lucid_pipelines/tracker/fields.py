"""Records as typed numbers: the shape of a line is worked out once, its values are read every time."""

from __future__ import annotations

import re
from typing import NamedTuple

from lucid_pipelines.tracker import grammar
from lucid_pipelines.tracker import vocabulary as words
from lucid_pipelines.tracker.records import Field, Kind, Parsed, Shape, Value

_PLAN_LIMIT = 20_000
MAX_CHARS = 4096
"""What a record says stands in its first few thousand characters; a dump may be longer."""


class _Slot(NamedTuple):
    first: int
    last: int
    factor: float
    total: int | None
    total_factor: float
    constant: float | None
    is_duration: bool


class _Plan(NamedTuple):
    shape: Shape
    slots: tuple[_Slot, ...]


class RecordParser:
    """Parses records; keeps a bounded memory of the forms that it has seen."""

    def __init__(self, limit: int = _PLAN_LIMIT) -> None:
        self._plans: dict[str, _Plan] = {}
        self._shapes: dict[Shape, Shape] = {}
        self._limit = limit

    def parse(self, text: str) -> Parsed:
        """The numbers of one display state."""
        text = grammar.squeeze(text[:MAX_CHARS])
        parts = grammar.NUMBER.split(text)
        tokens = parts[1::2]
        key = "\0".join(parts[::2]) + "".join(["i" if t.isdigit() else "c" if "," in t else "d" for t in tokens])
        plan = self._plans.get(key)
        if plan is None:
            plan = self._remember(key, self._work_out(text, parts))
        return Parsed(plan.shape, tuple([_value(slot, parts) for slot in plan.slots]))

    def _remember(self, key: str, plan: _Plan) -> _Plan:
        if len(self._plans) >= self._limit:
            self._plans.clear()
            self._shapes.clear()
        self._plans[key] = plan
        return plan

    def _work_out(self, text: str, parts: list[str]) -> _Plan:
        starts: dict[int, int] = {}
        ends: dict[int, int] = {}
        position = 0
        for index, part in enumerate(parts):
            if index % 2:
                starts[position] = index
                ends[position + len(part)] = index
            position += len(part)
        blanked = grammar.blank_noise(text)
        fields: list[Field] = []
        slots: list[_Slot] = []
        found = grammar.read_fields(blanked)
        for item in found:
            slot = _slot(item, starts, ends)
            if slot is not None:
                fields.append(item.field)
                slots.append(slot)
        end = found[-1].end if found else 0
        tail = " ".join(_WORDS.findall(blanked[end : end + _TAIL_CHARS]))
        shape = Shape(*_durations_named_behind(fields, tail))
        return _Plan(self._shapes.setdefault(shape, shape), tuple(slots))


def _durations_named_behind(fields: list[Field], tail: str) -> tuple[tuple[Field, ...], str]:
    """``01:12 elapsed 02:12 left``: where the first of a run of durations has no name and a word of time stands
    behind the last, each is named by what stands behind it.
    """
    first = next((i for i, field in enumerate(fields) if field.kind is Kind.DURATION), None)
    if first is None or fields[first].name:
        return tuple(fields), tail
    end = next((i for i in range(first, len(fields)) if fields[i].kind is not Kind.DURATION), len(fields))
    if end - first < 2 or any(field.name.lower() not in _TIME_WORDS for field in fields[first + 1 : end]):
        return tuple(fields), tail
    behind = tail if end == len(fields) else fields[end].free or fields[end].name
    said = behind.split()[0].lower() if behind else ""
    # Another writer's text may be glued to the last word.
    last = next((word for word in _TIME_WORDS if said == word or (len(word) > 3 and said.startswith(word))), "")
    if not last:
        return tuple(fields), tail
    names = [*(field.name for field in fields[first + 1 : end]), last]
    for place, name in zip(range(first, end), names, strict=True):
        fields[place] = fields[place]._replace(name=name, words=1)
    return tuple(fields), tail if end < len(fields) or said != last else " ".join(tail.split()[1:])


def duration_s(text: str) -> float:
    """Seconds of ``1 day, 2:03:04``, ``12:34``, ``1h 2m 3s``. Raises ``ValueError`` for anything else."""
    if ":" in text:
        match = _CLOCK.fullmatch(text)
        if match is None:
            raise ValueError(text)
        head, clock = match.groups()
        seconds = 0.0
        for part in clock.split(":"):
            seconds = seconds * 60 + float(part)
        return float(head or 0) * 86_400 + seconds
    parts = _PARTS.findall(text)
    if not parts:
        raise ValueError(text)
    return sum(float(number) * _PART_S[letter.lower()] for number, letter in parts)


_WORDS = grammar.WORDS
_TIME_WORDS = words.ELAPSED | words.REMAINING | {"to", "go"}
_TAIL_CHARS = 160
_CLOCK = re.compile(r"(?:(\d+) ?d[a-z]*,? ?)?(\d+:\d\d(?::\d\d)?(?:\.\d+)?)")
_UNIT_BEHIND = re.compile(r" ?[A-Za-z天小时分钟秒]+")
_PARTS = re.compile(r"(\d+(?:\.\d+)?) ?(d|h|m|s|天|小时|分|秒)", re.IGNORECASE)
_PART_S = {
    "d": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "天": 86_400.0, "小时": 3600.0, "分": 60.0, "秒": 1.0,
}  # fmt: skip


def _slot(item: grammar.Found, starts: dict[int, int], ends: dict[int, int]) -> _Slot | None:
    factor = item.sign * item.factor
    if item.constant is not None:
        return _Slot(0, 0, factor, None, 1.0, item.constant, is_duration=False)
    first = starts.get(item.span[0])
    last = ends.get(item.span[1])
    if item.field.kind is Kind.DURATION:
        if first is None:
            return None
        # A duration may end in a unit letter: it then runs to the end of that separator's word.
        end = last if last is not None else max(i for e, i in ends.items() if e <= item.span[1])
        return _Slot(first, end, 1.0, None, 1.0, None, is_duration=True)
    if first is None or last != first:
        return None
    total = starts.get(item.total_span[0]) if item.total_span else None
    return _Slot(first, first, factor, total, item.total_factor, None, is_duration=False)


def _value(slot: _Slot, parts: list[str]) -> Value:
    if slot.constant is not None:
        return Value(slot.factor * slot.constant)
    if slot.is_duration:
        text = "".join(parts[slot.first : slot.last + 1])
        if ":" not in text and (unit := _UNIT_BEHIND.match(parts[slot.last + 1])):
            text += unit[0]
        try:
            return Value(duration_s(text))
        except ValueError:
            return Value(float("nan"))
    number = slot.factor * float(parts[slot.first].replace(",", ""))
    if slot.total is None:
        return Value(number)
    return Value(number, slot.total_factor * float(parts[slot.total].replace(",", "")))
