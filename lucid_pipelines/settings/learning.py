"""The models, and replays of history."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, model_validator

from lucid_pipelines.settings.section import Section


class ModelsSettings(Section):
    """What the Update Engine learns from besides this cluster's own history."""

    pairs: Path | None = Field(default=None, description="CSV of measured pair speeds; default: the shipped model.")
    profiles: Path | None = Field(default=None, description="CSV of profiles run alone, with pairs.")

    @model_validator(mode="after")
    def _both_or_none(self) -> ModelsSettings:
        if (self.pairs is None) != (self.profiles is None):
            raise ValueError("give both pairs and profiles, or neither")
        return self


class ReplaySettings(Section):
    """What the `replay` asset replays, week by week; the options of `lucid replay` have the same names."""

    trace: str | None = Field(default=None, description="Any supported trace file; default: a generated month.")
    format: str | None = None
    cluster: Path | None = Field(default=None, description="Cluster file; default: the trace's own, if it tells.")
    predictions: Path | None = None
    forecast: Path | None = None
    pairs: Path | None = None
    profile_table: Path | None = None
    scaling: Path | None = None
    profiles: Path | None = Field(default=None, description="Measured throughputs, for traces without run times.")
    workloads: str | None = Field(default="generated", description="Profile table for jobs without a workload.")
    timezone: str = "UTC"
    seed: int = 0
    policies: tuple[str, ...] = Field(
        default=("fifo", "sjf", "qssf", "tiresias", "lucid"), min_length=1, description="Of `lucid replay-weeks`."
    )
    parallel: int | None = Field(
        default=None, ge=1, description="Partitions computed at once; default: all cores but one."
    )
