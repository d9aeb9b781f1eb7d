"""Transactions on the state database: short, retried after a deadlock, one change number each."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import Connection, CursorResult, Engine, Executable, Table, insert, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL
from sqlalchemy.exc import SQLAlchemyError

from lucid_pipelines.domain.errors import InputError, LucidError
from lucid_pipelines.domain.states import JobState
from lucid_pipelines.store import tables
from lucid_pipelines.store.faults import is_retried, translated
from lucid_pipelines.store.records import EventKind

T = TypeVar("T")
_DEADLOCK_TRIES = 5


@dataclass
class Transaction:
    """One write transaction. Events are written at its very end, under the change number's row lock.

    That order makes event numbers follow the order of commits on PostgreSQL too, so that a reader with a
    cursor never misses an event that was committed late.
    """

    connection: Connection
    touched: bool = False
    events: list[dict[str, Any]] = field(default_factory=list)

    def execute(self, statement: Executable, rows: Any = None) -> CursorResult[Any]:
        result = self.connection.execute(statement, rows) if rows is not None else self.connection.execute(statement)
        assert isinstance(result, CursorResult)
        return result

    def insert_or_ignore(self, table: Table, row: Mapping[str, Any]) -> bool:
        """Insert a row unless it meets a unique key. Returns whether it went in."""
        return len(self.insert_new(table, [row])) == 1

    def insert_new(self, table: Table, rows: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Insert rows of one shape; those that meet a unique key are left out.

        Returns:
            The values of the first primary key column of the rows that went in.
        """
        if not rows:
            return []
        dialect = sqlite if self.connection.dialect.name == "sqlite" else postgresql
        key = next(iter(table.primary_key.columns))
        statement = dialect.insert(table).on_conflict_do_nothing().returning(key)
        return list(self.execute(statement, list(rows)).scalars())

    def upsert(
        self,
        table: Any,
        rows: Sequence[Mapping[str, Any]],
        keys: list[str],
        changed: Callable[[Any], Any],
        only_if: Callable[[Any], Any] = lambda new: None,
    ) -> None:
        """Insert rows of one shape, or change those that have their keys.

        Args:
            changed: maps the new row to the values to set.
            only_if: maps the new row to the condition under which the old one is changed.
        """
        dialect = sqlite if self.connection.dialect.name == "sqlite" else postgresql
        statement: Any = dialect.insert(table)
        new = statement.excluded
        self.execute(
            statement.on_conflict_do_update(index_elements=keys, set_=changed(new), where=only_if(new)), list(rows)
        )

    def event(
        self,
        job_id: str,
        kind: EventKind,
        from_state: JobState | None,
        to_state: JobState,
        *,
        at: datetime,
        who: str,
        why: str,
        evidence: object = None,
        as_of: datetime | None = None,
    ) -> None:
        """Append an event to the job's story."""
        self.events.append(
            {
                "job_id": job_id,
                "at": at,
                "as_of": as_of,
                "kind": kind.value,
                "from_state": from_state.value if from_state else None,
                "to_state": to_state.value,
                "who": who,
                "why": why,
                "evidence": evidence,
            }
        )

    def touch(self) -> None:
        """Say that something changed that a waiting loop wants to see."""
        self.touched = True

    def finish(self) -> None:
        if self.touched or self.events:
            self.execute(update(tables.changes).values(value=tables.changes.c.value + 1))
        if self.events:
            self.execute(insert(tables.events), self.events)


class Database:
    """The engine and the two ways to use it: ``read`` and ``write``."""

    def __init__(self, engine: Engine, url: URL) -> None:
        self.url = url
        self._engine = engine
        reads = {} if url.get_backend_name() == "sqlite" else {"isolation_level": "REPEATABLE READ"}
        self._reader = engine.execution_options(**reads)
        self._writer = engine.execution_options(lucid_writes=True)

    @property
    def is_sqlite(self) -> bool:
        return self.url.get_backend_name() == "sqlite"

    def read(self, work: Callable[[Connection], T]) -> T:
        """Run ``work`` on one consistent snapshot.

        Raises:
            ExternalError: the database cannot be used; the message says what to do.
        """
        try:
            with self._reader.connect() as connection:
                return work(connection)
        except SQLAlchemyError as exc:
            raise translated(exc, self.url) from exc

    def write(self, work: Callable[[Transaction], T]) -> T:
        """Run ``work`` in one transaction and commit; any exception rolls all of it back.

        ``work`` may run again after a deadlock, so it must touch nothing but the transaction.

        Raises:
            ExternalError: the database cannot be used; the message says what to do.
            InputError: a value that the database cannot keep.
        """
        for attempt in range(1, _DEADLOCK_TRIES + 1):
            try:
                with self._writer.begin() as connection:
                    transaction = Transaction(connection)
                    result = work(transaction)
                    transaction.finish()
                return result
            except LucidError:
                raise
            except OverflowError as exc:  # SQLite's driver raises it bare
                raise InputError(f"a whole number does not fit the state database; {exc}") from exc
            except SQLAlchemyError as exc:
                if attempt == _DEADLOCK_TRIES or not is_retried(exc):
                    raise translated(exc, self.url) from exc
                time.sleep(random.uniform(0.005, 0.02) * attempt)
        raise AssertionError("unreachable: the last try returns or raises")

    def dispose(self) -> None:
        """Close every pooled connection."""
        self._engine.dispose()
