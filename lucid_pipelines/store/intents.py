"""Intents: what must be done to the world, each once, executed by a dispatcher outside any transaction."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import func, select

from lucid_pipelines.domain.errors import NotFoundError
from lucid_pipelines.store import claiming, tables
from lucid_pipelines.store.codec import intent_from_row
from lucid_pipelines.store.database import Database, Transaction
from lucid_pipelines.store.records import Claim, Intent, IntentKind, Json

_INTENTS = tables.intents


def insert_intent(
    tx: Transaction,
    *,
    key: str,
    kind: IntentKind,
    payload: Json,
    now: datetime,
    job_id: str | None = None,
    attempt_id: str | None = None,
) -> bool:
    """Leave an intent unless its key exists. Returns whether it is new."""
    row = {
        "key": key,
        "kind": kind.value,
        "payload": dict(payload),
        "job_id": job_id,
        "attempt_id": attempt_id,
        "created_at": now,
        "available_at": now,
        "failed": False,
        "lock_tries": 0,
    }
    created = tx.insert_or_ignore(_INTENTS, row)
    if created:
        tx.touch()
    return created


class Intents:
    """The work list of the dispatcher."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(
        self,
        key: str,
        kind: IntentKind,
        payload: Json,
        *,
        now: datetime,
        job_id: str | None = None,
        attempt_id: str | None = None,
    ) -> tuple[Intent, bool]:
        """Leave an intent; a key that exists returns the first intent and ``False``."""

        def work(tx: Transaction) -> tuple[Intent, bool]:
            created = insert_intent(
                tx, key=key, kind=kind, payload=payload, now=now, job_id=job_id, attempt_id=attempt_id
            )
            row = tx.execute(select(_INTENTS).where(_INTENTS.c.key == key)).mappings().one()
            return intent_from_row(row), created

        return self._database.write(work)

    def get(self, key: str) -> Intent:
        """The intent with this key, e.g. ``launch:<attempt id>``. Raises ``NotFoundError``."""
        query = select(_INTENTS).where(_INTENTS.c.key == key)
        row = self._database.read(lambda c: c.execute(query).mappings().first())
        if row is None:
            raise NotFoundError(f"no intent has this key: {key!r}")
        return intent_from_row(row)

    def find(
        self,
        *,
        done: bool | None = None,
        job_id: str | None = None,
        attempt_id: str | None = None,
        limit: int = 1000,
    ) -> list[Intent]:
        """Intents in the order of their creation."""
        query = select(_INTENTS).order_by(_INTENTS.c.id).limit(limit)
        if done is not None:
            query = query.where(_INTENTS.c.done_at.is_not(None) if done else _INTENTS.c.done_at.is_(None))
        if job_id is not None:
            query = query.where(_INTENTS.c.job_id == job_id)
        if attempt_id is not None:
            query = query.where(_INTENTS.c.attempt_id == attempt_id)
        return self._database.read(lambda c: [intent_from_row(row) for row in c.execute(query).mappings()])

    def open_count(self) -> int:
        """How many intents are not done."""
        query = select(func.count()).select_from(_INTENTS).where(_INTENTS.c.done_at.is_(None))
        return self._database.read(lambda c: int(c.execute(query).scalar_one()))

    def claim(
        self,
        *,
        worker: str,
        now: datetime,
        limit: int,
        ttl_s: float,
        kinds: Collection[IntentKind] | None = None,
    ) -> list[Claim[Intent]]:
        """Take up to ``limit`` undone intents whose time has come, oldest first."""
        eligible = _INTENTS.c.done_at.is_(None) & (_INTENTS.c.available_at <= now)
        if kinds is not None:
            eligible &= _INTENTS.c.kind.in_(sorted(kind.value for kind in kinds))

        def work(tx: Transaction) -> list[Claim[Intent]]:
            rows = claiming.take(
                tx, _INTENTS, eligible, (_INTENTS.c.id,), limit=limit, ttl_s=ttl_s, worker=worker, now=now
            )
            return [claiming.claim_of(_INTENTS, row, intent_from_row(row)) for row in rows]

        return self._database.write(work)

    def complete(
        self, claim: Claim[Intent], *, now: datetime, result: Json | None = None, failed: bool = False
    ) -> None:
        """Mark the intent done for good; ``failed`` = given up, ``result`` says why.

        Raises:
            StaleLockError: the claim was lost; drop the result.
        """
        self._finish(claim, {"done_at": now, "failed": failed, "result": _document(result)})

    def retry_later(self, claim: Claim[Intent], *, now: datetime, delay_s: float, error: str) -> None:
        """Give the intent back, not to be tried again before ``delay_s``. Raises ``StaleLockError``."""
        self._finish(claim, {"available_at": now + timedelta(seconds=delay_s), "last_error": error})

    def renew(self, claim: Claim[Intent], *, ttl_s: float, now: datetime) -> Claim[Intent]:
        """Keep the intent for another ``ttl_s``. Raises ``StaleLockError`` when the claim was lost."""
        return self._database.write(lambda tx: claiming.extend(tx, _INTENTS, claim, ttl_s, now))

    def _finish(self, claim: Claim[Intent], values: dict[str, Any]) -> None:
        def work(tx: Transaction) -> None:
            claiming.finish(tx, _INTENTS, claim, values)
            tx.touch()

        self._database.write(work)


def _document(result: Json | None) -> dict[str, Any] | None:
    return None if result is None else dict(result)
