"""Column types that behave alike on SQLite and PostgreSQL: UTC times, clean text, finite numbers, JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, DateTime, Dialect, Double, Integer, String, Table
from sqlalchemy.types import TypeDecorator, TypeEngine

from lucid_pipelines.domain.errors import InputError

KEY_CHARS = 255
RowId = BigInteger().with_variant(Integer(), "sqlite")
"""An automatic row number; SQLite counts by itself only in a column declared INTEGER."""


class UtcTime(TypeDecorator[datetime]):
    """A timezone-aware moment, always UTC outside; SQLite keeps it as sortable text without an offset."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        utc = as_utc(value)
        return utc.replace(tzinfo=None) if dialect.name == "sqlite" else utc

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class CleanText(TypeDecorator[str]):
    """Text that both databases can keep: no NUL, no lone surrogate."""

    impl = String
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        if value is not None:
            check_text(value)
        return value


class KeyText(CleanText):
    """Text that is indexed: short, because PostgreSQL refuses index entries above 2.7 kB."""

    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        if value is not None and len(value) > KEY_CHARS:
            raise InputError(f"names and keys have at most {KEY_CHARS} characters; got {len(value)}: {value[:40]!r}…")
        return super().process_bind_param(value, dialect)


class IdText(KeyText):
    """An identifier: compared and sorted byte by byte, also on PostgreSQL, so that prefixes are ranges."""

    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[str]:
        if dialect.name == "postgresql":
            return dialect.type_descriptor(String(collation="C"))
        return dialect.type_descriptor(String())


class Finite(TypeDecorator[float]):
    """A finite number; SQLite would silently turn NaN into NULL."""

    impl = Double
    cache_ok = True

    def process_bind_param(self, value: float | None, dialect: Dialect) -> float | None:
        if value is not None and not math.isfinite(value):
            raise InputError(f"a stored quantity is a finite number, and None when it is unknown; got {value!r}")
        return value


class JsonDocument(TypeDecorator[object]):
    """JSON that both databases give back as it was: clean text and finite numbers only.

    Plain JSON on PostgreSQL too: JSONB would turn 1e300 into an integer and reorder keys.
    """

    impl = JSON(none_as_null=True)
    cache_ok = True

    def process_bind_param(self, value: object, dialect: Dialect) -> object:
        return None if value is None else _clean_json(value)


def as_utc(value: datetime) -> datetime:
    """The same moment in UTC. Raises ``InputError`` for a time that names no zone."""
    if value.tzinfo is None:
        raise InputError(f"times carry a timezone, e.g. datetime.now(UTC); got {value!r}")
    return value.astimezone(UTC)


def check_text(value: str) -> None:
    """Raise ``InputError`` for text that PostgreSQL, and so the project, cannot keep."""
    if value.isascii() and "\x00" not in value:
        return
    if "\x00" in value:
        raise InputError(f"text must not hold a NUL character; remove it from {value[:80]!r}")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise InputError(f"text must be valid Unicode; replace the undecodable bytes in {value[:80]!r}") from None


def check_row(table: Table, row: Mapping[str, Any], dialect: Dialect) -> None:
    """Raise ``InputError`` for a value that the table's columns cannot keep, before anything is sent."""
    for name, value in row.items():
        kind = table.c[name].type
        if isinstance(kind, TypeDecorator):
            kind.process_bind_param(value, dialect)


def _clean_json(value: object) -> object:
    match value:
        case str():
            check_text(value)
            return str(value)
        case None | bool() | int():
            return value
        case float():
            if not math.isfinite(value):
                raise InputError(f"JSON keeps finite numbers only, null when unknown; got {value!r}")
            return value
        case datetime():
            return as_utc(value).isoformat()
        case list() | tuple():  # before the abstract kinds, which are slow to recognise
            return [_clean_json(item) for item in value]
        case dict() | Mapping():
            return {str(_clean_json(str(key))): _clean_json(item) for key, item in value.items()}
        case Sequence() | set() | frozenset():
            return [_clean_json(item) for item in value]
        case _:
            raise InputError(f"JSON keeps text, numbers, lists and mappings; got a {type(value).__name__}: {value!r}")
