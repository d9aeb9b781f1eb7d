"""Jobs: submit, read, move, cancel, put back; and claims on jobs for intake workers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any, Unpack

from sqlalchemy import Connection, Select, func, select

from lucid_pipelines.domain.errors import InputError, StaleLockError, StateError
from lucid_pipelines.domain.job import Job, JobSpec
from lucid_pipelines.domain.states import JobState
from lucid_pipelines.store import claiming, tables
from lucid_pipelines.store.cancelling import cancel, requeue
from lucid_pipelines.store.changing import change_job, column_values, job_not_found, lock_job, move_job, note
from lucid_pipelines.store.codec import job_from_row
from lucid_pipelines.store.database import Database, Transaction
from lucid_pipelines.store.ids import JobIds, is_job_id, prefix_range
from lucid_pipelines.store.records import CancelResult, Claim, EventKind, JobChanges
from lucid_pipelines.store.submission import checked, insert_jobs

_JOBS = tables.jobs
_LISTED_IDS = 5


class Jobs:
    """The jobs of the state database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._ids = JobIds()

    # ---- in -------------------------------------------------------------------------------------------

    def submit(self, spec: JobSpec, now: datetime, *, who: str | None = None) -> tuple[Job, bool]:
        """Take a job in; ``(user, idempotency_key)`` names it once.

        Returns:
            The job, and whether this call created it.

        Raises:
            InputError: the spec cannot be kept.
            StateError: the key stands for a job whose spec differs; the message names how.
        """
        return self.submit_many([spec], now, who=who)[0]

    def submit_many(self, specs: Iterable[JobSpec], now: datetime, *, who: str | None = None) -> list[tuple[Job, bool]]:
        """Take many jobs in, all or none, in their order. See ``submit``."""
        listed = checked(specs)
        return self._database.write(lambda tx: insert_jobs(tx, listed, self._ids, now=now, who=who))

    # ---- read -----------------------------------------------------------------------------------------

    def get(self, job_id: str) -> Job:
        """The job with this id. Raises ``NotFoundError`` naming the nearest id or name."""

        def work(connection: Connection) -> Job:
            row = connection.execute(select(_JOBS).where(_JOBS.c.job_id == job_id)).mappings().first()
            if row is None:
                raise job_not_found(connection, job_id)
            return job_from_row(row)

        return self._database.read(work)

    def resolve(self, text: str) -> Job:
        """The job that a person means: by id, by the unique beginning of an id, or by unique name.

        Raises:
            NotFoundError: nothing fits; the message names the nearest id or name.
            InputError: several jobs fit; the message lists the newest ids.
        """
        return self._database.read(lambda connection: _resolve(connection, text))

    def find(
        self,
        *,
        states: Collection[JobState] | None = None,
        user: str | None = None,
        vc: str | None = None,
        name: str | None = None,
        ids: Collection[str] | None = None,
        limit: int | None = 100,
        before: Job | None = None,
    ) -> list[Job]:
        """Jobs that meet every filter given, newest submission first.

        Args:
            ids: only these; unknown ids are left out.
            before: continue below this job (the last one of the previous page).
        """
        query: Select[Any] = select(_JOBS).order_by(_JOBS.c.submitted_at.desc(), _JOBS.c.job_id.desc())
        if states is not None:
            query = query.where(_JOBS.c.state.in_(sorted(state.value for state in states)))
        if ids is not None:
            query = query.where(_JOBS.c.job_id.in_(sorted(ids)))
        for column, value in ((_JOBS.c.user, user), (_JOBS.c.vc, vc), (_JOBS.c.name, name)):
            if value is not None:
                query = query.where(column == value)
        if before is not None:
            earlier = _JOBS.c.submitted_at < before.submitted_at
            same = (_JOBS.c.submitted_at == before.submitted_at) & (_JOBS.c.job_id < before.job_id)
            query = query.where(earlier | same)
        if limit is not None:
            query = query.limit(limit)
        return self._database.read(lambda c: [job_from_row(row) for row in c.execute(query).mappings()])

    def submissions(self, *, since: datetime, until: datetime | None = None) -> list[tuple[datetime, int]]:
        """When jobs were submitted in ``[since, until)`` and how many GPUs each asked for, oldest first."""
        query = select(_JOBS.c.submitted_at, _JOBS.c.gpus).where(_JOBS.c.submitted_at >= since)
        if until is not None:
            query = query.where(_JOBS.c.submitted_at < until)
        query = query.order_by(_JOBS.c.submitted_at)
        return self._database.read(lambda c: [(at, int(gpus)) for at, gpus in c.execute(query).all()])

    def counts(self, *, vc: str | None = None) -> dict[JobState, int]:
        """How many jobs are in each state; every state has an entry."""
        query = select(_JOBS.c.state, func.count()).group_by(_JOBS.c.state)
        if vc is not None:
            query = query.where(_JOBS.c.vc == vc)
        found = self._database.read(lambda c: {state: int(count) for state, count in c.execute(query)})
        return {state: found.get(state.value, 0) for state in JobState}

    # ---- change ---------------------------------------------------------------------------------------

    def transition(
        self,
        job_id: str,
        from_states: Collection[JobState],
        to_state: JobState,
        *,
        who: str,
        why: str,
        now: datetime,
        evidence: object = None,
        as_of: datetime | None = None,
        expected_version: int | None = None,
        claim: Claim[Job] | None = None,
        **changes: Unpack[JobChanges],
    ) -> Job:
        """Compare-and-set the job's state, with an event, in one transaction.

        Starts and ends of attempts are not made here: use ``store.attempts.place`` and ``record_end``, which
        keep GPUs, intents and history in step. ``profiling -> running`` (go on in place) is.

        Args:
            expected_version: refuse unless the job still has this version.
            claim: refuse unless this claim still stands; the claim ends with the transition.
            changes: further fields to set, e.g. ``snapshot_digest=…``.

        Raises:
            StateError: the job is in another state (named), has another version, or no such arrow exists.
            StaleLockError: the claim was lost.
        """

        def work(tx: Transaction) -> Job:
            row = lock_job(tx, job_id)
            state = JobState(row["state"])
            if claim is not None and row["lock_token"] != claim.token:
                raise StaleLockError(f"this worker's claim ran out; drop its result: {job_id} is {state}")
            if state not in from_states:
                wanted = " or ".join(sorted(from_states))
                raise StateError(f"expected the job to be {wanted}; {job_id} is {state}")
            if expected_version is not None and row["version"] != expected_version:
                raise StateError(
                    f"expected version {expected_version}; read the job again: {job_id} has {row['version']}"
                )
            _refuse_shortcut(job_id, state, to_state, changes)
            values = column_values(changes)
            moved = move_job(
                tx, row, to_state, who=who, why=why, now=now, evidence=evidence, as_of=as_of, values=values
            )
            return job_from_row(moved)

        return self._database.write(work)

    def annotate(
        self,
        job_id: str,
        *,
        who: str,
        why: str,
        now: datetime,
        evidence: object = None,
        as_of: datetime | None = None,
        **changes: Unpack[JobChanges],
    ) -> Job:
        """Add an event (kind ``note``) and set fields without moving the job."""

        def work(tx: Transaction) -> Job:
            row = change_job(tx, lock_job(tx, job_id), column_values(changes))
            note(tx, row, EventKind.NOTE, who=who, why=why, now=now, evidence=evidence, as_of=as_of)
            return job_from_row(row)

        return self._database.write(work)

    def request_cancel(self, job_id: str, *, who: str, now: datetime, why: str = "cancelled") -> CancelResult:
        """Cancel a job: at once while it holds no GPU, else by a stop intent (key ``stop:<attempt id>``).

        Asking again changes nothing. A running job becomes ``cancelled`` when its end is recorded.

        Raises:
            StateError: the job has ended in another way.
        """
        return self._database.write(lambda tx: cancel(tx, job_id, who=who, why=why, now=now))

    def requeue(
        self,
        job_id: str,
        *,
        who: str,
        why: str,
        now: datetime,
        avoid_nodes: Iterable[str] = (),
        never_pack: bool = False,
        evidence: object = None,
    ) -> Job:
        """Put a failed, lost or evicted job back into the queue.

        From ``failed`` and ``lost`` this is a restart: ``restart_count`` counts up. ``avoid_nodes`` are added
        to those that the job avoids already.

        Raises:
            StateError: the job is in another state, or its user has asked to cancel it.
        """
        avoided = tuple(avoid_nodes)
        return self._database.write(
            lambda tx: requeue(
                tx, job_id, who=who, why=why, now=now, avoid=avoided, never_pack=never_pack, evidence=evidence
            )
        )

    # ---- claims ---------------------------------------------------------------------------------------

    def claim(
        self, states: Collection[JobState], *, worker: str, now: datetime, limit: int, ttl_s: float
    ) -> list[Claim[Job]]:
        """Take up to ``limit`` jobs in these states for ``ttl_s``, oldest submission first.

        Finish each with ``transition(..., claim=claim)`` or ``release``. An ended claim leaves the job's
        version alone.
        """
        eligible = _JOBS.c.state.in_(sorted(state.value for state in states))

        def work(tx: Transaction) -> list[Claim[Job]]:
            order = (_JOBS.c.submitted_at, _JOBS.c.job_id)
            rows = claiming.take(tx, _JOBS, eligible, order, limit=limit, ttl_s=ttl_s, worker=worker, now=now)
            return [claiming.claim_of(_JOBS, row, job_from_row(row)) for row in rows]

        return self._database.write(work)

    def claimable_count(self, states: Collection[JobState], *, now: datetime) -> int:
        """How many jobs in these states nobody has claimed, or whose claim has run out."""
        eligible = _JOBS.c.state.in_(sorted(state.value for state in states))
        is_free = _JOBS.c.lock_token.is_(None) | (_JOBS.c.locked_until <= now)
        query = select(func.count()).select_from(_JOBS).where(eligible, is_free)
        return self._database.read(lambda c: int(c.execute(query).scalar_one()))

    def renew(self, claim: Claim[Job], *, ttl_s: float, now: datetime) -> Claim[Job]:
        """Keep the job for another ``ttl_s``. Raises ``StaleLockError`` when the claim was lost."""
        return self._database.write(lambda tx: claiming.extend(tx, _JOBS, claim, ttl_s, now))

    def release(self, claim: Claim[Job]) -> None:
        """Give the job back unchanged. Raises ``StaleLockError`` when the claim was lost."""
        self._database.write(lambda tx: claiming.finish(tx, _JOBS, claim, {}))


