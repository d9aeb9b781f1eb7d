"""Writes any trace in the project's own format."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lucid_pipelines.domain.errors import ExternalError
from lucid_pipelines.traces.canonical import write_trace
from lucid_pipelines.traces.clusters import cluster_yaml
from lucid_pipelines.traces.loaded import LoadedTrace
from lucid_pipelines.whole_files import whole_file


def convert(trace: LoadedTrace, out_path: str | Path) -> Path:
    """Write the trace to ``.parquet``, ``.csv`` or ``.csv.gz``; reading it again gives equal jobs.

    Raises:
        InputError: the ending is another.
        ExternalError: the file cannot be written.
    """
    return write_trace(trace, Path(out_path))


def write_quarantine(trace: LoadedTrace, out_path: str | Path) -> Path:
    """Write the quarantine table as CSV: row_number, reason, raw.

    Raises:
        ExternalError: the file cannot be written.
    """
    return _written(Path(out_path), lambda path: trace.quarantine.to_csv(path, index=False, lineterminator="\n"))


def write_cluster(trace: LoadedTrace, out_path: str | Path) -> Path | None:
    """Write the trace's cluster as a cluster file; ``None`` when none is known.

    Raises:
        ExternalError: the file cannot be written.
    """
    if trace.cluster is None:
        return None
    text = cluster_yaml(trace.cluster)
    return _written(Path(out_path), lambda path: path.write_text(text, encoding="utf-8"))


def _written(path: Path, write: Callable[[Path], object]) -> Path:
    try:
        with whole_file(path) as temporary:
            write(temporary)
    except OSError as error:
        raise ExternalError(f"the file cannot be written ({error.strerror or error}): {path}") from error
    return path
