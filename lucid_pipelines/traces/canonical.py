"""Our own trace format: CSV (plain or gzip) or Parquet, one column per field of ``TraceJob``."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from lucid_pipelines.domain.errors import ExternalError, InputError
from lucid_pipelines.domain.trace import ClusterSpec, TraceState
from lucid_pipelines.traces.cells import CellBlock
from lucid_pipelines.traces.clusters import cluster_yaml
from lucid_pipelines.traces.collector import CATEGORY_COLUMNS, TEXT_COLUMNS
from lucid_pipelines.traces.contract import Column, Contract, Kind, Reason
from lucid_pipelines.traces.files import TraceFile
from lucid_pipelines.traces.loaded import JOB_FIELDS, LoadedTrace
from lucid_pipelines.traces.table import ReadContext, cell_blocks, read_states
from lucid_pipelines.whole_files import whole_file

VERSION = 1
COMMENT = "# lucid-trace "
PARQUET_MAGIC = b"PAR1"
PARQUET_KEY = b"lucid_trace"
SYNTHETIC_WARNING = "SYNTHETIC: generated, recorded on no cluster"
_PARQUET_ROWS = 65_536
_STATES: Mapping[str, TraceState | Reason] = {state.value.upper(): state for state in TraceState}
_REQUIRED = ("job_id", "gpus", "submit_s", "duration_s")
_UNITS = {"gpus": "GPUs", "cpus": "cores", "batch_size": "samples", "memory_peak_mib": "MiB"}


def _column(name: str) -> Column:
    kind = Kind.TEXT if name in (*TEXT_COLUMNS, *CATEGORY_COLUMNS) else Kind.FLAG if name == "amp" else Kind.NUMBER
    unit = "s" if name.endswith("_s") else "%" if name.endswith("_pct") else _UNITS.get(name)
    return Column(name, kind, f"TraceJob.{name}", unit, required=name in _REQUIRED)


CONTRACT = Contract(
    format="canonical",
    title="Lucid Pipelines trace",
    source="written by `lucid traces convert` and `lucid traces generate`",
    columns=tuple(_column(name) for name in JOB_FIELDS),
    clock="submit_s: seconds since 1970-01-01 UTC, or since the trace's own zero (has_calendar in the header)",
    is_closed=True,
    missing_words=frozenset({""}),  # a user may be called None
    invariants=("job_id is unique", "submit_s <= start_s <= end_s", "empty cells are unknown"),
    oddities=(
        "the first line of a CSV is a comment with the metadata as JSON; Parquet keeps it under the key lucid_trace",
        "columns that are no field of TraceJob are refused, so that a misspelt one is not lost",
    ),
)


@dataclass(frozen=True, slots=True)
class CanonicalLoader:
    contract: Contract = CONTRACT
    has_calendar: bool = True

    def read(self, context: ReadContext) -> None:
        """Read either form.

        Raises:
            InputError: the file is damaged, of a later version, or has missing or unknown columns.
        """
        blocks = _parquet_blocks(context) if is_parquet(context.file) else _csv_blocks(context)
        for block in blocks:
            context.collector.take(block, _draft(block))

    def cluster(self, file: TraceFile) -> ClusterSpec | None:
        del file  # it stands in the file's own header
        return None


def is_parquet(file: TraceFile) -> bool:
    """Whether the file begins as Parquet does."""
    if file.member is not None:
        return False
    with file.path.open("rb") as stream:
        return stream.read(len(PARQUET_MAGIC)) == PARQUET_MAGIC


def write_trace(trace: LoadedTrace, path: Path) -> Path:
    """Write a trace; ``.parquet``, ``.csv`` and ``.csv.gz`` say which form. A half-written file never shows.

    Raises:
        InputError: the ending is another.
        ExternalError: the file cannot be written.
    """
    name = path.name.lower()
    if not name.endswith((".parquet", ".csv", ".csv.gz")):
        raise InputError(f"a trace is written as .csv, .csv.gz or .parquet; got {path.name!r}")
    header = json.dumps(header_of(trace), sort_keys=True)
    try:
        with whole_file(path) as temporary:
            if name.endswith(".parquet"):
                _write_parquet(trace, header, temporary)
            else:
                _write_csv(trace, header, temporary, is_gzip=name.endswith(".gz"))
    except OSError as error:
        raise ExternalError(f"the trace cannot be written ({error.strerror or error}): {path}") from error
    return path


def header_of(trace: LoadedTrace) -> dict[str, Any]:
    """The metadata that a written trace carries."""
    header: dict[str, Any] = {
        **trace.metadata,
        "version": VERSION,
        "synthetic": trace.is_synthetic,
        "format": trace.metadata.get("format", trace.format),
        "source": trace.metadata.get("source", trace.source),
        "jobs": trace.job_count,
        "clock": trace.clock,
        "has_calendar": trace.has_calendar,
        "notes": list(trace.notes),
    }
    if trace.is_synthetic:
        header["warning"] = SYNTHETIC_WARNING
    if trace.cluster is not None:
        header["cluster"] = yaml.safe_load(cluster_yaml(trace.cluster))
    return header


def _write_csv(trace: LoadedTrace, header: str, path: Path, *, is_gzip: bool) -> None:
    with path.open("wb") as raw:
        # No time stamp and no name inside: equal traces give equal bytes.
        stream = gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) if is_gzip else raw
        with io.TextIOWrapper(cast("io.BufferedWriter", stream), encoding="utf-8", newline="") as text:
            text.write(f"{COMMENT}{header}\n")
            if trace.is_synthetic:
                text.write(f"# {SYNTHETIC_WARNING}\n")
            # Every text is quoted: a carriage return inside a name would otherwise end the row for a reader.
            fields = trace.frame[list(JOB_FIELDS)]
            fields.to_csv(text, index=False, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)


def _write_parquet(trace: LoadedTrace, header: str, path: Path) -> None:
    table = pa.Table.from_pandas(trace.frame[list(JOB_FIELDS)], preserve_index=False)
    pq.write_table(table.replace_schema_metadata({PARQUET_KEY: header.encode()}), path)


def _csv_blocks(context: ReadContext) -> Iterator[CellBlock]:
    def comment(line: str) -> None:
        if line.startswith(COMMENT):
            _take_header(line.removeprefix(COMMENT), context)

    yield from cell_blocks(context.file, CONTRACT, context, comment)


def _parquet_blocks(context: ReadContext) -> Iterator[CellBlock]:
    label = context.file.label
    try:
        with pq.ParquetFile(context.file.path) as file:
            _take_header((file.schema_arrow.metadata or {}).get(PARQUET_KEY, b"{}").decode(), context)
            names = file.schema_arrow.names
            CONTRACT.require(names, label)
            total, number = max(1, file.metadata.num_rows), 1
            if file.metadata.num_rows == 0:
                raise InputError(f"the trace file has no rows: {label}")
            for batch in file.iter_batches(_PARQUET_ROWS, columns=names):
                yield _parquet_block(batch, number, context)
                number += batch.num_rows
                if context.progress is not None:
                    context.progress(min(1.0, number / total))
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        raise InputError(f"the Parquet file is damaged ({str(error)[:200]}): {label}") from error


def _parquet_block(batch: pa.RecordBatch, number: int, context: ReadContext) -> CellBlock:
    cells: dict[str, Any] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
            cells[name] = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
        else:
            cells[name] = [None if value is None else str(value) for value in column.to_pylist()]
    return CellBlock(
        contract=CONTRACT,
        numbers=np.arange(number, number + batch.num_rows, dtype=np.int64),
        cells=cells,
        raw=lambda i: json.dumps({name: str(values[i]) for name, values in cells.items()}),
        zone=context.zone,
    )


def _take_header(text: str, context: ReadContext) -> None:
    try:
        header = json.loads(text)
        version = int(header.get("version", VERSION))
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"the trace's header is not JSON ({error}): {context.file.label}") from error
    if version > VERSION:
        raise InputError(f"the trace is of version {version}, this program reads up to {VERSION}: {context.file.label}")
    context.metadata.update(header)


def _draft(block: CellBlock) -> Mapping[str, Any]:
    columns: dict[str, Any] = {name: block.read(name) for name in JOB_FIELDS if name in block and name != "state"}
    columns["state"] = read_states(block, "state", _STATES)
    return columns


LOADER = CanonicalLoader()
