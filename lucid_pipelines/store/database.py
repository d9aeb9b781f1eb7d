"""Transactions on the state database: short, retried after a deadlock, one change number each."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import Connection, CursorResult, Engine, Executable, RowMapping, Table, update
from sqlalchemy.engine import URL
from sqlalchemy.exc import SQLAlchemyError

from lucid_pipelines.domain.errors import ExternalError, InputError, LucidError
from lucid_pipelines.domain.states import JobState
from lucid_pipelines.store import tables
from lucid_pipelines.store.engine import reading
from lucid_pipelines.store.faults import is_retried, translated
from lucid_pipelines.store.records import EventKind
from lucid_pipelines.store.statements import OfNewRow, insert_into, insert_new, key_values, select_by, update_by, upsert
from lucid_pipelines.store.types import check_row

T = TypeVar("T")
_DEADLOCK_TRIES = 5
_COUNT_UP = update(tables.changes).values(value=tables.changes.c.value + 1)


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

    def locked(self, table: Table, **key: Any) -> dict[str, Any] | None:
        """The row with this key, locked until the transaction ends; ``None`` = there is none."""
        row = self.execute(select_by(table, *key, lock=True), key_values(key)).mappings().first()
        return None if row is None else dict(row)

    def insert(self, table: Table, rows: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
        """Insert one row, or some of one shape."""
        self.execute(insert_into(table), rows)

    def change(self, table: Table, values: Mapping[str, Any], **key: Any) -> int:
        """Set these values in the rows with this key. Returns how many there are."""
        return self.execute(update_by(table, *key), {**key_values(key), **values}).rowcount

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
        return list(self.execute(insert_new(table, self.connection.dialect.name), list(rows)).scalars())

    def upsert(
        self, table: Table, rows: Sequence[Mapping[str, Any]], changed: OfNewRow, only_if: OfNewRow | None = None
    ) -> None:
        """Insert rows of one shape, or change those that have their primary keys; see ``statements.upsert``."""
        self.execute(upsert(table, self.connection.dialect.name, changed, only_if), list(rows))

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
            self.execute(_COUNT_UP)
        if self.events:
            self.insert(tables.events, self.events)


class Database:
    """The engine and the two ways to use it: ``read`` and ``write``; ``together`` makes one transaction of many."""

    def __init__(self, engine: Engine, url: URL) -> None:
        self.url = url
        self._engine = engine
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
        try:
            if outer is not None:
                return work(outer.connection)
            with reading(self._engine, statements="many") as connection:
                return work(connection)
        except SQLAlchemyError as exc:
            if outer is not None:
                outer.failure = exc  # there is nothing to undo, and PostgreSQL has given the transaction up
            raise translated(exc, self.url) from exc

    def rows(self, query: Executable, values: Mapping[str, Any] | None = None) -> Sequence[RowMapping]:
        """What one ``SELECT`` gives; within ``together``, of what was written there so far.

        One statement sees one moment by itself, so it is spared a transaction and its round trips.

        Raises:
            ExternalError: the database cannot be used; the message says what to do.
        """
        if self._of_thread.transaction is not None:
            return self.read(lambda connection: connection.execute(query, values).mappings().all())
        try:
            with reading(self._engine, statements="one") as connection:
                return connection.execute(query, values).mappings().all()
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
        if outer is None:
            return self._write(work)
        return work(outer) if self._of_thread.is_one else outer.part(work, self.url)

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

    def as_one(self, work: Callable[[], T]) -> T:
        """Within ``together``: a part of it all of which is kept, or nothing, without a savepoint for each write.

        What one of its writes raises, ``work`` lets out.
        """
        outer, here = self._of_thread.transaction, self._of_thread
        assert outer is not None and not here.is_one, "a part of one transaction, and not of such a part"

        def joined(_: Transaction) -> T:
            here.is_one = True
            try:
                return work()
            finally:
                here.is_one = False

        return outer.part(joined, self.url)

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
    is_one: bool = False
    """Whether its writes now stand or fall together (``as_one``)."""


def _too_large(error: OverflowError) -> InputError:
    """SQLite's driver raises it bare."""
    return InputError(f"a whole number does not fit the state database; {error}")
