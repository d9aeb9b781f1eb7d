"""Frozen rows of the state database that are not words of the domain: events, intents, exits, leases, actions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import chain
from operator import attrgetter
from typing import Any, Generic, TypedDict, TypeVar

from lucid_pipelines.domain.cluster import GpuSample, Placement
from lucid_pipelines.domain.history import HistoryRow
from lucid_pipelines.domain.job import Attempt, Estimate, Job, Profile
from lucid_pipelines.domain.states import Cause, JobState, Mode, Outcome
from lucid_pipelines.store.ids import attempt_id

T = TypeVar("T")
_SLOT_ORDER = attrgetter("node", "gpu_index", "slot")
Json = Mapping[str, Any]


class EventKind(StrEnum):
    """What an event tells. Only some change the state; the others repeat it in both fields."""

    SUBMITTED = "submitted"
    STATE = "state"
    PLACED = "placed"
    ESTIMATED = "estimated"
    STARTED = "started"
    PAIRED = "paired"
    STOP_REQUESTED = "stop_requested"
    CANCEL_REQUESTED = "cancel_requested"
    ENDED = "ended"
    REQUEUED = "requeued"
    NOTE = "note"


class IntentKind(StrEnum):
    """What is to be done to the world."""

    LAUNCH = "launch"
    STOP = "stop"
    FENCE = "fence"
    ISOLATE = "isolate"
    RESTORE = "restore"


class ActionState(StrEnum):
    """How far a proposed automatic action has come."""

    PROPOSED = "proposed"
    APPROVED = "approved"
    REJECTED = "rejected"
    EXECUTED = "executed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Event:
    """One line of a job's story. ``as_of`` is the time of the observation behind it, if any."""

    event_id: int
    job_id: str
    at: datetime
    kind: EventKind
    from_state: JobState | None
    to_state: JobState
    who: str
    why: str
    evidence: Any
    as_of: datetime | None


@dataclass(frozen=True, slots=True)
class Intent:
    """Something that must be done to the world exactly once, named by ``key``.

    Attributes:
        available_at: not to be tried before (back-off after a failure).
        tries: how often a worker has claimed it.
        failed: it was given up; ``result`` and ``last_error`` say why.
    """

    intent_id: int
    key: str
    kind: IntentKind
    payload: Json
    job_id: str | None
    attempt_id: str | None
    created_at: datetime
    available_at: datetime
    tries: int
    claimed_by: str | None
    claimed_until: datetime | None
    done_at: datetime | None
    failed: bool
    result: Json | None
    last_error: str | None


@dataclass(frozen=True, slots=True)
class Exit:
    """An ended attempt in the outbox, until somebody has handled it."""

    exit_id: int
    attempt_id: str
    job_id: str
    at: datetime
    outcome: Outcome
    cause: Cause | None
    abnormal: bool
    tries: int
    handled_at: datetime | None
    result: Json | None
    last_error: str | None


@dataclass(frozen=True, slots=True)
class Claim(Generic[T]):
    """A worker's time-limited right to one row. Pass it back to complete, renew or release.

    Attributes:
        token: proves the right; a row claimed anew has another one.
        tries: how often the row has been claimed, this time included.
    """

    item: T
    row_id: str | int
    token: str
    until: datetime
    tries: int


@dataclass(frozen=True, slots=True)
class Lease:
    """A named right that one holder has at a time."""

    name: str
    holder: str
    token: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class SlotUse:
    """Who holds one half of a GPU; an exclusive attempt holds both."""

    node: str
    gpu_index: int
    slot: int
    attempt_id: str


@dataclass(frozen=True, slots=True)
class ActiveAttempt:
    """A job that holds GPUs, its attempt, and the attempts that share them now."""

    job: Job
    attempt: Attempt
    partner_attempt_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodeReason:
    """One reason why a node or a GPU is isolated; only its owner lifts it (R-15, R-17).

    Attributes:
        gpu_index: ``None`` = the whole node.
        deadline: when somebody must have looked; past it an alarm is due, the isolation stays.
    """

    reason_id: int
    node: str
    gpu_index: int | None
    owner: str
    reason: str
    evidence: Any
    since: datetime
    deadline: datetime | None
    lifted_at: datetime | None
    lifted_by: str | None


