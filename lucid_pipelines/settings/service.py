"""The running service: state database, Dagster, how long things are kept."""

from __future__ import annotations

from pydantic import Field

from lucid_pipelines.settings.section import Section


class StateSettings(Section):
    """Where the state database lives."""

    url: str | None = Field(default=None, description="SQLAlchemy URL; default: SQLite below the home folder.")


class DagsterSettings(Section):
    """The Dagster instance that `lucid up` runs."""

    host: str = "127.0.0.1"
    port: int = Field(default=3000, ge=1, le=65535)
    storage_url: str | None = Field(default=None, description="PostgreSQL URL; default: SQLite below the home folder.")
    keep_control_runs_h: float = Field(default=6.0, gt=0, description="Runs of the control loop: one a minute.")
    keep_runs_days: float = Field(default=30.0, gt=0)
    warm_runs: bool = Field(default=True, description="Fork runs from a warm process instead of starting Python anew.")


class RetentionSettings(Section):
    """How long rows of the state database are kept."""

    events_days: float = Field(default=90.0, gt=0)
    samples_days: float = Field(default=30.0, gt=0)
    decisions_days: float = Field(default=14.0, gt=0, description="Recorded inputs and decisions of the policy.")
