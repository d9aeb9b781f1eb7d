"""Transactions on the state database: short, retried after a deadlock, one change number each."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import Connection, CursorResult, Engine, Executable, Table, insert, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL
from sqlalchemy.exc import SQLAlchemyError

from lucid_pipelines.domain.errors import ExternalError, InputError, LucidError
from lucid_pipelines.domain.states import JobState
from lucid_pipelines.store import tables
from lucid_pipelines.store.faults import is_retried, translated
from lucid_pipelines.store.records import EventKind
from lucid_pipelines.store.types import check_row

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
    changed: set[str] = field(default_factory=set)
    """Jobs whose rows were changed; each needs an event, by which others learn of it."""
    failure: SQLAlchemyError | None = None
    """What the database said to a part of this transaction that was not its caller's fault."""

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

    def part(self, work: Callable[[Transaction], T], url: URL) -> T:
        """Run ``work`` as a part of this transaction: what it raises undoes this part alone."""
        touched, told, changed = self.touched, len(self.events), set(self.changed)
        try:
            with self.connection.begin_nested():
                result = work(self)
                for event in self.events[told:]:  # written at the very end, where it would break everybody's work
                    check_row(tables.events, event, self.connection.dialect)
                return result
        except BaseException as exc:
            self.touched, self.changed = touched, changed
            del self.events[told:]
            if not isinstance(exc, OverflowError | SQLAlchemyError):
                raise
            error = _too_large(exc) if isinstance(exc, OverflowError) else translated(exc, url)
            if isinstance(error, ExternalError) and isinstance(exc, SQLAlchemyError):
                self.failure = exc
            raise error from exc

    def finish(self) -> None:
        untold = self.changed - {event["job_id"] for event in self.events}
        assert not untold, f"changed without an event, so that no loop would see it: {sorted(untold)}"
        if self.touched or self.events:
            self.execute(update(tables.changes).values(value=tables.changes.c.value + 1))
        if self.events:
            self.execute(insert(tables.events), self.events)


class Database:
    """The engine and the two ways to use it: ``read`` and ``write``; ``together`` makes one transaction of many."""

    def __init__(self, engine: Engine, url: URL) -> None:
        self.url = url
        self._engine = engine
        reads = {} if url.get_backend_name() == "sqlite" else {"isolation_level": "REPEATABLE READ"}
        self._reader = engine.execution_options(**reads)
        self._writer = engine.execution_options(lucid_writes=True)
        self._of_thread = _OfThread()

    @property
    def is_sqlite(self) -> bool:
        return self.url.get_backend_name() == "sqlite"

    def read(self, work: Callable[[Connection], T]) -> T:
        """Run ``work`` on one consistent snapshot; within ``together``, on what was written there so far.

        Raises:
            ExternalError: the database cannot be used; the message says what to do.
        """
        outer = self._of_thread.transaction
        if outer is not None:
            return outer.part(lambda tx: work(tx.connection), self.url)
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
        outer = self._of_thread.transaction
        return self._write(work) if outer is None else outer.part(work, self.url)

    def together(self, work: Callable[[], T]) -> T:
        """Make one transaction of everything that ``work`` writes in this thread: all of it is kept, or nothing.

        What one of its writes raises undoes that write alone, and ``work`` may go on with the next. The database is
        locked for writing meanwhile (SQLite), so ``work`` is short and waits for nobody. It may run again. Within
        another one it is a part of that, which is undone alone when ``work`` raises.
        """
        outer = self._of_thread.transaction
        if outer is not None:
            return outer.part(lambda _: work(), self.url)

        def joined(tx: Transaction) -> T:
            self._of_thread.transaction = tx
            try:
                result = work()
            finally:
                self._of_thread.transaction = None
            if tx.failure is not None:  # swallowed by ``work``; the database may have lost what came before
                raise tx.failure
            return result

        return self._write(joined)

    def _write(self, work: Callable[[Transaction], T]) -> T:
        for attempt in range(1, _DEADLOCK_TRIES + 1):
            transaction: Transaction | None = None
            try:
                with self._writer.begin() as connection:
                    transaction = Transaction(connection)
                    result = work(transaction)
                    transaction.finish()
                return result
            except OverflowError as exc:
                raise _too_large(exc) from exc
            except (LucidError, SQLAlchemyError) as exc:
                cause = exc if isinstance(exc, SQLAlchemyError) else transaction.failure if transaction else None
                if cause is None:
                    raise
                if attempt == _DEADLOCK_TRIES or not is_retried(cause):
                    raise translated(cause, self.url) from cause
                time.sleep(random.uniform(0.005, 0.02) * attempt)
        raise AssertionError("unreachable: the last try returns or raises")

    def dispose(self) -> None:
        """Close every pooled connection."""
        self._engine.dispose()


class _OfThread(threading.local):
    """The transaction that this thread has opened with ``together``."""

    transaction: Transaction | None = None


def _too_large(error: OverflowError) -> InputError:
    """SQLite's driver raises it bare."""
    return InputError(f"a whole number does not fit the state database; {error}")
