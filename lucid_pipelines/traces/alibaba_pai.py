"""Alibaba PAI (GPU v2020, NSDI'22): ``pai_task_table`` with ``pai_job_table`` beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lucid_pipelines.domain.trace import ClusterSpec, TraceState
from lucid_pipelines.traces.cells import CellBlock
from lucid_pipelines.traces.contract import Column, Contract, Kind, Reason
from lucid_pipelines.traces.files import TraceFile
from lucid_pipelines.traces.frames import Floats, rows
from lucid_pipelines.traces.lines import peek_line, split_header
from lucid_pipelines.traces.table import ReadContext, cell_blocks, read_states

_TASK_STATES: Mapping[str, TraceState | Reason] = {
    "TERMINATED": TraceState.COMPLETED,
    "FAILED": TraceState.FAILED,
    "RUNNING": TraceState.CANCELLED,
    "WAITING": TraceState.CANCELLED,
}
"""Of a job, only whether a task failed is kept; that one still runs or waits shows in its missing times."""
PERCENT = 100.0

CONTRACT = Contract(
    format="alibaba_pai",
    title="Alibaba PAI pai_task_table",
    source="github.com/alibaba/clusterdata, cluster-trace-gpu-v2020; Weng et al., NSDI'22",
    columns=(
        Column("job_name", Kind.TEXT, "job"),
        Column("task_name", Kind.TEXT, "role: tensorflow, worker, ps, evaluator, …"),
        Column("inst_num", Kind.NUMBER, "instances of the task", "instances", nullable=True),
        Column("status", Kind.TEXT, "Terminated (completed), Failed, Running, Waiting"),
        Column("start_time", Kind.NUMBER, "launch", "s", nullable=True),
        Column("end_time", Kind.NUMBER, "end", "s", nullable=True),
        Column("plan_cpu", Kind.NUMBER, "CPU per instance", "1/100 core", nullable=True),
        Column("plan_mem", Kind.NUMBER, "host memory per instance", "GB", nullable=True),
        Column("plan_gpu", Kind.NUMBER, "GPU per instance", "1/100 GPU", nullable=True),
        Column("gpu_type", Kind.TEXT, "GPU type; MISC is an older one", nullable=True),
    ),
    clock="seconds; read as Unix time in UTC+8 the hour and the weekday are true, the date is not",
    invariants=(
        "GPUs of a job = sum over its tasks of inst_num x plan_gpu / 100",
        "run time = last end - first start of its tasks",
        "submission = start_time of pai_job_table",
        "start <= end",
    ),
    oddities=(
        "the published tables have no header line and come as one-member tar.gz archives; both are read as they are",
        "one row is a task; the rows of a job are merged into one job and counted as such",
        "without pai_job_table beside it there are no users, and the first task's start stands for the submission",
        (
            "pai_group_tag_table beside it gives the group of repeated jobs (kept as the code fingerprint) and for "
            "about 9 % of the jobs the model"
        ),
        "CPU-only roles have an empty plan_gpu",
        "some times are missing or negative; such jobs go to quarantine (clusterdata#29)",
        "fractional GPUs are usual: the median job asks for half a GPU",
    ),
    headerless=True,
)
JOB_TABLE = Contract(
    format="alibaba_pai",
    title="Alibaba PAI pai_job_table",
    source=CONTRACT.source,
    columns=(
        Column("job_name", Kind.TEXT, "job"),
        Column("inst_id", Kind.TEXT, "key of the group tag table", nullable=True),
        Column("user", Kind.TEXT, "hashed user", nullable=True),
        Column("status", Kind.TEXT, "as in the task table", nullable=True),
        Column("start_time", Kind.NUMBER, "submission", "s", nullable=True),
        Column("end_time", Kind.NUMBER, "end", "s", nullable=True),
    ),
    clock=CONTRACT.clock,
    headerless=True,
)
GROUP_TABLE = Contract(
    format="alibaba_pai",
    title="Alibaba PAI pai_group_tag_table",
    source=CONTRACT.source,
    columns=(
        Column("inst_id", Kind.TEXT, "key"),
        Column("user", Kind.TEXT, "hashed user", nullable=True),
        Column("gpu_type_spec", Kind.TEXT, "GPU type asked for", nullable=True),
        Column("group", Kind.TEXT, "tag of repeated jobs", nullable=True),
        Column("workload", Kind.TEXT, "model, for about 9 %", nullable=True),
    ),
    clock=CONTRACT.clock,
    headerless=True,
)
_TASK_COLUMNS = ("job", "failed", "gpus", "cpus", "gpu_type", "start_s", "end_s", "row")


@dataclass(frozen=True, slots=True)
class PaiLoader:
    """Merges tasks into jobs and joins the job and group tables."""

    contract: Contract = CONTRACT
    has_calendar: bool = False

    def read(self, context: ReadContext) -> None:
        tasks, broken = _read_tasks(context)
        columns, block = _merge_tasks(tasks, broken, context)
        _join_job_table(columns, block, context)
        context.collector.rows_read -= len(block)  # the rows were counted as tasks
        context.collector.take(block, columns)

    def cluster(self, file: TraceFile) -> ClusterSpec | None:
        del file  # pai_machine_spec has no node sizes per virtual cluster
        return None


def _read_tasks(context: ReadContext) -> tuple[pd.DataFrame, dict[str, Reason]]:
    """Sound task rows, and by job the fault of a task that went to quarantine."""
    parts: list[pd.DataFrame] = []
    broken: dict[str, Reason] = {}
    for block in cell_blocks(context.file, as_published(context.file, CONTRACT), context):
        names = block.text("job_name")
        instances, plan_gpu, plan_cpu = (_number(block, n) for n in ("inst_num", "plan_gpu", "plan_cpu"))
        start, end = _number(block, "start_time"), _number(block, "end_time")
        state = read_states(block, "status", _TASK_STATES)
        assert state is not None
        block.fault((start < 0) | (end < 0), Reason.NEGATIVE_TIME)
        block.fault(end < start, Reason.END_BEFORE_START)
        block.fault((plan_gpu < 0) | (instances < 0), Reason.BAD_GPU_COUNT)
        count = np.where(np.isnan(instances), 1.0, instances)
        frame = pd.DataFrame(
            {
                "job": names,
                "failed": [value is TraceState.FAILED for value in state],
                "gpus": count * np.nan_to_num(plan_gpu) / PERCENT,
                "cpus": count * np.nan_to_num(plan_cpu) / PERCENT,
                "gpu_type": block.text("gpu_type"),
                "start_s": start,
                "end_s": end,
                "row": block.numbers,
            }
        )
        good = block.good
        context.collector.rows_read += len(block)
        for i in np.flatnonzero(~good):
            context.collector.reject(int(block.numbers[i]), block.reasons[i], block.raw(int(i)))
            if names is not None and names[i] is not None:
                broken.setdefault(names[i], block.reasons[i])
        parts.append(rows(frame, good))
    tasks = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=list(_TASK_COLUMNS))
    return tasks, broken


def _merge_tasks(
    tasks: pd.DataFrame, broken: Mapping[str, Reason], context: ReadContext
) -> tuple[dict[str, Any], CellBlock]:
    """One row per job. A job with a broken task is as broken as the task: its size is not known."""
    groups = tasks.groupby("job", sort=False)
    merged = groups.agg(
        gpus=("gpus", "sum"),
        cpus=("cpus", "sum"),
        start_s=("start_s", "min"),
        end_s=("end_s", "max"),
        row=("row", "min"),
        started=("start_s", "count"),
        ended=("end_s", "count"),
        gpu_type=("gpu_type", "first"),
        failed=("failed", "max"),
    )
    context.collector.merged["further_tasks_of_a_job"] += len(tasks) - len(merged)
    ids = np.array(merged.index.astype(object), dtype=object)
    block = CellBlock(
        contract=CONTRACT,
        numbers=merged["row"].to_numpy(np.int64),
        cells={"job_name": ids.tolist()},
        raw=lambda i: f"job {ids[i]}",
    )
    for reason in set(broken.values()):
        block.fault(np.array([broken.get(job) is reason for job in ids], dtype=bool), reason)
    gpus = merged["gpus"].to_numpy(np.float64)
    started, ended = merged["started"].to_numpy(np.int64), merged["ended"].to_numpy(np.int64)
    block.fault(gpus == 0, Reason.NO_GPU)
    block.fault(started == 0, Reason.NEVER_STARTED)
    block.fault(ended < started, Reason.NOT_ENDED)
    start, end = merged["start_s"].to_numpy(np.float64), merged["end_s"].to_numpy(np.float64)
    failed = merged["failed"].to_numpy(bool)
    columns: dict[str, Any] = {
        "job_id": ids,
        "gpus": gpus,
        "cpus": merged["cpus"].to_numpy(np.float64),
        "gpu_type": merged["gpu_type"].to_numpy(object),
        "state": np.where(failed, TraceState.FAILED.value, TraceState.COMPLETED.value).astype(object),
        "submit_s": start,
        "start_s": start,
        "end_s": end,
        "duration_s": end - start,
    }
    return columns, block


def _join_job_table(columns: dict[str, Any], block: CellBlock, context: ReadContext) -> None:
    path = context.file.sibling("pai_job_table.csv", "pai_job_table.tar.gz")
    if path is None:
        context.notes.append("no pai_job_table beside the file: no users, and submission is the first task's start")
        return
    jobs = _side_table(path, JOB_TABLE, ("inst_id", "user", "start_time"), "job_name", context)
    joined = jobs.reindex(columns["job_id"])
    submit = joined["start_time"].to_numpy(np.float64)
    unknown = np.isnan(submit)
    context.collector.repairs["submission_is_first_task_start"] += int(unknown.sum())
    columns["submit_s"] = np.where(unknown, columns["start_s"], submit)
    columns["queue_s"] = columns["start_s"] - columns["submit_s"]
    columns["user"] = joined["user"].to_numpy(object)
    _join_group_table(columns, joined["inst_id"].to_numpy(object), context)


def _join_group_table(columns: dict[str, Any], keys: np.ndarray, context: ReadContext) -> None:
    path = context.file.sibling("pai_group_tag_table.csv", "pai_group_tag_table.tar.gz")
    if path is None:
        return
    tags = _side_table(path, GROUP_TABLE, ("group", "workload"), "inst_id", context)
    joined = tags.reindex(keys)
    columns["code_fingerprint"] = joined["group"].to_numpy(object)
    model = joined["workload"].where(joined["workload"].notna(), None).to_numpy(object)
    columns["model"] = model
    columns["workload_source"] = np.array([None if m is None else "recorded" for m in model], dtype=object)


def _side_table(path: Path, contract: Contract, names: tuple[str, ...], key: str, context: ReadContext) -> pd.DataFrame:
    """Columns of a table beside the trace by its key; the first of rows with one key counts."""
    side = ReadContext(TraceFile.of(path))
    parts: list[pd.DataFrame] = []
    for block in cell_blocks(side.file, as_published(side.file, contract), side):
        frame = pd.DataFrame({name: block.read(name) for name in (key, *names)})
        parts.append(rows(frame, block.good))
    table = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=[key, *names])
    unique = table.drop_duplicates(key)
    dropped = side.collector.quarantine().shape[0] + len(table) - len(unique)
    if dropped:
        context.notes.append(f"{dropped} rows of {path.name} could not be used (damaged or a repeated key)")
    return unique.set_index(key)


def as_published(file: TraceFile, contract: Contract) -> Contract:
    """The contract, adapted to copies of the headerless tables that somebody gave a header line."""
    cells = split_header(peek_line(file), contract.separator)
    has_header = bool(cells) and cells[0].lower() == contract.columns[0].name
    return replace(contract, headerless=False) if has_header else contract


def _number(block: CellBlock, name: str) -> Floats:
    values = block.number(name)
    assert values is not None  # all columns of the contract are required
    return values


LOADER = PaiLoader()
