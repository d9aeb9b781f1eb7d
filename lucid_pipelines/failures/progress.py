"""Whether the job went on: lines of one form whose counter climbs, whatever framework prints them."""

from __future__ import annotations

import itertools
import re
from bisect import bisect_right
from collections import deque
from dataclasses import dataclass, field

_KEY_BYTES = 40
_KEPT_BYTES = 200
_KEEP_FIRST = 200
_KEEP_LAST = 1_000
_MAX_FAMILIES = 1_000
_MIN_LINES = 5
_MIN_NOT_DOWN = 0.9
_MIN_UP = 0.35
_MAX_COLUMNS = 12
_BIG = 1e9

_TIME = re.compile(
    rb"\d{4}[-/]\d\d[-/]\d\d[T ,_]*|\d{1,3}:\d\d(?::\d\d)?(?:[.,]\d+)?Z?|(?<![\w.])[IWEF]\d{4} |^\W*\d\d[-/]\d\d "
    rb"|\d{10}\.\d+"
)
_NUMBER = re.compile(rb"(?<![\w.])-?\d+(?:\.\d+)?")
_MASK = bytes.maketrans(b"123456789", b"000000000")
_NOT_TEXT = bytes(range(0x80, 0x100)) + b" \t[]()<>|#=*-_.,+%"
_ZEROS = re.compile(rb"0+")
_NOT_PROGRESS = re.compile(
    rb"heartbeat|alive|waiting|uptime|NCCL INFO|thread: \[|\[monitor|: task \d|\(pid: |subprocess \d"
    rb"|^\s*(rank|exitcode|host|time) +:",
    re.IGNORECASE,
)
_FIRST_LINES = 16
"""A family that begins after an event proves nothing until it has this many lines."""
_JUDGED_LINES = 200
_LOOKED_AHEAD = 200


@dataclass(slots=True)
class _Family:
    first: list[tuple[int, bytes]] = field(default_factory=list)
    last: deque[tuple[int, bytes]] = field(default_factory=lambda: deque(maxlen=_KEEP_LAST))
    count: int = 0

    def add(self, at: int, data: bytes) -> None:
        self.count += 1
        if len(self.first) < _KEEP_FIRST:
            self.first.append((at, data))
        else:
            self.last.append((at, data))

    def lines(self) -> list[tuple[int, bytes]]:
        return [*self.first, *self.last]


@dataclass(frozen=True, slots=True)
class Climb:
    """A family of lines with a climbing counter.

    Attributes:
        places: ordinal places of its lines, ascending.
        samples: the lines themselves, cut to 200 bytes.
        column: which number of a line is the counter.
    """

    places: tuple[int, ...]
    samples: tuple[bytes, ...]
    column: int

    def lines_after(self, at: int) -> int:
        """How many of its lines stand after ``at`` and count on from there (at most 200 are looked at).

        A counter that falls to less than half began again: a new epoch, or a resumed run.
        """
        cut = bisect_right(self.places, at)
        if cut == 0:
            return max(0, len(self.places[:_LOOKED_AHEAD]) - _FIRST_LINES)
        before = max((self._value(i) for i in range(max(0, cut - 3), cut)), default=0.0)
        ahead = range(cut, min(len(self.places), cut + _LOOKED_AHEAD))
        return sum((value := self._value(i)) > before or value < before / 2 for i in ahead)

    def _value(self, index: int) -> float:
        row = _numbers(self.samples[index])
        return row[self.column] if self.column < len(row) else 0.0


class ProgressIndex:
    """Collects the plain lines of a log and finds, at the end, which of them are progress.

    No knowledge of any framework: a family is the lines that share a masked beginning; it is progress when a
    number in it does not go down in nine of ten steps and goes up in at least a third.
    """

    def __init__(self) -> None:
        self._families: dict[bytes, _Family] = {}
        self._climbs: tuple[Climb, ...] | None = None

    def add(self, at: int, data: bytes) -> None:
        """Take a physical line that holds no sign of an error."""
        shown = data[-4 * _KEPT_BYTES :].rstrip(b"\r\n ")
        shown = shown[shown.rfind(b"\r") + 1 :][:_KEPT_BYTES]
        key = _ZEROS.sub(b"0", shown.translate(_MASK, _NOT_TEXT))[:_KEY_BYTES]
        if b"0" not in key and b"0" not in shown.translate(_MASK):
            return
        family = self._families.get(key)
        if family is None:
            if len(self._families) >= _MAX_FAMILIES:
                return
            family = self._families[key] = _Family()
        family.add(at, shown)
        self._climbs = None

    def climbs(self) -> tuple[Climb, ...]:
        """The families that are progress."""
        if self._climbs is None:
            found = (_climb(family) for family in self._families.values() if family.count >= _MIN_LINES)
            self._climbs = tuple(climb for climb in found if climb is not None)
        return self._climbs

    def lines_after(self, at: int) -> int:
        """How far the job demonstrably went on after place ``at``: lines of its liveliest counter."""
        return max((climb.lines_after(at) for climb in self.climbs()), default=0)

    def last_place(self) -> int | None:
        """Place of the last line of progress."""
        return max((climb.places[-1] for climb in self.climbs()), default=None)


def _climb(family: _Family) -> Climb | None:
    lines = family.lines()
    if _NOT_PROGRESS.search(lines[0][1]):
        return None
    judged = lines if len(lines) <= _JUDGED_LINES else lines[-_JUDGED_LINES:]
    rows = [_numbers(data) for _, data in judged]
    for column in range(min(len(row) for row in rows)):
        if _is_climbing([row[column] for row in rows]):
            return Climb(tuple(at for at, _ in lines), tuple(data for _, data in lines), column)
    return None


def _numbers(data: bytes) -> list[float]:
    return [float(x) for x in _NUMBER.findall(_TIME.sub(b" ", data))[:_MAX_COLUMNS]]


def _is_climbing(values: list[float]) -> bool:
    if max(values) > _BIG or values[0] == values[-1] == max(values):
        return False
    steps = [b - a for a, b in itertools.pairwise(values)]
    not_down = sum(step >= 0 for step in steps) / len(steps)
    up = sum(step > 0 for step in steps) / len(steps)
    return not_down >= _MIN_NOT_DOWN and up >= _MIN_UP
