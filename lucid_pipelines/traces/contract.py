"""What a trace format promises: its columns, units, invariants and known oddities (R-44)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum

from lucid_pipelines.domain.errors import InputError, did_you_mean

_MOST_CHARS = 400
"""Of a list of columns in a message: what was taken for a header may be any line."""
MISSING_WORDS = frozenset({"", "NA", "N/A", "NaN", "nan", "None", "none", "null", "NULL", "Unknown", "NaT", "<NA>"})
"""How public traces write that they do not know."""


class Kind(StrEnum):
    """How the cells of a column are read."""

    TEXT = "text"
    NUMBER = "number"
    TIME = "time"
    """A calendar time, ``YYYY-MM-DD HH:MM:SS`` with or without an offset from UTC."""
    FLAG = "flag"


class Reason(StrEnum):
    """Why a row was put into quarantine."""

    MALFORMED_ROW = "malformed_row"
    LINE_TOO_LONG = "line_too_long"
    NOT_UTF8 = "not_utf8"
    REPEATED_HEADER = "repeated_header"
    MISSING_VALUE = "missing_value"
    BAD_NUMBER = "bad_number"
    BAD_TIME = "bad_time"
    BAD_GPU_COUNT = "bad_gpu_count"
    NEGATIVE_TIME = "negative_time"
    NEGATIVE_DURATION = "negative_duration"
    END_BEFORE_START = "end_before_start"
    START_BEFORE_SUBMIT = "start_before_submit"
    DUPLICATE_ID = "duplicate_id"
    UNKNOWN_STATE = "unknown_state"
    UNKNOWN_WORKLOAD = "unknown_workload"
    NO_GPU = "no_gpu"
    NEVER_STARTED = "never_started"
    NOT_ENDED = "not_ended"

    @property
    def is_fault(self) -> bool:
        """Whether the row breaks its contract; otherwise it is sound but not a GPU job that ran."""
        return self not in (Reason.NO_GPU, Reason.NEVER_STARTED, Reason.NOT_ENDED)


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a file.

    Attributes:
        required: the file is refused without it, and a row with an empty cell goes to quarantine.
        nullable: the column must be there but a cell may be empty.
        aliases: other names under which published copies carry the same quantity.
    """

    name: str
    kind: Kind
    meaning: str
    unit: str | None = None
    required: bool = True
    nullable: bool = False
    aliases: tuple[str, ...] = ()

    @property
    def cell_required(self) -> bool:
        return self.required and not self.nullable


@dataclass(frozen=True, slots=True)
class Contract:
    """One trace format.

    Attributes:
        excludes: columns that show that a file is of another format.
        clock: what the times mean and which zone they were written in.
        headerless: whether the public file has no header line; columns are then in contract order.
        missing_words: cells that mean "not known".
        is_closed: whether a file with further columns is refused.
    """

    format: str
    title: str
    source: str
    columns: tuple[Column, ...]
    clock: str
    invariants: tuple[str, ...] = ()
    oddities: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    separator: str = ","
    headerless: bool = False
    is_closed: bool = False
    missing_words: frozenset[str] = MISSING_WORDS

    @property
    def required(self) -> tuple[Column, ...]:
        return tuple(column for column in self.columns if column.required)

    def column(self, name: str) -> Column:
        return next(column for column in self.columns if column.name == name)

    def match(self, header: Sequence[str]) -> Mapping[str, int]:
        """Positions of the contract's columns in a header; names are compared without case and blanks."""
        position = {name.strip().strip("\ufeff").lower(): i for i, name in reversed(list(enumerate(header)))}
        found: dict[str, int] = {}
        for column in self.columns:
            for name in (column.name, *column.aliases):
                if name.lower() in position:
                    found[column.name] = position[name.lower()]
                    break
        return found

    def missing(self, header: Sequence[str]) -> tuple[Column, ...]:
        """Required columns that the header lacks."""
        found = self.match(header)
        return tuple(column for column in self.required if column.name not in found)

    def is_excluded_by(self, header: Sequence[str]) -> bool:
        names = {name.strip().lower() for name in header}
        return any(name.lower() in names for name in self.excludes)

    def require(self, header: Sequence[str], where: str) -> Mapping[str, int]:
        """As ``match``.

        Raises:
            InputError: a required column is missing or one is too many; the nearest name is given.
        """
        missing = self.missing(header)
        if missing:
            raise InputError(missing_columns_message(self, missing, header, where))
        found = self.match(header)
        unknown = [name.strip() for i, name in enumerate(header) if i not in found.values()]
        if self.is_closed and unknown:
            hint = did_you_mean(unknown[0], [column.name for column in self.columns])
            raise InputError(f"format {self.format!r} has no column {unknown[0]!r}{hint}: {where}")
        return found

    def resemblance(self, header: Sequence[str]) -> float:
        """How near a header comes, 0 to 1: required columns that are there, the others by their nearest name."""
        found = self.match(header)
        spare = [name.strip().lower() for i, name in enumerate(header) if i not in found.values()]
        nearest = [
            max((SequenceMatcher(None, column.name.lower(), name).ratio() for name in spare), default=0.0)
            for column in self.required
            if column.name not in found
        ]
        fulfilled = len(self.required) - len(nearest)
        return (fulfilled + sum(nearest)) / len(self.required)


def missing_columns_message(contract: Contract, missing: Iterable[Column], header: Sequence[str], where: str) -> str:
    """Say which columns a file lacks and which of its own come nearest."""
    taken = {header[i] for i in contract.match(header).values()}
    spare = [name.strip() for name in header if name not in taken and name.strip()]
    parts = [f"{column.name!r}{did_you_mean(column.name, spare)}" for column in missing]
    columns = ", ".join(name.strip()[:40] for name in header[:40])[:_MOST_CHARS] or "none"
    return (
        f"{where} does not fulfil the contract of format {contract.format!r}: it lacks the column"
        f"{'s' if len(parts) > 1 else ''} {', '.join(parts)}; its columns are {columns}"
    )
