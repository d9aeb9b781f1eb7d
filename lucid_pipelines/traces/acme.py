"""Acme (Shanghai AI Lab, NSDI'24): ``trace_seren.csv`` and ``trace_kalos.csv``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from lucid_pipelines.domain.trace import ClusterSpec, NodeGroup
from lucid_pipelines.traces.cells import CellBlock
from lucid_pipelines.traces.contract import Column, Contract, Kind, Reason
from lucid_pipelines.traces.files import TraceFile
from lucid_pipelines.traces.helios import STATES
from lucid_pipelines.traces.table import ReadContext, TableLoader, durations, read_states

CONTRACT = Contract(
    format="acme",
    title="Acme trace_seren.csv, trace_kalos.csv",
    source="github.com/InternLM/AcmeTrace (CC-BY-4.0); Hu et al., NSDI'24",
    columns=(
        Column("job_id", Kind.TEXT, "id of the job"),
        Column("user", Kind.TEXT, "hashed user"),
        Column("node_num", Kind.NUMBER, "nodes", "nodes", required=False),
        Column("gpu_num", Kind.NUMBER, "GPUs of the whole job", "GPUs"),
        Column("cpu_num", Kind.NUMBER, "CPU cores", "cores", required=False),
        Column("mem_per_pod_GB", Kind.NUMBER, "host memory of a pod (Kalos only)", "GB", required=False),
        Column("shared_mem_per_pod", Kind.NUMBER, "shared memory of a pod (Kalos only)", "GB", required=False),
        Column("type", Kind.TEXT, "stage of LLM development: Pretrain, SFT, Evaluation, …", nullable=True),
        Column("state", Kind.TEXT, "final state: COMPLETED, CANCELLED, FAILED, TIMEOUT, NODE_FAIL"),
        Column("submit_time", Kind.TIME, "submission"),
        Column("start_time", Kind.TIME, "start", nullable=True),
        Column("end_time", Kind.TIME, "end", nullable=True),
        Column("duration", Kind.NUMBER, "run time", "s", required=False),
        Column("queue", Kind.NUMBER, "waiting time", "s", required=False),
        Column("gpu_time", Kind.NUMBER, "duration x gpu_num", "GPU s", required=False),
    ),
    clock="with an offset: UTC+8 in Seren, UTC in Kalos",
    invariants=("submit <= start <= end", "job_id is unique", "the run time is end - start"),
    oddities=(
        (
            "in Kalos the duration column of the README's own examples is end - submit, so it holds the queue time "
            "too; the run time is computed from the times and disagreements are counted as repairs"
        ),
        "there is no job name; the workload type stands in for it",
        "there are no virtual clusters; all jobs are in VC 'seren' or 'kalos'",
        "the totals of the README (880,740 jobs) and of cluster_summary.csv (1,093,963) differ",
        "over a third of Seren's and two thirds of Kalos' rows are CPU jobs; they are set aside as no_gpu",
    ),
    excludes=("vc",),
)
SEREN_NODES = 286
KALOS_NODES = 302
"""Nodes of 8 A100 with 80 GB, as the NSDI'24 paper states them (2,288 and 2,416 GPUs)."""


def draft(block: CellBlock, context: ReadContext) -> Mapping[str, Any]:
    state = read_states(block, "state", STATES)
    start, end = block.time("start_time"), block.time("end_time")
    assert start is not None
    assert end is not None
    block.fault(np.isnan(start), Reason.NEVER_STARTED)
    block.fault(np.isnan(end), Reason.NOT_ENDED)
    durations(block, context, block.number("duration"), start, end)
    return {
        "job_id": block.text("job_id"),
        "user": block.text("user"),
        "vc": np.full(len(block), _vc(context.file), dtype=object),
        "name": block.text("type"),
        "gpus": block.number("gpu_num"),
        "cpus": block.number("cpu_num"),
        "state": state,
        "submit_s": block.time("submit_time"),
        "start_s": start,
        "end_s": end,
        "duration_s": end - start,
        "queue_s": block.number("queue"),
    }


def _vc(file: TraceFile) -> str:
    name = file.content_name.lower()
    return next((cluster for cluster in ("seren", "kalos") if cluster in name), "default")


def _cluster(file: TraceFile) -> ClusterSpec | None:
    nodes = {"seren": SEREN_NODES, "kalos": KALOS_NODES}.get(_vc(file))
    return None if nodes is None else ClusterSpec({_vc(file): (NodeGroup(nodes, 8, "A100", 81920.0),)})


LOADER = TableLoader(CONTRACT, draft, find_cluster=_cluster)
