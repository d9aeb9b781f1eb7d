"""Leases: a named right that one process has at a time, for a limited time, e.g. the scheduling window."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import delete, or_, select, update

from lucid_pipelines.domain.errors import InputError, StaleLockError
from lucid_pipelines.store import tables
from lucid_pipelines.store.database import Database, Transaction
from lucid_pipelines.store.ids import new_token
from lucid_pipelines.store.records import Lease

_LEASES = tables.leases


class Leases:
    """Named rights with a time limit and a token."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def acquire(self, name: str, holder: str, *, ttl_s: float, now: datetime) -> Lease | None:
        """Get the lease if it is free, has run out, or was handed over to this holder; else ``None``.

        A holder that still has it does not get it a second time: use ``renew``.
        """
        lease = _lease(name, holder, ttl_s, now)
        values = {"holder": holder, "token": lease.token, "expires_at": lease.expires_at}

        def work(tx: Transaction) -> Lease | None:
            if tx.insert_or_ignore(_LEASES, {"name": name} | values):
                return lease
            handed_over = (_LEASES.c.holder == holder) & _LEASES.c.token.is_(None)
            free = (_LEASES.c.name == name) & or_(_LEASES.c.expires_at <= now, handed_over)
            return lease if tx.execute(update(_LEASES).where(free).values(values)).rowcount == 1 else None

        return self._database.write(work)

    def renew(self, lease: Lease, *, ttl_s: float, now: datetime) -> Lease:
        """Keep the lease for ``ttl_s`` from ``now``; one that ran out but was not taken is still good.

        Raises:
            StaleLockError: somebody else has it, or it was handed over or released: stop working.
        """
        kept = Lease(lease.name, lease.holder, lease.token, now + timedelta(seconds=ttl_s))
        self._update(lease, {"expires_at": kept.expires_at})
        return kept

    def hand_over(self, lease: Lease, to_holder: str, *, ttl_s: float, now: datetime) -> None:
        """Give the lease to a named successor, who alone can acquire it for ``ttl_s``; the token ends now.

        Raises:
            StaleLockError: the lease was lost.
        """
        until = now + timedelta(seconds=ttl_s)
        self._update(lease, {"holder": to_holder, "token": None, "expires_at": until})

    def release(self, lease: Lease) -> bool:
        """Give the lease back. Returns ``False`` when it had been lost already."""
        mine = (_LEASES.c.name == lease.name) & (_LEASES.c.token == lease.token)
        return self._database.write(lambda tx: tx.execute(delete(_LEASES).where(mine)).rowcount == 1)

    def holder(self, name: str, *, now: datetime) -> str | None:
        """Who has the lease, or is about to take it over; ``None`` when it is free."""
        query = select(_LEASES.c.holder).where(_LEASES.c.name == name, _LEASES.c.expires_at > now)
        return self._database.read(lambda c: c.execute(query).scalar())

    def _update(self, lease: Lease, values: dict[str, object]) -> None:
        mine = (_LEASES.c.name == lease.name) & (_LEASES.c.token == lease.token)

        def work(tx: Transaction) -> None:
            if tx.execute(update(_LEASES).where(mine).values(values)).rowcount != 1:
                raise StaleLockError(f"the lease is no longer this holder's; stop its work: {lease.name}")

        self._database.write(work)


def _lease(name: str, holder: str, ttl_s: float, now: datetime) -> Lease:
    if ttl_s <= 0:
        raise InputError(f"a lease lasts more than 0 s; got {ttl_s}")
    return Lease(name, holder, new_token(), now + timedelta(seconds=ttl_s))
