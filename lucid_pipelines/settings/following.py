"""What happens to a job that runs or has failed: progress, restarts, the language model."""

from __future__ import annotations

from pydantic import Field

from lucid_pipelines.settings.section import Section


class TrackerSettings(Section):
    """How training logs are followed, and when what they say is suspicious. Findings are advice only."""

    interval_s: float = Field(default=30.0, ge=30, description="Between two looks at the logs of running jobs.")
    values_per_look: int = Field(default=8, ge=1, le=64, description="Losses kept of one job and look.")
    keep_values: int = Field(default=5000, ge=100, description="Values kept of each of a job's metrics.")
    ask_after_s: float = Field(
        default=300.0, ge=0, description="How long a job runs before a language model is asked about its log."
    )
    hang_steps: float = Field(default=20.0, gt=1, description="So many usual intervals without a step are suspicious,")
    hang_floor_s: float = Field(default=300.0, gt=0, description="but never less than this,")
    hang_waiting_floor_s: float = Field(
        default=3600.0, gt=0, description="nor than this while it evaluates, saves, compiles or loads."
    )
    straggler_min_ratio: float = Field(default=1.25, gt=1, description="Step time over that of equal jobs elsewhere.")
    straggler_min_peers: int = Field(default=3, ge=2)


class RecoverySettings(Section):
    """Limits of what the failure handler may do by itself; whether it may at all is set by ``modes``."""

    max_restarts_per_job: int = Field(default=5, ge=0)
    max_restarts_per_cause: int = Field(default=3, ge=0)
    max_restarts_per_hour: int = Field(default=20, ge=0, description="Of the whole cluster.")
    backoff_base_s: float = Field(default=30.0, ge=0, description="Wait before a job's first restart; doubles.")
    isolation_h: float = Field(default=24.0, gt=0, description="When an isolation must be decided about again.")
    isolation_quota_nodes: int = Field(default=4, ge=0)
    isolation_quota_frac: float = Field(default=0.10, ge=0, le=1)


class LanguageModelSettings(Section):
    """An optional server that speaks the OpenAI protocol; asked only where the deterministic path is not sure."""

    url: str | None = Field(default=None, pattern=r"^https?://", description="Up to and with /v1; null = none.")
    model: str = Field(default="default", min_length=1, description="The name under which the server serves it.")
    api_key_env: str = Field(
        default="LUCID_LANGUAGE_MODEL_KEY", description="Environment variable that holds the key, if one is needed."
    )
