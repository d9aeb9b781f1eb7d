"""The profiler's numbers: who is profiled, for how long, on which nodes (Lucid, section 7)."""

from __future__ import annotations

from dataclasses import dataclass

from lucid_pipelines.domain.errors import InputError


@dataclass(frozen=True, slots=True)
class ProfilingRules:
    """The profiler's numbers.

    Attributes:
        profiler_vc: name of the virtual cluster whose nodes profile; ``None`` = no profiler.
        profiler_nodes: how many nodes it owns (Cprof) where the cluster does not say; ``None`` = one of 50.
        profile_max_gpus: jobs with more GPUs are sampled while they run (Nprof).
        profile_window_s: longest run (Tprof).
        cold_start_window_s: longest run of a job whose user says that it starts slowly.
        space_aware: order by GPU demand; otherwise by arrival.
        time_aware: borrow nodes and shorten the window when the queue grows.
        busy_window_s: the window while the queue is longer than ``borrow_above_jobs``.
        borrow_above_jobs, return_below_jobs: queue lengths at which a node is borrowed and given back.
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

    def wants(self, gpus: int) -> bool:
        """Whether a new job is profiled first."""
        return self.profiler_vc is not None and gpus <= self.profile_max_gpus
