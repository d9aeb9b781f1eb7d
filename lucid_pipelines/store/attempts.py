"""Attempts: place, start, stop, end. These four keep GPUs, intents, outbox and history in step."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy import select, update

from lucid_pipelines.domain.cluster import Placement
from lucid_pipelines.domain.errors import NotFoundError
from lucid_pipelines.domain.job import Attempt, Estimate, ExitRecord, Profile
from lucid_pipelines.domain.states import AttemptState, Cause, JobState, Outcome
from lucid_pipelines.store import tables
from lucid_pipelines.store.cancelling import lock_attempt, stop
from lucid_pipelines.store.changing import change_job, lock_job, move_job, note
from lucid_pipelines.store.codec import attempt_from_row, profile_to_json
from lucid_pipelines.store.database import Database, Transaction
from lucid_pipelines.store.ending import End, record_end
from lucid_pipelines.store.ids import job_id_of
from lucid_pipelines.store.placing import place
from lucid_pipelines.store.records import EndResult, EventKind
from lucid_pipelines.store.statements import key_values, select_by

_ATTEMPTS = tables.attempts


class Attempts:
    """The attempts of the state database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    # ---- read -----------------------------------------------------------------------------------------

    def get(self, attempt_id: str) -> Attempt:
        """The attempt with this id. Raises ``NotFoundError``."""
        query = select(_ATTEMPTS).where(_ATTEMPTS.c.attempt_id == attempt_id)
        row = self._database.read(lambda c: c.execute(query).mappings().first())
        if row is None:
            raise NotFoundError(f"no attempt has this id: {attempt_id!r}")
        return attempt_from_row(row)

    def of_job(self, job_id: str) -> list[Attempt]:
        """All attempts of a job, first one first."""
        rows = self._database.rows(select_by(_ATTEMPTS, "job_id"), key_values({"job_id": job_id}))
        return sorted((attempt_from_row(row) for row in rows), key=lambda attempt: attempt.number)

    def active(self) -> list[Attempt]:
        """Every attempt that has not ended, oldest placement first."""
        open_ones = _ATTEMPTS.c.state.in_([s.value for s in AttemptState if s is not AttemptState.ENDED])
        query = select(_ATTEMPTS).where(open_ones).order_by(_ATTEMPTS.c.placed_at, _ATTEMPTS.c.attempt_id)
        return self._database.read(lambda c: [attempt_from_row(row) for row in c.execute(query).mappings()])

    # ---- change ---------------------------------------------------------------------------------------

    def place(
        self,
        job_id: str,
        placement: Placement,
        *,
        who: str,
        now: datetime,
        why: str = "placed",
        reasons: object = None,
        partner_job_id: str | None = None,
        profiling: bool = False,
        estimate: Estimate | None = None,
        expected_version: int | None = None,
        gpu_sharing: str | None = None,
    ) -> Attempt:
        """Move a job from ``queued`` to ``running`` and give it its GPUs.

        One transaction: attempt row, GPU slots, launch intent ``launch:<attempt id>``, event. Without a
        partner the attempt takes both halves of every GPU; with one it takes the half that the partner keeps
        free or gives up, on GPUs that the partner holds.

        Args:
            reasons: which rule, which numbers: JSON, kept in the event.
            partner_job_id: a running job to share with.
            profiling: from ``profile_queued`` to ``profiling`` instead.
            estimate: stored as a prediction before its outcome and as the job's estimate.
            expected_version: refuse unless the job still has this version.
            gpu_sharing: how its GPUs are shared should a partner come; kept on the attempt.

        Raises:
            StateError: the job's state or version is another, a GPU is in use or isolated, or the partner
                cannot share. Nothing was changed.
        """
        return self._database.write(
            lambda tx: place(
                tx,
                job_id,
                placement,
                partner_job_id=partner_job_id,
                profiling=profiling,
                who=who,
                why=why,
                reasons=reasons,
                now=now,
                estimate=estimate,
                expected_version=expected_version,
                gpu_sharing=gpu_sharing,
            )
        )

    def record_started(
        self,
        attempt_id: str,
        started_at: datetime,
        *,
        who: str,
        now: datetime,
        log_path: str | None = None,
        as_of: datetime | None = None,
    ) -> bool:
        """Note that the attempt's command runs. Returns ``False`` when that was known or it has ended."""

        def work(tx: Transaction) -> bool:
            job = lock_job(tx, job_id_of(attempt_id))
            attempt = lock_attempt(tx, attempt_id)
            if attempt["state"] == AttemptState.ENDED or attempt["started_at"] is not None:
                return False
            values: dict[str, object] = {"started_at": started_at}
            if attempt["state"] == AttemptState.PLACED:
                values["state"] = AttemptState.RUNNING.value
            if log_path is not None:
                values["log_path"] = log_path
            tx.execute(update(_ATTEMPTS).where(_ATTEMPTS.c.attempt_id == attempt_id).values(values))
            job = change_job(tx, job, {"started_at": started_at})
            evidence = {"attempt_id": attempt_id, "started_at": started_at}
            note(tx, job, EventKind.STARTED, who=who, why="started", now=now, evidence=evidence, as_of=as_of)
            return True

        return self._database.write(work)

    def set_log_path(self, attempt_id: str, log_path: str, *, now: datetime, who: str = "dispatcher") -> None:
        """Keep where the attempt's log can be read. Raises ``NotFoundError``."""

        def work(tx: Transaction) -> None:
            job = lock_job(tx, job_id_of(attempt_id))
            lock_attempt(tx, attempt_id)
            mine = _ATTEMPTS.c.attempt_id == attempt_id
            tx.execute(update(_ATTEMPTS).where(mine).values(log_path=log_path))
            note(tx, change_job(tx, job, {}), EventKind.NOTE, who=who, why=f"its log is {log_path}", now=now)

        self._database.write(work)

    def go_on(
        self,
        attempt_id: str,
        *,
        who: str,
        now: datetime,
        why: str = "goes on where it was profiled",
        profile: Profile | None = None,
        evidence: object = None,
    ) -> bool:
        """Turn a profiling run into the job's run proper, where it is. Returns ``False`` when it is none any more."""

        def work(tx: Transaction) -> bool:
            job = lock_job(tx, job_id_of(attempt_id))
            attempt = lock_attempt(tx, attempt_id)
            is_open = attempt["state"] not in (AttemptState.ENDED, AttemptState.STOPPING)
            if job["state"] != JobState.PROFILING or not is_open:
                return False
            tx.execute(update(_ATTEMPTS).where(_ATTEMPTS.c.attempt_id == attempt_id).values(profiling=False))
            values: dict[str, object] = {} if profile is None else {"profile": profile_to_json(profile)}
            move_job(tx, job, JobState.RUNNING, who=who, why=why, now=now, evidence=evidence, values=values)
            return True

        return self._database.write(work)

    def request_stop(
        self,
        attempt_id: str,
        *,
        reason: str,
        requeue: bool,
        who: str,
        now: datetime,
        never_pack: bool = False,
        evidence: object = None,
    ) -> tuple[Attempt, bool]:
        """Ask for the attempt to be stopped (intent ``stop:<attempt id>``); its end is recorded later.

        ``requeue`` and ``never_pack`` are kept on the attempt for whoever records the end.

        Returns:
            The attempt, and whether this call asked first; a stop that stands, or an end, is left alone.
        """
        return self._database.write(
            lambda tx: stop(
                tx,
                attempt_id,
                reason=reason,
                requeue=requeue,
                never_pack=never_pack,
                who=who,
                now=now,
                evidence=evidence,
            )
        )

    def record_end(
        self,
        attempt_id: str,
        exit: ExitRecord | None,
        outcome: Outcome,
        *,
        who: str,
        now: datetime,
        cause: Cause | None = None,
        why: str = "",
        requeue: bool = False,
        never_pack: bool = False,
        avoid_nodes: Iterable[str] = (),
        profile: Profile | None = None,
        detail: str | None = None,
        evidence: object = None,
        as_of: datetime | None = None,
    ) -> EndResult:
        """Record the end of an attempt, once; a second call changes nothing and says so (``changed``).

        One transaction: attempt, freed GPU slots, void launch and stop intents, job state, outbox row,
        history row, scores of the job's estimates (completed runs only), events.

        The job becomes ``completed``, ``cancelled``, ``failed`` (any ``failed_…`` and
        ``control_plane_error``), ``lost`` or ``evicted`` by ``outcome``. An eviction from the profiling pool
        goes to ``queued`` with ``requeue`` and back to ``profile_queued`` without. An eviction of a job whose
        user asked to cancel it is a cancellation.

        Args:
            exit: the wrapper's record; ``None`` when there is none. Its times win over ``now``.
            requeue: put the job back into the queue at once, unless its user asked to cancel it.
            profile: measured profile; the exit record's own is used otherwise.
        """
        end = End(
            exit=exit,
            outcome=outcome,
            cause=cause,
            requeue=requeue,
            never_pack=never_pack,
            avoid_nodes=tuple(avoid_nodes),
            profile=profile,
            detail=detail,
            who=who,
            why=why,
            evidence=evidence,
            as_of=as_of,
        )
        return self._database.write(lambda tx: record_end(tx, attempt_id, end, now))
