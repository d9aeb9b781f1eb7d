"""Claims: a worker takes rows for a limited time and proves its right with a token.

Take, work outside any transaction, then complete guarded by row and token. A token that no longer stands in
the row means that the claim ran out and somebody else may have the row: the result is dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Select, Table, or_, select, update

from lucid_pipelines.domain.errors import InputError, StaleLockError
from lucid_pipelines.store.database import Transaction
from lucid_pipelines.store.ids import new_token
from lucid_pipelines.store.records import Claim

UNLOCKED: dict[str, Any] = {"locked_by": None, "lock_token": None, "locked_until": None}


def take(
    tx: Transaction,
    table: Table,
    eligible: ColumnElement[bool],
    order: Sequence[ColumnElement[Any]],
    *,
    limit: int,
    ttl_s: float,
    worker: str,
    now: datetime,
) -> list[dict[str, Any]]:
    """Lock up to ``limit`` eligible rows that nobody holds, in order; rows locked elsewhere are skipped."""
    if limit < 1 or ttl_s <= 0:
        raise InputError(f"a claim takes at least one row for more than 0 s; got {limit} rows for {ttl_s} s")
    key = _key(table)
    free = or_(table.c.lock_token.is_(None), table.c.locked_until <= now)
    chosen: Select[Any] = (
        select(table).where(eligible, free).order_by(*order).limit(limit).with_for_update(skip_locked=True)
    )
    rows: list[dict[str, Any]] = []
    for row in tx.execute(chosen).mappings().all():
        values = {
            "locked_by": worker,
            "lock_token": new_token(),
            "locked_until": now + timedelta(seconds=ttl_s),
            "lock_tries": row["lock_tries"] + 1,
        }
        tx.execute(update(table).where(key == row[key.name]).values(values))
        rows.append(dict(row) | values)
    return rows


def claim_of(table: Table, row: dict[str, Any], item: Any) -> Claim[Any]:
    return Claim(item, row[_key(table).name], row["lock_token"], row["locked_until"], row["lock_tries"])


def finish(tx: Transaction, table: Table, claim: Claim[Any], values: dict[str, Any]) -> None:
    """Write the worker's result and unlock the row.

    Raises:
        StaleLockError: the claim is no longer the worker's; drop the result.
    """
    guard = (_key(table) == claim.row_id) & (table.c.lock_token == claim.token)
    if tx.execute(update(table).where(guard).values(UNLOCKED | values)).rowcount != 1:
        raise StaleLockError(f"this worker's claim ran out; drop its result: {table.name} {claim.row_id}")


def extend(tx: Transaction, table: Table, claim: Claim[Any], ttl_s: float, now: datetime) -> Claim[Any]:
    """Keep the row for another ``ttl_s`` from ``now``. A claim that ran out but was not taken is still good."""
    until = now + timedelta(seconds=ttl_s)
    guard = (_key(table) == claim.row_id) & (table.c.lock_token == claim.token)
    if tx.execute(update(table).where(guard).values(locked_until=until)).rowcount != 1:
        raise StaleLockError(f"this worker's claim ran out; stop its work: {table.name} {claim.row_id}")
    return Claim(claim.item, claim.row_id, claim.token, until, claim.tries)


def _key(table: Table) -> Any:
    return next(iter(table.primary_key.columns))
