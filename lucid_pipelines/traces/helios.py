"""Helios (SenseTime, SC'21): ``cluster_log.csv`` of Venus, Earth, Saturn and Uranus."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from lucid_pipelines.domain.trace import TraceState
from lucid_pipelines.traces.cells import CellBlock
from lucid_pipelines.traces.clusters import cluster_from_daily_gpus
from lucid_pipelines.traces.contract import Column, Contract, Kind, Reason
from lucid_pipelines.traces.table import ReadContext, TableLoader, durations, read_states

STATES: Mapping[str, TraceState | Reason] = {
    "COMPLETED": TraceState.COMPLETED,
    "FAILED": TraceState.FAILED,
    "CANCELLED": TraceState.CANCELLED,
    "TIMEOUT": TraceState.FAILED,
    "NODE_FAIL": TraceState.FAILED,
    "OUT_OF_MEMORY": TraceState.FAILED,
    "SUSPENDED": Reason.NOT_ENDED,
    "RUNNING": Reason.NOT_ENDED,
    "PENDING": Reason.NOT_ENDED,
}

CONTRACT = Contract(
    format="helios",
    title="Helios cluster_log.csv",
    source="github.com/S-Lab-System-Group/HeliosData (CC-BY-4.0); Hu et al., SC'21",
    columns=(
        Column("job_id", Kind.TEXT, "number that Slurm gave, in order of submission"),
        Column("user", Kind.TEXT, "hashed user"),
        Column("vc", Kind.TEXT, "hashed virtual cluster"),
        Column("jobname", Kind.TEXT, "hashed job name", required=False, aliases=("name", "job_name")),
        Column("gpu_num", Kind.NUMBER, "GPUs of the whole job", "GPUs"),
        Column("cpu_num", Kind.NUMBER, "CPU cores of the whole job", "cores", required=False),
        Column("node_num", Kind.NUMBER, "nodes of the job", "nodes", required=False),
        Column("state", Kind.TEXT, "final state: " + ", ".join(STATES)),
        Column("submit_time", Kind.TIME, "submission"),
        Column("start_time", Kind.TIME, "start", required=False),
        Column("end_time", Kind.TIME, "end", required=False),
        Column("duration", Kind.NUMBER, "end_time - start_time", "s", nullable=True),
        Column("queue", Kind.NUMBER, "start_time - submit_time", "s", required=False),
    ),
    clock="local time of the cluster (China, UTC+8) without an offset",
    invariants=("submit <= start <= end", "duration = end - start", "queue = start - submit", "job_id is unique"),
    oddities=(
        "more than half of all rows are CPU jobs (gpu_num 0); they are set aside as no_gpu",
        "TIMEOUT and NODE_FAIL are rare; as in the authors' analysis they count as failed",
        "one SUSPENDED job in Uranus has not ended",
        "the public README has no jobname column, some copies do",
        (
            "VC sizes change from day to day (cluster_gpu_number.csv); the cluster hint takes each VC's "
            "largest size over the days of that file"
        ),
    ),
    excludes=("dataset", "model", "batchsize"),
)


def draft(block: CellBlock, context: ReadContext) -> Mapping[str, Any]:
    state = read_states(block, "state", STATES)
    submit, start, end = block.time("submit_time"), block.time("start_time"), block.time("end_time")
    if start is not None:
        block.fault(np.isnan(start), Reason.NEVER_STARTED)
    return {
        "job_id": block.text("job_id"),
        "user": block.text("user"),
        "vc": block.text("vc"),
        "name": block.text("jobname"),
        "gpus": block.number("gpu_num"),
        "cpus": block.number("cpu_num"),
        "state": state,
        "submit_s": submit,
        "start_s": start,
        "end_s": end,
        "duration_s": durations(block, context, block.number("duration"), start, end),
        "queue_s": block.number("queue"),
    }


LOADER = TableLoader(CONTRACT, draft, find_cluster=cluster_from_daily_gpus)
