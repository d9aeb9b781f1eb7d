"""Is a job stuck? Staleness of its step against its own history (R-4). A finding, never an action."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from lucid_pipelines.tracker.classes import LineClass

_WAITING = frozenset({LineClass.EVALUATION, LineClass.CHECKPOINT, LineClass.DATA, LineClass.BUILD})


@dataclass(frozen=True, slots=True)
class HangSettings:
    """When silence is suspicious.

    Attributes:
        steps: so many of the job's usual intervals between reports.
        longest_pauses: and so many times its longest pause so far.
        floor_s: but never earlier than this.
        waiting_floor_s: the floor while the newest lines tell of evaluation, checkpoint, compilation or loading.
    """

    steps: float = 20.0
    longest_pauses: float = 3.0
    floor_s: float = 300.0
    waiting_floor_s: float = 3600.0


@dataclass(frozen=True, slots=True)
class JobPulse:
    """What is known of a job's liveness.

    Attributes:
        newest_step_at: when the newest step was first seen; ``None`` before the first step.
        report_interval_s: usual time between reports of a step.
        longest_pause_s: longest time between two reports so far, ``None`` with fewer than two.
        activity: what the newest lines of the log tell of.
        observed_at: when the log was last read with success; ``None`` = never (R-1).
    """

    newest_step_at: datetime | None
    report_interval_s: float | None
    longest_pause_s: float | None
    activity: LineClass
    observed_at: datetime | None


@dataclass(frozen=True, slots=True)
class HangFinding:
    """A suspicion with its numbers.

    Attributes:
        is_suspected: whether the job looks stuck.
        stale_s: time without a new step, ``None`` when it cannot be told.
        limit_s: the time from which that is suspicious.
        reason: for people.
    """

    is_suspected: bool
    stale_s: float | None
    limit_s: float | None
    reason: str


def judge_hang(pulse: JobPulse, now: datetime, settings: HangSettings | None = None) -> HangFinding:
    """Compare how long a job has made no step with what is usual for it.

    A job that has not stepped yet is starting, not stuck; a log that cannot be read is no evidence.
    """
    settings = settings or HangSettings()
    if pulse.observed_at is None:
        return HangFinding(False, None, None, "the log has not been read yet")
    if pulse.newest_step_at is None or pulse.report_interval_s is None:
        return HangFinding(False, None, None, "the job has not reported a step yet: it is starting")
    stale_s = (pulse.observed_at - pulse.newest_step_at).total_seconds()
    floor = settings.waiting_floor_s if pulse.activity in _WAITING else settings.floor_s
    limit_s = max(
        floor,
        settings.steps * pulse.report_interval_s,
        settings.longest_pauses * (pulse.longest_pause_s or 0.0),
    )
    blind_s = (now - pulse.observed_at).total_seconds()
    if stale_s <= limit_s:
        return HangFinding(
            False, stale_s, limit_s, f"the newest step is {stale_s:.0f} s old, usual up to {limit_s:.0f} s"
        )
    reason = (
        f"no step for {stale_s:.0f} s although the job reports every {pulse.report_interval_s:.1f} s; "
        f"suspicious from {limit_s:.0f} s on (last line: {pulse.activity}, log read {blind_s:.0f} s ago)"
    )
    return HangFinding(True, stale_s, limit_s, reason)
