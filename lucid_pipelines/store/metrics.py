"""GPU samples and job metrics: bounded per attempt, the newest kept. They do not move the change counter."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Table, bindparam, delete, insert, select

from lucid_pipelines.domain.cluster import GpuSample
from lucid_pipelines.store import tables
from lucid_pipelines.store.codec import sample_from_json, sample_to_json
from lucid_pipelines.store.database import Database, Transaction
from lucid_pipelines.store.records import LatestSample, MetricPoint

_SAMPLES = tables.gpu_samples
_LATEST = tables.gpu_latest
_METRICS = tables.metrics
_BETWEEN = (
    select(_METRICS)
    .where(
        _METRICS.c.attempt_id == bindparam("attempt_id"),
        _METRICS.c.name == bindparam("name"),
        _METRICS.c.at.between(bindparam("since"), bindparam("until")),
    )
    .order_by(_METRICS.c.id)
)


class Metrics:
    """What was measured while jobs ran."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add_gpu_samples(self, samples: Sequence[GpuSample], *, attempt_id: str | None = None, keep: int = 2000) -> None:
        """Store readings as the GPUs' latest and, with an attempt, in its series of at most ``keep``."""
        if not samples:
            return

        def work(tx: Transaction) -> None:
            newest = {(s.node, s.gpu_index): s for s in sorted(samples, key=lambda s: s.sampled_at)}
            tx.upsert(
                _LATEST,
                [
                    {"node": node, "gpu_index": index, "at": sample.sampled_at, "sample": sample_to_json(sample)}
                    for (node, index), sample in sorted(newest.items())
                ],
                _newest_sample,
                _is_newer,
            )
            if attempt_id is not None:
                rows = [{"attempt_id": attempt_id, "at": s.sampled_at, "sample": sample_to_json(s)} for s in samples]
                tx.execute(insert(_SAMPLES), rows)
                keep_newest(tx, _SAMPLES, _SAMPLES.c.attempt_id == attempt_id, keep)

        self._database.write(work)

    def gpu_samples(self, attempt_id: str, *, since: datetime | None = None) -> list[GpuSample]:
        """The kept readings of an attempt, in the order of their arrival."""
        query = select(_SAMPLES.c.sample).where(_SAMPLES.c.attempt_id == attempt_id).order_by(_SAMPLES.c.id)
        if since is not None:
            query = query.where(_SAMPLES.c.at >= since)
        return self._database.read(lambda c: [sample_from_json(document) for document in c.execute(query).scalars()])

    def latest_gpu_samples(self) -> list[LatestSample]:
        """The newest reading of every GPU, by node and index."""
        query = select(_LATEST).order_by(_LATEST.c.node, _LATEST.c.gpu_index)
        return self._database.read(
            lambda c: [
                LatestSample(row["node"], row["gpu_index"], sample_from_json(row["sample"]))
                for row in c.execute(query).mappings()
            ]
        )

    def add_points(self, attempt_id: str, points: Sequence[MetricPoint], *, keep: int = 5000) -> None:
        """Append values of a job's own metrics; each name keeps its newest ``keep``."""
        if not points:
            return

        def work(tx: Transaction) -> None:
            tx.execute(insert(_METRICS), [metric_document(attempt_id, point) for point in points])
            for name in sorted({point.name for point in points}):
                mine = (_METRICS.c.attempt_id == attempt_id) & (_METRICS.c.name == name)
                keep_newest(tx, _METRICS, mine, keep)

        self._database.write(work)

    def points_between(self, attempt_id: str, name: str, since: datetime, until: datetime) -> list[MetricPoint]:
        """Values of an attempt that were taken between two moments, inclusive, in the order of their arrival."""
        values = {"attempt_id": attempt_id, "name": name, "since": since, "until": until}
        return [_point(row) for row in self._database.rows(_BETWEEN, values)]

    def points(self, attempt_id: str, name: str | None = None, *, last: int | None = None) -> list[MetricPoint]:
        """Values of an attempt, in the order of their arrival; the newest ``last`` of them if given."""
        query = select(_METRICS).where(_METRICS.c.attempt_id == attempt_id).order_by(_METRICS.c.id.desc())
        if name is not None:
            query = query.where(_METRICS.c.name == name)
        rows = self._database.read(lambda c: c.execute(query.limit(last)).mappings().all())
        return [_point(row) for row in reversed(rows)]


def _newest_sample(new: Any) -> dict[str, Any]:
    return {"at": new.at, "sample": new.sample}


def _is_newer(new: Any) -> ColumnElement[bool]:
    return new.at >= _LATEST.c.at


def keep_newest(tx: Transaction, table: Table, mine: ColumnElement[bool], keep: int) -> None:
    oldest_kept = select(table.c.id).where(mine).order_by(table.c.id.desc()).offset(keep).limit(1)
    limit_id = tx.execute(oldest_kept).scalar()
    if limit_id is not None:
        tx.execute(delete(table).where(mine, table.c.id <= limit_id))


def metric_document(attempt_id: str, point: MetricPoint) -> dict[str, Any]:
    odd = point.value is not None and not math.isfinite(point.value)
    return {
        "attempt_id": attempt_id,
        "name": point.name,
        "at": point.at,
        "step": point.step,
        "value": None if odd else point.value,
        "non_finite": repr(point.value) if odd else None,
    }


def _point(row: Any) -> MetricPoint:
    value = float(row["non_finite"]) if row["non_finite"] else row["value"]
    return MetricPoint(row["name"], row["at"], value, row["step"])
