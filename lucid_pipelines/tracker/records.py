"""Types of what one log record says: fields, values, shapes."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Kind(StrEnum):
    """What was printed."""

    NUMBER = "number"
    FRACTION = "fraction"
    DURATION = "duration"


class Field(NamedTuple):
    """What is fixed about one number of a record, whatever its value.

    Attributes:
        name: its label as printed, ``""`` when it has none.
        qualifier: what stands in parentheses behind the name (often a unit).
        unit: as printed behind it, ``""`` when there is none; ``"%"`` for a share.
        kind: what was printed.
        integral: whether it was printed without a decimal point or exponent.
        explicit: whether a colon or an equals sign tied the name to it.
        aside: whether it stands in parentheses behind another number (an average, a share).
        bar: whether it is the ``n/N``, the time or the rate of a progress bar.
        lead: whether it is the first number of the record.
        words: how many words its label had (a long one is prose).
        free: the words before the name that name nothing.
    """

    name: str
    qualifier: str
    unit: str
    kind: Kind
    integral: bool
    explicit: bool
    aside: bool
    bar: bool
    lead: bool
    words: int
    free: str = ""


class Value(NamedTuple):
    """One number as found: of a fraction ``number`` is the numerator; of a duration, seconds."""

    number: float
    total: float | None = None


class Shape(NamedTuple):
    """What records of one form have in common.

    Attributes:
        fields: the numbers, in order.
        tail: the words behind the last number.
    """

    fields: tuple[Field, ...]
    tail: str

    @property
    def is_bare(self) -> bool:
        """Whether no word stands in the record but the names of its numbers."""
        return not self.tail and not any(field.free for field in self.fields)


class Parsed(NamedTuple):
    """One record: its shape and its values, which correspond one to one."""

    shape: Shape
    values: tuple[Value, ...]
