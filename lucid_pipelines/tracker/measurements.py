"""What the store keeps of tracked jobs over time, as the checks need it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from lucid_pipelines.tracker.steady import steady_mean


@dataclass(frozen=True, slots=True)
class Measurement:
    """One tracking pass over one job.

    Attributes:
        at: when the pass looked (UTC).
        step: steps done, epochs joined where known.
        step_time_s: seconds per step over the steady window then; ``None`` when the log did not tell (R-25).
        source: where the number came from.
    """

    at: datetime
    step: float | None
    step_time_s: float | None
    source: str = "log"


@dataclass(frozen=True, slots=True)
class PaceWindow:
    """Seconds per step over a span of time.

    Attributes:
        step_time_s: steady mean; ``None`` when nothing in the span can be used.
        steps: how many steps were done in it, as far as seen.
        measurements: how many passes it rests on.
    """

    step_time_s: float | None
    steps: float
    measurements: int


def pace_between(
    measurements: Sequence[Measurement], since: datetime, until: datetime, *, skip_steps: float = 0.0
) -> PaceWindow:
    """Seconds per step between two moments, the first ``skip_steps`` of them left out as settling-in.

    Args:
        measurements: of one job, oldest first.
        since, until: the span, inclusive.
        skip_steps: steps after the first measurement that do not count.
    """
    inside = [m for m in measurements if since <= m.at <= until and m.step is not None]
    if not inside:
        return PaceWindow(None, 0.0, 0)
    first = inside[0].step or 0.0
    settled = [m for m in inside if (m.step or 0.0) >= first + skip_steps]
    values = [m.step_time_s for m in settled if m.step_time_s is not None and m.step_time_s > 0]
    steady = steady_mean(values)
    done = max(0.0, (settled[-1].step or 0.0) - first) if settled else 0.0
    return PaceWindow(steady.mean if steady else None, done, len(values))
