"""Counters (fall-backs and the like, by name) and small values by key. Neither moves the change counter."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from sqlalchemy import delete, select

from lucid_pipelines.store import tables
from lucid_pipelines.store.database import Database, Transaction
from lucid_pipelines.store.statements import key_values, select_by

_COUNTERS = tables.counters
_META = tables.meta

_Held = dict[str, tuple[int, datetime]]


def _more(new: Any) -> dict[str, Any]:
    return {"value": _COUNTERS.c.value + new.value, "updated_at": new.updated_at}


def _other_value(new: Any) -> dict[str, Any]:
    return {"value": new.value, "updated_at": new.updated_at}


class _OfThread(threading.local):
    """What this thread holds back, by name: how much, and when it was last counted."""

    held: _Held | None = None


class Counters:
    """Numbers that only grow, named like ``fallback.estimate.no_history``."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._of_thread = _OfThread()

    def add(self, name: str, by: int = 1, *, now: datetime) -> None:
        """Count ``by`` more under a name."""
        self.add_many({name: by}, now=now)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep this thread's counts until the end, and write them then, in one transaction.

        A process that dies before that loses them.
        """
        if self._of_thread.held is not None:
            yield
            return
        held: _Held = {}
        self._of_thread.held = held
        try:
            yield
        finally:
            self._of_thread.held = None
            self._write(held)

    def write_held(self) -> None:
        """Write now what ``held`` keeps back: last in a transaction that is made anyway, it costs none of its own.

        Call ``drop_held`` once that is committed; when it fails, the counts stand and are written at the end.
        """
        self._write(self._of_thread.held or {})

    def drop_held(self) -> None:
        """Forget what ``write_held`` has written."""
        if self._of_thread.held is not None:
            self._of_thread.held.clear()

    def add_many(self, amounts: Mapping[str, int], *, now: datetime) -> None:
        """Count under several names in one transaction."""
        held = self._of_thread.held
        if held is None:
            self._write({name: (by, now) for name, by in amounts.items()})
            return
        for name, by in amounts.items():
            held[name] = (by + held[name][0] if name in held else by, now)

    def _write(self, amounts: _Held) -> None:
        def work(tx: Transaction) -> None:
            tx.upsert(
                _COUNTERS,
                [{"name": name, "value": by, "updated_at": at} for name, (by, at) in sorted(amounts.items())],
                _more,
            )

        if amounts:
            self._database.write(work)

    def all(self, prefix: str = "") -> dict[str, int]:
        """Counts by name, of the names that begin with ``prefix``."""
        query = select(_COUNTERS.c.name, _COUNTERS.c.value).order_by(_COUNTERS.c.name)
        rows = self._database.read(lambda c: c.execute(query).all())
        return {name: int(value) for name, value in rows if name.startswith(prefix)}


class Meta:
    """Small JSON values by key: cursors, versions, the time of the last tick."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key, or ``default`` when it was never set."""
        rows = self._database.rows(select_by(_META, "key"), key_values({"key": key}))
        return rows[0]["value"] if rows else default

    def set(self, key: str, value: object, *, now: datetime) -> None:
        """Set a key. ``None`` is a value too; use ``remove`` to forget it."""
        values = {"key": key, "value": value, "updated_at": now}
        self._database.write(lambda tx: tx.upsert(_META, [values], _other_value))

    def remove(self, key: str) -> bool:
        """Forget a key. Returns whether it was there."""
        query = delete(_META).where(_META.c.key == key)
        return self._database.write(lambda tx: tx.execute(query).rowcount == 1)
