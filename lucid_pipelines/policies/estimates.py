"""Predicted durations for policies that order by them, with a counted fallback."""

from __future__ import annotations

from collections import Counter

from lucid_pipelines.domain.job import Estimate
from lucid_pipelines.domain.view import QueuedJob
from lucid_pipelines.policies.base import Estimator

_FORGET_ABOVE = 200_000


class Estimates:
    """Where a policy's predicted durations come from: the job's own estimate, else the estimator, else a guess.

    The estimator is asked once per job. Whoever changes the model gives the new estimate with the job.
    """

    def __init__(self, estimator: Estimator | None, fallback_duration_s: float, fallbacks: Counter[str]) -> None:
        self._estimator = estimator
        self._fallback_duration_s = fallback_duration_s
        self._fallbacks = fallbacks
        self._known: dict[str, Estimate | None] = {}
        self._counted: set[str] = set()

    def duration_s(self, job: QueuedJob) -> tuple[float, str]:
        """The predicted duration and what it rests on (``fallback`` when nothing usable is known)."""
        estimate = self.of(job)
        if estimate is not None and estimate.duration_s is not None and estimate.duration_s >= 0:
            return estimate.duration_s, estimate.basis
        kind = "no_estimate" if estimate is None or estimate.duration_s is None else "negative_estimate"
        if job.job_id not in self._counted:
            self._counted.add(job.job_id)
            self._fallbacks[kind] += 1
        return self._fallback_duration_s, "fallback"

    def basis(self, job: QueuedJob) -> str:
        """What the job's predicted duration rests on."""
        return self.duration_s(job)[1]

    def of(self, job: QueuedJob) -> Estimate | None:
        """The job's own estimate, else what the estimator said of it."""
        if job.estimate is not None or self._estimator is None:
            return job.estimate
        if job.job_id not in self._known:
            if len(self._known) >= _FORGET_ABOVE:
                # The oldest half has long been placed; one that has not is asked for once more.
                self._known = dict(list(self._known.items())[_FORGET_ABOVE // 2 :])
            self._known[job.job_id] = self._estimator(job)
        return self._known[job.job_id]
