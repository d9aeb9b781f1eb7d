"""Tables: a header line names the numbers of the rows below it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lucid_pipelines.tracker.meaning import Role, meaning
from lucid_pipelines.tracker.records import Field, Kind, Shape

MIN_COLUMNS = 3
_CELL = re.compile(r" *[|│┃,] *|\t+| {2,}")
_RULE = re.compile(r"^[\s|+\-=_─━┼│:]*$")
_HAS_VALUE = re.compile(r"(?<![A-Za-z_@#])\d")
_SHORT_NAMES = {"e": "epoch", "#": "step", "it": "iter", "ep": "epoch"}
_TELLING = (Role.STEP, Role.EPOCH, Role.LOSS, Role.STEP_TIME, Role.TIME, Role.LEARNING_RATE, Role.ELAPSED)


@dataclass(frozen=True, slots=True)
class Header:
    """Column names of a table, in order."""

    names: tuple[str, ...]


def read_header(text: str) -> Header | None:
    """The header that ``text`` is, or ``None``: at least three cells, no numbers, two names that say something."""
    stripped = text.strip().strip("|│┃").strip()
    if not stripped or _HAS_VALUE.search(stripped) or ":" in stripped or "=" in stripped or _RULE.match(stripped):
        return None
    cells = [cell.strip() for cell in _CELL.split(stripped)]
    is_prose = len(cells) < MIN_COLUMNS
    if is_prose:
        cells = stripped.split()
    if len(cells) < MIN_COLUMNS or any(not cell or len(cell) > 40 or len(cell.split()) > 4 for cell in cells):
        return None
    names = tuple(_SHORT_NAMES.get(cell.lower(), cell) for cell in cells)
    telling = sum(meaning(_named(name)).role in _TELLING for name in names)
    if is_prose and telling < 0.6 * len(names):
        return None
    return Header(names) if telling >= 2 or (telling == 1 and len(names) <= 4) else None


def name_columns(shape: Shape, text: str, header: Header) -> Shape | None:
    """``shape`` with the names of ``header`` on the numbers of a row; ``None`` when it is no row of that table.

    Args:
        shape: of a record whose numbers have no names of their own.
        text: that record.
    """
    cells = [cell.strip() for cell in _CELL.split(text.strip().strip("|│┃").strip())]
    if len(cells) < len(header.names):
        cells = text.split()
    count = len(header.names)
    if len(cells) < count or (len(cells) > count and "%" not in " ".join(cells[count:])):
        return None
    fields: list[Field] = []
    position = 0
    for name, cell in zip(header.names, cells, strict=False):
        if not re.search(r"\d", cell):
            continue
        if position >= len(shape.fields):
            return None
        field = shape.fields[position]
        if field.name and field.name not in ("elapsed", "remaining"):
            return None
        fields.append(field._replace(name=name, aside=False))
        position += 1
    if position < 2:
        return None
    return Shape((*fields, *shape.fields[position:]), shape.tail)


def may_be_row(shape: Shape) -> bool:
    """Whether a record is numbers only: at least three, the first two without names."""
    return len(shape.fields) >= MIN_COLUMNS and not shape.fields[0].name and not shape.fields[1].name


def _named(name: str) -> Field:
    return Field(name, "", "", Kind.NUMBER, False, False, False, False, False, len(name.split()))
