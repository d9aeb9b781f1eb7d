"""Replays as files: JSON lines of summaries, Parquet tables of jobs and attempts, a text table."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lucid_pipelines.simulation.record import AttemptEnd, Replay
from lucid_pipelines.simulation.summary import Summary
from lucid_pipelines.whole_files import whole_file, write_whole

TABLE_COLUMNS: tuple[tuple[str, str], ...] = (
    ("policy", "policy"),
    ("jobs", "jobs"),
    ("avg JCT (h)", "avg_jct_s"),
    ("median JCT (h)", "median_jct_s"),
    ("p99 JCT (h)", "p99_jct_s"),
    ("avg queue (h)", "avg_queue_s"),
    ("p99.9 queue (h)", "p999_queue_s"),
    ("makespan (h)", "makespan_s"),
    ("GPUs held", "gpu_allocated_frac"),
    ("GPU util.", "gpu_util_frac"),
    ("packed", "packed_frac"),
    ("wall (s)", "wall_s"),
)


_HINTS = {
    "unknown_gpu_memory": "no GPU of unknown size is shared; give gpu_memory_mib in the cluster file",
    "no_profiler_nodes": "no virtual cluster can spare a node to profile on; one named profiler in the cluster file is "
    "used for that",
}
"""What to do about a fallback, where the input can be made better."""


def table_rows(summaries: Sequence[Summary]) -> list[list[str]]:
    """The comparison table: a header and one row per policy, as text."""
    header = [title for title, _ in TABLE_COLUMNS]
    return [header, *([_text(field, getattr(s, field)) for _, field in TABLE_COLUMNS] for s in summaries)]


def text_table(summaries: Sequence[Summary]) -> str:
    """The comparison table with aligned columns."""
    rows = table_rows(summaries)
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def notes_of(summaries: Sequence[Summary]) -> list[str]:
    """What the table does not tell: jobs that were set aside, and what had to be guessed."""
    aside = _counts(summaries[0].quarantined) if summaries else ""
    lines = [f"set aside, no replay can run them on this cluster: {aside}"] if aside else []
    lines += [f"{s.policy} had to guess: {_counts(s.fallbacks)}" for s in summaries if s.fallbacks]
    return lines + [f"{kind}: {hint}" for kind, hint in _HINTS.items() if any(kind in s.fallbacks for s in summaries)]


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{reason} {count:,}" for reason, count in counts.items())


def write_json(summaries: Sequence[Summary], path: Path) -> None:
    """One JSON object per line and policy."""
    write_whole(path, "".join(json.dumps(summary.to_json()) + "\n" for summary in summaries))


def jobs_table(replay: Replay) -> pa.Table:
    """One row per job."""
    jobs = replay.input.jobs
    return pa.table(
        {
            "policy": pa.array([replay.policy] * len(jobs)).dictionary_encode(),
            "job_id": [job.job_id for job in jobs],
            "user": pa.array([job.user for job in jobs]).dictionary_encode(),
            "vc": pa.array([job.vc for job in jobs]).dictionary_encode(),
            "gpus": replay.gpus.astype(np.int32),
            "state": pa.array([job.state.value for job in jobs]).dictionary_encode(),
            "submit_s": replay.submit_s,
            "duration_s": np.array([job.duration_s for job in jobs]),
            "start_s": _nullable(replay.start_s),
            "end_s": _nullable(replay.end_s),
            "queue_s": replay.queue_s,
            "held_s": _nullable(replay.held_s),
            "jct_s": _nullable(replay.jct_s),
            "attempts": replay.attempt_count,
        }
    )


def attempts_table(replay: Replay) -> pa.Table:
    """One row per attempt, in order of its end."""
    ids = np.array([job.job_id for job in replay.input.jobs], dtype=object)
    names = np.array([end.name.lower() for end in AttemptEnd], dtype=object)
    return pa.table(
        {
            "policy": pa.array([replay.policy] * len(replay.attempt_job)).dictionary_encode(),
            "job_id": pa.array(ids[replay.attempt_job], pa.string()),
            "start_s": replay.attempt_start_s,
            "end_s": replay.attempt_end_s,
            "gpus": replay.attempt_gpus.astype(np.int32),
            "end": pa.array(names[replay.attempt_end], pa.string()).dictionary_encode(),
            "in_profiler": replay.attempt_in_profiler,
        }
    )


def write_parquet(replays: Sequence[Replay], folder: Path) -> tuple[Path, Path]:
    """Write ``jobs.parquet`` and ``attempts.parquet`` of all policies."""
    jobs_path, attempts_path = folder / "jobs.parquet", folder / "attempts.parquet"
    _write([jobs_table(replay) for replay in replays], jobs_path)
    _write([attempts_table(replay) for replay in replays], attempts_path)
    return jobs_path, attempts_path


def _write(tables: Sequence[pa.Table], path: Path) -> None:
    with whole_file(path) as temporary:
        pq.write_table(pa.concat_tables([table.unify_dictionaries() for table in tables]), temporary)


def _nullable(values: np.ndarray) -> pa.Array:
    return pa.array(values, from_pandas=True)


def _text(field: str, value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        if field == "wall_s":
            return f"{value:.2f}"
        if field.endswith("_frac"):
            return f"{100 * value:.1f} %"
        return f"{value / 3600:.3f}"
    return str(value)
