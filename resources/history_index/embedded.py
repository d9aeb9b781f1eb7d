"""The default history index: rows in our own database, exact search in memory (SEMANTIC_STACK, "Embedded index").

100,000 vectors of 1,024 numbers take 410 MB of memory, once per process; equal fingerprints share a vector, and
only rows that pass a search's filters are ever loaded. Several processes may write: each reads what the others
added before it answers.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Engine, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from lucid_pipelines.advisor.past_job_json import past_job_from_json, past_job_to_json
from lucid_pipelines.domain.errors import ExternalError
from lucid_pipelines.domain.similarity import (
    HistoryFilter,
    IndexEntry,
    PastJob,
    SimilarJob,
    SimilarJobs,
    VectorSpace,
    why_fewer,
)
from lucid_pipelines.resources.history_index.partitions import Facets, Hit, Partitions, admits, facets_of
from lucid_pipelines.resources.history_index.tables import jobs, metadata, spaces, vectors
from lucid_pipelines.resources.history_index.vectors import checked_question, checked_vector

_CHUNK = 400
"""Ids in one statement: every database takes so many."""
_STREAM = 2_000


class EmbeddedIndex:
    """Past jobs of one vector space in a SQLAlchemy database.

    Args:
        engine: SQLite or PostgreSQL; missing tables are created.
        space: which vectors are held.
    """

    def __init__(self, engine: Engine, space: VectorSpace) -> None:
        self._engine = engine
        # An engine of the state database begins such transactions with the write lock in hand.
        self._writing = engine.execution_options(lucid_writes=True)
        self._space = space
        self._lock = threading.RLock()
        self._memory = Partitions(space.dimension)
        self._seen_number = 0
        self._seen_removals = 0
        self._total = 0
        self._newest: dict[Facets, int] = {}
        """The highest number of each combination of facets, as of ``_seen_number``."""
        self._loaded: dict[Facets, int] = {}
        """Up to which number each combination is in memory."""
        try:
            _create_tables(engine)
            with self._writing.begin() as connection:
                self._ensure_space(connection)
        except SQLAlchemyError as error:
            raise _outage(error) from error

    @property
    def space(self) -> VectorSpace:
        return self._space

    @property
    def engine(self) -> Engine:
        """The database; other spaces may be kept in it too."""
        return self._engine

    def add(self, entries: Sequence[IndexEntry]) -> int:
        """Store past jobs; one that is there already is replaced. Returns how many were new."""
        latest = {entry.job.job_id: entry for entry in entries}
        checked = {entry.job.digest: checked_vector(entry.vector, self._space.dimension) for entry in latest.values()}
        rows = [self._row(entry.job) for entry in latest.values()]
        if not rows:
            return 0
        try:
            with self._writing.begin() as connection:
                return self._store(connection, rows, checked)
        except SQLAlchemyError as error:
            raise _outage(error) from error

    def search(
        self, vector: Sequence[float], k: int, as_of: datetime, where: HistoryFilter, threshold: float
    ) -> SimilarJobs:
        """The ``k`` most similar jobs of those that had ended at ``as_of`` and pass ``where``: exact."""
        question = checked_question(vector, self._space.dimension, k, as_of)
        try:
            with self._lock:
                self._refresh(where)
                # One more than asked for: the best one below the threshold is worth telling.
                eligible, hits = self._memory.search(question, k + 1, as_of.timestamp(), where)
                total = self._total
            kept = [hit for hit in hits if hit.similarity >= threshold][:k]
            rejected = next((hit.similarity for hit in hits if hit.similarity < threshold), None)
            matches = self._records(kept)
        except SQLAlchemyError as error:
            raise _outage(error) from error
        reason = None if len(matches) == k else why_fewer(len(matches), k, total, eligible, rejected, threshold)
        return SimilarJobs(matches, k, as_of, threshold, total, eligible, rejected, reason)

    def remove(self, job_ids: Sequence[str]) -> int:
        """Forget past jobs. Returns how many were there."""
        try:
            with self._writing.begin() as connection:
                self._take_numbers(connection, 0)
                return self._delete(connection, list(dict.fromkeys(job_ids)))
        except SQLAlchemyError as error:
            raise _outage(error) from error

    def count(self) -> int:
        try:
            with self._engine.connect() as connection:
                statement = select(func.count()).select_from(jobs).where(jobs.c.space == self._space.key)
                return int(connection.execute(statement).scalar_one())
        except SQLAlchemyError as error:
            raise _outage(error) from error

    def jobs(self) -> Iterator[PastJob]:
        """Every past job, by job id."""
        after = ""
        while True:
            statement = (
                select(jobs.c.job_id, jobs.c.record)
                .where(jobs.c.space == self._space.key, jobs.c.job_id > after)
                .order_by(jobs.c.job_id)
                .limit(_STREAM)
            )
            try:
                with self._engine.connect() as connection:
                    rows = connection.execute(statement).all()
            except SQLAlchemyError as error:
                raise _outage(error) from error
            for job_id, record in rows:
                after = job_id
                yield past_job_from_json(json.loads(record))
            if len(rows) < _STREAM:
                return

    # ------------------------------------------------------------------ writing

    def _store(
        self, connection: Connection, rows: Sequence[dict[str, Any]], checked: dict[str, NDArray[np.float32]]
    ) -> int:
        first = self._take_numbers(connection, len(rows))
        there = self._there(connection, [row["job_id"] for row in rows])
        # What is there as it is stays: taking rows away makes every reader load all of them again.
        changed = [row for row in rows if there.get(row["job_id"]) != row["record"]]
        self._delete(connection, [row["job_id"] for row in changed if row["job_id"] in there])
        self._store_vectors(connection, {row["digest"]: checked[row["digest"]] for row in changed})
        if changed:
            connection.execute(insert(jobs), [{**row, "number": first + i} for i, row in enumerate(changed)])
        return len(rows) - len(there)

    def _there(self, connection: Connection, job_ids: Sequence[str]) -> dict[str, str]:
        """Records of these jobs that are stored."""
        found: dict[str, str] = {}
        for chunk in _chunks(job_ids):
            statement = select(jobs.c.job_id, jobs.c.record).where(
                jobs.c.space == self._space.key, jobs.c.job_id.in_(chunk)
            )
            found.update((job_id, record) for job_id, record in connection.execute(statement))
        return found

    def _ensure_space(self, connection: Connection) -> None:
        row = connection.execute(select(spaces.c.space).where(spaces.c.space == self._space.key)).first()
        if row is None:
            try:
                with connection.begin_nested():
                    connection.execute(
                        insert(spaces).values(space=self._space.key, next_number=1, removals=0),
                    )
            except IntegrityError:
                return  # another process was first

    def _take_numbers(self, connection: Connection, count: int) -> int:
        """Lock the space against other writers and take ``count`` numbers. Returns the first."""
        mine = spaces.c.space == self._space.key
        connection.execute(update(spaces).where(mine).values(next_number=spaces.c.next_number + count))
        return int(connection.execute(select(spaces.c.next_number).where(mine)).scalar_one()) - count

    def _delete(self, connection: Connection, job_ids: Sequence[str]) -> int:
        """Delete rows, and the vectors that nobody uses any more. Returns how many rows there were."""
        gone = 0
        for chunk in _chunks(job_ids):
            mine = (jobs.c.space == self._space.key) & jobs.c.job_id.in_(chunk)
            digests = list(connection.execute(select(jobs.c.digest).where(mine).distinct()).scalars())
            if not digests:
                continue
            gone += connection.execute(delete(jobs).where(mine)).rowcount
            for some in _chunks(digests):
                used = select(jobs.c.digest).where(jobs.c.space == self._space.key, jobs.c.digest.in_(some))
                connection.execute(
                    delete(vectors).where(
                        vectors.c.space == self._space.key,
                        vectors.c.digest.in_(some),
                        vectors.c.digest.not_in(used),
                    )
                )
        if gone:
            mine = spaces.c.space == self._space.key
            connection.execute(update(spaces).where(mine).values(removals=spaces.c.removals + gone))
        return gone

    def _store_vectors(self, connection: Connection, found: dict[str, NDArray[np.float32]]) -> None:
        known: set[str] = set()
        for chunk in _chunks(list(found)):
            statement = select(vectors.c.digest).where(vectors.c.space == self._space.key, vectors.c.digest.in_(chunk))
            known.update(connection.execute(statement).scalars())
        new = [
            {"space": self._space.key, "digest": digest, "vector": vector.astype("<f4").tobytes()}
            for digest, vector in found.items()
            if digest not in known
        ]
        if new:
            connection.execute(insert(vectors), new)

    def _row(self, job: PastJob) -> dict[str, Any]:
        task_type, family, count_class = facets_of(job)
        return {
            "space": self._space.key,
            "job_id": job.job_id,
            "digest": job.digest,
            "task_type": task_type,
            "gpu_family": family,
            "gpu_count_class": count_class,
            "ended_at_s": job.ended_at.timestamp(),
            "record": json.dumps(past_job_to_json(job), ensure_ascii=False),
        }

    # ------------------------------------------------------------------ reading

    def _refresh(self, where: HistoryFilter) -> None:
        """Read what was added since the last look and passes the filters; anew when something was removed."""
        with self._engine.connect() as connection:
            statement = select(spaces.c.next_number, spaces.c.removals).where(spaces.c.space == self._space.key)
            next_number, removals = connection.execute(statement).one()
            if removals != self._seen_removals:
                self._memory = Partitions(self._space.dimension)
                self._seen_number, self._total = 0, 0
                self._newest, self._loaded = {}, {}
            if next_number - 1 > self._seen_number:
                self._count(connection, next_number)
            self._seen_number, self._seen_removals = next_number - 1, removals
            for facets, newest in self._newest.items():
                if admits(where, facets) and newest > self._loaded.get(facets, 0):
                    self._load(connection, facets, newest)

    def _count(self, connection: Connection, before: int) -> None:
        """How many rows each combination of facets got, and the newest of them."""
        kinds = (jobs.c.task_type, jobs.c.gpu_family, jobs.c.gpu_count_class)
        statement = (
            select(*kinds, func.count(), func.max(jobs.c.number))
            .where(jobs.c.space == self._space.key, jobs.c.number > self._seen_number, jobs.c.number < before)
            .group_by(*kinds)
        )
        for task, family, count_class, count, newest in connection.execute(statement):
            self._newest[task, family, count_class] = int(newest)
            self._total += int(count)

    def _load(self, connection: Connection, facets: Facets, newest: int) -> None:
        mine = (jobs.c.space == self._space.key) & (jobs.c.number > self._loaded.get(facets, 0))
        mine &= jobs.c.number <= newest
        for column, value in zip((jobs.c.task_type, jobs.c.gpu_family, jobs.c.gpu_count_class), facets, strict=True):
            mine &= column.is_(None) if value is None else column == value
        statement = (
            select(jobs.c.job_id, jobs.c.number, jobs.c.digest, jobs.c.ended_at_s)
            .where(mine)
            .order_by(jobs.c.number)
            .execution_options(yield_per=_STREAM)
        )
        for batch in connection.execute(statement).partitions(_STREAM):
            unknown = {row.digest for row in batch if not self._memory.knows(facets, row.digest)}
            found = self._vectors_of(connection, sorted(unknown))
            for job_id, number, digest, ended_at_s in batch:
                vector = None if self._memory.knows(facets, digest) else found[digest]
                self._memory.add(job_id, number, facets, digest, ended_at_s, vector)
        self._loaded[facets] = newest

    def _vectors_of(self, connection: Connection, digests: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        found: dict[str, NDArray[np.float32]] = {}
        for chunk in _chunks(digests):
            statement = select(vectors.c.digest, vectors.c.vector).where(
                vectors.c.space == self._space.key, vectors.c.digest.in_(chunk)
            )
            found.update((digest, np.frombuffer(raw, dtype="<f4")) for digest, raw in connection.execute(statement))
        return found

    def _records(self, hits: Sequence[Hit]) -> tuple[SimilarJob, ...]:
        if not hits:
            return ()
        found: dict[int, str] = {}
        with self._engine.connect() as connection:
            for chunk in _chunks([hit.number for hit in hits]):
                statement = select(jobs.c.number, jobs.c.record).where(
                    jobs.c.space == self._space.key, jobs.c.number.in_(chunk)
                )
                found.update((number, record) for number, record in connection.execute(statement))
        # A row that was removed since the search is left out rather than answered from memory.
        return tuple(
            SimilarJob(past_job_from_json(json.loads(found[hit.number])), min(1.0, hit.similarity))
            for hit in hits
            if hit.number in found
        )


def spaces_in(engine: Engine) -> list[VectorSpace]:
    """The vector spaces that a database holds."""
    try:
        with engine.connect() as connection:
            keys = connection.execute(select(spaces.c.space).order_by(spaces.c.space)).scalars().all()
    except SQLAlchemyError as error:
        raise _outage(error) from error
    found = [key.rsplit("/", 2) for key in keys]
    return [VectorSpace(name, int(dimension), int(version)) for name, dimension, version in found]


def _create_tables(engine: Engine) -> None:
    try:
        metadata.create_all(engine)
        for index in jobs.indexes:  # tables of an earlier version may lack some
            index.create(engine, checkfirst=True)
    except SQLAlchemyError:
        # Another process created them between the look and the deed; whatever else it was shows again now.
        metadata.create_all(engine)


def _chunks(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    return (values[start : start + _CHUNK] for start in range(0, len(values), _CHUNK))


def _outage(error: SQLAlchemyError) -> ExternalError:
    return ExternalError(f"the database of the history index did not answer: {error}")
