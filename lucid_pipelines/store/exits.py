"""The outbox of exits: each ended attempt waits here until a worker has handled it (R-35)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import func, select

from lucid_pipelines.domain.errors import NotFoundError
from lucid_pipelines.store import claiming, tables
from lucid_pipelines.store.codec import exit_entry_from_row
from lucid_pipelines.store.database import Database, Transaction
from lucid_pipelines.store.records import Claim, Exit, Json

_EXITS = tables.exits


class Exits:
    """Ended attempts to be handled. ``record_end`` writes them, abnormal or not."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, attempt_id: str) -> Exit:
        """The entry of one attempt. Raises ``NotFoundError`` while it has not ended."""
        query = select(_EXITS).where(_EXITS.c.attempt_id == attempt_id)
        row = self._database.read(lambda c: c.execute(query).mappings().first())
        if row is None:
            raise NotFoundError(f"no end of this attempt is recorded: {attempt_id!r}")
        return exit_entry_from_row(row)

    def pending(self, *, abnormal: bool = True) -> tuple[int, datetime | None]:
        """How many entries are unhandled, and since when the oldest waits (``None`` when none does)."""
        mine = _EXITS.c.handled_at.is_(None) & (_EXITS.c.abnormal == abnormal)
        count = select(func.count()).select_from(_EXITS).where(mine)
        oldest = select(_EXITS.c.at).where(mine).order_by(_EXITS.c.id).limit(1)
        return self._database.read(lambda c: (int(c.execute(count).scalar_one()), c.execute(oldest).scalar()))

    def find(self, *, since: datetime, until: datetime | None = None, abnormal: bool = True) -> list[Exit]:
        """Entries of attempts whose end was recorded in ``[since, until)``, oldest first; pruned ones are gone."""
        query = select(_EXITS).where(_EXITS.c.at >= since, _EXITS.c.abnormal == abnormal).order_by(_EXITS.c.id)
        if until is not None:
            query = query.where(_EXITS.c.at < until)
        return self._database.read(lambda c: [exit_entry_from_row(row) for row in c.execute(query).mappings()])

    def claimable_count(self, *, now: datetime, abnormal: bool = True) -> int:
        """How many unhandled entries nobody has claimed and whose time has come."""
        is_free = _EXITS.c.lock_token.is_(None) | (_EXITS.c.locked_until <= now)
        mine = _EXITS.c.handled_at.is_(None) & (_EXITS.c.abnormal == abnormal) & (_EXITS.c.available_at <= now)
        query = select(func.count()).select_from(_EXITS).where(mine, is_free)
        return self._database.read(lambda c: int(c.execute(query).scalar_one()))

    def claim(
        self, *, worker: str, now: datetime, limit: int, ttl_s: float, abnormal: bool = True
    ) -> list[Claim[Exit]]:
        """Take up to ``limit`` unhandled entries, oldest first."""
        eligible = _EXITS.c.handled_at.is_(None) & (_EXITS.c.abnormal == abnormal) & (_EXITS.c.available_at <= now)

        def work(tx: Transaction) -> list[Claim[Exit]]:
            rows = claiming.take(tx, _EXITS, eligible, (_EXITS.c.id,), limit=limit, ttl_s=ttl_s, worker=worker, now=now)
            return [claiming.claim_of(_EXITS, row, exit_entry_from_row(row)) for row in rows]

        return self._database.write(work)

    def complete(self, claim: Claim[Exit], *, now: datetime, result: Json | None = None) -> None:
        """Mark the entry handled. Raises ``StaleLockError`` when the claim was lost; drop the result then."""
        self._finish(claim, {"handled_at": now, "result": None if result is None else dict(result)})

    def retry_later(self, claim: Claim[Exit], *, now: datetime, delay_s: float, error: str) -> None:
        """Give the entry back, not to be tried again before ``delay_s``. Raises ``StaleLockError``."""
        self._finish(claim, {"available_at": now + timedelta(seconds=delay_s), "last_error": error})

    def renew(self, claim: Claim[Exit], *, ttl_s: float, now: datetime) -> Claim[Exit]:
        """Keep the entry for another ``ttl_s``. Raises ``StaleLockError`` when the claim was lost."""
        return self._database.write(lambda tx: claiming.extend(tx, _EXITS, claim, ttl_s, now))

    def _finish(self, claim: Claim[Exit], values: dict[str, Any]) -> None:
        def work(tx: Transaction) -> None:
            claiming.finish(tx, _EXITS, claim, values)
            tx.touch()

        self._database.write(work)