class PairVerdict(StrEnum):
    """What watching a pair has found."""

    WATCHED = "watched"
    """Nothing yet."""
    KEPT = "kept"
    SPLIT = "split"
    """The later job is to go."""
    UNKNOWN = "unknown"
    """Neither the GPUs nor the logs tell how the two are doing."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two attempts that share GPUs, from the moment in which the later one was placed.

    Attributes:
        planned: the reasons of the decision; ``measured`` what was found since.
        ended_at: when the first of the two ended; ``None`` while they are together.
    """

    pair_id: int
    first_attempt_id: str
    later_attempt_id: str
    placement: Placement
    formed_at: datetime
    planned: Any
    measured: Json | None
    verdict: PairVerdict
    verdict_at: datetime | None
    why: str | None
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class Loan:
    """A node that works for another virtual cluster than its own."""

    loan_id: int
    node: str
    from_vc: str
    to_vc: str
    since: datetime
    reasons: Any
    returned_at: datetime | None
    return_reasons: Any


@dataclass(frozen=True, slots=True)
class QueueView:
    """Everything that one scheduling pass needs, from one consistent snapshot.

    Attributes:
        change: value of the change counter that the view shows.
        waiting: jobs in ``queued`` and ``profile_queued``, oldest submission first.
        active: jobs in ``running`` and ``profiling`` with their attempts, oldest placement first.
        jobs: the waiting and the active ones, by job id.
        running: the active ones, by attempt id.
        held: every GPU half in use, by attempt id.
        isolated: reasons in force.
        pairs: attempts that share GPUs.
        loans: nodes that are lent.
    """

    change: int
    waiting: tuple[Job, ...]
    active: tuple[ActiveAttempt, ...]
    jobs: Mapping[str, Job]
    running: Mapping[str, ActiveAttempt]
    held: Mapping[str, tuple[SlotUse, ...]]
    isolated: tuple[NodeReason, ...]
    pairs: tuple[Pair, ...] = ()
    loans: tuple[Loan, ...] = ()

    @property
    def slots(self) -> tuple[SlotUse, ...]:
        """Every GPU half in use, by node and index."""
        return tuple(sorted(chain.from_iterable(self.held.values()), key=_SLOT_ORDER))

    def active_job(self, job_id: str) -> ActiveAttempt | None:
        """The job and its attempt, if it holds GPUs."""
        job = self.jobs.get(job_id)
        return None if job is None else self.running.get(attempt_id(job_id, job.attempt_count))


@dataclass(frozen=True, slots=True)
class EndResult:
    """What ``record_end`` did; ``changed`` is false when the attempt had ended before."""

    job: Job
    attempt: Attempt
    changed: bool


@dataclass(frozen=True, slots=True)
class CancelResult:
    """What ``request_cancel`` did; ``changed`` is false when it had been asked for before."""

    job: Job
    changed: bool


@dataclass(frozen=True, slots=True)
class EstimateRow:
    """A stored prediction and, once its job completed, what came of it.

    Attributes:
        actual_s: measured run time; ``None`` until a completed run scored it.
        within: whether ``actual_s`` lay in the interval; ``None`` without an interval.
    """

    estimate_id: int
    job_id: str
    made_at: datetime
    estimate: Estimate
    scored_at: datetime | None
    actual_s: float | None
    within: bool | None


@dataclass(frozen=True, slots=True)
class EstimateScore:
    """How one basis of estimates fared.

    Attributes:
        mean_abs_error_s: over ``count`` scored predictions that named a duration.
        mean_log_ratio: mean of ln(predicted / actual): above 0 = too long; ``None`` if nothing is positive.
        coverage_frac: share of the intervals that held the truth; ``None`` without intervals.
    """

    basis: str
    count: int
    mean_abs_error_s: float | None
    mean_log_ratio: float | None
    coverage_frac: float | None


