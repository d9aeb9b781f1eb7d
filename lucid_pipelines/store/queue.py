"""The queue as one scheduling pass sees it: one consistent snapshot, read anew only where it changed."""

from __future__ import annotations

import threading
import time
from bisect import insort
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, TypeVar

from sqlalchemy import Connection, func, select

from lucid_pipelines.domain.errors import StateError
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
from lucid_pipelines.store.ids import job_id_of
from lucid_pipelines.store.records import ActiveAttempt, Pair, QueueView, SlotUse

T = TypeVar("T")
_JOBS = tables.jobs
_ATTEMPTS = tables.attempts
_SLOTS = tables.gpu_slots
_SHOWN = (JobState.QUEUED, JobState.PROFILE_QUEUED, JobState.RUNNING, JobState.PROFILING)
_IS_SHOWN = _JOBS.c.state.in_([state.value for state in _SHOWN])
_CHUNK = 500
_ARRIVAL_ORDER = attrgetter("submitted_at", "job_id")
_PLACED_ORDER = attrgetter("attempt.placed_at", "attempt.attempt_id")
_SLOT_ORDER = attrgetter("node", "gpu_index", "slot")
_PAIRS = tables.pairs
_IS_TOGETHER = _PAIRS.c.ended_at.is_(None)
_TOGETHER = select(_PAIRS.c.id, _PAIRS.c.verdict).where(_IS_TOGETHER).order_by(_PAIRS.c.id)
_LENT = select(tables.node_loans).where(tables.node_loans.c.returned_at.is_(None)).order_by(tables.node_loans.c.id)


_EVENTS = tables.events
_NEWEST = select(tables.changes.c.value, select(func.max(_EVENTS.c.id)).scalar_subquery())
_SHOWN_COUNT = select(func.count()).select_from(_JOBS).where(_IS_SHOWN)
_COMPARE_EVERY_S = 30.0
_MANY = 2_000
"""More changes than that are not followed one by one."""


@dataclass(frozen=True, slots=True)
class _Known:
    """What was read last; replaced as a whole, so that a failed read leaves the old one true.

    Attributes:
        event: number of the last event that it takes into account.
        compared_at: when every version was last compared, on this process's own clock.
        attempts: the open attempt of each job that runs.
    """

    event: int
    compared_at: float
    jobs: dict[str, Job]
    waiting: tuple[Job, ...]
    attempts: dict[str, Attempt]
    active: tuple[ActiveAttempt, ...]
    slots: tuple[SlotUse, ...]
    pairs: dict[int, Pair]


_NOTHING = _Known(0, 0.0, {}, (), {}, (), (), {})


