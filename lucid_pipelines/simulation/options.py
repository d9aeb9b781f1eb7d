"""What a replay assumes about the world, apart from the policy."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from lucid_pipelines.domain.job import Estimate
from lucid_pipelines.domain.scaling import ScalingCurve
from lucid_pipelines.domain.trace import TraceJob
from lucid_pipelines.domain.view import Forecast, QueuedJob


class PairSpeeds(Protocol):
    """How fast two jobs run on the same GPUs, relative to running alone."""

    def speeds(self, first: TraceJob, second: TraceJob) -> tuple[float, float]: ...


class ReplayEstimator(Protocol):
    """Predicts durations during a replay and learns from what has ended, never from the future."""

    def estimate(self, job: QueuedJob) -> Estimate | None: ...

    def observe(self, job: TraceJob, ended_s: float) -> None:
        """``job`` has ended in the replay at ``ended_s``."""
        ...


class Scorer(Protocol):
    """Gives a profiled job its sharing score (0, 1, 2), or ``None``."""

    def score(self, job: TraceJob) -> int | None: ...


@dataclass(frozen=True, slots=True)
class ReplayFaults:
    """Faults of the published artifact that can be reproduced to compare with it (docs/lucid-vs-artifact.md).

    Attributes:
        whole_seconds: work is done in whole seconds.
        partner_stays_slow: when the earlier-placed job of a pair ends first, the other keeps its shared speed
            and is never packed again.
    """

    whole_seconds: bool = False
    partner_stays_slow: bool = False


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """Assumptions of a replay.

    Attributes:
        preemption_cost_s, preemption_cost_large_s: work added to a stopped job of at most, and above,
            ``large_job_gpus`` GPUs (checkpoint and cold start; Tiresias as simulated by Lucid, section 4).
        end_lag_s: how long after its work is done a job's GPUs are free. ``None`` = one second under policies
            that preempt, none under the others: so do the published simulators, and with decisions every 60 s
            and durations of whole minutes that second decides whether a round is missed.
        pair_speeds: interference; needed as soon as a policy packs.
        estimator: predicts durations; it never sees the future.
        scorer: sharing scores of profiled jobs; needed as soon as a policy packs.
        reuse_profiles: a job of a user and name that has been measured before starts with that profile.
        profiles_known: every job's profile is known when it is submitted.
        unstable_below_frac, watch_s: a packed job slower than this after ``watch_s`` counts as unstable;
            ``None`` = pairs are not watched.
        curves: speeds on other numbers of GPUs, by job id, under policies that resize jobs (Pollux, Sia).
        avoid_nodes: nodes that a job is kept off, by its id (R-19).
        long_cold_start: ids of jobs whose users say that they start slowly: they are profiled for longer. Traces do
            not tell.
    """

    preemption_cost_s: float = 40.0
    preemption_cost_large_s: float = 60.0
    large_job_gpus: int = 8
    end_lag_s: float | None = None
    pair_speeds: PairSpeeds | None = None
    estimator: ReplayEstimator | None = None
    scorer: Scorer | None = None
    forecast: Forecast | None = None
    reuse_profiles: bool = True
    profiles_known: bool = False
    unstable_below_frac: float | None = None
    watch_s: float = 120.0
    curves: Mapping[str, ScalingCurve] = field(default_factory=dict[str, ScalingCurve])
    avoid_nodes: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    long_cold_start: Collection[str] = frozenset[str]()
    faults: ReplayFaults = ReplayFaults()

    def preemption_cost_of(self, gpus: int) -> float:
        return self.preemption_cost_s if gpus <= self.large_job_gpus else self.preemption_cost_large_s