@dataclass(frozen=True, slots=True)
class AdviceRow:
    """What similar past jobs said of a job, kept before it ran, and how that fared.

    Attributes:
        mode: how far the advice could go then: ``shadow`` or ``live``.
        basis: the estimate's, or the reason why there is none.
        reading_key: names the code, command and request that were read; equal ones are read once.
        mark: the fingerprint and what its past likes must match; ``None`` when the code was not read.
        profile: utilisation and memory that similar jobs showed.
        similar: the similar jobs with similarity, hardware, outcome and weight, the most similar first.
        cpu_s, gpu_s: what the advice cost.
        skip_mode: mode in which its profile took the place of a profiling run; ``None`` = it did not.
        saved_gpu_s: GPU time of the profiling run that was not needed; ``None`` = it took place all the same.
        verdict: ``hit_right``, ``hit_wrong``, ``fallback``, ``not_scored``; ``None`` until the job's end was learned.
    """

    job_id: str
    made_at: datetime
    mode: str
    basis: str
    detail: str
    reading_key: str | None = None
    mark: Json | None = None
    estimate: Estimate | None = None
    profile: Profile | None = None
    similar: tuple[Json, ...] = ()
    cpu_s: float = 0.0
    gpu_s: float = 0.0
    wall_s: float = 0.0
    skip_mode: str | None = None
    saved_gpu_s: float | None = None
    verdict: str | None = None
    actual_s: float | None = None
    relative_error: float | None = None
    within: bool | None = None
    learned_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class EndedAdvice:
    """A job that has ended, with the advice that it got and its last attempt (``None`` = it never ran).

    Attributes:
        main_runs: attempts outside of the profiling pool that ran.
    """

    advice: AdviceRow
    job: Job
    run: HistoryRow | None
    main_runs: int


@dataclass(frozen=True, slots=True)
class AdviceVerdict:
    """How one piece of advice fared. ``residual`` is ln(actual / predicted)."""

    job_id: str
    verdict: str
    actual_s: float | None = None
    relative_error: float | None = None
    residual: float | None = None
    within: bool | None = None


@dataclass(frozen=True, slots=True)
class MetricPoint:
    """One value of a job's own metric. ``value`` may be NaN or infinite; ``None`` is unknown."""

    name: str
    at: datetime
    value: float | None
    step: int | None = None


@dataclass(frozen=True, slots=True)
class StoredNotice:
    """Something that people are told over one channel.

    Attributes:
        key: names the occasion; one occasion is told once a channel, a receiver may use it to drop repetitions.
        tries: how often it was claimed.
        failed: given up.
    """

    notice_id: int
    key: str
    channel: str
    kind: str
    payload: Json
    created_at: datetime
    tries: int
    done_at: datetime | None
    failed: bool
    last_error: str | None


@dataclass(frozen=True, slots=True)
class Tracked:
    """How far the log of one attempt has been followed, and what it said at the last look.

    Attributes:
        version: counts looks; a look that began from an older one is dropped.
        at: when the log was last read.
        cursor: what the next look begins from.
        progress: the answer, unknown values ``None``.
        pulse: since when the job makes no step, and what is usual for it.
        findings: what looks wrong now; advice only.
    """

    attempt_id: str
    job_id: str
    version: int
    at: datetime
    cursor: Json
    progress: Json
    pulse: Json
    findings: tuple[Json, ...]


@dataclass(frozen=True, slots=True)
class LatestSample:
    """The newest reading of one GPU."""

    node: str
    gpu_index: int
    sample: GpuSample


@dataclass(frozen=True, slots=True)
class Action:
    """An automatic action that was proposed: the audit trail of ``shadow`` and ``approve``.

    Attributes:
        key: at most one action has it.
        person: who decided.
        score: what would have come of it, or came of it, once known.
    """

    action_id: int
    key: str | None
    kind: str
    target: str
    mode: Mode
    state: ActionState
    why: str
    payload: Json
    proposed_at: datetime
    decided_at: datetime | None
    person: str | None
    executed_at: datetime | None
    result: Json | None
    scored_at: datetime | None
    score: Json | None


class JobChanges(TypedDict, total=False):
    """What may change together with a state: the keyword arguments of ``transition`` and ``annotate``."""

    snapshot_digest: str | None
    estimate: Estimate | None
    profile: Profile | None
    outcome: Outcome | None
    cause: Cause | None
    exit_code: int | None
    detail: str | None
    never_pack: bool
    avoid_nodes: tuple[str, ...]
    labels: tuple[tuple[str, str], ...]
