"""Pairs: which attempts shared GPUs, on what that was decided, and how it went."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import select, update

from lucid_pipelines.domain.errors import NotFoundError
from lucid_pipelines.store import tables
from lucid_pipelines.store.changing import lock_job, note
from lucid_pipelines.store.codec import pair_from_row
from lucid_pipelines.store.database import Database, Transaction
from lucid_pipelines.store.ids import job_id_of
from lucid_pipelines.store.records import EventKind, Json, Pair, PairVerdict

WHO = "binder"
_PAIRS = tables.pairs
_WORDS = {
    PairVerdict.WATCHED: "watched",
    PairVerdict.KEPT: "kept",
    PairVerdict.SPLIT: "to be split",
    PairVerdict.UNKNOWN: "left alone",
}


def insert_pair(tx: Transaction, host_id: str, attempt: dict[str, Any], planned: object, now: datetime) -> None:
    """Note a pair within the transaction that places its later attempt."""
    row = {
        "first_attempt_id": host_id,
        "later_attempt_id": attempt["attempt_id"],
        "placement": attempt["placement"],
        "formed_at": now,
        "planned": planned,
        "verdict": PairVerdict.WATCHED.value,
    }
    tx.insert_or_ignore(_PAIRS, row)


def end_pairs(tx: Transaction, attempt_id: str, ended_at: datetime) -> None:
    """Note that an attempt has left the one that it shared GPUs with."""
    mine = (_PAIRS.c.first_attempt_id == attempt_id) | (_PAIRS.c.later_attempt_id == attempt_id)
    tx.execute(update(_PAIRS).where(mine, _PAIRS.c.ended_at.is_(None)).values(ended_at=ended_at))


class Pairs:
    """The pairs of the state database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def open(self) -> list[Pair]:
        """Pairs that are together now, oldest first."""
        query = select(_PAIRS).where(_PAIRS.c.ended_at.is_(None)).order_by(_PAIRS.c.id)
        return self._database.read(lambda c: [pair_from_row(row) for row in c.execute(query).mappings()])

    def get(self, pair_id: int) -> Pair:
        """Raises ``NotFoundError``."""
        query = select(_PAIRS).where(_PAIRS.c.id == pair_id)
        row = self._database.read(lambda c: c.execute(query).mappings().first())
        if row is None:
            raise NotFoundError(f"no pair has this number: {pair_id}")
        return pair_from_row(row)

    def find(
        self,
        *,
        attempt_id: str | None = None,
        since: datetime | None = None,
        ended_since: datetime | None = None,
        verdict: PairVerdict | None = None,
        limit: int | None = None,
    ) -> list[Pair]:
        """Pairs that meet every filter given, newest first; ``since`` looks at when they were formed."""
        query = select(_PAIRS).order_by(_PAIRS.c.id.desc()).limit(limit)
        if attempt_id is not None:
            mine = (_PAIRS.c.first_attempt_id == attempt_id) | (_PAIRS.c.later_attempt_id == attempt_id)
            query = query.where(mine)
        if since is not None:
            query = query.where(_PAIRS.c.formed_at >= since)
        if ended_since is not None:
            query = query.where(_PAIRS.c.ended_at >= ended_since)
        if verdict is not None:
            query = query.where(_PAIRS.c.verdict == verdict.value)
        return self._database.read(lambda c: [pair_from_row(row) for row in c.execute(query).mappings()])

    def judge(self, pair_id: int, verdict: PairVerdict, why: str, measured: Json, *, now: datetime) -> Pair:
        """Keep what was measured and concluded. Another verdict wakes a loop, and is told in the later job's story.

        A pair that is to be split stays so: what is seen afterwards, while it ends, says nothing.

        Raises:
            NotFoundError: no such pair.
        """

        def work(tx: Transaction) -> Pair:
            mine = select(_PAIRS).where(_PAIRS.c.id == pair_id)
            later = tx.execute(mine.with_only_columns(_PAIRS.c.later_attempt_id)).scalar()
            if later is None:
                raise NotFoundError(f"no pair has this number: {pair_id}")
            job = lock_job(tx, job_id_of(later))  # a job before anything of its own, as everywhere
            row = tx.execute(mine.with_for_update()).mappings().one()
            if row["verdict"] == PairVerdict.SPLIT or row["ended_at"] is not None:
                return pair_from_row(row)
            values: dict[str, Any] = {"measured": dict(measured), "why": why}
            if row["verdict"] != verdict:
                values |= {"verdict": verdict.value, "verdict_at": now}
                told = f"its pair is {_WORDS[verdict]}: {why}"
                note(tx, job, EventKind.NOTE, who=WHO, why=told, now=now, evidence={"pair": pair_id})
            tx.execute(update(_PAIRS).where(_PAIRS.c.id == pair_id).values(values))
            return pair_from_row(dict(row) | values)

        return self._database.write(work)
