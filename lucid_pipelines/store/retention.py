"""Retention: delete what is old in bounded batches, each its own short transaction."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Table, delete, select

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.domain.states import TERMINAL_STATES
from lucid_pipelines.store import tables
from lucid_pipelines.store.database import Database


def prune(
    database: Database,
    *,
    events_before: datetime | None,
    metrics_before: datetime | None,
    intents_before: datetime | None,
    exits_before: datetime | None,
    batch_rows: int,
    max_batches: int,
) -> Mapping[str, int]:
    """Delete old rows; see ``Store.prune``."""
    if batch_rows < 1 or max_batches < 1:
        raise InputError(f"pruning deletes at least one row; got {max_batches} batches of {batch_rows}")
    deleted: dict[str, int] = {}
    for table, old in _plan(events_before, metrics_before, intents_before, exits_before):
        count = 0
        for _ in range(max_batches):
            batch = _delete_batch(database, table, old, batch_rows)
            count += batch
            if batch < batch_rows:
                break
        deleted[table.name] = deleted.get(table.name, 0) + count
    return deleted


def _plan(
    events_before: datetime | None,
    metrics_before: datetime | None,
    intents_before: datetime | None,
    exits_before: datetime | None,
) -> list[tuple[Table, ColumnElement[bool]]]:
    plan: list[tuple[Table, ColumnElement[bool]]] = []
    if events_before is not None:
        ended = select(tables.jobs.c.job_id).where(tables.jobs.c.state.in_([s.value for s in TERMINAL_STATES]))
        old = tables.events.c.at < events_before
        plan.append((tables.events, old & tables.events.c.job_id.in_(ended)))
    if metrics_before is not None:
        plan.append((tables.gpu_samples, tables.gpu_samples.c.at < metrics_before))
        plan.append((tables.metrics, tables.metrics.c.at < metrics_before))
        plan.append((tables.tracked, tables.tracked.c.at < metrics_before))
    if intents_before is not None:
        plan.append((tables.intents, tables.intents.c.done_at < intents_before))
        plan.append((tables.notices, tables.notices.c.done_at < intents_before))
        plan.append((tables.exits, ~tables.exits.c.abnormal & (tables.exits.c.at < intents_before)))
    if exits_before is not None:
        plan.append((tables.exits, tables.exits.c.handled_at < exits_before))
    return plan


def _delete_batch(database: Database, table: Table, old: ColumnElement[bool], batch_rows: int) -> int:
    key: Any = next(iter(table.primary_key.columns))
    chosen = select(key).where(old).limit(batch_rows)

    def work(tx: Any) -> int:
        return tx.execute(delete(table).where(key.in_(chosen))).rowcount

    return database.write(work)
