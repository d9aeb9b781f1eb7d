"""The queue as one scheduling pass sees it: one consistent snapshot, read anew only where it changed."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from typing import Any

from sqlalchemy import Connection, func, select

from lucid_pipelines.domain.job import Attempt, Job
from lucid_pipelines.domain.states import AttemptState, JobState
from lucid_pipelines.store import tables
from lucid_pipelines.store.codec import (
    attempt_from_row,
    job_from_row,
    loan_from_row,
    pair_from_row,
    reason_from_row,
)
from lucid_pipelines.store.database import Database
from lucid_pipelines.store.records import ActiveAttempt, Pair, QueueView, SlotUse

_JOBS = tables.jobs
_ATTEMPTS = tables.attempts
_SLOTS = tables.gpu_slots
_SHOWN = (JobState.QUEUED, JobState.PROFILE_QUEUED, JobState.RUNNING, JobState.PROFILING)
_CHUNK = 500
_ALONE: frozenset[str] = frozenset()
_ARRIVAL_ORDER = attrgetter("submitted_at", "job_id")
_PLACED_ORDER = attrgetter("attempt.placed_at", "attempt.attempt_id")
_SLOT_ORDER = attrgetter("node", "gpu_index", "slot")
_PAIRS = tables.pairs
_TOGETHER = select(_PAIRS.c.id, _PAIRS.c.verdict).where(_PAIRS.c.ended_at.is_(None)).order_by(_PAIRS.c.id)
_LENT = select(tables.node_loans).where(tables.node_loans.c.returned_at.is_(None)).order_by(tables.node_loans.c.id)


@dataclass(frozen=True, slots=True)
class _Active:
    """What runs, as it was read last; replaced as a whole, so that a failed read leaves the old one true."""

    versions: dict[str, int]
    attempts: dict[str, Attempt]
    active: tuple[ActiveAttempt, ...]
    slots: tuple[SlotUse, ...]


class Queue:
    """Reads for the scheduling loop. Safe to use from several threads."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._jobs: dict[str, Job] = {}
        self._active = _Active({}, {}, (), ())
        self._pairs: dict[int, Pair] = {}
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
        active, slots = self._current_active(connection, [job for job in jobs.values() if job.state.is_active])
        waiting = [job for job in jobs.values() if not job.state.is_active]
        waiting.sort(key=_ARRIVAL_ORDER)
        conditions = tables.node_conditions
        in_force = select(conditions).where(conditions.c.lifted_at.is_(None)).order_by(conditions.c.id)
        self._last = QueueView(
            change=change,
            waiting=tuple(waiting),
            active=active,
            slots=slots,
            isolated=tuple(reason_from_row(row) for row in connection.execute(in_force).mappings()),
            pairs=self._current_pairs(connection),
            loans=tuple(loan_from_row(row) for row in connection.execute(_LENT).mappings()),
        )
        return self._last

    def _current_pairs(self, connection: Connection) -> tuple[Pair, ...]:
        """Pairs that are together; one is read again when its verdict has changed."""
        now = [(int(pair_id), str(verdict)) for pair_id, verdict in connection.execute(_TOGETHER).all()]
        known = self._pairs
        stale = [pair_id for pair_id, verdict in now if pair_id not in known or known[pair_id].verdict != verdict]
        fresh = {row["id"]: pair_from_row(row) for row in _rows(connection, _PAIRS, _PAIRS.c.id, stale)}
        self._pairs = {pair_id: fresh.get(pair_id) or known[pair_id] for pair_id, _ in now}
        return tuple(self._pairs.values())

    def _current_jobs(self, connection: Connection) -> dict[str, Job]:
        shown = _JOBS.c.state.in_([state.value for state in _SHOWN])
        versions = connection.execute(select(_JOBS.c.job_id, _JOBS.c.version).where(shown)).all()
        known = self._jobs
        stale = [job_id for job_id, version in versions if job_id not in known or known[job_id].version != version]
        fresh = {row["job_id"]: job_from_row(row) for row in _rows(connection, _JOBS, _JOBS.c.job_id, stale)}
        self._jobs = {job_id: fresh.get(job_id) or known[job_id] for job_id, _ in versions}
        return self._jobs

    def _current_active(
        self, connection: Connection, running: list[Job]
    ) -> tuple[tuple[ActiveAttempt, ...], tuple[SlotUse, ...]]:
        """Running jobs with their open attempts, and the slots; both change only with the version of a job."""
        versions = {job.job_id: job.version for job in running}
        last = self._active
        if versions == last.versions:
            return last.active, last.slots
        stale = [job_id for job_id in versions if versions[job_id] != last.versions.get(job_id)]
        open_ones = _ATTEMPTS.c.state != AttemptState.ENDED.value
        fresh = {
            row["job_id"]: attempt_from_row(row)
            for row in _rows(connection, _ATTEMPTS, _ATTEMPTS.c.job_id, stale, open_ones)
        }
        attempts = {job_id: fresh.get(job_id) or last.attempts[job_id] for job_id in versions}
        slots = self._current_slots(connection, last, versions, [attempts[job_id].attempt_id for job_id in stale])
        partners = _partners(slots)
        active = [
            ActiveAttempt(
                job, attempt, tuple(sorted(partners[attempt.attempt_id])) if partners.get(attempt.attempt_id) else ()
            )
            for job in running
            for attempt in (attempts[job.job_id],)
        ]
        active.sort(key=_PLACED_ORDER)
        self._active = _Active(versions, attempts, tuple(active), slots)
        return self._active.active, slots

    def _current_slots(
        self, connection: Connection, last: _Active, versions: dict[str, int], changed_ids: list[str]
    ) -> tuple[SlotUse, ...]:
        """Every GPU half in use: those of changed attempts are read again, all of them when the sum does not agree."""
        changed = {job_id for job_id, version in last.versions.items() if versions.get(job_id) != version}
        away = {last.attempts[job_id].attempt_id for job_id in changed} | set(changed_ids)
        kept = [slot for slot in last.slots if slot.attempt_id not in away]
        fresh = [SlotUse(*row.values()) for row in _rows(connection, _SLOTS, _SLOTS.c.attempt_id, changed_ids)]
        total = int(connection.execute(select(func.count()).select_from(_SLOTS)).scalar_one())
        if last.slots and len(kept) + len(fresh) == total:
            return tuple(sorted([*kept, *fresh], key=_SLOT_ORDER))
        in_order = select(_SLOTS).order_by(_SLOTS.c.node, _SLOTS.c.gpu_index, _SLOTS.c.slot)
        return tuple(SlotUse(*row) for row in connection.execute(in_order).all())


def _change(connection: Connection) -> int:
    return int(connection.execute(select(tables.changes.c.value)).scalar_one())


def _rows(connection: Connection, table: Any, key: Any, wanted: Sequence[object], *conditions: Any) -> Iterable[Any]:
    for start in range(0, len(wanted), _CHUNK):
        chunk = wanted[start : start + _CHUNK]
        yield from connection.execute(select(table).where(key.in_(chunk), *conditions)).mappings()


def _partners(slots: tuple[SlotUse, ...]) -> dict[str, set[str]]:
    """Attempts that share a GPU; its two halves are neighbours in the order of slots."""
    partners: dict[str, set[str]] = {}
    for one, two in pairwise(slots):
        if one.attempt_id != two.attempt_id and one.gpu_index == two.gpu_index and one.node == two.node:
            partners.setdefault(one.attempt_id, set()).add(two.attempt_id)
            partners.setdefault(two.attempt_id, set()).add(one.attempt_id)
    return partners
