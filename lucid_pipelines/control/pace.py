"""How fast attempts go, read from their logs and kept as metrics, so that it is known what they did before."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from lucid_pipelines.control.following import FOLLOWER, STEP, STEP_TIME
from lucid_pipelines.control.system import System
from lucid_pipelines.domain.errors import ExternalError, NotFoundError
from lucid_pipelines.domain.job import Attempt
from lucid_pipelines.store import ActiveAttempt, Pair
from lucid_pipelines.tracker.attempt_log import AttemptLog
from lucid_pipelines.tracker.follow import follow
from lucid_pipelines.tracker.measurements import Measurement, PaceWindow, pace_between
from lucid_pipelines.tracker.progress import Progress

_LONGEST = timedelta(days=3650)
_ENOUGH_STEPS = 20.0


def note_progress(system: System, items: Sequence[ActiveAttempt]) -> None:
    """Keep what the logs of these attempts say of their steps and their time per step now.

    No language model is asked: a scheduling pass does not wait for one, ``training_metrics`` does.
    """
    FOLLOWER.look(system, items, compare=False, ask=False)


def alone_before(system: System, item: ActiveAttempt, pair: Pair) -> dict[str, Any] | None:
    """Seconds per step, and over how many steps, of a job alone on its GPUs; ``None`` = not known.

    Of the earlier job of a pair: from the metrics before the pair was formed, or from its log, which is all of that
    time when the pair is looked at for the first time. Of the later one: its profiling run, if it had one.
    """
    attempt = item.attempt
    if attempt.attempt_id != pair.first_attempt_id:
        return _earlier_attempt(system, item)
    window = _kept(system, attempt.attempt_id, pair.formed_at - _LONGEST, pair.formed_at)
    if window.step_time_s is not None and window.steps >= _ENOUGH_STEPS:
        return {"step_time_s": window.step_time_s, "steps": window.steps}
    # The log tells the steps until now, so the time is counted until now too: with the time until the pair was formed,
    # a job that had only just begun would seem to have been several times as fast alone.
    here = _told(_progress(system, attempt), attempt, system.clock.now())
    if here is not None and here["steps"] >= _ENOUGH_STEPS and "basis" not in here:
        return here
    return _earlier_attempt(system, item) or here


def pace_since(system: System, attempt: Attempt, since: datetime, until: datetime) -> PaceWindow:
    """Seconds per step between two moments: steps done over time passed, by the kept metrics."""
    points = system.store.metrics.points_between(attempt.attempt_id, STEP, since, until)
    known = [(p.at, p.value) for p in points if p.value is not None]
    if len(known) < 2:
        return PaceWindow(None, 0.0, len(known))
    done = known[-1][1] - known[0][1]
    took_s = (known[-1][0] - known[0][0]).total_seconds()
    return PaceWindow(took_s / done if done > 0 else None, max(done, 0.0), len(known))


def _kept(system: System, attempt_id: str, since: datetime, until: datetime) -> PaceWindow:
    steps = system.store.metrics.points_between(attempt_id, STEP, since, until)
    if not steps:
        return PaceWindow(None, 0.0, 0)
    times = {p.at: p.value for p in system.store.metrics.points_between(attempt_id, STEP_TIME, since, until)}
    return pace_between([Measurement(p.at, p.value, times.get(p.at)) for p in steps], since, until)


def _earlier_attempt(system: System, item: ActiveAttempt) -> dict[str, Any] | None:
    if item.attempt.number == 1:
        return None
    before = [a for a in system.store.attempts.of_job(item.job.job_id) if a.number < item.attempt.number]
    alone = [attempt for attempt in before if attempt.partner_job_id is None]
    return _told(_progress(system, alone[-1]), alone[-1], alone[-1].ended_at) if alone else None


def _progress(system: System, attempt: Attempt) -> Progress | None:
    try:
        return follow(AttemptLog(system.cluster, attempt.attempt_id)).progress
    except (ExternalError, NotFoundError):
        system.store.counters.add("paces_unread", now=system.clock.now())
        return None


def _told(progress: Progress | None, attempt: Attempt, until: datetime | None) -> dict[str, Any] | None:
    """The pace that a log tells; of a short one, steps over the whole time, start-up included.

    That is slower than the truth, so a pair is rather kept than split for it.
    """
    if progress is None or progress.step is None:
        return None
    step = progress.global_step if progress.global_step is not None else progress.step
    if progress.step_time_s is not None:
        return {"step_time_s": progress.step_time_s, "steps": float(step)}
    if attempt.started_at is None or until is None or step < 1:
        return None
    took_s = (until - attempt.started_at).total_seconds()
    return {"step_time_s": took_s / step, "steps": float(step), "basis": "whole run"} if took_s > 0 else None
