"""History: one row per ended attempt, and what the completed ones say about durations as of any moment."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from statistics import fmean
from typing import Any

from sqlalchemy import ColumnElement, Connection, select, text

from lucid_pipelines.domain.history import DurationStats, HistoryRow, Rung, RungStats
from lucid_pipelines.domain.job import Profile
from lucid_pipelines.domain.quantiles import quantile
from lucid_pipelines.domain.states import Cause, Outcome
from lucid_pipelines.store import tables
from lucid_pipelines.store.codec import history_from_row, profile_to_json
from lucid_pipelines.store.database import Database, Transaction

_HISTORY = tables.history
_EVIDENCE_IDS = 5
_CHUNK = 500
_TEACHES = text("outcome = 'completed'")  # literal, so that the partial indexes serve


def insert_history(
    tx: Transaction,
    job: dict[str, Any],
    attempt: dict[str, Any],
    *,
    run_s: float | None,
    outcome: Outcome,
    cause: Cause | None,
    profile: Profile | None,
    packed: bool,
) -> None:
    """Write the attempt's row within the transaction that ends it."""
    row = {
        "attempt_id": attempt["attempt_id"],
        "job_id": job["job_id"],
        "number": attempt["number"],
        "user": job["user"],
        "vc": job["vc"],
        "name": job["name"],
        "gpus": job["gpus"],
        "submitted_at": job["submitted_at"],
        "started_at": attempt["started_at"],
        "ended_at": attempt["ended_at"],
        "duration_s": run_s,
        "outcome": outcome.value,
        "cause": cause.value if cause else None,
        "profile": profile_to_json(profile),
        "placement": attempt["placement"],
        "packed": packed,
        "profiling": attempt["profiling"],
    }
    tx.insert_or_ignore(_HISTORY, row)


class History:
    """What has run here."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def duration_stats(
        self, user: str, gpus: int, as_of: datetime, *, max_samples: int = 1000, enough: int | None = None
    ) -> DurationStats:
        """What completed runs say about a job of this user and size, as of a moment.

        Each rung looks at the newest ``max_samples`` completed runs that ended at or before ``as_of``, so that
        the answer is fast over any history and follows drift. Packed runs count with the duration that they
        had; profiling attempts that completed count too.

        Args:
            enough: leave out the rungs below the first one that has this many runs; ``None`` = all four.
        """
        by_rung: dict[Rung, tuple[ColumnElement[bool], ...]] = {
            Rung.USER_AND_GPUS: (_HISTORY.c.user == user, _HISTORY.c.gpus == gpus),
            Rung.USER: (_HISTORY.c.user == user,),
            Rung.SAME_GPUS: (_HISTORY.c.gpus == gpus,),
            Rung.GLOBAL: (),
        }

        def work(connection: Connection) -> DurationStats:
            found: list[RungStats] = []
            for rung, conditions in by_rung.items():
                stats = _rung(connection, rung, conditions, as_of, max_samples)
                if stats is not None:
                    found.append(stats)
                    if enough is not None and stats.count >= enough:
                        break
            return DurationStats(as_of, tuple(found))

        return self._database.read(work)

    def rows(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        user: str | None = None,
        outcomes: Collection[Outcome] | None = None,
        limit: int | None = None,
        newest_first: bool = False,
    ) -> list[HistoryRow]:
        """Attempts that ended in ``[since, until)``, by time of their end."""
        order = (_HISTORY.c.ended_at, _HISTORY.c.attempt_id)
        query = select(_HISTORY).order_by(*(column.desc() for column in order) if newest_first else order)
        if since is not None:
            query = query.where(_HISTORY.c.ended_at >= since)
        if until is not None:
            query = query.where(_HISTORY.c.ended_at < until)
        if user is not None:
            query = query.where(_HISTORY.c.user == user)
        if outcomes is not None:
            query = query.where(_HISTORY.c.outcome.in_(sorted(outcome.value for outcome in outcomes)))
        if limit is not None:
            query = query.limit(limit)
        return self._database.read(lambda c: [history_from_row(row) for row in c.execute(query).mappings()])

    def add(self, rows: Iterable[HistoryRow]) -> int:
        """Import history from elsewhere (a trace, another cluster); attempt ids that exist are left alone.

        Returns:
            How many rows were new.
        """
        documents = [_document(row) for row in rows]
        added = 0
        for start in range(0, len(documents), _CHUNK):
            chunk = documents[start : start + _CHUNK]
            added += self._database.write(lambda tx, chunk=chunk: len(tx.insert_new(_HISTORY, chunk)))
        return added


def _rung(
    connection: Connection,
    rung: Rung,
    conditions: tuple[ColumnElement[bool], ...],
    as_of: datetime,
    max_samples: int,
) -> RungStats | None:
    query = (
        select(_HISTORY.c.duration_s, _HISTORY.c.job_id)
        .where(_TEACHES, _HISTORY.c.ended_at <= as_of, _HISTORY.c.duration_s.is_not(None), *conditions)
        .order_by(_HISTORY.c.ended_at.desc())
        .limit(max_samples)
    )
    rows = connection.execute(query).all()
    if not rows:
        return None
    durations = sorted(duration for duration, _ in rows)
    q10, median, q90 = (quantile(durations, share) for share in (0.1, 0.5, 0.9))
    newest = tuple(dict.fromkeys(job_id for _, job_id in rows))[:_EVIDENCE_IDS]
    return RungStats(rung, len(rows), fmean(durations), q10, median, q90, newest)


def _document(row: HistoryRow) -> dict[str, Any]:
    return {
        "attempt_id": row.attempt_id,
        "job_id": row.job_id,
        "number": row.number,
        "user": row.user,
        "vc": row.vc,
        "name": row.name,
        "gpus": row.gpus,
        "submitted_at": row.submitted_at,
        "started_at": row.started_at,
        "ended_at": row.ended_at,
        "duration_s": row.duration_s,
        "outcome": row.outcome.value,
        "cause": row.cause.value if row.cause else None,
        "profile": profile_to_json(row.profile),
        "placement": row.placement.to_json() if row.placement else None,
        "packed": row.packed,
        "profiling": row.profiling,
    }
