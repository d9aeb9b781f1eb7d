"""Bring the tables of a database up to date, under a lock."""

from __future__ import annotations

from sqlalchemy import inspect

from lucid_pipelines.store import tables
from lucid_pipelines.store.database import Database, Transaction


def upgrade(database: Database, *, migrate: bool) -> None:
    """Create the tables if they are missing."""

    def work(tx: Transaction) -> None:
        if not inspect(tx.connection).has_table("jobs"):
            tables.metadata.create_all(tx.connection)
            tx.insert_or_ignore(tables.changes, {"id": 1, "value": 0})

    if migrate:
        database.write(work)
