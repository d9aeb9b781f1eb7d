"""The slice of Helios Venus with users that Gen-Parallel-Workloads published (no VC, name or start)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lucid_pipelines.domain.trace import TraceState
from lucid_pipelines.traces.cells import CellBlock
from lucid_pipelines.traces.contract import Column, Contract, Kind, Reason
from lucid_pipelines.traces.table import ReadContext, TableLoader, read_states

STATES: Mapping[str, TraceState | Reason] = {
    "PASS": TraceState.COMPLETED,
    "KILLED": TraceState.CANCELLED,
    "FAILED": TraceState.FAILED,
}

CONTRACT = Contract(
    format="helios_venus",
    title="Helios Venus slice with users",
    source="github.com/DIR-LAB/Gen-Parallel-Workloads (no licence file; underlying Helios data CC-BY-4.0)",
    columns=(
        Column("job_id", Kind.TEXT, "row number"),
        Column("user", Kind.TEXT, "user, numbered"),
        Column("gpu_num", Kind.NUMBER, "GPUs of the whole job", "GPUs"),
        Column("cpu_num", Kind.NUMBER, "CPU cores", "cores", required=False),
        Column("node_num", Kind.NUMBER, "nodes", "nodes", required=False),
        Column("submit_time", Kind.TIME, "submission"),
        Column("duration", Kind.NUMBER, "run time", "s"),
        Column("state", Kind.TEXT, "final state: Pass, Killed, Failed"),
    ),
    clock="local time of the cluster (China, UTC+8) without an offset",
    invariants=("job_id is unique", "rows are ordered by submission", "gpu_num <= 8 x node_num"),
    oddities=(
        "no virtual cluster and no job name: all jobs are in VC 'default', recurrence is by user only",
        "a quarter of the rows are CPU jobs; they are set aside as no_gpu",
        "no queue or start time is recorded",
    ),
    excludes=("vc", "start_time", "type", "jobname", "queue"),
)


def draft(block: CellBlock, context: ReadContext) -> Mapping[str, Any]:
    del context  # nothing in this format needs a correction
    return {
        "job_id": block.text("job_id"),
        "user": block.text("user"),
        "gpus": block.number("gpu_num"),
        "cpus": block.number("cpu_num"),
        "state": read_states(block, "state", STATES),
        "submit_s": block.time("submit_time"),
        "duration_s": block.number("duration"),
    }


LOADER = TableLoader(CONTRACT, draft)
