"""Estimates for waiting jobs: the model on live history, and the fall-back ladder where it has nothing to go by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime

import numpy as np

from lucid_pipelines.domain.history import HistoryRow, Rung
from lucid_pipelines.domain.job import Estimate
from lucid_pipelines.domain.view import QueuedJob
from lucid_pipelines.models.additive.schema import Matrix
from lucid_pipelines.models.duration.features import feature_row
from lucid_pipelines.models.duration.history import HistoryIndex, RunningAttempt
from lucid_pipelines.models.duration.model import DurationModel, is_cold, seconds
from lucid_pipelines.models.duration.selecting import select_rows
from lucid_pipelines.models.naming.buckets import NameBuckets

MODEL = "model"
NO_HISTORY = "no_history"
COVERAGE_FRAC = 0.8


class DurationPredictor:
    """A model with the history that its features are made of. Not safe to use from two threads at once.

    ``estimate`` has the form that policies ask for. Tell it every start and end as they happen; an estimate
    rests on what it was told so far.
    """

    def __init__(
        self, model: DurationModel, index: HistoryIndex | None = None, buckets: NameBuckets | None = None
    ) -> None:
        self.model = model
        self.index = HistoryIndex(model.teaching) if index is None else index
        self.fallbacks: Counter[str] = Counter()
        self.left_out: dict[str, int] = {}
        self.buckets = model.buckets.copy() if buckets is None else buckets

    @classmethod
    def from_rows(
        cls,
        model: DurationModel,
        rows: Iterable[HistoryRow],
        as_of: datetime,
        running: Iterable[RunningAttempt] = (),
    ) -> DurationPredictor:
        """A predictor that knows what had ended at ``as_of``; ``left_out`` counts rows that could not be used."""
        predictor = cls(model)
        selection = select_rows(rows, as_of)
        predictor.learn(selection.rows)
        for attempt in running:
            predictor.started(attempt)
        predictor.left_out = selection.left_out
        return predictor

    def learn(self, rows: Sequence[HistoryRow]) -> None:
        """Many attempts ended, in this order; the rows are usable ones (``select_rows``)."""
        self.buckets.bucket_many(row.name for row in sorted(rows, key=lambda row: row.submitted_at))
        for row in rows:
            self.ended(row)

    def started(self, attempt: RunningAttempt) -> None:
        """An attempt began to run."""
        self.index.start(attempt.attempt_id, attempt.user, attempt.gpus, attempt.started_at.timestamp())

    def ended(self, row: HistoryRow) -> None:
        """An attempt ended."""
        self.index.end(row, self.buckets.bucket(row.name))

    def estimate(self, job: QueuedJob) -> Estimate | None:
        """The estimate of one job, as of now; ``None`` when nothing has ever run."""
        return self.estimate_many([job])[0]

    def estimate_many(self, jobs: Sequence[QueuedJob], now_s: float | None = None) -> list[Estimate | None]:
        """Estimates of many jobs.

        Args:
            now_s: the moment, seconds since 1970-01-01 UTC; default each job's submission.
        """
        if not jobs:
            return []
        matrix, buckets = self.feature_matrix(jobs, now_s)
        served = self.model.served_log(matrix)
        cold = is_cold(matrix)
        durations = seconds(np.nan_to_num(served))
        ends = self.model.interval_log(matrix, served, COVERAGE_FRAC)
        low, high = (None, None) if ends is None else (seconds(np.nan_to_num(ends[0])), seconds(np.nan_to_num(ends[1])))
        estimates: list[Estimate | None] = []
        for i, job in enumerate(jobs):
            if np.isnan(served[i]):
                self.fallbacks[NO_HISTORY] += 1
                estimates.append(None)
                continue
            basis, ids, count = self._basis(job, buckets[i], is_stranger=bool(cold[i]))
            estimates.append(
                Estimate(
                    duration_s=float(durations[i]),
                    basis=basis,
                    low_s=None if low is None else float(low[i]),
                    high_s=None if high is None else float(high[i]),
                    coverage_frac=None if low is None else COVERAGE_FRAC,
                    evidence_job_ids=ids,
                    sample_count=count,
                    model_version=self.model.version,
                )
            )
        return estimates

    def feature_matrix(self, jobs: Sequence[QueuedJob], now_s: float | None = None) -> tuple[Matrix, list[str | None]]:
        """What the model sees of the jobs, nominal columns filled, and the name bucket of each."""
        buckets = self.buckets.bucket_many(job.name for job in jobs)
        rows = [
            feature_row(
                self.index,
                job.user,
                bucket,
                job.gpus,
                job.profile,
                job.submitted_s if now_s is None else now_s,
                submitted_s=job.submitted_s,
            )
            for job, bucket in zip(jobs, buckets, strict=True)
        ]
        return self.model.with_codes(np.array(rows), [job.user for job in jobs], buckets), buckets

    def _basis(self, job: QueuedJob, bucket: str | None, *, is_stranger: bool) -> tuple[str, tuple[str, ...], int]:
        if not is_stranger:
            return (MODEL, *self.index.evidence(job.user, bucket, job.gpus))
        mean, count = self.index.gpus_mean(job.gpus)
        rung = Rung.SAME_GPUS if mean is not None else Rung.GLOBAL
        self.fallbacks[rung.value] += 1
        return rung.value, (), count if mean is not None else self.index.overall_mean()[1]
