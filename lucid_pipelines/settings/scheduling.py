"""What the scheduling pass may do: policy, profiling, packing, modes."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator, model_validator

from lucid_pipelines.domain.states import Mode
from lucid_pipelines.settings.section import Section


class SchedulingSettings(Section):
    """The scheduling window and its policy."""

    policy: str = "lucid"
    pass_interval_s: float = Field(default=1.0, gt=0, le=60)
    window_s: float = Field(default=60.0, ge=1, le=600)
    idle_exit_s: float = Field(default=12.0, gt=0)
    record: bool = Field(default=True, description="Keep what the policy saw and decided, so that it can be replayed.")
    max_launch_tries: int = Field(default=3, ge=1)
    default_duration_s: float = Field(
        default=3600.0, gt=0, description="Priority of a job about whose kind nothing is known yet."
    )


class ProfilingSettings(Section):
    """Short first runs on nodes of their own, which show what a job needs (Lucid, section 7)."""

    nodes: int | None = Field(
        default=None,
        ge=0,
        description="Nodes that only profile (Cprof), where none is declared with vc: profiler; "
        "default: one of fifty; fewer than fifty give one if they have several virtual clusters and one of them loses "
        "at most a quarter of its GPUs. Without such nodes jobs are sampled while they run.",
    )
    max_gpus: int = Field(default=8, ge=1, description="Larger jobs are sampled while they run (Nprof).")
    window_s: float = Field(default=200.0, gt=0, description="Longest profiling run (Tprof).")
    busy_window_s: float = Field(default=100.0, gt=0, description="The same while the profiling queue is long.")
    cold_start_window_s: float = Field(default=600.0, gt=0, description="The same for jobs that start slowly.")
    move: Literal["restart", "continue"] = Field(
        default="restart",
        description="restart: a profiled job begins again in the main cluster; "
        "continue: it goes on where it is while enough of the profiling GPUs are left.",
    )
    continue_frac: float = Field(default=0.5, ge=0, le=1, description="Share of profiling GPUs given away like that.")
    borrow_above_jobs: int = Field(default=10, ge=0)
    return_below_jobs: int = Field(default=5, ge=1)
    max_borrowed_nodes: int = Field(default=1, ge=0)
    busy_above_jobs: float | None = Field(
        default=None, ge=0, description="So many predicted jobs per 10 min count as a burst although few wait yet."
    )
    busy_max_gpus: int | None = Field(default=None, ge=1, description="max_gpus during a burst.")
    reuse_days: float = Field(
        default=14.0, ge=0, description="A repeated command starts with a profile of at most this age; 0 = never."
    )

    @model_validator(mode="after")
    def _a_node_is_not_borrowed_and_returned_in_turns(self) -> ProfilingSettings:
        if self.return_below_jobs > self.borrow_above_jobs + 1:
            raise ValueError(
                f"return_below_jobs must be at most borrow_above_jobs + 1: with {self.return_below_jobs} and "
                f"{self.borrow_above_jobs} a queue in between would borrow a node and give it back in each pass"
            )
        return self


class PackingSettings(Section):
    """Two jobs on one GPU (Lucid, section 8). Whether it is done is set by ``modes``."""

    tenant: Literal["vc", "user"] = Field(default="vc", description="Who may share: jobs of a VC, or of one user.")
    gpu_sharing: Literal["time_slicing", "mps"] = Field(default="time_slicing", description="On real GPUs.")
    mps_pipe_dir: str = Field(default="/tmp/nvidia-mps", description="Where the MPS daemon listens.")
    memory_margin_frac: float = Field(default=0.05, ge=0, lt=1, description="Of a GPU's memory, left free by a pair.")
    min_remaining_s: float = Field(default=60.0, ge=0, description="A partner must be predicted to last so long.")
    off_below_jobs: float = Field(default=2.0, description="Nothing shares below so many predicted jobs per 10 min.")
    apathetic_below_jobs: float = Field(default=2.0, description="Only light pairs below so many.")
    max_bind_tries: int = Field(default=3, ge=1, description="Before a pair that its node contradicts is given up.")
    watch_after_s: float = Field(default=30.0, ge=0, description="A new pair settles for so long before it is judged.")
    min_speed_frac: float = Field(default=0.5, gt=0, lt=1, description="Below it, beside alone, a pair is split.")
    cool_down_s: float = Field(default=600.0, ge=0, description="No new pair on GPUs where one was split before.")


class ModesSettings(Section):
    """How far each automation may go."""

    adopt: Mode = Field(default=Mode.OFF, description="Place jobs that users submitted held to Slurm.")
    restart: Mode = Mode.SHADOW
    isolate: Mode = Mode.SHADOW
    advise: Mode = Field(
        default=Mode.SHADOW, description="Estimates from similar past jobs; shadow: recorded, not used. Not: approve."
    )
    skip_profiling: Mode = Field(
        default=Mode.SHADOW, description="Take the profile of similar past jobs for a new one's. Not: approve."
    )
    pack: Mode = Field(default=Mode.SHADOW, description="Two jobs on one GPU.")
    unpack: Mode = Field(default=Mode.SHADOW, description="Split a pair that runs slowly or unsteadily.")
    lend: Mode = Field(default=Mode.SHADOW, description="Let idle nodes profile while many jobs wait for it.")

    @field_validator("*", mode="before")
    @classmethod
    def _yaml_reads_off_as_false(cls, value: object) -> object:
        return Mode.OFF if value is False else value

    @field_validator("advise", "skip_profiling")
    @classmethod
    def _nobody_is_asked(cls, mode: Mode) -> Mode:
        if mode is Mode.APPROVE:
            raise ValueError("a submission waits for nobody: choose off, shadow or live")
        return mode
