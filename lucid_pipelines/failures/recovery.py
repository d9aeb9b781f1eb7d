"""What the policy remembers and how it is set: budgets, back-off, quotas, isolations, approvals."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from lucid_pipelines.domain.states import Mode
from lucid_pipelines.failures.evidence import Suspect
from lucid_pipelines.failures.facts import Checkpoint
from lucid_pipelines.failures.vocabulary import Category, Component

_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class RecoverySettings:
    """Limits of what the handler may do by itself.

    Attributes:
        restart_mode, isolate_mode: set apart (ARCHITECTURE section 2, idea 4).
        min_confidence: below it a restart waits for a person even in mode ``live``.
        max_restarts_per_job: over the job's life.
        max_restarts_per_cause: of one job, for one component.
        max_restarts_per_hour: of the whole cluster.
        backoff_base_s, backoff_factor, backoff_max_s: wait before the n-th restart of a job.
        from_scratch_below_s: without a checkpoint, restart only what ran less than this.
        mass_failures, mass_window_s, mass_nodes: so many failures of different jobs on so many nodes within the
            window are one shared cause (R-19).
        quota_count, quota_frac: how many nodes may be isolated by us at once; the smaller one counts, but one
            node is always allowed on a cluster of at least ``quota_min_nodes`` (R-18).
        isolation_s: an isolation must be decided about again after this long (R-15).
        loop_window_s: the same root error within this time after a restart is a loop.
        approval_s: a request for approval lapses after this long.
        owner: whose name our isolations bear (R-17).
    """

    restart_mode: Mode = Mode.SHADOW
    isolate_mode: Mode = Mode.SHADOW
    min_confidence: float = 0.60
    max_restarts_per_job: int = 5
    max_restarts_per_cause: int = 3
    max_restarts_per_hour: int = 20
    backoff_base_s: float = 30.0
    backoff_factor: float = 2.0
    backoff_max_s: float = 1800.0
    from_scratch_below_s: float = 3600.0
    mass_failures: int = 4
    mass_window_s: float = 300.0
    mass_nodes: int = 3
    quota_count: int = 4
    quota_frac: float = 0.10
    quota_min_nodes: int = 2
    isolation_s: float = 86_400.0
    loop_window_s: float = 86_400.0
    approval_s: float = 14_400.0
    owner: str = "lucid"


@dataclass(frozen=True, slots=True)
class RestartRecord:
    """One restart that was made (or, in shadow, would have been)."""

    job_id: str
    component: Component | None
    category: Category | None
    signature: str
    restarted_at: datetime


@dataclass(frozen=True, slots=True)
class IsolationRecord:
    """One isolation that stands now, ours or another's."""

    suspect: Suspect
    owner: str
    reason: str
    since: datetime
    decide_by: datetime | None


@dataclass(frozen=True, slots=True)
class OpenFailure:
    """A failure of some job in the recent past, for recognising a shared cause."""

    job_id: str
    nodes: tuple[str, ...]
    category: Category | None
    component: Component | None
    failed_at: datetime


@dataclass(frozen=True, slots=True)
class RecoveryState:
    """What happened before, as of ``now``; the caller reads it in one transaction.

    Attributes:
        node_gpus: GPUs of every node of the cluster.
        node_vc: virtual cluster of every node.
        avoid: parts that this job must not be placed on again.
    """

    now: datetime
    restarts: tuple[RestartRecord, ...] = ()
    isolations: tuple[IsolationRecord, ...] = ()
    open_failures: tuple[OpenFailure, ...] = ()
    node_gpus: dict[str, int] = field(default_factory=dict)
    node_vc: dict[str, str] = field(default_factory=dict)
    avoid: tuple[Suspect, ...] = ()


def backoff_s(settings: RecoverySettings, earlier_restarts: int) -> float:
    """How long to wait before the next restart of a job that was restarted so often."""
    wait = settings.backoff_base_s * settings.backoff_factor ** min(earlier_restarts, 30)
    return min(wait, settings.backoff_max_s)


def isolation_quota(settings: RecoverySettings, node_count: int) -> int:
    """How many nodes may be isolated at once: by count and by share, sane on small clusters (R-18)."""
    if node_count < settings.quota_min_nodes:
        return 0
    return max(1, min(settings.quota_count, int(settings.quota_frac * node_count)))


def isolated_nodes(isolations: Sequence[IsolationRecord], owner: str) -> frozenset[str]:
    """Nodes of which we hold at least a part."""
    return frozenset(i.suspect.node for i in isolations if i.owner == owner)


def is_mass_failure(settings: RecoverySettings, state: RecoveryState) -> bool:
    """Whether many jobs on many nodes fail at once: a shared cause, not so many bad nodes (R-19)."""
    since = state.now - timedelta(seconds=settings.mass_window_s)
    recent = [f for f in state.open_failures if f.failed_at >= since and f.category is not Category.USER_SCRIPT]
    jobs = {f.job_id for f in recent}
    nodes = {node for f in recent for node in f.nodes}
    return len(jobs) >= settings.mass_failures and len(nodes) >= settings.mass_nodes


def newest_complete(checkpoints: Sequence[Checkpoint]) -> Checkpoint | None:
    """The newest checkpoint that is known to be complete (R-33); the highest step wins a tie in time."""
    complete = [c for c in checkpoints if c.is_complete is True]
    return max(complete, key=lambda c: (c.written_at, c.step if c.step is not None else -1), default=None)


def step_in_name(path: str) -> int | None:
    """The last number in a checkpoint's name, which by custom is its step; ``None`` when there is none."""
    numbers = _NUMBER.findall(path.rstrip("/").rsplit("/", 1)[-1])
    return int(numbers[-1]) if numbers else None
