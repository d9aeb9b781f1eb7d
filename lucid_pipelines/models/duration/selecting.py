"""Which rows of history can be learned from, as of a moment; the rest is counted by reason."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from lucid_pipelines.domain.history import HistoryRow
from lucid_pipelines.domain.states import Outcome


class Teaching(StrEnum):
    """Which runs say how long a job takes."""

    HELD = "held"
    """Runs that ended by themselves or by their user's hand: how long the GPUs were held. A queue that is
    ordered by it needs this, because it does not know yet which jobs will fail or be cancelled."""
    COMPLETED = "completed"
    """Completed runs only: how long it takes to finish."""


_HELD = frozenset({Outcome.COMPLETED, Outcome.CANCELLED, Outcome.FAILED_USER, Outcome.FAILED_FRAMEWORK})


def teaches(outcome: Outcome, teaching: Teaching) -> bool:
    """Whether a run with this outcome is a lesson. One that the infrastructure ended never is."""
    return outcome is Outcome.COMPLETED if teaching is Teaching.COMPLETED else outcome in _HELD


@dataclass(frozen=True)
class Selection:
    """Usable rows by time of their end, and how many others there were, by reason."""

    rows: tuple[HistoryRow, ...]
    left_out: dict[str, int]


def select_rows(rows: Iterable[HistoryRow], as_of: datetime) -> Selection:
    """Rows that had ended at ``as_of`` and can be true.

    Left out and counted: ``after_as_of`` (this includes times in the future), ``no_duration``, ``bad_duration``
    (not finite, or below 0), ``no_gpu``, ``bad_times`` (ended before it started or was submitted) and
    ``duplicate_attempt``.
    """
    kept: list[HistoryRow] = []
    left_out: Counter[str] = Counter()
    seen: set[str] = set()
    for row in rows:
        reason = _reason_against(row, as_of, seen)
        if reason:
            left_out[reason] += 1
        else:
            seen.add(row.attempt_id)
            kept.append(row)
    kept.sort(key=lambda row: (row.ended_at, row.attempt_id))
    return Selection(tuple(kept), dict(left_out))


def _reason_against(row: HistoryRow, as_of: datetime, seen: set[str]) -> str | None:
    if row.ended_at > as_of or row.submitted_at > as_of:
        return "after_as_of"
    if row.attempt_id in seen:
        return "duplicate_attempt"
    if row.gpus < 1:
        return "no_gpu"
    if row.duration_s is None:
        return "no_duration"
    if not math.isfinite(row.duration_s) or row.duration_s < 0:
        return "bad_duration"
    if row.ended_at < row.submitted_at or (row.started_at is not None and row.ended_at < row.started_at):
        return "bad_times"
    return None
