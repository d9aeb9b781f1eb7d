"""How attempts ended, as far as it is known by now: an exit record often cannot tell, a diagnosis may."""

from __future__ import annotations

from dataclasses import replace

from lucid_pipelines.domain.errors import NotFoundError
from lucid_pipelines.domain.job import Attempt, Job
from lucid_pipelines.domain.states import Cause, JobState, Outcome
from lucid_pipelines.store import Store


def known_attempts(store: Store, job: Job) -> list[Attempt]:
    """A job's attempts, oldest first. Where the exit record did not know the cause, the diagnosis' word stands."""
    attempts = store.attempts.of_job(job.job_id)
    return [
        _with_diagnosis(store, job, attempt, is_last=attempt is attempts[-1])
        if attempt.outcome is Outcome.FAILED_UNKNOWN
        else attempt
        for attempt in attempts
    ]


def _with_diagnosis(store: Store, job: Job, attempt: Attempt, *, is_last: bool) -> Attempt:
    if is_last and job.state is JobState.FAILED and job.outcome is not None:
        return replace(attempt, outcome=job.outcome, cause=job.cause)
    try:
        told = store.exits.get(attempt.attempt_id).result or {}
    except NotFoundError:
        return attempt  # pruned
    if "outcome" not in told:
        return attempt  # not diagnosed yet, or given up
    return replace(attempt, outcome=Outcome(told["outcome"]), cause=Cause(told["cause"]))
