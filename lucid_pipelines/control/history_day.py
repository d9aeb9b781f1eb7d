"""One day of history as a table, with the contract that it keeps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from statistics import fmean, median

import pyarrow as pa
import pyarrow.parquet as pq

from lucid_pipelines.domain.history import HistoryRow
from lucid_pipelines.domain.states import Outcome
from lucid_pipelines.store import Store
from lucid_pipelines.whole_files import whole_file

_TIME = pa.timestamp("us", tz="UTC")
SCHEMA = pa.schema(
    [
        ("attempt_id", pa.string()),
        ("job_id", pa.string()),
        ("attempt_number", pa.int32()),
        ("user", pa.string()),
        ("vc", pa.string()),
        ("name", pa.string()),
        ("gpus", pa.int32()),
        ("submitted_at", _TIME),
        ("started_at", _TIME),
        ("ended_at", _TIME),
        ("queue_s", pa.float64()),
        ("duration_s", pa.float64()),
        ("outcome", pa.string()),
        ("cause", pa.string()),
        ("gpu_util_pct", pa.float64()),
        ("memory_util_pct", pa.float64()),
        ("memory_peak_mib", pa.float64()),
        ("packed", pa.bool_()),
        ("profiling", pa.bool_()),
    ]
)


@dataclass(frozen=True, slots=True)
class Violation:
    """Rows that break one rule of the contract (at most 20 are named)."""

    rule: str
    count: int
    attempt_ids: tuple[str, ...]


def day_rows(store: Store, day: datetime) -> list[HistoryRow]:
    """Attempts that ended on the UTC day that begins at ``day``, by time of their end."""
    return store.history.rows(since=day, until=day + timedelta(days=1))


def write_day(rows: Sequence[HistoryRow], folder: Path, day: datetime) -> Path:
    """Write the day as Parquet (``SCHEMA``), atomically; writing it again replaces it."""
    path = folder / f"{day:%Y-%m-%d}.parquet"
    with whole_file(path) as temporary:
        pq.write_table(pa.Table.from_pylist([_record(row) for row in rows], schema=SCHEMA), temporary)
    return path


def violations(rows: Sequence[HistoryRow]) -> list[Violation]:
    """Rows that cannot be true. An empty list means that the day keeps its contract."""
    seen = Counter(row.attempt_id for row in rows)
    rules: dict[str, Callable[[HistoryRow], bool]] = {
        "duration_s is not negative": lambda row: row.duration_s is not None and row.duration_s < 0,
        "it ended after it started": lambda row: row.started_at is not None and row.ended_at < row.started_at,
        "it started after it was submitted": lambda row: (
            row.started_at is not None and row.started_at < row.submitted_at
        ),
        "gpus is at least 1": lambda row: row.gpus < 1,
        "attempt_id is unique": lambda row: seen[row.attempt_id] > 1,
        "a completed attempt has a duration": lambda row: row.outcome is Outcome.COMPLETED and row.duration_s is None,
    }
    found: list[Violation] = []
    for rule, is_broken in rules.items():
        broken = [row.attempt_id for row in rows if is_broken(row)]
        if broken:
            found.append(Violation(rule, len(broken), tuple(broken[:20])))
    return found


def summary(rows: Sequence[HistoryRow]) -> dict[str, float | int]:
    """Numbers for the asset's metadata; a mean of nothing is left out."""
    completed = [row for row in rows if row.outcome is Outcome.COMPLETED]
    durations = [row.duration_s for row in completed if row.duration_s is not None]
    waits = [wait for row in rows if (wait := _queue_s(row)) is not None]
    numbers: dict[str, float | int] = {
        "attempts": len(rows),
        "completed": len(completed),
        "users": len({row.user for row in rows}),
        "gpu_h": _gpu_h(rows),
    }
    if durations:
        numbers["duration_mean_s"] = fmean(durations)
    if waits:
        numbers["queue_mean_s"] = fmean(waits)
    return numbers


def outcomes_markdown(rows: Sequence[HistoryRow]) -> str:
    """Attempts, GPU-hours and durations by outcome, as a Markdown table."""
    lines = ["| outcome | attempts | GPU-hours | median duration (s) |", "|---|---:|---:|---:|"]
    for outcome in sorted({row.outcome for row in rows}):
        group = [row for row in rows if row.outcome is outcome]
        durations = [row.duration_s for row in group if row.duration_s is not None]
        middle = f"{median(durations):.1f}" if durations else "–"
        lines.append(f"| {outcome.value} | {len(group)} | {_gpu_h(group):.3f} | {middle} |")
    return "\n".join(lines)


def _gpu_h(rows: Sequence[HistoryRow]) -> float:
    return sum((row.duration_s or 0.0) * row.gpus for row in rows) / 3600


def _queue_s(row: HistoryRow) -> float | None:
    """Wait before the first attempt; a later attempt's wait began elsewhere and is not known here."""
    if row.started_at is None or row.number != 1:
        return None
    return (row.started_at - row.submitted_at).total_seconds()


def _record(row: HistoryRow) -> dict[str, object]:
    profile = row.profile
    return {
        "attempt_id": row.attempt_id,
        "job_id": row.job_id,
        "attempt_number": row.number,
        "user": row.user,
        "vc": row.vc,
        "name": row.name,
        "gpus": row.gpus,
        "submitted_at": row.submitted_at,
        "started_at": row.started_at,
        "ended_at": row.ended_at,
        "queue_s": _queue_s(row),
        "duration_s": row.duration_s,
        "outcome": row.outcome.value,
        "cause": row.cause.value if row.cause else None,
        "gpu_util_pct": profile.gpu_util_pct if profile else None,
        "memory_util_pct": profile.memory_util_pct if profile else None,
        "memory_peak_mib": profile.memory_peak_mib if profile else None,
        "packed": row.packed,
        "profiling": row.profiling,
    }
