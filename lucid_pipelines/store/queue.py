"""The queue as one scheduling pass sees it: one consistent snapshot, read anew only where it changed."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, select

from lucid_pipelines.domain.job import Attempt, Job
from lucid_pipelines.domain.states import AttemptState, JobState
from lucid_pipelines.store import tables
from lucid_pipelines.store.codec import attempt_from_row, job_from_row, reason_from_row
from lucid_pipelines.store.database import Database
from lucid_pipelines.store.records import ActiveAttempt, QueueView, SlotUse

_JOBS = tables.jobs
_ATTEMPTS = tables.attempts
_SHOWN = (JobState.QUEUED, JobState.PROFILE_QUEUED, JobState.RUNNING, JobState.PROFILING)
_CHUNK = 500


class Queue:
    """Reads for the scheduling loop. Safe to use from several threads."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._jobs: dict[str, Job] = {}
        self._attempts: dict[str, tuple[int, Attempt]] = {}
        self._last: QueueView | None = None

    def change_counter(self) -> int:
        """A number that grows with every write that a loop may want to see; one tiny query.

        Writes of metrics, GPU samples, leases, claims, counters and meta leave it alone.
        """
        return self._database.read(_change)

    def view(self) -> QueueView:
        """Everything a pass needs. The same object is returned while nothing has changed.

        Rows of jobs that did not change since the last call are not read again.
        """
        with self._lock:
            return self._database.read(self._read)

    def _read(self, connection: Connection) -> QueueView:
        change = _change(connection)
        if self._last is not None and self._last.change == change:
            return self._last
        jobs = self._current_jobs(connection)
        running = {job_id: job for job_id, job in jobs.items() if job.state.is_active}
        attempts = self._current_attempts(connection, running)
        slots = tuple(
            SlotUse(*row)
            for row in connection.execute(
                select(tables.gpu_slots).order_by(
                    tables.gpu_slots.c.node, tables.gpu_slots.c.gpu_index, tables.gpu_slots.c.slot
                )
            )
        )
        conditions = tables.node_conditions
        in_force = select(conditions).where(conditions.c.lifted_at.is_(None)).order_by(conditions.c.id)
        partners = _partners(slots)
        active = [
            ActiveAttempt(running[attempt.job_id], attempt, tuple(sorted(partners.get(attempt.attempt_id, ()))))
            for attempt in attempts
        ]
        active.sort(key=lambda entry: (entry.attempt.placed_at, entry.attempt.attempt_id))
        waiting = [job for job in jobs.values() if not job.state.is_active]
        waiting.sort(key=lambda job: (job.submitted_at, job.job_id))
        self._last = QueueView(
            change=change,
            waiting=tuple(waiting),
            active=tuple(active),
            slots=slots,
            isolated=tuple(reason_from_row(row) for row in connection.execute(in_force).mappings()),
        )
        return self._last

    def _current_jobs(self, connection: Connection) -> dict[str, Job]:
        shown = _JOBS.c.state.in_([state.value for state in _SHOWN])
        versions = connection.execute(select(_JOBS.c.job_id, _JOBS.c.version).where(shown)).all()
        known = self._jobs
        stale = [job_id for job_id, version in versions if job_id not in known or known[job_id].version != version]
        fresh = {row["job_id"]: job_from_row(row) for row in _rows(connection, _JOBS, _JOBS.c.job_id, stale)}
        self._jobs = {job_id: fresh.get(job_id) or known[job_id] for job_id, _ in versions}
        return self._jobs

    def _current_attempts(self, connection: Connection, running: dict[str, Job]) -> list[Attempt]:
        """The open attempt of each running job; it changes only together with its job's version."""
        known = self._attempts
        stale = [job_id for job_id, job in running.items() if job_id not in known or known[job_id][0] != job.version]
        open_ones = _ATTEMPTS.c.state != AttemptState.ENDED.value
        fresh = {
            row["job_id"]: attempt_from_row(row)
            for row in _rows(connection, _ATTEMPTS, _ATTEMPTS.c.job_id, stale, open_ones)
        }
        self._attempts = {
            job_id: (job.version, fresh[job_id]) if job_id in fresh else known[job_id]
            for job_id, job in running.items()
        }
        return [attempt for _, attempt in self._attempts.values()]


def _change(connection: Connection) -> int:
    return int(connection.execute(select(tables.changes.c.value)).scalar_one())


def _rows(connection: Connection, table: Any, key: Any, wanted: list[str], *conditions: Any) -> Iterable[Any]:
    for start in range(0, len(wanted), _CHUNK):
        chunk = wanted[start : start + _CHUNK]
        yield from connection.execute(select(table).where(key.in_(chunk), *conditions)).mappings()


def _partners(slots: tuple[SlotUse, ...]) -> dict[str, set[str]]:
    by_gpu: dict[tuple[str, int], set[str]] = {}
    for slot in slots:
        by_gpu.setdefault((slot.node, slot.gpu_index), set()).add(slot.attempt_id)
    partners: dict[str, set[str]] = {}
    for sharing in by_gpu.values():
        for attempt_id in sharing:
            partners.setdefault(attempt_id, set()).update(sharing - {attempt_id})
    return partners
