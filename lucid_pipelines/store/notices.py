"""The outbox of notices to people: written with what they tell of, delivered later, at least once each."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import func, select

from lucid_pipelines.store import claiming, tables
from lucid_pipelines.store.database import Database, Transaction
from lucid_pipelines.store.records import Claim, Json, StoredNotice

_NOTICES = tables.notices


class Notices:
    """What is to be told, and whether it was."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, key: str, kind: str, channels: Sequence[str], payload: Json, *, now: datetime) -> int:
        """Leave a notice for every channel; an occasion (``key``) that was left there before is not left again.

        Returns:
            How many were new.
        """
        rows = [
            {
                "key": key,
                "channel": channel,
                "kind": kind,
                "payload": dict(payload),
                "created_at": now,
                "available_at": now,
            }
            for channel in sorted(set(channels))
        ]
        return len(self._database.write(lambda tx: tx.insert_new(_NOTICES, rows))) if rows else 0

    def find(self, *, done: bool | None = None, limit: int = 1000) -> list[StoredNotice]:
        """Notices in the order of their creation."""
        query = select(_NOTICES).order_by(_NOTICES.c.id).limit(limit)
        if done is not None:
            query = query.where(_NOTICES.c.done_at.is_not(None) if done else _NOTICES.c.done_at.is_(None))
        return self._database.read(lambda c: [_notice(row) for row in c.execute(query).mappings()])

    def claimable_count(self, *, now: datetime) -> int:
        """How many undelivered notices nobody has claimed and whose time has come."""
        is_free = _NOTICES.c.lock_token.is_(None) | (_NOTICES.c.locked_until <= now)
        mine = _NOTICES.c.done_at.is_(None) & (_NOTICES.c.available_at <= now) & is_free
        query = select(func.count()).select_from(_NOTICES).where(mine)
        return self._database.read(lambda c: int(c.execute(query).scalar_one()))

    def claim(self, *, worker: str, now: datetime, limit: int, ttl_s: float) -> list[Claim[StoredNotice]]:
        """Take up to ``limit`` undelivered notices whose time has come, oldest first."""
        eligible = _NOTICES.c.done_at.is_(None) & (_NOTICES.c.available_at <= now)

        def work(tx: Transaction) -> list[Claim[StoredNotice]]:
            rows = claiming.take(
                tx, _NOTICES, eligible, (_NOTICES.c.id,), limit=limit, ttl_s=ttl_s, worker=worker, now=now
            )
            return [claiming.claim_of(_NOTICES, row, _notice(row)) for row in rows]

        return self._database.write(work)

    def complete(self, claim: Claim[StoredNotice], *, now: datetime, error: str | None = None) -> None:
        """Mark it told, or given up with the ``error``. Raises ``StaleLockError`` when the claim was lost."""
        values = {"done_at": now, "failed": error is not None, "last_error": error}
        self._database.write(lambda tx: claiming.finish(tx, _NOTICES, claim, values))

    def retry_later(self, claim: Claim[StoredNotice], *, now: datetime, delay_s: float, error: str) -> None:
        """Give it back, not to be tried again before ``delay_s``. Raises ``StaleLockError``."""
        values = {"available_at": now + timedelta(seconds=delay_s), "last_error": error}
        self._database.write(lambda tx: claiming.finish(tx, _NOTICES, claim, values))


def _notice(row: Any) -> StoredNotice:
    return StoredNotice(
        notice_id=row["id"],
        key=row["key"],
        channel=row["channel"],
        kind=row["kind"],
        payload=row["payload"],
        created_at=row["created_at"],
        tries=int(row["lock_tries"] or 0),
        done_at=row["done_at"],
        failed=bool(row["failed"]),
        last_error=row["last_error"],
    )
