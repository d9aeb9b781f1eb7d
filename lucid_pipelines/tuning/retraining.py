"""Predicted durations of a trace's jobs under different periods of retraining, by models of their time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from lucid_pipelines.domain.trace import TraceJob
from lucid_pipelines.models.duration.from_trace import history_from_trace
from lucid_pipelines.models.duration.training import DurationSettings
from lucid_pipelines.models.updating import walk_forward
from lucid_pipelines.tuning.scenarios import Predictions
from lucid_pipelines.tuning.space import NEVER

PERIODS_DAYS = (NEVER, 1.0, 7.0)


def predictions_by_period(
    jobs: Sequence[TraceJob],
    begin_s: float,
    *,
    periods_days: Sequence[float] = PERIODS_DAYS,
    settings: DurationSettings | None = None,
    progress: Callable[[float], None] | None = None,
) -> Predictions:
    """Walk through the trace from ``begin_s`` (seconds since 1970-01-01 UTC) once for each period.

    Every job is predicted by the newest model of its time, from what had ended when it was submitted; what ended
    is as the trace recorded it, not as a replay would have it.

    Raises:
        InputError: too few usable runs before ``begin_s``.
    """
    rows = history_from_trace(jobs)
    begin = datetime.fromtimestamp(begin_s, UTC)
    until = max(row.submitted_at for row in rows) + timedelta(seconds=1)
    found: dict[float, dict[str, float]] = {}
    for days in periods_days:
        every = None if days == NEVER else timedelta(days=days)
        walked = walk_forward(rows, begin, until, every, settings)
        found[days] = {row.job_id: row.predicted_s for row in walked}
        if progress is not None:
            progress(days)
    return found
