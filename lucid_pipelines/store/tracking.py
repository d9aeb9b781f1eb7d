"""Cursors of followed logs and what the logs said; a cursor moves together with the values that were read behind it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import bindparam, insert, select, update

from lucid_pipelines.store import tables
from lucid_pipelines.store.database import Database, Transaction
from lucid_pipelines.store.metrics import keep_newest, metric_document
from lucid_pipelines.store.records import MetricPoint, Tracked

_TRACKED = tables.tracked
_METRICS = tables.metrics
_OF_ATTEMPTS = select(_TRACKED).where(_TRACKED.c.attempt_id.in_(bindparam("ids", expanding=True)))
_AT_ONCE = 100
_TRIM_EVERY = 50
"""Looks between two trims of an attempt's values: they may exceed their bound by what so many looks add."""


class Tracking:
    """One row per attempt whose log is, or was, followed."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, attempt_ids: Collection[str]) -> dict[str, Tracked]:
        """The rows of these attempts, by attempt id; attempts that were never followed are left out."""
        found: dict[str, Tracked] = {}
        ids = sorted(set(attempt_ids))
        for begin in range(0, len(ids), _AT_ONCE):
            rows = self._database.rows(_OF_ATTEMPTS, {"ids": ids[begin : begin + _AT_ONCE]})
            found |= {row["attempt_id"]: _tracked(row) for row in rows}
        return found

    def of_job(self, job_id: str) -> list[Tracked]:
        """The rows of a job's attempts, newest look first."""
        query = select(_TRACKED).where(_TRACKED.c.job_id == job_id).order_by(_TRACKED.c.at.desc())
        return [_tracked(row) for row in self._database.read(lambda c: c.execute(query).mappings().all())]

    def advance(self, looks: Sequence[tuple[Tracked, Sequence[MetricPoint]]], *, keep: int = 5000) -> set[str]:
        """Store looks and the values they found, each look and its values together or not at all.

        A look counts only when its ``version`` is the one after the stored one: of two that began from the same
        cursor the second is dropped, so that no value is stored twice.

        Args:
            keep: about so many values of each name are kept for an attempt.

        Returns:
            The attempts whose look was stored.
        """
        stored: set[str] = set()
        for begin in range(0, len(looks), _AT_ONCE):
            batch = looks[begin : begin + _AT_ONCE]
            stored |= self._database.write(lambda tx, batch=batch: _advance(tx, batch, keep))
        return stored


def _advance(tx: Transaction, looks: Sequence[tuple[Tracked, Sequence[MetricPoint]]], keep: int) -> set[str]:
    stored: set[str] = set()
    values: list[dict[str, Any]] = []
    for look, points in looks:
        if not _moved(tx, look):
            continue
        stored.add(look.attempt_id)
        values += [metric_document(look.attempt_id, point) for point in points]
    if values:
        tx.execute(insert(_METRICS), values)
    for look, points in looks:
        if look.attempt_id in stored and look.version % _TRIM_EVERY == 0:
            for name in sorted({point.name for point in points}):
                mine = (_METRICS.c.attempt_id == look.attempt_id) & (_METRICS.c.name == name)
                keep_newest(tx, _METRICS, mine, keep)
    return stored


def _moved(tx: Transaction, look: Tracked) -> bool:
    row = {
        "version": look.version,
        "at": look.at,
        "cursor": look.cursor,
        "progress": look.progress,
        "pulse": look.pulse,
        "findings": list(look.findings),
    }
    if look.version == 1:
        return tx.insert_or_ignore(_TRACKED, {"attempt_id": look.attempt_id, "job_id": look.job_id, **row})
    mine = (_TRACKED.c.attempt_id == look.attempt_id) & (_TRACKED.c.version == look.version - 1)
    return tx.execute(update(_TRACKED).where(mine).values(row)).rowcount == 1


def _tracked(row: Any) -> Tracked:
    return Tracked(
        attempt_id=row["attempt_id"],
        job_id=row["job_id"],
        version=int(row["version"]),
        at=row["at"],
        cursor=row["cursor"] or {},
        progress=row["progress"] or {},
        pulse=row["pulse"] or {},
        findings=tuple(row["findings"] or ()),
    )
