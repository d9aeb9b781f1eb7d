"""What happens to a job before it queues: submission, advice, the snapshot of its folder."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from lucid_pipelines.settings.section import Section


class SubmissionSettings(Section):
    """How new submissions are taken in."""

    batch: int = Field(default=25, ge=1, le=500)
    advise_timeout_s: float = Field(
        default=20.0, gt=0, description="Time box of the advisor for one job, and for a whole batch."
    )


class AdvisorSettings(Section):
    """What past jobs with similar code say of a new one. How far that goes is set by ``modes.advise``."""

    index: str | None = Field(
        default=None, description="URL of the history index (database or redis://); default: history.db in the home."
    )
    embedder: Literal["hash", "server", "bge"] = Field(
        default="hash", description="hash: no weights; server: /v1/embeddings; bge: BGE-m3 in the own environment."
    )
    embedder_url: str | None = Field(default=None, pattern=r"^https?://", description="Of the server, up to /v1.")
    embedder_model: str = Field(default="BAAI/bge-m3", min_length=1)
    embedder_dimension: int = Field(default=1024, ge=1, le=65_536)
    threshold: float | None = Field(
        default=None, ge=-1, le=1, description="T_score, from `lucid history calibrate`; default: the embedder's."
    )
    k: int = Field(default=20, ge=1, le=1000, description="Similar jobs that are looked at.")
    ask_language_model: bool = Field(default=False, description="Ask it for what reading the code leaves open.")
    memory_mib: int = Field(default=1536, ge=256, description="Of the process that reads code.")

    @model_validator(mode="after")
    def _server_has_an_address(self) -> AdvisorSettings:
        if self.embedder == "server" and self.embedder_url is None:
            raise ValueError("the embedder 'server' needs embedder_url")
        return self


class SnapshotSettings(Section):
    """Limits of a code snapshot."""

    max_total_mib: float = Field(default=2048.0, gt=0)
    max_file_mib: float = Field(default=512.0, gt=0)
    max_entries: int = Field(default=100_000, gt=0, description="Files, links and directories together.")
