"""The queue as one scheduling pass sees it: one consistent snapshot, read anew only where it changed."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, TypeVar

from sqlalchemy import Connection, Select, bindparam, func, select

from lucid_pipelines.domain.errors import StateError
from lucid_pipelines.domain.job import Job
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
from lucid_pipelines.store.ids import attempt_id
from lucid_pipelines.store.records import ActiveAttempt, Pair, QueueView, SlotUse

K = TypeVar("K")
T = TypeVar("T")
_JOBS = tables.jobs
_ATTEMPTS = tables.attempts
_SLOTS = tables.gpu_slots
_PAIRS = tables.pairs
_EVENTS = tables.events
_CONDITIONS = tables.node_conditions
_LOANS = tables.node_loans
_SHOWN = (JobState.QUEUED, JobState.PROFILE_QUEUED, JobState.RUNNING, JobState.PROFILING)
_IS_SHOWN = _JOBS.c.state.in_([state.value for state in _SHOWN])
_IS_TOGETHER = _PAIRS.c.ended_at.is_(None)
_WANTED = bindparam("wanted", expanding=True)
_ARRIVAL_ORDER = attrgetter("submitted_at", "job_id")
_PLACED_ORDER = attrgetter("attempt.placed_at", "attempt.attempt_id")
_CHUNK = 500
_COMPARE_EVERY_S = 30.0
_MANY = 2_000
"""More changes than that are not followed one by one."""

# Built once: a statement takes longer to build than to run.
_CHANGE = select(tables.changes.c.value)
_NEWEST = select(tables.changes.c.value, select(func.max(_EVENTS.c.id)).scalar_subquery())
_COUNTS = select(
    select(func.count()).select_from(_JOBS).where(_IS_SHOWN).scalar_subquery(),
    select(func.count()).select_from(_SLOTS).scalar_subquery(),
)
_TOLD = select(_EVENTS.c.job_id).where(_EVENTS.c.id > bindparam("after"), _EVENTS.c.id <= bindparam("until"))
_TOLD_JOBS = select(_JOBS).where(_JOBS.c.job_id.in_(_TOLD))
_VERSIONS = select(_JOBS.c.job_id, _JOBS.c.version).where(_IS_SHOWN)
_SHOWN_JOBS = select(_JOBS).where(_JOBS.c.job_id.in_(_WANTED), _IS_SHOWN)
_OPEN_ATTEMPTS = select(_ATTEMPTS).where(_ATTEMPTS.c.job_id.in_(_WANTED), _ATTEMPTS.c.state != AttemptState.ENDED.value)
_ALL_SLOTS = select(_SLOTS).order_by(_SLOTS.c.attempt_id, _SLOTS.c.node, _SLOTS.c.gpu_index, _SLOTS.c.slot)
_THEIR_SLOTS = (
    select(_SLOTS)
    .where(_SLOTS.c.attempt_id.in_(_WANTED))
    .order_by(_SLOTS.c.attempt_id, _SLOTS.c.node, _SLOTS.c.gpu_index, _SLOTS.c.slot)
)
_VERDICTS = select(_PAIRS.c.id, _PAIRS.c.verdict).where(_IS_TOGETHER).order_by(_PAIRS.c.id)
_PAIRS_BY_ID = select(_PAIRS).where(_PAIRS.c.id.in_(_WANTED))
_THEIR_PAIRS = select(_PAIRS).where(
    _IS_TOGETHER, _PAIRS.c.first_attempt_id.in_(_WANTED) | _PAIRS.c.later_attempt_id.in_(_WANTED)
)
_ISOLATED = select(_CONDITIONS).where(_CONDITIONS.c.lifted_at.is_(None)).order_by(_CONDITIONS.c.id)
_LENT = select(_LOANS).where(_LOANS.c.returned_at.is_(None)).order_by(_LOANS.c.id)


@dataclass(frozen=True, slots=True)
class _Known:
    """What was read last; replaced as a whole, so that a failed read leaves the old one true.

    Attributes:
        event: number of the last event that it takes into account.
        compared_at: when every version was last compared, on this process's own clock.
        running: jobs that hold GPUs, by attempt id; ``active`` are the same in the order of their placement.
    """

    event: int
    compared_at: float
    jobs: dict[str, Job]
    waiting: tuple[Job, ...]
    running: dict[str, ActiveAttempt]
    active: tuple[ActiveAttempt, ...]
    held: dict[str, tuple[SlotUse, ...]]
    pairs: dict[int, Pair]


_NOTHING = _Known(0, 0.0, {}, (), {}, (), {}, {})


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
        return int(self._database.rows(_CHANGE)[0]["value"])

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
        view = QueueView(
            change=change,
            waiting=known.waiting,
            active=known.active,
            jobs=known.jobs,
            running=known.running,
            held=known.held,
            isolated=tuple(reason_from_row(row) for row in connection.execute(_ISOLATED).mappings()),
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
        rows = connection.execute(_TOLD_JOBS, {"after": known.event, "until": event}).mappings().all()
    fresh = {row["job_id"]: job_from_row(row) for row in rows if row["state"] in _SHOWN}
    after = _changed(connection, known, {row["job_id"] for row in rows}, fresh, event)
    if after is None:
        return None
    shown, slots = connection.execute(_COUNTS).one()
    return after if (shown, slots) == (len(after.jobs), sum(map(len, after.held.values()))) else None


def _compared(connection: Connection, known: _Known, event: int) -> _Known:
    """What is known now, by the version of every job."""
    versions = {str(job_id): int(version) for job_id, version in connection.execute(_VERSIONS).all()}
    changed = {job_id for job_id in known.jobs if job_id not in versions}
    for job_id, version in versions.items():
        job = known.jobs.get(job_id)
        if job is None or job.version != version:
            changed.add(job_id)
    pairs = _all_pairs(connection, known.pairs)
    for before, ids in ((known, changed), (_NOTHING, set(versions))):
        fresh = {row["job_id"]: job_from_row(row) for row in _rows(connection, _SHOWN_JOBS, sorted(ids))}
        after = _changed(connection, before, ids, fresh, event, pairs)
        if after is not None:
            held = _by_attempt(connection.execute(_ALL_SLOTS).all())
            return replace(after, held=held, compared_at=time.monotonic())
    raise StateError("an active job has no open attempt; the state database was changed by hand")


def _changed(
    connection: Connection,
    known: _Known,
    changed: set[str],
    fresh: dict[str, Job],
    event: int,
    pairs: dict[int, Pair] | None = None,
) -> _Known | None:
    """What is known once jobs have changed; ``None`` when that does not fit together.

    Args:
        fresh: those of them that wait or run, as they are now.
        pairs: all that are together, where they have been read already.
    """
    jobs = _without(known.jobs, changed) | fresh
    old = [known.jobs[job_id] for job_id in changed if job_id in known.jobs]
    waited = [job for job in old if not job.state.is_active]
    waits = [job for job in fresh.values() if not job.state.is_active]
    waiting = _replaced(known.waiting, waited, waits, _ARRIVAL_ORDER)
    ran = [attempt_id(job.job_id, job.attempt_count) for job in old if job.state.is_active]
    runs = sorted(job.job_id for job in fresh.values() if job.state.is_active)
    attempts = {row["job_id"]: attempt_from_row(row) for row in _rows(connection, _OPEN_ATTEMPTS, runs)}
    if attempts.keys() != set(runs):
        return None
    theirs = sorted({*ran, *(attempt.attempt_id for attempt in attempts.values())})
    fresh_slots = _by_attempt([tuple(row.values()) for row in _rows(connection, _THEIR_SLOTS, theirs)])
    held = _without(known.held, theirs) | fresh_slots
    if pairs is None:
        pairs = _current_pairs(connection, known.pairs, theirs) if theirs else known.pairs
    newly = {one.attempt_id: ActiveAttempt(fresh[job_id], one, ()) for job_id, one in attempts.items()}
    running = _without(known.running, ran) | newly
    others = _partners_of_changed(newly, known.pairs, pairs)
    running |= {name: replace(running[name], partner_attempt_ids=beside) for name, beside in others if name in running}
    touched = {*ran, *newly, *(name for name, _ in others)}
    left = [known.running[name] for name in touched if name in known.running]
    came = [running[name] for name in touched if name in running]
    active = _replaced(known.active, left, came, _PLACED_ORDER)
    return _Known(event, known.compared_at, jobs, waiting, running, active, held, pairs)


def _partners_of_changed(
    newly: Collection[str], before: dict[int, Pair], pairs: dict[int, Pair]
) -> list[tuple[str, tuple[str, ...]]]:
    """Attempts that somebody has come to or left, and ``newly`` read ones, each with its partners of now.

    An attempt shares its GPUs with those that it is in an open pair with: slots and pairs change together.
    """
    differing = [before.get(pair_id) or pairs[pair_id] for pair_id in before.keys() ^ pairs.keys()]
    members = {*newly, *(name for pair in differing for name in (pair.first_attempt_id, pair.later_attempt_id))}
    partners: dict[str, list[str]] = {name: [] for name in members}
    for pair in pairs.values():
        first, later = pair.first_attempt_id, pair.later_attempt_id
        if first in members:
            partners[first].append(later)
        if later in members:
            partners[later].append(first)
    return [(name, tuple(sorted(others))) for name, others in partners.items()]


def _by_attempt(rows: Iterable[Any]) -> dict[str, tuple[SlotUse, ...]]:
    slots = [SlotUse(*row) for row in rows]
    found: dict[str, list[SlotUse]] = {slot.attempt_id: [] for slot in slots}
    for slot in slots:
        found[slot.attempt_id].append(slot)
    return {name: tuple(theirs) for name, theirs in found.items()}


def _current_pairs(connection: Connection, known: dict[int, Pair], theirs: list[str]) -> dict[int, Pair]:
    """Pairs that are together. Each change of one that a loop wants to see is an event of one of its jobs."""
    away = set(theirs)
    stale = [i for i, pair in known.items() if pair.first_attempt_id in away or pair.later_attempt_id in away]
    fresh = {row["id"]: pair_from_row(row) for row in _rows(connection, _THEIR_PAIRS, theirs)}
    for pair_id, pair in fresh.items():
        before = known.get(pair_id)
        if before is not None and before.verdict == pair.verdict:
            fresh[pair_id] = before
    kept = _without(known, stale)
    return dict(sorted((kept | fresh).items())) if fresh else kept


def _all_pairs(connection: Connection, known: dict[int, Pair]) -> dict[int, Pair]:
    """Pairs that are together; one is read again when its verdict has changed."""
    now = [(int(pair_id), str(verdict)) for pair_id, verdict in connection.execute(_VERDICTS).all()]
    stale = [pair_id for pair_id, verdict in now if pair_id not in known or known[pair_id].verdict != verdict]
    fresh = {row["id"]: pair_from_row(row) for row in _rows(connection, _PAIRS_BY_ID, stale)}
    return {pair_id: fresh.get(pair_id) or known[pair_id] for pair_id, _ in now}


def _without(items: dict[K, T], keys: Iterable[K]) -> dict[K, T]:
    """A copy without these keys."""
    kept = dict(items)
    for key in keys:
        kept.pop(key, None)
    return kept


def _replaced(items: tuple[T, ...], gone: Sequence[T], fresh: Sequence[T], order: Callable[[T], Any]) -> tuple[T, ...]:
    """Sorted items with some exchanged; where these are few, by a search for their places instead of a sort."""
    if not gone and not fresh:
        return items
    kept = list(items)
    for item in gone:
        del kept[bisect_left(kept, order(item), key=order)]
    if len(fresh) * 8 > len(kept):
        return tuple(sorted([*kept, *fresh], key=order))
    for item in fresh:
        insort(kept, item, key=order)
    return tuple(kept)


def _rows(connection: Connection, statement: Select[Any], wanted: Sequence[object]) -> Iterable[Any]:
    for start in range(0, len(wanted), _CHUNK):
        yield from connection.execute(statement, {"wanted": wanted[start : start + _CHUNK]}).mappings()
