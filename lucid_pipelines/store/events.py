"""Events: the append-only story of every job, readable by cursor."""

from __future__ import annotations

from sqlalchemy import func, select

from lucid_pipelines.store import tables
from lucid_pipelines.store.codec import event_from_row
from lucid_pipelines.store.database import Database
from lucid_pipelines.store.records import Event

_EVENTS = tables.events


class Events:
    """Read what happened. Events are written by the operations that they tell of."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of_job(self, job_id: str, *, after_id: int = 0, limit: int | None = None) -> list[Event]:
        """The job's events in order."""
        mine = (_EVENTS.c.job_id == job_id) & (_EVENTS.c.id > after_id)
        query = select(_EVENTS).where(mine).order_by(_EVENTS.c.id).limit(limit)
        return self._database.read(lambda c: [event_from_row(row) for row in c.execute(query).mappings()])

    def after(self, after_id: int, *, limit: int = 1000) -> list[Event]:
        """Events of all jobs after a cursor, in order; the last ``event_id`` is the next cursor.

        Numbers follow the order of commits, so a cursor never skips an event. Numbers may have gaps.
        """
        query = select(_EVENTS).where(_EVENTS.c.id > after_id).order_by(_EVENTS.c.id).limit(limit)
        return self._database.read(lambda c: [event_from_row(row) for row in c.execute(query).mappings()])

    def last_id(self) -> int:
        """The newest event's number, 0 when there is none: where a new reader begins."""
        query = select(func.coalesce(func.max(_EVENTS.c.id), 0))
        return self._database.read(lambda c: int(c.execute(query).scalar_one()))