def _resolve(connection: Connection, text: str) -> Job:
    if is_job_id(text):
        exact = connection.execute(select(_JOBS).where(_JOBS.c.job_id == text)).mappings().first()
        if exact is not None:
            return job_from_row(exact)
    bounds = prefix_range(text)
    if bounds is not None:
        in_range = (_JOBS.c.job_id >= bounds[0]) & (_JOBS.c.job_id < bounds[1])
        found = _only(connection, select(_JOBS).where(in_range), f"ids begin with {text!r}")
        if found is not None:
            return found
    found = _only(connection, select(_JOBS).where(_JOBS.c.name == text), f"jobs are named {text!r}")
    if found is None:
        raise job_not_found(connection, text)
    return found


def _only(connection: Connection, query: Select[Any], what: str) -> Job | None:
    newest_first = query.order_by(_JOBS.c.submitted_at.desc(), _JOBS.c.job_id.desc()).limit(_LISTED_IDS + 1)
    rows: Sequence[Any] = connection.execute(newest_first).mappings().all()
    if len(rows) > 1:
        count = f"more than {_LISTED_IDS}" if len(rows) > _LISTED_IDS else str(len(rows))
        ids = ", ".join(row["job_id"] for row in rows[:_LISTED_IDS])
        raise InputError(f"{count} {what}; use an id, newest first: {ids}")
    return job_from_row(rows[0]) if rows else None


def _refuse_shortcut(job_id: str, state: JobState, to_state: JobState, changes: JobChanges) -> None:
    goes_on_in_place = state is JobState.PROFILING and to_state is JobState.RUNNING
    if to_state.is_active and not goes_on_in_place:
        raise StateError(f"a job starts by store.attempts.place, which gives it GPUs: {job_id}")
    if state.is_active and not goes_on_in_place:
        raise StateError(f"an active job ends by store.attempts.record_end, which frees its GPUs: {job_id}")
    if to_state is JobState.FAILED and changes.get("outcome") is None:
        raise InputError(f"a job that fails before it ran needs an outcome that says whose fault it is: {job_id}")
