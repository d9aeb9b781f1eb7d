"""After a restart: did it really go on from the checkpoint (R-32)?"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from lucid_pipelines.failures.facts import Checkpoint


class ResumeState(StrEnum):
    """What the first steps after a restart show."""

    RESUMED = "resumed"
    LOST_PROGRESS = "lost_progress"
    """It began before the checkpoint: stop it and report."""
    WAITING = "waiting"
    UNKNOWN = "unknown"
    """Its progress cannot be read, or no step of the checkpoint is known: no conclusion (R-1)."""


@dataclass(frozen=True, slots=True)
class ResumeCheck:
    """Verdict on a restart."""

    state: ResumeState
    why: str

    @property
    def must_stop(self) -> bool:
        return self.state is ResumeState.LOST_PROGRESS


def check_resume(
    checkpoint: Checkpoint | None,
    first_step: int | None,
    restarted_at: datetime,
    now: datetime,
    *,
    patience_s: float = 1800.0,
    slack_steps: int = 1,
) -> ResumeCheck:
    """Compare the first step of the new attempt with the checkpoint's.

    Args:
        checkpoint: where it should have resumed; ``None`` = from the start was meant.
        first_step: first step that its log shows; ``None`` = none yet, or none readable.
        patience_s: after this long without a readable step nothing can be said.
        slack_steps: a log may print the last finished step instead of the next.
    """
    if checkpoint is None:
        return ResumeCheck(ResumeState.RESUMED, "it was meant to begin at the start")
    if checkpoint.step is None:
        return ResumeCheck(ResumeState.UNKNOWN, f"the step of {checkpoint.path} is not known")
    if first_step is None:
        if now - restarted_at > timedelta(seconds=patience_s):
            return ResumeCheck(ResumeState.UNKNOWN, "its log shows no step")
        return ResumeCheck(ResumeState.WAITING, "its log shows no step yet")
    if first_step + slack_steps >= checkpoint.step:
        return ResumeCheck(ResumeState.RESUMED, f"first step {first_step}, checkpoint {checkpoint.step}")
    return ResumeCheck(
        ResumeState.LOST_PROGRESS, f"first step {first_step} is before the checkpoint's {checkpoint.step}"
    )
