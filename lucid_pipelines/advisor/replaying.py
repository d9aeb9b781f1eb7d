"""The advisor in a replay: the same object as live, asked with the time of each submission (no look ahead).

A trace has no code. What its rows tell of a job stands for what reading would have found: the model, its data and
batch where the trace knows them, else only who submitted it and what for.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Protocol

from lucid_pipelines.advisor.advising import Advisor
from lucid_pipelines.advisor.fingerprint import Fingerprint, Surroundings, fingerprint_of
from lucid_pipelines.advisor.metadata import FieldName, Scalar
from lucid_pipelines.domain.job import Estimate
from lucid_pipelines.domain.similarity import PastJob
from lucid_pipelines.domain.states import Outcome
from lucid_pipelines.domain.trace import TraceJob, TraceState
from lucid_pipelines.domain.view import QueuedJob

PLAIN_WEIGHTS: Mapping[str, float] = {"owner": 0.6, "gpus": 0.25, "cpus": 0.15}
"""Weights of the lines of a trace without code."""
_OUTCOMES = {
    TraceState.COMPLETED: Outcome.COMPLETED,
    TraceState.FAILED: Outcome.FAILED_USER,
    TraceState.CANCELLED: Outcome.CANCELLED,
}
_BATCH = 50


class OtherEstimator(Protocol):
    """What answers where no past job is similar enough."""

    def estimate(self, job: QueuedJob) -> Estimate | None: ...

    def observe(self, job: TraceJob, ended_s: float) -> None: ...


class AdvisorEstimator:
    """Predicts durations in a replay from similar jobs that have ended in it.

    Args:
        jobs: the trace; only what is known at submission is looked at.
        otherwise: answers where the advisor has a reason not to; each is counted in ``fallbacks``.
    """

    def __init__(self, advisor: Advisor, jobs: Iterable[TraceJob], otherwise: OtherEstimator) -> None:
        self._advisor = advisor
        self._jobs = {job.job_id: job for job in jobs}
        self._otherwise = otherwise
        self._ended: list[PastJob] = []
        self.fallbacks: Counter[str] = Counter()

    def estimate(self, job: QueuedJob) -> Estimate | None:
        known = self._jobs.get(job.job_id)
        if known is None:
            return self._otherwise.estimate(job)
        self._flush()
        as_of = datetime.fromtimestamp(known.submit_s, UTC)
        advised, _ = self._advisor.look_up(trace_fingerprint(known), as_of)
        if advised.estimate is not None:
            return advised.estimate
        if advised.fallback is not None:
            self.fallbacks[f"advice_{advised.fallback.value}"] += 1
        return self._otherwise.estimate(job)

    def observe(self, job: TraceJob, ended_s: float) -> None:
        """``job`` has ended in the replay at ``ended_s``."""
        self._otherwise.observe(job, ended_s)
        self._ended.append(past_job_of(job, ended_s))
        if len(self._ended) >= _BATCH:
            self._flush()

    def _flush(self) -> None:
        if self._ended:
            self._advisor.learn(self._ended)
            self._ended = []


def past_job_of(job: TraceJob, ended_s: float) -> PastJob:
    """A job of a trace that has ended, as evidence."""
    return PastJob(
        job_id=job.job_id,
        fingerprint=trace_fingerprint(job).text,
        submitted_at=datetime.fromtimestamp(job.submit_s, UTC),
        ended_at=datetime.fromtimestamp(ended_s, UTC),
        outcome=_OUTCOMES[job.state],
        duration_s=job.duration_s,
        gpu_type=job.gpu_type,
        gpus=max(1, round(job.gpus)),
    )


def trace_fingerprint(job: TraceJob, version: str | None = None) -> Fingerprint:
    """The fingerprint of a trace's job.

    Args:
        version: names its code; default: the trace's own mark of it. Another version has another number of steps.
    """
    gpus = max(1, round(job.gpus))
    if job.code_fingerprint is None and version is None:
        text = f"cpus: {round(job.cpus or 0)}\ngpus: {gpus}\nowner: {job.user}"
        return Fingerprint(text, 1.0, None, job.gpu_type, gpus)
    return fingerprint_of(_facts(job, version or job.code_fingerprint or job.job_id), Surroundings(job.gpu_type, gpus))


def _facts(job: TraceJob, version: str) -> dict[FieldName, Scalar]:
    steps = round(10 ** random.Random(version).uniform(2, 6))
    facts: dict[FieldName, Scalar | None] = {
        FieldName.MODEL: job.model,
        FieldName.DATASET: job.dataset,
        FieldName.BATCH_SIZE: None if job.batch_size is None else round(job.batch_size),
        FieldName.PRECISION: None if job.amp is None else "fp16" if job.amp else "fp32",
        FieldName.ITERATIONS: steps,
        FieldName.ITERATION_TYPE: "steps",
    }
    return {name: value for name, value in facts.items() if value is not None}
