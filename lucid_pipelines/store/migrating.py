"""Bring the tables of a database up to date, under a lock, so that many processes may open it at once."""

from __future__ import annotations

from sqlalchemy import Connection, inspect, text

from lucid_pipelines.domain.errors import StateError
from lucid_pipelines.store.database import Database, Transaction
from lucid_pipelines.store.engine import POSTGRES_SCHEMA
from lucid_pipelines.store.migrations import VERSION_TABLE, revisions

_ADVISORY_KEY = 0x4C554349  # any number of our own: all migrators take the same lock


def upgrade(database: Database, *, migrate: bool) -> None:
    """Run the missing migrations, all or none.

    Raises:
        StateError: the database is newer than this program, or older and ``migrate`` is false.
    """
    wanted = revisions()[-1]
    current = database.read(current_revision)
    if current == wanted:
        return
    _refuse_unknown(current)
    if not migrate:
        raise StateError(
            f"the state database is not up to date; open it once with migrations on; it is at {current}, not {wanted}"
        )

    def work(tx: Transaction) -> None:
        # Alembic is slow to import and needed once in the life of a database.
        from lucid_pipelines.store.migrations.runner import upgrade_to_head

        if not database.is_sqlite:  # SQLite's write transaction is itself the lock
            tx.connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ADVISORY_KEY})
            _make_schema(tx.connection)
        now_current = current_revision(tx.connection)
        _refuse_unknown(now_current)
        if now_current != wanted:
            upgrade_to_head(tx.connection)

    database.write(work)


def _make_schema(connection: Connection) -> None:
    """Make our schema unless an administrator has: IF NOT EXISTS would ask for a right that we may lack then."""
    named = text("SELECT 1 FROM pg_namespace WHERE nspname = :name")
    if connection.execute(named, {"name": POSTGRES_SCHEMA}).first() is None:
        connection.execute(text(f"CREATE SCHEMA {POSTGRES_SCHEMA}"))


def current_revision(connection: Connection) -> str | None:
    """The revision that the database is at; ``None`` when it is empty."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    return connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()


def _refuse_unknown(current: str | None) -> None:
    if current is not None and current not in revisions():
        raise StateError(
            f"the state database is newer than this program; upgrade lucid-pipelines: "
            f"it is at revision {current}, this program knows {revisions()[-1]}"
        )
