"""What past runs say about durations: frozen facts, no I/O."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from lucid_pipelines.domain.cluster import Placement
from lucid_pipelines.domain.job import Profile
from lucid_pipelines.domain.states import Cause, Outcome


class Rung(StrEnum):
    """The fall-back ladder of the duration estimate, best first (Lucid paper, Workload Estimate Model)."""

    USER_AND_GPUS = "user_gpus_mean"
    USER = "user_mean"
    SAME_GPUS = "same_gpus_mean"
    GLOBAL = "global_mean"


@dataclass(frozen=True, slots=True)
class RungStats:
    """Durations of the newest completed runs that one rung looks at.

    Attributes:
        count: how many runs were looked at (bounded by the caller's ``max_samples``).
        q10_s, median_s, q90_s: quantiles over the same runs, linearly interpolated.
        newest_job_ids: newest first, bounded.
    """

    rung: Rung
    count: int
    mean_s: float
    q10_s: float
    median_s: float
    q90_s: float
    newest_job_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DurationStats:
    """All rungs that have evidence as of one moment, best first; empty when nothing has completed yet."""

    as_of: datetime
    rungs: tuple[RungStats, ...]

    @property
    def best(self) -> RungStats | None:
        return self.rungs[0] if self.rungs else None


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """One ended attempt, as history keeps it.

    Attributes:
        duration_s: run time of this attempt; ``None`` when it never started or its start is unknown.
        packed: whether it shared its GPUs with another job at any time.
        profiling: whether it ran in the profiling pool.
    """

    attempt_id: str
    job_id: str
    number: int
    user: str
    vc: str
    name: str
    gpus: int
    submitted_at: datetime
    started_at: datetime | None
    ended_at: datetime
    duration_s: float | None
    outcome: Outcome
    cause: Cause | None
    profile: Profile | None
    placement: Placement | None
    packed: bool
    profiling: bool
