"""Pairs: which attempts shared GPUs, on what that was decided, and how it went."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, select, update

from lucid_pipelines.domain.errors import NotFoundError
from lucid_pipelines.store import tables
from lucid_pipelines.store.changing import lock_job, note
from lucid_pipelines.store.codec import pair_from_row
from lucid_pipelines.store.database import Database, Transaction
from lucid_pipelines.store.ids import job_id_of
from lucid_pipelines.store.records import EventKind, Json, Pair, PairVerdict
from lucid_pipelines.store.statements import key_values, select_by

WHO = "binder"
_PAIRS = tables.pairs
_SPLIT_SINCE = (
    select(_PAIRS)
    .where(_PAIRS.c.ended_at >= bindparam("since"), _PAIRS.c.verdict == PairVerdict.SPLIT.value)
    .order_by(_PAIRS.c.id.desc())
    .limit(bindparam("at_most"))
)
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
        rows = self._database.rows(select_by(_PAIRS, "id"), key_values({"id": pair_id}))
        if not rows:
            raise NotFoundError(f"no pair has this number: {pair_id}")
        return pair_from_row(rows[0])

    def find(
        self,
        *,
        attempt_id: str | None = None,
        since: datetime | None = None,
        limit: int | None = None,
    ) -> list[Pair]:
        """Pairs that meet every filter given, newest first; ``since`` looks at when they were formed."""
        query = select(_PAIRS).order_by(_PAIRS.c.id.desc()).limit(limit)
        if attempt_id is not None:
            mine = (_PAIRS.c.first_attempt_id == attempt_id) | (_PAIRS.c.later_attempt_id == attempt_id)
            query = query.where(mine)
        if since is not None:
            query = query.where(_PAIRS.c.formed_at >= since)
        return [pair_from_row(row) for row in self._database.rows(query)]

    def split_since(self, since: datetime, *, limit: int) -> list[Pair]:
        """Pairs that were to be split and have ended since a moment, newest first."""
        return [pair_from_row(row) for row in self._database.rows(_SPLIT_SINCE, {"since": since, "at_most": limit})]

    def judge(self, pair_id: int, verdict: PairVerdict, why: str, measured: Json, *, now: datetime) -> Pair:
        """Keep what was measured and concluded. Another verdict wakes a loop, and is told in the later job's story.

        A pair that is to be split stays so: what is seen afterwards, while it ends, says nothing.

        Raises:
            NotFoundError: no such pair.
        """

        def work(tx: Transaction) -> Pair:
            values: dict[str, Any] = {"measured": dict(measured), "why": why}
            row = tx.execute(select_by(_PAIRS, "id"), key_values({"id": pair_id})).mappings().first()
            if row is None:
                raise NotFoundError(f"no pair has this number: {pair_id}")
            job = None
            if row["verdict"] != verdict:  # a job is locked before anything of its own, as everywhere
                job = lock_job(tx, job_id_of(row["later_attempt_id"]))
            row = tx.locked(_PAIRS, id=pair_id)
            assert row is not None, "pairs are never deleted"
            if row["verdict"] == PairVerdict.SPLIT or row["ended_at"] is not None:
                return pair_from_row(row)
            if job is not None and row["verdict"] != verdict:
                values |= {"verdict": verdict.value, "verdict_at": now}
                told = f"its pair is {_WORDS[verdict]}: {why}"
                note(tx, job, EventKind.NOTE, who=WHO, why=told, now=now, evidence={"pair": pair_id})
            tx.change(_PAIRS, values, id=pair_id)
            return pair_from_row(row | values)

        return self._database.write(work)
