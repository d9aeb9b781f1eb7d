"""The profiler's numbers: who is profiled, for how long, on which nodes (Lucid, section 7)."""

from __future__ import annotations

from dataclasses import dataclass

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.domain.view import Forecast


@dataclass(frozen=True, slots=True)
class ProfilingRules:
    """The profiler's numbers.

    Attributes:
        profiler_vc: name of the virtual cluster whose nodes profile; ``None`` = no profiler.
        profiler_nodes: how many nodes it owns (Cprof) where the cluster does not say; ``None`` = see
            ``placement.default_pool_nodes``.
        profile_max_gpus: jobs with more GPUs are sampled while they run (Nprof).
        profile_window_s: longest run (Tprof).
        cold_start_window_s: longest run of a job whose user says that it starts slowly.
        space_aware: order by GPU demand; otherwise by arrival.
        time_aware: borrow nodes and shorten the window when the queue grows.
        busy_window_s: the window while the queue is longer than ``borrow_above_jobs``.
        borrow_above_jobs, return_below_jobs: queue lengths at which a node is borrowed and given back.
        busy_above_jobs: predicted submissions per slot above which the profiler counts as busy although its queue
            is short; ``None`` = only the queue counts.
        busy_max_gpus: ``profile_max_gpus`` while it is busy; ``None`` = the same.
        max_borrowed_nodes: how many nodes may be borrowed at once.
        continue_frac: a job goes on where it was profiled, instead of beginning again in the main cluster, as
            long as at most this share of the profiler's GPUs is given away like that; 0 = never.
        return_below_gpus: give back only if at most this many GPUs are predicted to be asked for per slot,
            for each borrowed node.
    """

    profiler_vc: str | None = "profiler"
    profiler_nodes: int | None = None
    profile_max_gpus: int = 8
    profile_window_s: float = 200.0
    cold_start_window_s: float = 600.0
    space_aware: bool = True
    time_aware: bool = True
    busy_window_s: float = 100.0
    borrow_above_jobs: int = 10
    return_below_jobs: int = 5
    busy_above_jobs: float | None = None
    busy_max_gpus: int | None = None
    max_borrowed_nodes: int = 1
    continue_frac: float = 0.0
    return_below_gpus: float = 40.0

    def __post_init__(self) -> None:
        for name in ("profile_window_s", "busy_window_s", "cold_start_window_s"):
            if not getattr(self, name) > 0:
                raise InputError(f"{name} must be above 0; got {getattr(self, name)}")
        if (self.profiler_nodes or 0) < 0 or self.max_borrowed_nodes < 0:
            raise InputError("the profiler's numbers of nodes must be at least 0")
        if not 0 <= self.continue_frac <= 1:
            raise InputError(f"continue_frac lies in [0, 1]; got {self.continue_frac}")

    def wants(self, gpus: int, *, busy: bool = False) -> bool:
        """Whether a new job is profiled first."""
        most = self.profile_max_gpus if not busy or self.busy_max_gpus is None else self.busy_max_gpus
        return self.profiler_vc is not None and gpus <= most

    def wants_now(self, gpus: int, waiting: int, forecast: Forecast | None, now_s: float) -> bool:
        """Whether a job that arrives now is profiled first; a burst narrows who is (section 7).

        Args:
            waiting: jobs that wait to be profiled already.
        """
        if not self.wants(gpus) or self.busy_max_gpus is None:
            return self.wants(gpus)
        return self.wants(gpus, busy=self.is_busy(waiting, forecast, now_s))

    def longest_s(self, *, long_cold_start: bool, busy: bool = False) -> float:
        """The profiling window (Tprof): of a job that starts slowly a longer one, in a burst a shorter one."""
        if long_cold_start:
            return max(self.cold_start_window_s, self.profile_window_s)
        return min(self.busy_window_s, self.profile_window_s) if busy else self.profile_window_s

    def is_busy(self, waiting: int, forecast: Forecast | None, now_s: float) -> bool:
        """Whether many jobs wait to be profiled, or are about to be submitted: a burst (section 7)."""
        if not self.time_aware:
            return False
        if waiting > self.borrow_above_jobs:
            return True
        if self.busy_above_jobs is None or forecast is None:
            return False
        ahead = forecast.mean_jobs_ahead(now_s)
        return ahead is not None and ahead > self.busy_above_jobs
