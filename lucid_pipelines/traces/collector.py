"""Gathers accepted rows as typed columns and rejected ones as the quarantine table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from lucid_pipelines.domain.trace import TraceState
from lucid_pipelines.traces.cells import CellBlock
from lucid_pipelines.traces.contract import Reason
from lucid_pipelines.traces.frames import Bools, Floats, column
from lucid_pipelines.traces.lines import Rejected

GPU_LIMIT = 100_000
TIME_LIMIT_S = 1e10
"""Three centuries: no clock shows more, and no job waits or runs as long."""
"""More GPUs than any cluster has: a damaged cell, not a request."""
RAW_ROWS_LIMIT = 10_000
"""Rows of the quarantine whose text is kept; the numbers and reasons of all rows are."""
RAW_LENGTH_LIMIT = 500

TEXT_COLUMNS = ("job_id", "code_fingerprint")
CATEGORY_COLUMNS = ("user", "vc", "name", "state", "gpu_type", "model", "dataset", "workload_source")
NUMBER_COLUMNS = (
    "gpus",
    "submit_s",
    "duration_s",
    "cpus",
    "batch_size",
    "amp",
    "gpu_util_pct",
    "memory_util_pct",
    "memory_peak_mib",
    "start_s",
    "queue_s",
    "end_s",
    "attempts",
)
DEFAULT_TEXT = {"user": "", "vc": "default", "name": "", "state": TraceState.COMPLETED.value}


@dataclass(slots=True)
class Collector:
    """State of one load.

    Attributes:
        rows_read: rows of the file, header and blank lines not counted.
        merged: rows that belong to a job that another row stands for, by what they are.
        repairs: rows that were accepted after a stated correction, by correction.
    """

    rows_read: int = 0
    merged: Counter[str] = field(default_factory=Counter)
    repairs: Counter[str] = field(default_factory=Counter)
    _parts: list[pd.DataFrame] = field(default_factory=list)
    _ids: set[str] = field(default_factory=set)
    _quarantine: list[tuple[int, str, str | None]] = field(default_factory=list)

    def reject(self, number: int, reason: Reason, raw: str) -> None:
        """Put one row, already counted, into quarantine."""
        kept = raw[:RAW_LENGTH_LIMIT] if len(self._quarantine) < RAW_ROWS_LIMIT else None
        self._quarantine.append((number, reason.value, kept))

    def reject_all(self, rejected: Iterable[Rejected]) -> None:
        """Count rows that could not be split into cells, and put them into quarantine."""
        for row in rejected:
            self.rows_read += 1
            self.reject(row.number, row.reason, row.raw)

    def take(self, block: CellBlock, columns: Mapping[str, Any]) -> None:
        """Count a block's rows; check what holds for every trace; keep the good rows.

        Args:
            columns: arrays by the name of the ``TraceJob`` field; an absent or ``None`` one is unknown.
        """
        self.rows_read += len(block)
        present = {name: values for name, values in columns.items() if values is not None}
        check_times(block, present)
        good = block.good
        self._drop_duplicates(block, present["job_id"], good)
        for i in np.flatnonzero(~good):
            self.reject(int(block.numbers[i]), block.reasons[i], block.raw(int(i)))
        self._parts.append(typed_frame({name: np.asarray(v)[good] for name, v in present.items()}, int(good.sum())))

    def frame(self) -> pd.DataFrame:
        """All accepted rows, ordered by submission; rows of one second keep the order of the file."""
        frame = concat_frames(self._parts)
        return frame.sort_values("submit_s", kind="stable", ignore_index=True)

    def quarantine(self) -> pd.DataFrame:
        """Columns ``row_number``, ``reason`` and ``raw``, in the order of the file."""
        rows = sorted(self._quarantine, key=lambda row: row[0])
        table = pd.DataFrame(rows, columns=["row_number", "reason", "raw"])
        return table.astype({"row_number": np.int64, "reason": "str", "raw": "str"})

    def _drop_duplicates(self, block: CellBlock, ids: npt.NDArray[Any], good: Bools) -> None:
        seen = self._ids
        for i in np.flatnonzero(good):
            if ids[i] in seen:
                good[i] = False
                block.reasons[i] = Reason.DUPLICATE_ID
            else:
                seen.add(ids[i])


def check_times(block: CellBlock, columns: Mapping[str, Any]) -> None:
    """Mark rows whose quantities cannot be true, whatever the trace."""
    gpus: Floats = columns["gpus"]
    block.fault((gpus < 0) | (gpus > GPU_LIMIT), Reason.BAD_GPU_COUNT)
    for name in ("submit_s", "start_s", "end_s"):
        if name in columns:
            block.fault(columns[name] < 0, Reason.NEGATIVE_TIME)
            block.fault(columns[name] > TIME_LIMIT_S, Reason.BAD_TIME)
    if "start_s" in columns and "end_s" in columns:
        block.fault(columns["end_s"] < columns["start_s"], Reason.END_BEFORE_START)
    if "start_s" in columns:
        block.fault(columns["start_s"] < columns["submit_s"], Reason.START_BEFORE_SUBMIT)
    for name in ("duration_s", "queue_s"):
        if name in columns:
            block.fault(columns[name] < 0, Reason.NEGATIVE_DURATION)
            block.fault(columns[name] > TIME_LIMIT_S, Reason.BAD_NUMBER)
    block.fault(gpus == 0, Reason.NO_GPU)
    for name in ("gpus", "submit_s", "duration_s"):
        block.fault(np.isnan(columns[name]), Reason.MISSING_VALUE)


def typed_frame(columns: Mapping[str, Any], length: int) -> pd.DataFrame:
    """A frame with every ``TraceJob`` field as a column: text, category or float64 (NaN is unknown)."""
    index = pd.RangeIndex(length)
    data: dict[str, pd.Series] = {}
    for name in TEXT_COLUMNS:
        data[name] = pd.Series(columns.get(name, None), index=index, dtype="str")
    for name in CATEGORY_COLUMNS:
        values = columns.get(name)
        if isinstance(values, pd.Categorical):
            data[name] = pd.Series(values, index=index)
            continue
        default = DEFAULT_TEXT.get(name)
        series = pd.Series(values if values is not None else default, index=index, dtype=object)
        if default is not None:
            series = series.where(series.notna(), default)
        data[name] = series.astype("str").astype("category")
    for name in NUMBER_COLUMNS:
        data[name] = pd.Series(columns.get(name, np.nan), index=index, dtype=np.float64)
    return pd.DataFrame(data)


def concat_frames(parts: list[pd.DataFrame]) -> pd.DataFrame:
    """Join frames, with the union of their categories."""
    if not parts:
        return typed_frame({}, 0)
    if len(parts) == 1:
        return parts[0]
    out: dict[str, Any] = {}
    for name in parts[0].columns:
        values = [column(part, name) for part in parts]
        if name in CATEGORY_COLUMNS:
            out[name] = pd.Series(pd.api.types.union_categoricals(values, sort_categories=True))
        else:
            out[name] = pd.concat(values, ignore_index=True)
    return pd.DataFrame(out)
