"""Statements that are alike each time, built once: SQLAlchemy takes longer to build one than to run it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Insert, Select, Table, Update, and_, bindparam, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

_KEY = "key_"
OfNewRow = Callable[[Any], Any]


@cache
def select_by(table: Table, *names: str, lock: bool = False) -> Select[Any]:
    """Rows whose columns ``names`` have the values of ``key_values``; ``lock`` keeps others from changing them."""
    query = select(table).where(_by(table, names))
    return query.with_for_update() if lock else query


@cache
def update_by(table: Table, *names: str) -> Update:
    """Set what the parameters name besides ``key_values``, in the rows that have these."""
    return update(table).where(_by(table, names))


@cache
def insert_into(table: Table) -> Insert:
    """Insert what the parameters name."""
    return insert(table)


@cache
def insert_new(table: Table, dialect_name: str) -> Insert:
    """Insert rows but for those that meet a unique key; gives the first primary key column of those that went in."""
    key = next(iter(table.primary_key.columns))
    dialect = sqlite if dialect_name == "sqlite" else postgresql
    return dialect.insert(table).on_conflict_do_nothing().returning(key)


@cache
def upsert(table: Table, dialect_name: str, changed: OfNewRow, only_if: OfNewRow | None = None) -> Insert:
    """Insert rows, or change those that have their primary keys.

    Args:
        changed: maps the columns of the new row to the values to set; a function of a module, as statements are kept.
        only_if: maps them to the condition under which the old row is changed.
    """
    statement = (sqlite if dialect_name == "sqlite" else postgresql).insert(table)
    new = statement.excluded
    return statement.on_conflict_do_update(
        index_elements=[column.name for column in table.primary_key],
        set_=changed(new),
        where=None if only_if is None else only_if(new),
    )


def key_values(key: dict[str, Any]) -> dict[str, Any]:
    """The parameters of ``select_by`` and ``update_by``: named apart from the columns that are set."""
    return {_KEY + name: value for name, value in key.items()}


def _by(table: Table, names: tuple[str, ...]) -> ColumnElement[bool]:
    return and_(*(table.c[name] == bindparam(_KEY + name) for name in names))
