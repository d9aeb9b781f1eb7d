"""What a user asks for, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from lucid_pipelines.domain.cluster import MOST_MIB, Placement, drop_invalid
from lucid_pipelines.domain.states import AttemptState, Cause, JobState, Outcome


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A request to train: checked at the edge, never changed afterwards.

    Attributes:
        command: argument vector; no shell is involved unless the user names one.
        env: variables added to the job's environment.
        snapshot_digest: content address of the code (``sha256:…``); ``None`` until it is sealed.
        workdir: directory inside the snapshot in which the command starts, relative.
        idempotency_key: two submissions with the same key are one job.
        never_restart: the recovery policy leaves the job alone (R-6).
        amp: whether the user declares mixed precision; ``None`` = not said.
        long_cold_start: whether start-up exceeds the profiling window.
        declared_load: what it asks of each virtual GPU, by the names of ``LaunchRequest.declared_load``; empty =
            not declared. A real GPU is measured.
    """

    name: str
    user: str
    vc: str
    gpus: int
    command: tuple[str, ...]
    env: tuple[tuple[str, str], ...] = ()
    workdir: str = "."
    snapshot_digest: str | None = None
    source_dir: str | None = None
    idempotency_key: str | None = None
    never_restart: bool = False
    amp: bool | None = None
    long_cold_start: bool = False
    grace_s: float = 10.0
    labels: tuple[tuple[str, str], ...] = ()
    declared_load: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Estimate:
    """A predicted duration and what it rests on. Never a kill limit (R-29).

    Attributes:
        duration_s: expected run time on exclusive GPUs; ``None`` = no evidence at all.
        low_s, high_s: interval at ``coverage_frac``.
        basis: the rung of the fall-back ladder that answered, e.g. ``user_mean``.
        evidence_job_ids: past jobs that it rests on, newest first (bounded).
        sample_count: how many past jobs in all.
    """

    duration_s: float | None
    basis: str
    low_s: float | None = None
    high_s: float | None = None
    coverage_frac: float | None = None
    evidence_job_ids: tuple[str, ...] = ()
    sample_count: int = 0
    model_version: str | None = None


@dataclass(frozen=True, slots=True)
class Profile:
    """What a job needs from a GPU, measured over a steady window. Unknown is ``None``.

    Attributes:
        unknown_because: why a part of it is unknown: ``too_few``, ``missing``, ``unsteady``, ``idle``, ``frozen``.
    """

    gpu_util_pct: float | None = None
    memory_util_pct: float | None = None
    memory_peak_mib: float | None = None
    window_s: float | None = None
    sample_count: int = 0
    source: str | None = None
    unknown_because: str | None = None

    def __post_init__(self) -> None:
        drop_invalid(self, ("gpu_util_pct", "memory_util_pct"), 100.0)
        drop_invalid(self, ("memory_peak_mib",), MOST_MIB)


@dataclass(frozen=True, slots=True)
class ExitRecord:
    """How an attempt's command ended, as its wrapper wrote it: the only source of truth (R-2).

    Attributes:
        exit_code: 0–255; ``None`` when a signal ended the command or it never ran. For ``spawn_failed`` as
            a shell would say it: 127 not found, 126 found but not executable.
        signal: number of the signal that ended it.
        reason: what the wrapper knows: ``exited``, ``stopped`` (on request), ``spawn_failed``, ``fenced``
            (killed, or kept from ever starting, by ``Cluster.fence``); by the record of the cluster's own scheduler:
            ``timed_out`` (its time limit), ``preempted``, ``cancelled`` (by its user or an administrator there).
        ended_at: when the main process ended.
        declared: facts that the job itself wrote (``LUCID_EXIT_NOTE``), untrusted.
        leftover_count: processes that outlived the main process and were then ended; ``None`` = not counted.
    """

    exit_code: int | None
    signal: int | None
    reason: str
    started_at: datetime | None
    ended_at: datetime
    detail: str | None = None
    profile: Profile | None = None
    declared: tuple[tuple[str, str], ...] = ()
    leftover_count: int | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run of a job.

    Attributes:
        partner_job_id: the last job that shared its GPUs.
        stop_requeue, stop_never_pack: what the stop that was asked for means for the job; ``None`` while
            no stop was asked for.
        profiling: whether it runs in the profiling pool.
        gpu_sharing: how its GPUs are shared should a partner come: ``time_slicing`` or ``mps`` (R-24).
    """

    attempt_id: str
    job_id: str
    number: int
    state: AttemptState
    placement: Placement
    placed_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None
    outcome: Outcome | None = None
    cause: Cause | None = None
    exit: ExitRecord | None = None
    partner_job_id: str | None = None
    log_path: str | None = None
    stop_requested_at: datetime | None = None
    stop_reason: str | None = None
    stop_requeue: bool | None = None
    stop_never_pack: bool = False
    profiling: bool = False
    gpu_sharing: str | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """A job as the state database knows it.

    Attributes:
        queued_at: when it last began to wait for GPUs.
        started_at: when its latest attempt began to run; ``None`` while it waits.
        ran_s: seconds that its ended attempts ran, all together.
        restart_count: how often recovery put it back into the queue.
        avoid_nodes: nodes that placement keeps it off, unless nothing else could ever hold it (R-19).
    """

    job_id: str
    spec: JobSpec
    state: JobState
    state_at: datetime
    submitted_at: datetime
    version: int
    queued_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    outcome: Outcome | None = None
    cause: Cause | None = None
    exit_code: int | None = None
    detail: str | None = None
    estimate: Estimate | None = None
    profile: Profile | None = None
    attempt_count: int = 0
    never_pack: bool = False
    cancel_requested_at: datetime | None = None
    labels: tuple[tuple[str, str], ...] = field(default=())
    ran_s: float = 0.0
    restart_count: int = 0
    avoid_nodes: tuple[str, ...] = ()
