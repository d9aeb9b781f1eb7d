"""Why a job is where it is: state, position, what it waits for, the estimate and what that rests on (R-28).

The answer for a waiting job comes from the policy itself: the same object is asked about the present queue, and
what it holds the job for is shown as data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from lucid_pipelines.control.deciding import build_view
from lucid_pipelines.control.facts import Restraint
from lucid_pipelines.control.forecasting import forecast_now
from lucid_pipelines.control.known_ends import known_attempts
from lucid_pipelines.control.packing import PACK, restraint
from lucid_pipelines.control.pool import effective_inventory
from lucid_pipelines.control.start_times import predicted_starts
from lucid_pipelines.control.system import System
from lucid_pipelines.domain.decision import Decision, Hold, Pack, Reason, Start
from lucid_pipelines.domain.job import Attempt, Job
from lucid_pipelines.domain.states import JobState
from lucid_pipelines.store import ActionState, Event, QueueView


@dataclass(frozen=True, slots=True)
class Waiting:
    """What a queued job waits for.

    Attributes:
        position: 1 = next of its virtual cluster.
        cause: a word of ``HoldCause``, or ``next_pass`` when it starts in the next pass.
        predicted_start_at: when enough GPUs should have become free, by the estimates of what runs and is
            ahead; ``None`` when an estimate is missing or it can never start. ``start_low_at`` to
            ``start_high_at`` by the ends of the estimates' intervals.
        reasons: the rules and numbers that the policy saw.
    """

    position: int
    cause: str
    gpus_needed: int
    gpus_free: int
    blocked_by: str | None
    predicted_start_at: datetime | None
    reasons: tuple[dict[str, object], ...]
    start_low_at: datetime | None = None
    start_high_at: datetime | None = None


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
        attempts=tuple(known_attempts(system.store, job)),
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
    inventory = effective_inventory(system, system.cluster.inventory(), queue.loans)
    nodes = [node for node in inventory.nodes if node.vc == job.spec.vc]
    predicted = predicted_starts(queue, order[:position], nodes, now)[job.job_id]
    for decision in decisions:
        if isinstance(decision, Hold) and decision.job_id == job.job_id:
            return Waiting(
                position=position,
                cause=decision.cause.value,
                gpus_needed=decision.gpus_needed,
                gpus_free=decision.gpus_free,
                blocked_by=decision.blocked_by,
                predicted_start_at=predicted.at,
                start_low_at=predicted.low_at,
                start_high_at=predicted.high_at,
                reasons=(
                    *_proposal(system, job),
                    *_kept_apart(system, job, decision.reasons, held_back),
                    *(told for reason in decision.reasons for told in _with_mode(system, reason)),
                ),
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


def _proposal(system: System, job: Job) -> tuple[dict[str, object], ...]:
    """What is proposed about the job and not decided; its packing is left alone meanwhile."""
    states = [ActionState.PROPOSED, ActionState.REJECTED]
    for action in system.store.actions.find(kind=PACK, target=job.job_id, states=states, scored=False, limit=5):
        if action.payload.get("attempt_number") == job.attempt_count + 1:
            facts: dict[str, object] = {"rule": "pack_proposed", "action": action.action_id, "mode": action.mode.value}
            return (facts | {"state": action.state.value, "partner_job_id": action.payload.get("partner_job_id")},)
    return ()


def _kept_apart(
    system: System, job: Job, reasons: Sequence[Reason], held_back: Restraint
) -> tuple[dict[str, object], ...]:
    """That one of two is to stay alone only for now, and why that may be: the rules do not know the difference."""
    nearest = next((reason.facts.get("partner_job_id") for reason in reasons if reason.rule == "best_candidate"), None)
    apart = [str(job_id) for job_id in (job.job_id, nearest) if job_id in held_back.apart]
    if not apart:
        return ()
    return ({"rule": "kept_apart", "jobs": ", ".join(apart), "cool_down_s": system.settings.packing.cool_down_s},)


def packing_mode(system: System) -> dict[str, object]:
    """What this site makes of pairs, as a reason."""
    return {"rule": "packing_mode", "mode": system.settings.modes.pack.value}


def _with_mode(system: System, reason: Reason) -> list[dict[str, object]]:
    """Whether jobs may share by the policy's rules says nothing without what the site lets happen."""
    told = [reason.to_json()]
    return [*told, packing_mode(system)] if reason.rule == "sharing_mode" else told


def _order(decisions: Sequence[Decision], queue: QueueView, vc: str) -> list[str]:
    """Queued jobs of one virtual cluster, in the order in which the policy considered them."""
    mine = {job.job_id for job in queue.waiting if job.spec.vc == vc and job.state is JobState.QUEUED}
    started = [d.job_id for d in decisions if isinstance(d, Start | Pack) and d.job_id in mine]
    held = sorted((d for d in decisions if isinstance(d, Hold) and d.job_id in mine), key=lambda d: d.ahead_count)
    return started + [decision.job_id for decision in held]


_WAITS = {
    "free_gpus": "It needs {needed} free GPU(s) in {vc}; {free} are free.",
    "fragmented": "It needs {needed} GPU(s) close together in {vc}; the {free} free ones are scattered.",
    "behind": "{blocked} must start first; it needs the GPUs that are free in {vc}.",
    "aged_job": "{blocked} has waited too long to be passed by anybody; it starts first.",
    "too_large": "It can never start: no set of nodes of {vc} has {needed} GPU(s).",
    "unknown_vc": "It can never start: no node belongs to the virtual cluster {vc}.",
    "avoided_nodes": "What is free in {vc} lies on nodes that it is kept off.",
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
    if job.state is JobState.PROFILE_QUEUED:
        return "It waits for the profiling pool: a short first run shows what it needs."
    if job.state is JobState.PROFILING:
        return "It is profiled: a short run shows what it needs; then it goes on in its virtual cluster."
    if job.state.is_active:
        return "It runs." if job.started_at else "Its GPUs are taken; its process is being started."
    if job.state.is_terminal:
        return f"It has ended: {job.outcome.value if job.outcome else job.state.value}. {job.detail or ''}".strip()
    return f"It is {job.state.value}: not in the queue yet."
