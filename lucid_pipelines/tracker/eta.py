"""Remaining time of a tracked job, with an interval. Shown, never enforced (R-29)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from lucid_pipelines.tracker.progress import Progress

MIN_DOUBT_FRAC = 0.05
"""Even the steadiest job may change its pace."""


MAX_REMAINING_S = 1e10
"""Three hundred years: the total is no plan."""


@dataclass(frozen=True, slots=True)
class Eta:
    """When a job will have done all its steps.

    Attributes:
        remaining_s: expected; ``low_s`` to ``high_s`` its interval.
        steps_left: how many steps are left.
        ends_at: ``now`` plus the expected remaining time.
        basis: what it rests on.
    """

    remaining_s: float
    low_s: float
    high_s: float
    steps_left: int
    ends_at: datetime
    basis: str


def estimate_end(progress: Progress, now: datetime, *, pause_share_frac: float = 0.0) -> Eta | None:
    """Remaining steps times seconds per step; ``None`` when either is unknown.

    Args:
        progress: what the tracker found.
        now: the moment of the estimate.
        pause_share_frac: share of the job's time so far that went into evaluation, checkpoints and the like; it
            is added, since steady seconds per step leave pauses out.
    """
    left, pace = progress.steps_left, progress.step_time_s
    if left is None or pace is None or left * pace > MAX_REMAINING_S:
        return None
    share = min(max(pause_share_frac, 0.0), 0.9)
    stretch = 1.0 / (1.0 - share)
    low = min(progress.step_time_low_s or pace, pace * (1 - MIN_DOUBT_FRAC))
    high = max(progress.step_time_high_s or pace, pace * (1 + MIN_DOUBT_FRAC))
    remaining = left * pace * stretch
    basis = f"{left} {progress.step_time_unit or 'step'}s left at {pace:.4g} s ({progress.step_time_source})"
    return Eta(remaining, left * low, left * high * stretch, left, now + timedelta(seconds=remaining), basis)


def pause_share(steady_step_time_s: float, steps: float, wall_s: float) -> float:
    """Share of ``wall_s`` that ``steps`` at the steady pace do not explain: 0 to 1."""
    if steps <= 0 or wall_s <= 0:
        return 0.0
    return min(max(1.0 - steady_step_time_s * steps / wall_s, 0.0), 1.0)
