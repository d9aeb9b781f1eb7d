"""The pulse of a running job: since when it makes no step, and what is usual for it (R-4)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median
from typing import Any

from lucid_pipelines.settings import TrackerSettings
from lucid_pipelines.store import Tracked
from lucid_pipelines.tracker.classes import LineClass
from lucid_pipelines.tracker.follow import Followed
from lucid_pipelines.tracker.hang import HangSettings, JobPulse

_BLIND_INTERVALS = 8.0
"""So many usual intervals without a look mean that nobody looked, not that one look was late."""


def hang_settings(chosen: TrackerSettings) -> HangSettings:
    """When silence is suspicious, by the site's settings."""
    return HangSettings(
        steps=chosen.hang_steps, floor_s=chosen.hang_floor_s, waiting_floor_s=chosen.hang_waiting_floor_s
    )


def pulse_after(old: Tracked | None, followed: Followed, now: datetime) -> dict[str, Any]:
    """The pulse after a look.

    Keys: ``step`` (newest, as printed), ``step_at`` (when it was first seen), ``interval_s`` (usual time between
    two reports), ``longest_pause_s`` (longest time in which looks found no step), ``steps_done``.

    A time in which nobody looked counts neither as a pause nor as staleness: windows begin anew (R-1).
    """
    before: Mapping[str, Any] = old.pulse if old is not None and not followed.restarted else {}
    steps = [sample.step for sample in followed.new_samples]
    known = before.get("step")
    seen = [step for step in steps if step != known]
    if not seen:
        return dict(before)
    run = [known, *steps] if known is not None else steps
    done = float(before.get("steps_done") or 0.0)
    if known is None:
        done += max(0.0, steps[0])
    # A counter that falls began again with its epoch; what it shows now are steps of the new one.
    done += sum(b - a if b >= a else max(0.0, b) for a, b in pairwise(run))
    pause_s = 0.0
    if old is not None and before.get("step_at"):
        pause_s = max(0.0, (old.at - datetime.fromisoformat(before["step_at"])).total_seconds())
    return {
        "step": steps[-1],
        "step_at": now.isoformat(),
        "interval_s": _interval_s(followed, old, now) or before.get("interval_s"),
        "longest_pause_s": max(pause_s, float(before.get("longest_pause_s") or 0.0)),
        "steps_done": done,
    }


def pulse_without_blind_time(old: Tracked, now: datetime, interval_s: float) -> dict[str, Any]:
    """The pulse when a look finds nothing new: time in which nobody looked is no staleness (R-1)."""
    pulse = dict(old.pulse)
    blind_s = (now - old.at).total_seconds() - interval_s
    if pulse.get("step_at") and blind_s > _BLIND_INTERVALS * interval_s:
        pulse["step_at"] = (datetime.fromisoformat(pulse["step_at"]) + timedelta(seconds=blind_s)).isoformat()
    return pulse


def look_at_pulse(row: Tracked, activity: LineClass) -> JobPulse:
    """What ``judge_hang`` needs of a row."""
    pulse = row.pulse
    seen = pulse.get("step_at")
    return JobPulse(
        newest_step_at=datetime.fromisoformat(seen) if seen else None,
        report_interval_s=pulse.get("interval_s"),
        longest_pause_s=pulse.get("longest_pause_s"),
        activity=activity,
        observed_at=row.at,
    )


def _interval_s(followed: Followed, old: Tracked | None, now: datetime) -> float | None:
    """Time between two reports: their distance in steps times the pace, else by how many came since the last look."""
    steps = [sample.step for sample in followed.progress.samples]
    strides = [b - a for a, b in pairwise(steps) if b > a]
    if strides and followed.progress.step_time_s:
        return median(strides) * followed.progress.step_time_s
    if old is None:
        return None
    return (now - old.at).total_seconds() / max(1, len(followed.new_samples))
