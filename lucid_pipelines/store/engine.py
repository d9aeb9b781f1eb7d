"""Connections to the state database: SQLite in WAL mode, or PostgreSQL through psycopg2."""

from __future__ import annotations

import os
import sqlite3
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.exc import InvalidatePoolError
from sqlalchemy.pool import ConnectionPoolEntry

from lucid_pipelines.domain.errors import ExternalError

POSTGRES_LOCK_TIMEOUT_S = 30.0
ASKED_AFTER_IDLE_S = 1.0
_USED_AT = "lucid_used_at"
_ONE_MOMENT = ("isolation_level", "REPEATABLE READ", None)
POSTGRES_SCHEMA = "lucid"
"""Our tables live in a schema of their own: other programs' databases (Dagster's too) have tables named jobs."""


def make_engine(url: URL, *, busy_timeout_s: float, durable: bool, pool_size: int) -> Engine:
    """Return an engine whose connections are set up for many processes on one database.

    Args:
        url: as ``database_url`` returns it.
        busy_timeout_s: how long a SQLite writer waits for another one.
        durable: whether a commit survives a power cut (SQLite only; PostgreSQL decides for itself).
        pool_size: connections kept open by this process.
    """
    if url.get_backend_name() == "sqlite":
        engine = _sqlite_engine(url, busy_timeout_s=busy_timeout_s, durable=durable, pool_size=pool_size)
    else:
        engine = _postgres_engine(url, pool_size=pool_size)
    _forget_connections_after_fork(engine)
    return engine


def _sqlite_engine(url: URL, *, busy_timeout_s: float, durable: bool, pool_size: int) -> Engine:
    folder = Path(url.database or "").parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise ExternalError(f"cannot make the folder of the state database ({exc.strerror}): {folder}") from exc
    engine = create_engine(
        url,
        connect_args={"timeout": busy_timeout_s, "check_same_thread": False},
        pool_size=pool_size,
        max_overflow=2 * pool_size,
        pool_timeout=busy_timeout_s + 5,
    )
    synchronous = "FULL" if durable else "OFF"

    @event.listens_for(engine, "connect")
    def _set_up(connection: sqlite3.Connection, _entry: ConnectionPoolEntry) -> None:
        connection.isolation_level = None  # this module says BEGIN, not the driver
        _use_wal(connection, busy_timeout_s)
        connection.execute(f"PRAGMA synchronous={synchronous}")
        connection.execute("PRAGMA foreign_keys=ON")

    @event.listens_for(engine, "begin")
    def _begin(connection: Any) -> None:
        options = connection.get_execution_options()
        if options.get("lucid_begins", True):
            connection.exec_driver_sql("BEGIN IMMEDIATE" if options.get("lucid_writes", False) else "BEGIN")

    return engine


def _use_wal(connection: sqlite3.Connection, patience_s: float) -> None:
    """Switch the file to write-ahead logging once.

    SQLite does not wait for its busy timeout here, so two processes that open a new file at once would
    collide; the wait is ours.
    """
    deadline = time.monotonic() + patience_s
    while True:
        try:
            if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as exc:
            if "locked" not in str(exc) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def _postgres_engine(url: URL, *, pool_size: int) -> Engine:
    ours = r"-c default_transaction_isolation=read\ committed "  # not by SQLAlchemy: see ``reading``
    ours += f"-c timezone=UTC -c lock_timeout={int(POSTGRES_LOCK_TIMEOUT_S * 1000)} -c search_path={POSTGRES_SCHEMA}"
    options = f"{url.query.get('options', '')} {ours}".strip()
    engine = create_engine(
        url,
        connect_args={"connect_timeout": 10, "options": options, "application_name": "lucid"},
        pool_size=pool_size,
        max_overflow=2 * pool_size,
    )
    _ask_idle_connections(engine)
    return engine


def _ask_idle_connections(engine: Engine) -> None:
    """Ask a connection that has lain idle whether its server still knows it, before it is used again.

    SQLAlchemy's own ``pool_pre_ping`` asks every time: a fifth of a scheduling pass, which takes ten connections in a
    row. One that a server has closed within the last second fails its user once, as one that breaks while it is used.
    """

    @event.listens_for(engine, "checkin")
    def _rested(_connection: object, entry: ConnectionPoolEntry) -> None:
        entry.info[_USED_AT] = time.monotonic()

    @event.listens_for(engine, "checkout")
    def _ask(connection: Any, entry: ConnectionPoolEntry, _proxy: object) -> None:
        used_at = entry.info.get(_USED_AT)
        if used_at is None or time.monotonic() - used_at < ASKED_AFTER_IDLE_S:
            return
        try:
            engine.dialect.do_ping(connection)
        except engine.dialect.loaded_dbapi.Error as error:
            raise InvalidatePoolError("the server has closed an idle connection") from error  # all are opened anew


@contextmanager
def reading(engine: Engine, *, statements: Literal["one", "many"]) -> Iterator[Connection]:
    """A connection to read with: one moment for ``many`` statements, or ``one`` that needs no transaction.

    What kind of transaction it is, psycopg2 is told itself, which costs nothing; with SQLAlchemy's ``isolation_level``
    each change from and to ``AUTOCOMMIT`` is a round trip.
    """
    if engine.dialect.name == "sqlite":
        with engine.execution_options(lucid_begins=statements == "many").connect() as connection:
            yield connection
        return
    with engine.connect() as connection:
        driver: Any = connection.connection.dbapi_connection
        name, value, usual = ("autocommit", True, False) if statements == "one" else _ONE_MOMENT
        setattr(driver, name, value)
        try:
            yield connection
        finally:
            connection.rollback()
            if not driver.closed:
                setattr(driver, name, usual)


def _forget_connections_after_fork(engine: Engine) -> None:
    """A forked child must not speak through its parent's sockets or file handles."""
    reference = weakref.ref(engine)

    def forget() -> None:
        inherited = reference()
        if inherited is not None:
            inherited.dispose(close=False)

    os.register_at_fork(after_in_child=forget)
