"""Why a job is where it is: state, position, what it waits for, the estimate and what that rests on (R-28).

The answer for a waiting job comes from the policy itself: the same object is asked about the present queue, and
what it holds the job for is shown as data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from lucid_pipelines.control.deciding import build_view
from lucid_pipelines.control.forecasting import forecast_now
from lucid_pipelines.control.packing import restraint
from lucid_pipelines.control.system import System
from lucid_pipelines.domain.decision import Decision, Hold, Pack, Start
from lucid_pipelines.domain.job import Attempt, Job
from lucid_pipelines.domain.states import JobState
from lucid_pipelines.store import Event, QueueView


@dataclass(frozen=True, slots=True)
class Waiting:
    """What a queued job waits for.

    Attributes:
        position: 1 = next of its virtual cluster.
        cause: a word of ``HoldCause``, or ``next_pass`` when it starts in the next pass.
        predicted_start_at: when enough GPUs should have become free, by the estimates of what runs and is
            ahead; ``None`` when an estimate is missing or it can never start.
        reasons: the rules and numbers that the policy saw.
    """

    position: int
    cause: str
    gpus_needed: int
    gpus_free: int
    blocked_by: str | None
    predicted_start_at: datetime | None
    reasons: tuple[dict[str, object], ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """Everything that ``lucid explain`` shows."""

    job: Job
    as_of: datetime
    policy: str
    summary: str
    waiting: Waiting | None
    attempts: tuple[Attempt, ...]
    events: tuple[Event, ...]


def explain(system: System, job_id: str) -> Explanation:
    """Explain one job's present state.

    Raises:
        NotFoundError: no such job.
    """
    now = system.clock.now()
    job = system.store.jobs.get(job_id)
    waiting = _waiting(system, job, now) if job.state is JobState.QUEUED else None
    return Explanation(
        job=job,
        as_of=now,
        policy=system.policy.name,
        summary=_summary(job, waiting),
        waiting=waiting,
        attempts=tuple(system.store.attempts.of_job(job_id)),
        events=tuple(system.store.events.of_job(job_id)),
    )


def _waiting(system: System, job: Job, now: datetime) -> Waiting | None:
    queue = system.store.queue.view()
    held_back = restraint(system, queue, now)
    view = build_view(
        system,
        system.cluster.inventory(),
        queue,
        now,
        restraint=held_back,
        forecast=forecast_now(system, now),
        focus=job.job_id,
    )
    decisions = system.policy.decide(view)
    order = _order(decisions, queue, job.spec.vc)
    if job.job_id not in order:
        return None  # it started between the two readings
    position = order.index(job.job_id) + 1
    predicted = _predicted_start(system, queue, order[: position - 1], job, now)
    for decision in decisions:
        if isinstance(decision, Hold) and decision.job_id == job.job_id:
            return Waiting(
                position=position,
                cause=decision.cause.value,
                gpus_needed=decision.gpus_needed,
                gpus_free=decision.gpus_free,
                blocked_by=decision.blocked_by,
                predicted_start_at=predicted,
                reasons=tuple(reason.to_json() for reason in decision.reasons),
            )
        if isinstance(decision, Start | Pack) and decision.job_id == job.job_id:
            return Waiting(
                position=position,
                cause="next_pass",
                gpus_needed=job.spec.gpus,
                gpus_free=job.spec.gpus,
                blocked_by=None,
                predicted_start_at=now,
                reasons=tuple(reason.to_json() for reason in decision.reasons),
            )
    return None


def _order(decisions: Sequence[Decision], queue: QueueView, vc: str) -> list[str]:
    """Queued jobs of one virtual cluster, in the order in which the policy considered them."""
    mine = {job.job_id for job in queue.waiting if job.spec.vc == vc and job.state is JobState.QUEUED}
    started = [d.job_id for d in decisions if isinstance(d, Start | Pack) and d.job_id in mine]
    held = sorted((d for d in decisions if isinstance(d, Hold) and d.job_id in mine), key=lambda d: d.ahead_count)
    return started + [decision.job_id for decision in held]


def _predicted_start(
    system: System, queue: QueueView, ahead: Sequence[str], job: Job, now: datetime
) -> datetime | None:
    """Play the estimates forward on the virtual cluster's GPU count, in the policy's order.

    A lower bound in spirit: fragmentation and later, shorter jobs that overtake are not foreseen.
    """
    total = system.cluster.inventory().gpu_count(job.spec.vc)
    by_id = {waiting.job_id: waiting for waiting in queue.waiting}
    ends: list[tuple[float, int]] = []
    for item in queue.active:
        if item.job.spec.vc != job.spec.vc:
            continue
        remaining_s = _remaining_s(item.job, item.attempt, now)
        if remaining_s is None:
            return None
        ends.append((remaining_s, item.job.spec.gpus))
    free = total - sum(gpus for _, gpus in ends)
    clock_s = 0.0
    for waiting in [*(by_id[job_id] for job_id in ahead), job]:
        if waiting.spec.gpus > total:
            return None
        while free < waiting.spec.gpus:
            if not ends:
                return None
            ends.sort()
            clock_s, gpus = ends.pop(0)
            free += gpus
        if waiting.job_id == job.job_id:
            break
        if waiting.estimate is None or waiting.estimate.duration_s is None:
            return None
        free -= waiting.spec.gpus
        ends.append((clock_s + waiting.estimate.duration_s, waiting.spec.gpus))
    return now + timedelta(seconds=clock_s)


def _remaining_s(job: Job, attempt: Attempt, now: datetime) -> float | None:
    if job.estimate is None or job.estimate.duration_s is None:
        return None
    begun = attempt.started_at or attempt.placed_at
    return max(0.0, job.estimate.duration_s - (now - begun).total_seconds())


_WAITS = {
    "free_gpus": "It needs {needed} free GPU(s) in {vc}; {free} are free.",
    "fragmented": "It needs {needed} GPU(s) close together in {vc}; the {free} free ones are scattered.",
    "behind": "{blocked} must start first; it needs the GPUs that are free in {vc}.",
    "aged_job": "{blocked} has waited too long to be passed by anybody; it starts first.",
    "too_large": "It can never start: no set of nodes of {vc} has {needed} GPU(s).",
    "unknown_vc": "It can never start: no node belongs to the virtual cluster {vc}.",
    "preempted_by_order": "Jobs ahead of it in the order take all GPUs of {vc}.",
    "next_round": "The policy decides at fixed intervals; it is considered in the next round.",
    "no_true_duration": "The policy orders by true durations, which only a replay knows.",
    "next_pass": "Its GPUs are free; it starts in the next scheduling pass.",
}


def _summary(job: Job, waiting: Waiting | None) -> str:
    if waiting is not None:
        text = _WAITS.get(waiting.cause, "It waits: " + waiting.cause).format(
            needed=waiting.gpus_needed, free=waiting.gpus_free, vc=job.spec.vc, blocked=waiting.blocked_by
        )
        return f"Queued at position {waiting.position} of {job.spec.vc}. {text}"
    if job.state.is_active:
        return "It runs." if job.started_at else "Its GPUs are taken; its process is being started."
    if job.state.is_terminal:
        return f"It has ended: {job.outcome.value if job.outcome else job.state.value}. {job.detail or ''}".strip()
    return f"It is {job.state.value}: not in the queue yet."
