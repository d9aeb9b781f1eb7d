"""Writes any trace in the project's own format."""

from __future__ import annotations

from pathlib import Path

from lucid_pipelines.traces.canonical import write_trace
from lucid_pipelines.traces.clusters import cluster_yaml
from lucid_pipelines.traces.loaded import LoadedTrace


def convert(trace: LoadedTrace, out_path: str | Path) -> Path:
    """Write the trace to ``.parquet``, ``.csv`` or ``.csv.gz``; reading it again gives equal jobs.

    Raises:
        InputError: the ending is another.
        ExternalError: the file cannot be written.
    """
    return write_trace(trace, Path(out_path))


def write_quarantine(trace: LoadedTrace, out_path: str | Path) -> Path:
    """Write the quarantine table as CSV: row_number, reason, raw."""
    path = Path(out_path)
    trace.quarantine.to_csv(path, index=False, lineterminator="\n")
    return path


def write_cluster(trace: LoadedTrace, out_path: str | Path) -> Path | None:
    """Write the trace's cluster as a cluster file; ``None`` when none is known."""
    if trace.cluster is None:
        return None
    path = Path(out_path)
    path.write_text(cluster_yaml(trace.cluster), encoding="utf-8")
    return path
