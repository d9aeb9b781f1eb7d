"""Estimates: every prediction is stored before its outcome and scored after it (R-30)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import case, insert, select, update

from lucid_pipelines.domain.job import Estimate
from lucid_pipelines.store import tables
from lucid_pipelines.store.changing import change_job, lock_job, note
from lucid_pipelines.store.codec import estimate_to_json
from lucid_pipelines.store.database import Database, Transaction
from lucid_pipelines.store.records import EstimateRow, EstimateScore, EventKind

_ESTIMATES = tables.estimates
_EVIDENCE_KEPT = 20


def insert_estimate(tx: Transaction, job_id: str, estimate: Estimate, now: datetime) -> None:
    """Store a prediction within a larger transaction."""
    row = {
        "job_id": job_id,
        "made_at": now,
        "basis": estimate.basis,
        "duration_s": estimate.duration_s,
        "low_s": estimate.low_s,
        "high_s": estimate.high_s,
        "coverage_frac": estimate.coverage_frac,
        "sample_count": estimate.sample_count,
        "evidence_job_ids": list(estimate.evidence_job_ids[:_EVIDENCE_KEPT]),
        "model_version": estimate.model_version,
    }
    tx.execute(insert(_ESTIMATES).values(row))


def score_estimates(tx: Transaction, job_id: str, actual_s: float, now: datetime) -> None:
    """Hold the job's unscored predictions against its completed run."""
    has_interval = _ESTIMATES.c.low_s.is_not(None) & _ESTIMATES.c.high_s.is_not(None)
    inside = (_ESTIMATES.c.low_s <= actual_s) & (_ESTIMATES.c.high_s >= actual_s)
    values = {
        "scored_at": now,
        "actual_s": actual_s,
        "within": case((has_interval, inside), else_=None),
    }
    open_ones = (_ESTIMATES.c.job_id == job_id) & _ESTIMATES.c.scored_at.is_(None)
    tx.execute(update(_ESTIMATES).where(open_ones).values(values))


class Estimates:
    """Predictions of run times and how they fared."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def record(self, estimates: Mapping[str, Estimate], *, now: datetime, who: str = "estimator") -> None:
        """Store predictions by job id, and make each the job's current estimate, with an event.

        Raises:
            NotFoundError: one of the jobs does not exist; nothing of the call is kept.
        """

        def work(tx: Transaction) -> None:
            for job_id in sorted(estimates):
                document = estimate_to_json(estimates[job_id])
                row = change_job(tx, lock_job(tx, job_id), {"estimate": document})
                insert_estimate(tx, job_id, estimates[job_id], now)
                why = f"estimated by {estimates[job_id].basis}"
                note(tx, row, EventKind.ESTIMATED, who=who, why=why, now=now, evidence=document)

        self._database.write(work)

    def of_job(self, job_id: str) -> list[EstimateRow]:
        """Every prediction made for a job, oldest first."""
        query = select(_ESTIMATES).where(_ESTIMATES.c.job_id == job_id).order_by(_ESTIMATES.c.id)
        return self._database.read(lambda c: [_row(row) for row in c.execute(query).mappings()])

    def scores(self, *, since: datetime, until: datetime) -> list[EstimateScore]:
        """How each basis fared, over predictions scored in ``[since, until)``, by basis name."""
        scored = (_ESTIMATES.c.scored_at >= since) & (_ESTIMATES.c.scored_at < until)
        columns = (_ESTIMATES.c.basis, _ESTIMATES.c.duration_s, _ESTIMATES.c.actual_s, _ESTIMATES.c.within)
        rows = self._database.read(lambda c: c.execute(select(*columns).where(scored)).all())
        by_basis: dict[str, list[Any]] = {}
        for row in rows:
            by_basis.setdefault(row[0], []).append(row)
        return [_score(basis, found) for basis, found in sorted(by_basis.items())]


def _score(basis: str, rows: list[Any]) -> EstimateScore:
    pairs = [(predicted, actual) for _, predicted, actual, _ in rows if predicted is not None]
    ratios = [math.log(predicted / actual) for predicted, actual in pairs if predicted > 0 and actual > 0]
    verdicts = [within for *_, within in rows if within is not None]
    return EstimateScore(
        basis=basis,
        count=len(rows),
        mean_abs_error_s=_mean([abs(predicted - actual) for predicted, actual in pairs]),
        mean_log_ratio=_mean(ratios),
        coverage_frac=_mean([float(within) for within in verdicts]),
    )


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _row(row: Any) -> EstimateRow:
    estimate = Estimate(
        duration_s=row["duration_s"],
        basis=row["basis"],
        low_s=row["low_s"],
        high_s=row["high_s"],
        coverage_frac=row["coverage_frac"],
        evidence_job_ids=tuple(row["evidence_job_ids"] or ()),
        sample_count=row["sample_count"],
        model_version=row["model_version"],
    )
    return EstimateRow(
        row["id"], row["job_id"], row["made_at"], estimate, row["scored_at"], row["actual_s"], row["within"]
    )
