"""Tables: a header line names the numbers of the rows below it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lucid_pipelines.tracker import grammar
from lucid_pipelines.tracker.meaning import Role, meaning
from lucid_pipelines.tracker.records import Field, Kind, Shape

MIN_COLUMNS = 3
_BLANKS = re.compile(r"\t+| {2,}")
_RULE = re.compile(r"^[\s|+\-=_─━┼│:]*$")
_HAS_VALUE = re.compile(r"(?<![A-Za-z_@#])\d")
_SHORT_NAMES = {"e": "epoch", "#": "step", "it": "iter", "ep": "epoch"}
_BY_PLACE = ("elapsed", "remaining")
"""Names that a number has by its place in a bar, not by a word of its own."""
_TELLING = (Role.STEP, Role.EPOCH, Role.LOSS, Role.STEP_TIME, Role.TIME, Role.LEARNING_RATE, Role.ELAPSED)


@dataclass(frozen=True, slots=True)
class Header:
    """Column names of a table, in order, and what stands between its cells: ``|``, ``,``, ``;`` or blanks."""

    names: tuple[str, ...]
    delimiter: str = " "

    def split(self, row: str) -> list[str]:
        """The cells of a row, cut as the header is."""
        return _split(row, self.delimiter)


def read_header(text: str) -> Header | None:
    """The header that ``text`` is, or ``None``: at least three cells, no numbers, two names that say something."""
    stripped = text.strip().strip("|│┃").strip()
    if not stripped or _HAS_VALUE.search(stripped) or ":" in stripped or "=" in stripped or _RULE.match(stripped):
        return None
    delimiter = next((mark for mark in "|│┃;," if mark in stripped), " ")
    cells = [cell.strip() for cell in _split(stripped, delimiter)]
    is_prose = len(cells) < MIN_COLUMNS
    if is_prose:
        cells = stripped.split()
    if len(cells) < MIN_COLUMNS or any(not cell or len(cell) > 40 or len(cell.split()) > 4 for cell in cells):
        return None
    names = tuple(_SHORT_NAMES.get(cell.lower(), cell) for cell in cells)
    telling = sum(meaning(_named(name)).role in _TELLING for name in names)
    if is_prose and telling < 0.6 * len(names):
        return None
    return Header(names, delimiter) if telling >= 2 or (telling == 1 and len(names) <= 4) else None


def name_columns(shape: Shape, text: str, header: Header) -> Shape | None:
    """``shape`` with the names of ``header`` on the numbers of a row; ``None`` when it is no row of that table.

    Args:
        shape: of a record whose numbers have no names of their own.
        text: that record.
    """
    cells = [cell.strip() for cell in header.split(text)]
    if len(cells) < len(header.names):
        cells = text.split()
    count = len(header.names)
    if len(cells) < count or (len(cells) > count and "%" not in " ".join(cells[count:])):
        return None
    fields: list[Field] = []
    for index, (name, cell) in enumerate(zip(header.names, cells, strict=False)):
        numbers = len(grammar.read_fields(grammar.blank_noise(grammar.squeeze(cell))))
        own = shape.fields[len(fields) : len(fields) + numbers]
        if len(own) < numbers or (own and len(own[0].name) > 1 and own[0].name not in _BY_PLACE):
            return None
        if index == count - 1:
            # A bar may follow in the last cell: its numbers are its own.
            fields += [field._replace(name=name, aside=False) for field in own[:1]]
            break
        # Several numbers in brackets: none of them alone is what the name says.
        is_vector = cell.startswith("[") and numbers > 1
        fields += [
            f._replace(name=name, aside=is_vector) if i == 0 else f._replace(aside=True) for i, f in enumerate(own)
        ]
    return Shape((*fields, *shape.fields[len(fields) :]), shape.tail) if len(fields) >= 2 else None


def may_be_row(shape: Shape) -> bool:
    """Whether a record is numbers only: at least three, the first two without names."""
    return len(shape.fields) >= MIN_COLUMNS and not shape.fields[0].name and not shape.fields[1].name


def _split(row: str, delimiter: str) -> list[str]:
    row = row.strip().strip("|│┃").strip()
    return _BLANKS.split(row) if delimiter == " " else row.split(delimiter)


def _named(name: str) -> Field:
    return Field(name, "", "", Kind.NUMBER, False, False, False, False, False, len(name.split()))
