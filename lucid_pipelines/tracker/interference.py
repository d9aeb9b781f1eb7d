"""Does a packed pair hurt? Throughput before and after packing, and what to do about it (paper, sections 4 and 14)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.tracker.measurements import PaceWindow


class PairVerdict(StrEnum):
    """What a check of a pair concludes."""

    KEEP = "keep"
    EVICT = "evict"
    NOT_YET = "not_yet"
    """Too few steps since packing, or still in the cool-down of an earlier eviction."""
    UNTRACKABLE = "untrackable"
    """The pair's throughput cannot be read: it is left alone."""


@dataclass(frozen=True, slots=True)
class PairSettings:
    """When a pair is taken apart.

    Attributes:
        min_ratio_frac: throughput after over before, below which the later job goes. The paper's experiment uses
            0.5; a slowdown of 35 % is 0.65.
        min_steps_before, min_steps_after: how much must have been seen.
        cool_down_s: no second eviction on the same GPUs within this time.
    """

    min_ratio_frac: float = 0.5
    min_steps_before: float = 20.0
    min_steps_after: float = 30.0
    cool_down_s: float = 600.0

    def __post_init__(self) -> None:
        if not 0.0 < self.min_ratio_frac < 1.0:
            raise InputError(f"the ratio below which a pair is taken apart lies in (0, 1); got {self.min_ratio_frac}")


@dataclass(frozen=True, slots=True)
class PairedJob:
    """One job of a pair.

    Attributes:
        before: its pace alone on its GPUs; ``None`` for a job that never ran alone.
        after: its pace since the pair was formed.
    """

    job_id: str
    started_at: datetime
    before: PaceWindow | None
    after: PaceWindow


@dataclass(frozen=True, slots=True)
class PairFinding:
    """The verdict on a pair and the numbers behind it.

    Attributes:
        evict_job_id: the job to put back into the queue: the later one.
        never_pack: whether that job must not be packed again (so that its progress is not lost twice).
        ratios: throughput after over before, of each job for which it is known.
        reason: for ``lucid explain``.
    """

    verdict: PairVerdict
    evict_job_id: str | None
    never_pack: bool
    ratios: tuple[tuple[str, float], ...]
    reason: str


def judge_pair(
    first: PairedJob,
    second: PairedJob,
    now: datetime,
    settings: PairSettings | None = None,
    last_eviction_at: datetime | None = None,
) -> PairFinding:
    """Judge two jobs that share GPUs.

    Args:
        first, second: in any order.
        now: the moment of the check.
        settings: thresholds.
        last_eviction_at: when a pair on these GPUs was last taken apart.
    """
    settings = settings or PairSettings()
    earlier, later = sorted((first, second), key=lambda job: (job.started_at, job.job_id))
    ratios = tuple((job.job_id, ratio) for job in (earlier, later) if (ratio := _ratio(job, settings)) is not None)
    if last_eviction_at is not None and now - last_eviction_at < timedelta(seconds=settings.cool_down_s):
        return PairFinding(PairVerdict.NOT_YET, None, False, ratios, "a pair on these GPUs was taken apart just before")
    if not ratios:
        waiting = any(
            job.before is not None and job.before.step_time_s and job.after.step_time_s for job in (earlier, later)
        )
        if waiting or _may_still_come(earlier, settings):
            return PairFinding(PairVerdict.NOT_YET, None, False, (), "too few steps have been seen since packing")
        reason = f"the log of {earlier.job_id} does not tell its step time before and after packing"
        return PairFinding(PairVerdict.UNTRACKABLE, None, False, (), reason)
    job_id, worst = min(ratios, key=lambda item: item[1])
    if worst < settings.min_ratio_frac:
        reason = f"{job_id} runs at {worst:.0%} of its speed alone, below {settings.min_ratio_frac:.0%}"
        return PairFinding(PairVerdict.EVICT, later.job_id, True, ratios, reason)
    return PairFinding(PairVerdict.KEEP, None, False, ratios, f"the slower job runs at {worst:.0%} of its speed alone")


def _ratio(job: PairedJob, settings: PairSettings) -> float | None:
    before, after = job.before, job.after
    if before is None or before.step_time_s is None or after.step_time_s is None:
        return None
    if before.steps < settings.min_steps_before or after.steps < settings.min_steps_after:
        return None
    return before.step_time_s / after.step_time_s


def _may_still_come(job: PairedJob, settings: PairSettings) -> bool:
    """Whether the job was trackable alone and has only not written enough since."""
    before = job.before
    known = before is not None and before.step_time_s is not None and before.steps >= settings.min_steps_before
    return known and job.after.steps < settings.min_steps_after
