"""A block of rows whose cells are read as text, numbers or times; the first fault of each row is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pandas as pd

from lucid_pipelines.traces.contract import Column, Contract, Kind, Reason
from lucid_pipelines.traces.frames import Bools, Floats, Objects, is_none, parsed_numbers

_USUAL_TIME = "%Y-%m-%d %H:%M:%S"
_USUAL_LENGTH = 19
_FIRST_TIME, _LAST_TIME = pd.Timestamp("1900-01-01"), pd.Timestamp("2200-01-01")
_FLAGS = {"1": 1.0, "0": 0.0, "1.0": 1.0, "0.0": 0.0, "true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0}


@dataclass(slots=True)
class CellBlock:
    """Rows of one block.

    Attributes:
        numbers: where each row stands in the file, counted from 1 (lines of a text, rows of a Parquet file,
            objects of a JSON file).
        cells: columns by their contract name; text columns as sequences, columns that were typed in the
            file as arrays.
        raw: gives the text of a row, for the quarantine table.
        zone: the zone of times without an offset.
        reasons: per row the first fault, or ``None``.
    """

    contract: Contract
    numbers: npt.NDArray[np.int64]
    cells: Mapping[str, Sequence[str] | npt.NDArray[Any]]
    raw: Callable[[int], str]
    zone: str = "UTC"
    reasons: Objects = field(init=False)

    def __post_init__(self) -> None:
        self.reasons = np.full(len(self.numbers), None, dtype=object)

    def __len__(self) -> int:
        return len(self.numbers)

    def __contains__(self, name: str) -> bool:
        return name in self.cells

    def fault(self, mask: Bools, reason: Reason) -> None:
        """Note a fault on rows that have none yet."""
        if mask.any():
            self.reasons[mask & self.good] = reason

    @property
    def good(self) -> Bools:
        """Rows without a fault so far."""
        return is_none(self.reasons)

    def text(self, name: str) -> Objects | None:
        """Cells as stripped text, ``None`` where missing; ``None`` when the file has no such column."""
        if name not in self.cells:
            return None
        values = self.cells[name]
        out = np.empty(len(self), dtype=object)
        out[:] = _texts(values, self.contract.missing_words)
        if self.contract.column(name).cell_required:
            self.fault(is_none(out), Reason.MISSING_VALUE)
        return out

    def number(self, name: str) -> Floats | None:
        """Cells as floats, NaN where missing; what is not a finite number is a fault."""
        if name not in self.cells:
            return None
        values = self.cells[name]
        if isinstance(values, np.ndarray) and values.dtype.kind in "iufb":
            numbers = values.astype(np.float64)
            empty = np.isnan(numbers)
        else:
            numbers = parsed_numbers(values)
            empty = self._empty(values, np.isnan(numbers))
        bad = ~np.isfinite(numbers) & ~empty
        numbers[bad] = np.nan
        self._note(self.contract.column(name), bad, empty, Reason.BAD_NUMBER)
        return numbers

    def time(self, name: str) -> Floats | None:
        """Cells as seconds since 1970-01-01 UTC, NaN where missing."""
        if name not in self.cells:
            return None
        values = self.cells[name]
        if isinstance(values, np.ndarray) and values.dtype.kind in "iuf":
            return self.number(name)
        seconds = seconds_of(values, self.zone)
        unread = np.isnan(seconds)
        empty = self._empty(values, unread)
        self._note(self.contract.column(name), unread & ~empty, empty, Reason.BAD_TIME)
        return seconds

    def flag(self, name: str) -> Floats | None:
        """Cells as 0, 1 or NaN."""
        if name not in self.cells:
            return None
        values = self.cells[name]
        if isinstance(values, np.ndarray) and values.dtype.kind in "iufb":
            return self.number(name)
        words = [str(value).strip().lower() for value in values]
        flags = np.array([_FLAGS.get(word, np.nan) for word in words], dtype=np.float64)
        empty = self._empty(values, np.isnan(flags))
        self._note(self.contract.column(name), np.isnan(flags) & ~empty, empty, Reason.BAD_NUMBER)
        return flags

    def read(self, name: str) -> Objects | Floats | None:
        """Cells by the kind that the contract gives the column."""
        kind = self.contract.column(name).kind
        readers = {Kind.TEXT: self.text, Kind.NUMBER: self.number, Kind.TIME: self.time, Kind.FLAG: self.flag}
        return readers[kind](name)

    def _note(self, column: Column, bad: Bools, empty: Bools, reason: Reason) -> None:
        self.fault(bad, reason)
        if column.cell_required:
            self.fault(empty, Reason.MISSING_VALUE)

    def _empty(self, values: Sequence[object] | npt.NDArray[Any], unread: Bools) -> Bools:
        """Which of the cells that could not be read are merely empty."""
        empty = np.zeros(len(unread), dtype=bool)
        for i in np.flatnonzero(unread):
            empty[i] = _text(values[int(i)], self.contract.missing_words) is None
        return empty


def seconds_of(values: Sequence[object] | npt.NDArray[Any], zone: str) -> Floats:
    """Calendar times as seconds since 1970-01-01 UTC; NaN for what is not one.

    A time with an offset is converted; one without is taken to be of ``zone``. Where summer time ends, the
    doubled hour is read as standard time; a time that summer time skips moves to the next valid one.
    """
    texts = [str(value).strip() for value in values]
    seconds = _usual_times(texts, zone)
    if seconds is not None:
        return seconds
    plausible = pd.Series([text if _is_plausible(text) else None for text in texts], dtype=object)
    offset = np.array([_has_offset(text) for text in texts], dtype=bool)
    seconds = np.full(len(texts), np.nan)
    if offset.any():
        aware = cast("pd.Series", pd.to_datetime(plausible[offset], format="ISO8601", utc=True, errors="coerce"))
        seconds[offset] = _epoch(aware)
    naive = ~offset
    if naive.any():
        parsed = cast("pd.Series", pd.to_datetime(plausible[naive], format="ISO8601", errors="coerce"))
        seconds[naive] = _epoch(parsed if zone == "UTC" else _localised(parsed, zone))
    return seconds


def _usual_times(texts: list[str], zone: str) -> Floats | None:
    """As ``seconds_of``, several times faster, when every text is ``YYYY-MM-DD HH:MM:SS``; otherwise ``None``."""
    if set(map(len, texts)) != {_USUAL_LENGTH}:  # pandas would read the word "now", whatever the format
        return None
    try:
        parsed = cast("pd.Series", pd.to_datetime(pd.Series(texts, dtype=object), format=_USUAL_TIME))
    except ValueError:
        return None
    if parsed.isna().any() or parsed.min() < _FIRST_TIME or parsed.max() >= _LAST_TIME:
        return None
    return _epoch(parsed if zone == "UTC" else _localised(parsed, zone))


def _is_plausible(text: str) -> bool:
    """Whether it begins with a date of 1900 to 2199; pandas would also take words such as ``now``."""
    return len(text) >= 10 and text[4] == "-" and "1900" <= text[:4] < "2200"


def _localised(times: pd.Series, zone: str) -> pd.Series:
    standard_time = np.zeros(len(times), dtype=bool)
    return cast("pd.Series", times.dt.tz_localize(zone, ambiguous=standard_time, nonexistent="shift_forward"))


def _epoch(times: pd.Series) -> Floats:
    stamps = times.dt.tz_convert("UTC").dt.tz_localize(None) if times.dt.tz is not None else times
    micros = stamps.astype("datetime64[us]")
    seconds = micros.to_numpy().astype(np.int64) / 1e6
    seconds[micros.isna().to_numpy()] = np.nan
    return seconds


def _has_offset(text: str) -> bool:
    tail = text[10:]
    return tail.endswith(("Z", "z")) or "+" in tail or "-" in tail


def _texts(values: Sequence[object] | npt.NDArray[Any], missing: frozenset[str]) -> list[str | None]:
    try:
        stripped = [value.strip() for value in values]  # pyright: ignore[reportAttributeAccessIssue]
    except AttributeError:  # not all are texts
        return [_text(value, missing) for value in values]
    if missing.isdisjoint(stripped):
        return stripped
    return [None if text in missing else text for text in stripped]


def _text(value: object, missing: frozenset[str]) -> str | None:
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return None
    text = value.strip() if isinstance(value, str) else str(value)
    return None if text in missing else text
