"""What handling failures is worth: failed jobs of a trace go on from their checkpoint, or wait for their user.

SchedMate (paper, section 15) reports that its Failure Handler lowers the average JCT by about 12.5 % against not
handling failures. A trace tells which jobs failed, not why, nor how much was left to do, so both are drawn, seeded
and the same for every variant; what the handler says of a failure is drawn from its measured confusion matrix, never
from the truth.

A failed job becomes a chain of attempts. The replay knows independent jobs only, so that a chain is replayed by
iteration: the follow-ups are submitted when the attempt before them ended in the last replay, until that settles.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Protocol

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.domain.trace import ClusterSpec, TraceJob, TraceState
from lucid_pipelines.simulation.inputs import ReplayInput, prepare
from lucid_pipelines.simulation.record import Replay

INFRASTRUCTURE, FRAMEWORK, USER = "infrastructure", "framework", "user_script"
_ROUNDS = 4
_SETTLED_S = 60.0


class Restarts(Protocol):
    """Whether the handler restarts a failure of a true class: drawn, as often as was measured."""

    def __call__(self, true_class: str, rng: random.Random) -> bool: ...


@dataclass(frozen=True, slots=True)
class FailureAssumptions:
    """What a trace does not tell.

    Attributes:
        infrastructure_frac, framework_frac: classes of failures; the rest are the users' own. The paper counts 75
            of 300 failures as infrastructure.
        checkpoint_s: time between checkpoints: a failure loses a uniform share of it.
        overhead_s: a restart's diagnosis and start, before it does new work.
        reaction_s: mean time until a user sees a failure and submits the job again (exponential).
        earliest_frac: a failure comes at a uniform share of the whole work, at least this one.
        users_have_checkpoints: whether users resume from a checkpoint too, or begin again.
    """

    infrastructure_frac: float = 0.25
    framework_frac: float = 0.25
    checkpoint_s: float = 1800.0
    overhead_s: float = 180.0
    reaction_s: float = 3600.0
    earliest_frac: float = 0.2
    users_have_checkpoints: bool = True

    def __post_init__(self) -> None:
        if not 0.0 <= self.infrastructure_frac + self.framework_frac <= 1.0:
            raise InputError(
                f"shares of failures add up to at most 1; got {self.infrastructure_frac + self.framework_frac}"
            )
        if not 0.0 < self.earliest_frac <= 1.0:
            raise InputError(f"the earliest failure lies in (0, 1] of the work; got {self.earliest_frac}")


@dataclass(frozen=True, slots=True)
class DrawnFailure:
    """One failed job and everything about it that was drawn.

    Attributes:
        left_s: work that was still to be done.
        lost_s: work since the last checkpoint.
        reaction_s: until its user would submit it again.
        is_restarted: what the handler does.
    """

    job: TraceJob
    true_class: str
    left_s: float
    lost_s: float
    reaction_s: float
    is_restarted: bool


@dataclass(frozen=True, slots=True)
class RecoveryOutcome:
    """Average JCT of logical jobs (a chain counts once, from its first submission to its last end).

    Attributes:
        jct_mean_s, failed_jct_mean_s: over all jobs, and over those that infrastructure failed.
        gpu_h: GPU-hours held.
        unsettled_frac: share of follow-ups whose submission in the last replay is off by more than a minute.
    """

    jct_mean_s: float
    failed_jct_mean_s: float | None
    gpu_h: float
    unsettled_frac: float


def draw_failures(
    jobs: Sequence[TraceJob], assumed: FailureAssumptions, restarts: Restarts, seed: int
) -> list[DrawnFailure]:
    """Draw what is not in the trace for every failed job; one job's draws do not depend on another's."""
    longest_s = max((job.duration_s for job in jobs), default=0.0)
    found: list[DrawnFailure] = []
    for job in jobs:
        if job.state is not TraceState.FAILED or job.duration_s <= 0:
            continue
        rng = random.Random(f"{seed}-{job.job_id}")
        kind = rng.random()
        true_class = USER
        if kind < assumed.infrastructure_frac:
            true_class = INFRASTRUCTURE
        elif kind < assumed.infrastructure_frac + assumed.framework_frac:
            true_class = FRAMEWORK
        reached_frac = rng.uniform(assumed.earliest_frac, 1.0)
        left_s = min(job.duration_s * (1.0 - reached_frac) / reached_frac, longest_s)
        lost_s = rng.uniform(0.0, min(assumed.checkpoint_s, job.duration_s))
        reaction_s = rng.expovariate(1.0 / assumed.reaction_s) if assumed.reaction_s > 0 else 0.0
        found.append(DrawnFailure(job, true_class, left_s, lost_s, reaction_s, restarts(true_class, rng)))
    return found


def replay_with_failures(
    trace_jobs: Sequence[TraceJob],
    cluster: ClusterSpec,
    run: Callable[[ReplayInput], Replay],
    failures: Sequence[DrawnFailure],
    assumed: FailureAssumptions,
    *,
    handled: bool,
) -> RecoveryOutcome:
    """Replay a trace in which infrastructure failures are made good, by the handler or by users.

    With the handler, a failure that it restarts goes on at once; one that it does not waits for its user. A failure
    of the program that it restarts wrongly fails again after the work since the checkpoint, and is then stopped
    (the same root error twice).

    Args:
        run: one replay of one input, under any policy.
        failures: as drawn; give the same ones with and without the handler.
    """
    follow_ups = {f.job.job_id: item for f in failures if (item := _follow_up(f, assumed, handled=handled))}
    submitted: dict[str, float] = {}
    ends: dict[str, float] = {}
    replayed: Replay | None = None
    for _ in range(_ROUNDS):
        extra = [
            replace(after.job, submit_s=submitted[parent])
            for parent, after in follow_ups.items()
            if parent in submitted
        ]
        replayed = run(prepare([*trace_jobs, *extra], cluster))
        ends = {job.job_id: float(end) for job, end in zip(replayed.input.jobs, replayed.end_s, strict=True)}
        wanted = {parent: ends[parent] + after.delay_s for parent, after in follow_ups.items() if parent in ends}
        if wanted.keys() == submitted.keys() and all(
            abs(wanted[parent] - submitted[parent]) <= _SETTLED_S for parent in wanted
        ):
            submitted = wanted
            break
        submitted = wanted
    assert replayed is not None
    return _outcome(replayed, ends, follow_ups, failures)


@dataclass(frozen=True, slots=True)
class _FollowUp:
    job: TraceJob
    delay_s: float


def _follow_up(failure: DrawnFailure, assumed: FailureAssumptions, *, handled: bool) -> _FollowUp | None:
    """The attempt after a failure, and how long after its end it is submitted; ``None`` when there is none."""
    by_handler = handled and failure.is_restarted
    if failure.true_class != INFRASTRUCTURE:
        if not by_handler:
            return None  # the user's business, the same in both variants
        work_s, delay_s = failure.lost_s, 0.0  # a wrong restart runs into the same error
    elif by_handler:
        work_s, delay_s = failure.lost_s + failure.left_s, 0.0
    else:
        again_s = failure.lost_s if assumed.users_have_checkpoints else failure.job.duration_s
        work_s, delay_s = again_s + failure.left_s, failure.reaction_s
    job = replace(
        failure.job,
        job_id=f"{failure.job.job_id}#2",
        duration_s=work_s + assumed.overhead_s,
        state=TraceState.COMPLETED if failure.true_class == INFRASTRUCTURE else TraceState.FAILED,
        start_s=None,
        end_s=None,
        queue_s=None,
    )
    return _FollowUp(job, delay_s)


def _outcome(
    replayed: Replay, ends: dict[str, float], follow_ups: dict[str, _FollowUp], failures: Sequence[DrawnFailure]
) -> RecoveryOutcome:
    submits = {job.job_id: job.submit_s for job in replayed.input.jobs}
    failed = {f.job.job_id for f in failures if f.true_class == INFRASTRUCTURE}
    jct: list[float] = []
    failed_jct: list[float] = []
    off = 0
    for job_id, submit_s in submits.items():
        if job_id.endswith("#2"):
            continue
        after = follow_ups.get(job_id)
        end_s = ends.get(f"{job_id}#2", ends[job_id]) if after is not None else ends[job_id]
        if after is not None and f"{job_id}#2" in submits:
            off += abs(submits[f"{job_id}#2"] - ends[job_id] - after.delay_s) > _SETTLED_S
        jct.append(end_s - submit_s)
        if job_id in failed:
            failed_jct.append(end_s - submit_s)
    held_gpu_s = float((replayed.held_s * replayed.gpus).sum())
    return RecoveryOutcome(
        jct_mean_s=fmean(jct),
        failed_jct_mean_s=fmean(failed_jct) if failed_jct else None,
        gpu_h=held_gpu_s / 3600.0,
        unsettled_frac=off / len(follow_ups) if follow_ups else 0.0,
    )
