"""Predicted durations for policies that order by them, with a counted fallback."""

from __future__ import annotations

from collections import Counter

from lucid_pipelines.domain.job import Estimate
from lucid_pipelines.domain.view import QueuedJob
from lucid_pipelines.policies.base import Estimator


class Estimates:
    """Where a policy's predicted durations come from: the job's own estimate, else the estimator, else a guess.

    The estimator is asked once per job. Whoever changes the model gives the new estimate with the job.
    """

    def __init__(self, estimator: Estimator | None, fallback_duration_s: float, fallbacks: Counter[str]) -> None:
        self._estimator = estimator
        self._fallback_duration_s = fallback_duration_s
        self._fallbacks = fallbacks
        self._known: dict[str, Estimate | None] = {}

    def duration_s(self, job: QueuedJob) -> tuple[float, str]:
        """The predicted duration and what it rests on (``fallback`` when nothing is known)."""
        estimate = job.estimate if job.estimate is not None else self._ask(job)
        if estimate is None or estimate.duration_s is None:
            self._fallbacks["no_estimate"] += 1
            return self._fallback_duration_s, "fallback"
        if estimate.duration_s < 0:
            self._fallbacks["negative_estimate"] += 1
            return self._fallback_duration_s, "fallback"
        return estimate.duration_s, estimate.basis

    def forget(self, job_id: str) -> None:
        """Drop what the estimator said of a job that has left."""
        self._known.pop(job_id, None)

    def keep_only(self, job_ids: set[str]) -> None:
        """Drop what was said of all other jobs."""
        self._known = {job_id: known for job_id, known in self._known.items() if job_id in job_ids}

    def _ask(self, job: QueuedJob) -> Estimate | None:
        if self._estimator is None:
            return None
        if job.job_id not in self._known:
            self._known[job.job_id] = self._estimator(job)
        return self._known[job.job_id]