class Queue:
    """Reads for the scheduling loop. Safe to use from several threads."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._known: _Known | None = None
        self._last: QueueView | None = None

    def change_counter(self) -> int:
        """A number that grows with every write that a loop may want to see; one tiny query.

        Writes of metrics, GPU samples, leases, claims, counters and meta leave it alone.
        """
        return self._database.read(_change)

    def view(self) -> QueueView:
        """Everything a pass needs. The same object is returned while nothing has changed.

        Only jobs of which an event tells are read again: every change of a job has one, whoever made it, and events
        are numbered in the order of their commits. From time to time, and whenever something does not add up, the
        versions of all jobs are compared instead.
        """
        with self._lock:
            return self._database.read(self._read)

    def _read(self, connection: Connection) -> QueueView:
        change, event = connection.execute(_NEWEST).one()
        if self._last is not None and self._last.change == change:
            return self._last
        known = self._current(connection, int(event or 0))
        conditions = tables.node_conditions
        in_force = select(conditions).where(conditions.c.lifted_at.is_(None)).order_by(conditions.c.id)
        view = QueueView(
            change=change,
            waiting=known.waiting,
            active=known.active,
            slots=known.slots,
            isolated=tuple(reason_from_row(row) for row in connection.execute(in_force).mappings()),
            pairs=tuple(known.pairs.values()),
            loans=tuple(loan_from_row(row) for row in connection.execute(_LENT).mappings()),
        )
        self._known, self._last = known, view
        return view

    def _current(self, connection: Connection, event: int) -> _Known:
        known = self._known
        if known is not None and time.monotonic() - known.compared_at < _COMPARE_EVERY_S:
            after = _followed(connection, known, event)
            if after is not None:
                return after
        return _compared(connection, known or _NOTHING, event)


def _followed(connection: Connection, known: _Known, event: int) -> _Known | None:
    """What is known now, by the events since; ``None`` when they do not tell."""
    if not known.event <= event <= known.event + _MANY:
        return None
    rows: Sequence[Any] = ()
    if event > known.event:
        told = select(_EVENTS.c.job_id).where(_EVENTS.c.id > known.event, _EVENTS.c.id <= event)
        rows = connection.execute(select(_JOBS).where(_JOBS.c.job_id.in_(told))).mappings().all()
    fresh = {row["job_id"]: job_from_row(row) for row in rows if row["state"] in _SHOWN}
    after = _changed(connection, known, {row["job_id"] for row in rows}, fresh, event)
    if after is None or int(connection.execute(_SHOWN_COUNT).scalar_one()) != len(after.jobs):
        return None
    return after


def _compared(connection: Connection, known: _Known, event: int) -> _Known:
    """What is known now, by the version of every job."""
    rows = connection.execute(select(_JOBS.c.job_id, _JOBS.c.version).where(_IS_SHOWN)).all()
    versions = {str(job_id): int(version) for job_id, version in rows}
    changed = {job_id for job_id in known.jobs if job_id not in versions}
    for job_id, version in versions.items():
        job = known.jobs.get(job_id)
        if job is None or job.version != version:
            changed.add(job_id)
    for before, ids in ((known, changed), (_NOTHING, set(versions))):
        rows = _rows(connection, _JOBS, _JOBS.c.job_id, sorted(ids), _IS_SHOWN)
        fresh = {row["job_id"]: job_from_row(row) for row in rows}
        after = _changed(connection, before, ids, fresh, event)
        if after is not None:
            return replace(after, compared_at=time.monotonic(), pairs=_all_pairs(connection, known.pairs))
    raise StateError("an active job has no open attempt; the state database was changed by hand")


def _changed(
    connection: Connection, known: _Known, changed: set[str], fresh: dict[str, Job], event: int
) -> _Known | None:
    """What is known once jobs have changed; ``None`` when that does not fit together.

    Args:
        fresh: those of them that wait or run, as they are now.
    """
    if not changed:
        return replace(known, event=event)
    jobs = {job_id: job for job_id, job in known.jobs.items() if job_id not in changed} | fresh
    waiting = known.waiting
    newly = sorted((job for job in fresh.values() if not job.state.is_active), key=_ARRIVAL_ORDER)
    if newly or any(job_id in known.jobs and not known.jobs[job_id].state.is_active for job_id in changed):
        waiting = tuple(_merged([job for job in waiting if job.job_id not in changed], newly, _ARRIVAL_ORDER))
    running = {job_id: job for job_id, job in fresh.items() if job.state.is_active}
    gone = {known.attempts[job_id].attempt_id for job_id in changed if job_id in known.attempts}
    attempts, active, slots = known.attempts, known.active, known.slots
    if running or gone:
        open_ones = _ATTEMPTS.c.state != AttemptState.ENDED.value
        read = _rows(connection, _ATTEMPTS, _ATTEMPTS.c.job_id, sorted(running), open_ones)
        theirs = {row["job_id"]: attempt_from_row(row) for row in read}
        if theirs.keys() != running.keys():
            return None
        attempts = {job_id: item for job_id, item in attempts.items() if job_id not in changed} | theirs
        slots = _current_slots(connection, slots, gone, sorted(item.attempt_id for item in theirs.values()))
        active = _current_active(active, [(job, theirs[job_id]) for job_id, job in running.items()], changed, slots)
    pairs = _current_pairs(connection, known.pairs, changed, attempts)
    return _Known(event, known.compared_at, jobs, waiting, attempts, active, slots, pairs)


def _current_active(
    active: tuple[ActiveAttempt, ...],
    newly: Sequence[tuple[Job, Attempt]],
    changed: set[str],
    slots: tuple[SlotUse, ...],
) -> tuple[ActiveAttempt, ...]:
    """Running jobs with their open attempts; one of which nothing changed stays the same object."""
    partners = _partners(slots)
    kept: list[ActiveAttempt] = []
    for item in active:
        if item.job.job_id not in changed:
            beside = partners.get(item.attempt.attempt_id, ())
            kept.append(item if item.partner_attempt_ids == beside else replace(item, partner_attempt_ids=beside))
    fresh = [ActiveAttempt(job, attempt, partners.get(attempt.attempt_id, ())) for job, attempt in newly]
    return tuple(_merged(kept, sorted(fresh, key=_PLACED_ORDER), _PLACED_ORDER))


def _current_slots(
    connection: Connection, slots: tuple[SlotUse, ...], gone: set[str], changed_ids: list[str]
) -> tuple[SlotUse, ...]:
    """Every GPU half in use: those of changed attempts are read again, all of them when the sum does not agree."""
    away = gone | set(changed_ids)
    kept = [slot for slot in slots if slot.attempt_id not in away]
    fresh = [SlotUse(*row.values()) for row in _rows(connection, _SLOTS, _SLOTS.c.attempt_id, changed_ids)]
    total = int(connection.execute(select(func.count()).select_from(_SLOTS)).scalar_one())
    if slots and len(kept) + len(fresh) == total:
        return tuple(_merged(kept, sorted(fresh, key=_SLOT_ORDER), _SLOT_ORDER))
    in_order = select(_SLOTS).order_by(_SLOTS.c.node, _SLOTS.c.gpu_index, _SLOTS.c.slot)
    return tuple(SlotUse(*row) for row in connection.execute(in_order).all())


def _current_pairs(
    connection: Connection, known: dict[int, Pair], changed: set[str], attempts: dict[str, Attempt]
) -> dict[int, Pair]:
    """Pairs that are together. Each change of one that a loop wants to see is an event of one of its jobs."""
    kept = {
        pair_id: pair
        for pair_id, pair in known.items()
        if job_id_of(pair.first_attempt_id) not in changed and job_id_of(pair.later_attempt_id) not in changed
    }
    stale = sorted(known.keys() - kept.keys())
    later = sorted(attempts[job_id].attempt_id for job_id in changed if job_id in attempts)
    fresh: dict[int, Pair] = {}
    for column, wanted in ((_PAIRS.c.id, stale), (_PAIRS.c.later_attempt_id, later)):
        fresh |= {row["id"]: pair_from_row(row) for row in _rows(connection, _PAIRS, column, wanted, _IS_TOGETHER)}
    for pair_id, pair in fresh.items():
        before = known.get(pair_id)
        kept[pair_id] = before if before is not None and before.verdict == pair.verdict else pair
    return dict(sorted(kept.items())) if fresh else kept


def _all_pairs(connection: Connection, known: dict[int, Pair]) -> dict[int, Pair]:
    """Pairs that are together; one is read again when its verdict has changed."""
    now = [(int(pair_id), str(verdict)) for pair_id, verdict in connection.execute(_TOGETHER).all()]
    stale = [pair_id for pair_id, verdict in now if pair_id not in known or known[pair_id].verdict != verdict]
    fresh = {row["id"]: pair_from_row(row) for row in _rows(connection, _PAIRS, _PAIRS.c.id, stale)}
    return {pair_id: fresh.get(pair_id) or known[pair_id] for pair_id, _ in now}


def _merged(kept: list[T], fresh: Sequence[T], order: Callable[[T], Any]) -> list[T]:
    """Both in one order; where little is new, by a search for its place instead of a sort."""
    if len(fresh) * 8 > len(kept):
        return sorted([*kept, *fresh], key=order)
    for item in fresh:
        insort(kept, item, key=order)
    return kept


def _change(connection: Connection) -> int:
    return int(connection.execute(select(tables.changes.c.value)).scalar_one())


def _rows(connection: Connection, table: Any, key: Any, wanted: Sequence[object], *conditions: Any) -> Iterable[Any]:
    for start in range(0, len(wanted), _CHUNK):
        chunk = wanted[start : start + _CHUNK]
        yield from connection.execute(select(table).where(key.in_(chunk), *conditions)).mappings()


def _partners(slots: tuple[SlotUse, ...]) -> dict[str, tuple[str, ...]]:
    """Attempts that share a GPU, by attempt; its two halves are neighbours in the order of slots."""
    partners: dict[str, set[str]] = {}
    before: SlotUse | None = None
    for slot in slots:
        is_second = slot.slot == 1 and before is not None and before.attempt_id != slot.attempt_id
        if is_second and before is not None and (before.gpu_index, before.node) == (slot.gpu_index, slot.node):
            partners.setdefault(before.attempt_id, set()).add(slot.attempt_id)
            partners.setdefault(slot.attempt_id, set()).add(before.attempt_id)
        before = slot
    return {attempt_id: tuple(sorted(others)) for attempt_id, others in partners.items()}
