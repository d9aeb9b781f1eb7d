"""Files that foretell: run times per job, and submissions per ten minutes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.traces.cells import CellBlock
from lucid_pipelines.traces.contract import Column, Contract, Kind, Reason
from lucid_pipelines.traces.files import TraceFile
from lucid_pipelines.traces.frames import rows
from lucid_pipelines.traces.lines import peek_line, split_header
from lucid_pipelines.traces.table import ReadContext, cell_blocks

ARTIFACT_FALLBACK_S = 1000.0
"""What the Lucid artifact takes where its model predicted a negative run time."""

PREDICTION_CONTRACT = Contract(
    format="predictions",
    title="Predicted run times",
    source="job_id,duration_s; or the Lucid artifact's job_id,priority",
    columns=(
        Column("job_id", Kind.TEXT, "key of the trace"),
        Column("duration_s", Kind.NUMBER, "predicted run time", "s", aliases=("priority",)),
    ),
    clock="none",
    oddities=("in the artifact's files the column is called priority, and values below 0 stand for 1000 s",),
)
FORECAST_CONTRACT = Contract(
    format="forecast",
    title="Predicted submissions (Venus_throughput_pred.csv)",
    source="github.com/S-Lab-System-Group/Lucid, simulation/predictor",
    columns=(
        Column("time", Kind.TIME, "start of the interval"),
        Column("submit_gpu_job", Kind.NUMBER, "GPU jobs submitted", "jobs", required=False),
        Column("submit_gpu_num", Kind.NUMBER, "GPUs asked for", "GPUs", required=False),
        Column("pred_gpu_job", Kind.NUMBER, "predicted GPU jobs", "jobs"),
        Column("pred_gpu_num", Kind.NUMBER, "predicted GPUs", "GPUs"),
    ),
    clock="local time of the cluster without an offset",
)


@dataclass(frozen=True)
class Predictions:
    """Predicted run times.

    Attributes:
        duration_s: by job id.
        replaced: how many of the artifact's negative values were replaced by 1,000 s.
        quarantine: columns ``row_number``, ``reason``, ``raw``.
    """

    duration_s: Mapping[str, float]
    replaced: int
    quarantine: pd.DataFrame
    rows_read: int


@dataclass(frozen=True)
class ThroughputForecast:
    """Submissions per interval; arrays of equal length, ascending in time, NaN where not recorded."""

    time_s: npt.NDArray[np.float64]
    predicted_jobs: npt.NDArray[np.float64]
    predicted_gpus: npt.NDArray[np.float64]
    recorded_jobs: npt.NDArray[np.float64]
    recorded_gpus: npt.NDArray[np.float64]
    quarantine: pd.DataFrame = field(default_factory=pd.DataFrame)


def read_predictions(path: str | Path) -> Predictions:
    """Read predicted run times.

    A file with the column ``priority`` is the artifact's: values below 0 become 1,000 s. In a file with
    ``duration_s`` they go to quarantine, as repeated ids do.

    Raises:
        NotFoundError: there is no such file.
        InputError: it is empty, damaged or lacks a column.
    """
    context = ReadContext(TraceFile.of(path))
    found: dict[str, float] = {}
    replaced = 0
    is_artifact = _has_column(context.file, "priority")
    for block in cell_blocks(context.file, PREDICTION_CONTRACT, context):
        ids, seconds = block.text("job_id"), block.number("duration_s")
        assert ids is not None
        assert seconds is not None
        if is_artifact:
            negative = seconds < 0
            replaced += int(negative.sum())
            seconds = np.where(negative, ARTIFACT_FALLBACK_S, seconds)
        block.fault(seconds < 0, Reason.NEGATIVE_DURATION)
        _keep(block, ids, seconds, found, context)
    return Predictions(found, replaced, context.collector.quarantine(), context.collector.rows_read)


def read_throughput_forecast(path: str | Path, timezone: str = "UTC") -> ThroughputForecast:
    """Read predicted submissions.

    Raises:
        NotFoundError: there is no such file.
        InputError: it is empty, damaged or lacks a column.
    """
    context = ReadContext(TraceFile.of(path), timezone)
    names = [column.name for column in FORECAST_CONTRACT.columns]
    parts: list[pd.DataFrame] = []
    for block in cell_blocks(context.file, FORECAST_CONTRACT, context):
        columns = {name: block.read(name) for name in names}
        good = block.good
        _reject(block, context)
        filled = {name: np.full(len(block), np.nan) if v is None else v for name, v in columns.items()}
        parts.append(rows(pd.DataFrame(filled), good))
    table = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=names)
    if table.empty:
        raise InputError(f"the forecast has no usable rows: {context.file.label}")
    table = table.sort_values("time", kind="stable")
    arrays = [table[name].to_numpy(np.float64) for name in ("time", "pred_gpu_job", "pred_gpu_num", *names[1:3])]
    return ThroughputForecast(*arrays, quarantine=context.collector.quarantine())


def _has_column(file: TraceFile, name: str) -> bool:
    return name in [cell.lower() for cell in split_header(peek_line(file), ",")]


def _keep(
    block: CellBlock,
    ids: npt.NDArray[np.object_],
    seconds: npt.NDArray[np.float64],
    found: dict[str, float],
    context: ReadContext,
) -> None:
    for i in np.flatnonzero(block.good):
        if ids[i] in found:
            block.reasons[i] = Reason.DUPLICATE_ID
        else:
            found[ids[i]] = float(seconds[i])
    _reject(block, context)


def _reject(block: CellBlock, context: ReadContext) -> None:
    context.collector.rows_read += len(block)
    for i in np.flatnonzero(~block.good):
        context.collector.reject(int(block.numbers[i]), block.reasons[i], block.raw(int(i)))
