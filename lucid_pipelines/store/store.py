"""The door to the state database."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from lucid_pipelines.store.actions import Actions
from lucid_pipelines.store.advice import AdviceRows
from lucid_pipelines.store.attempts import Attempts
from lucid_pipelines.store.counters import Counters, Meta
from lucid_pipelines.store.database import Database
from lucid_pipelines.store.engine import make_engine
from lucid_pipelines.store.estimates import Estimates
from lucid_pipelines.store.events import Events
from lucid_pipelines.store.exits import Exits
from lucid_pipelines.store.history import History
from lucid_pipelines.store.intents import Intents
from lucid_pipelines.store.jobs import Jobs
from lucid_pipelines.store.leases import Leases
from lucid_pipelines.store.loans import Loans
from lucid_pipelines.store.metrics import Metrics
from lucid_pipelines.store.migrating import upgrade
from lucid_pipelines.store.nodes import Nodes
from lucid_pipelines.store.notices import Notices
from lucid_pipelines.store.pairs import Pairs
from lucid_pipelines.store.queue import Queue
from lucid_pipelines.store.retention import prune
from lucid_pipelines.store.tracking import Tracking
from lucid_pipelines.store.url import database_url, shown

T = TypeVar("T")


class Store:
    """The state database with its repositories. Threads may share it; each process opens its own.

    Every method is one short transaction. None reads the clock: the caller passes ``now``, once per apply.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.jobs = Jobs(database)
        self.attempts = Attempts(database)
        self.events = Events(database)
        self.intents = Intents(database)
        self.exits = Exits(database)
        self.leases = Leases(database)
        self.estimates = Estimates(database)
        self.advice = AdviceRows(database)
        self.metrics = Metrics(database)
        self.tracking = Tracking(database)
        self.history = History(database)
        self.nodes = Nodes(database)
        self.notices = Notices(database)
        self.actions = Actions(database)
        self.pairs = Pairs(database)
        self.loans = Loans(database)
        self.counters = Counters(database)
        self.meta = Meta(database)
        self.queue = Queue(database)

    @classmethod
    def open(
        cls,
        where: str | Path,
        *,
        migrate: bool = True,
        durable: bool = True,
        busy_timeout_s: float = 30.0,
        pool_size: int = 5,
    ) -> Self:
        """Open the state database and bring its tables up to date.

        Any number of processes may do this at once on a fresh database.

        Args:
            where: file path, ``sqlite:///path`` or ``postgresql://user:password@host/name``.
            migrate: ``False`` refuses a database that is not up to date instead of changing it.
            durable: ``False`` lets SQLite leave writes to the operating system (tests, throw-away stores): a
                power cut may then damage the file, a killed process does not.
            busy_timeout_s: how long a SQLite writer waits for another one.

        Raises:
            InputError: ``where`` cannot be used.
            ExternalError: the database cannot be reached or written; the message says what to do.
            StateError: its tables are newer than this program (or older, with ``migrate=False``).
        """
        url = database_url(where)
        engine = make_engine(url, busy_timeout_s=busy_timeout_s, durable=durable, pool_size=pool_size)
        database = Database(engine, url)
        try:
            upgrade(database, migrate=migrate)
        except BaseException:
            database.dispose()
            raise
        return cls(database)

    @property
    def url(self) -> str:
        """Where the database is, without a password."""
        return shown(self._database.url)

    def together(self, work: Callable[[], T]) -> T:
        """Make one transaction of everything that ``work`` writes through this store in this thread.

        All of it is kept, or nothing. What one of its writes raises undoes that write alone, and ``work`` may go on
        with the next. ``work`` must be short, wait for nobody, and bear to be run again (after a deadlock). Within
        another ``together`` it is a part of that one, which is undone alone when ``work`` raises.
        """
        return self._database.together(work)

    def as_one(self, work: Callable[[], T]) -> T:
        """Within ``together``: a part all of which is kept, or nothing.

        What one of its writes raises, ``work`` lets out.
        """
        return self._database.as_one(work)

    def change_counter(self) -> int:
        """See ``Queue.change_counter``."""
        return self.queue.change_counter()

    def prune(
        self,
        *,
        events_before: datetime | None = None,
        metrics_before: datetime | None = None,
        intents_before: datetime | None = None,
        exits_before: datetime | None = None,
        batch_rows: int = 1000,
        max_batches: int = 100,
    ) -> Mapping[str, int]:
        """Delete old rows in bounded batches, each a short transaction. Returns deletions by table.

        Args:
            events_before: events older than this of jobs that have ended.
            metrics_before: GPU samples, metrics and cursors of followed logs older than this.
            intents_before: intents done, notices told and normal exits before this.
            exits_before: abnormal exits handled before this; default: ``intents_before``.
        """
        return prune(
            self._database,
            events_before=events_before,
            metrics_before=metrics_before,
            intents_before=intents_before,
            exits_before=exits_before or intents_before,
            batch_rows=batch_rows,
            max_batches=max_batches,
        )

    def close(self) -> None:
        """Close all connections of this process."""
        self._database.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
