"""Alibaba openb (GPU v2023, ATC'23): pods that share GPUs, ``openb_pod_list_*.csv``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.domain.trace import ClusterSpec, NodeGroup, TraceState
from lucid_pipelines.traces.cells import CellBlock
from lucid_pipelines.traces.contract import Column, Contract, Kind, Reason
from lucid_pipelines.traces.files import TraceFile
from lucid_pipelines.traces.table import ReadContext, TableLoader, read_states

STATES: Mapping[str, TraceState | Reason] = {
    "SUCCEEDED": TraceState.COMPLETED,
    "FAILED": TraceState.FAILED,
    "RUNNING": TraceState.CANCELLED,
    "PENDING": Reason.NEVER_STARTED,
}
MILLI = 1000.0

CONTRACT = Contract(
    format="alibaba_openb",
    title="Alibaba openb pod list",
    source="github.com/hkust-adsl/kubernetes-scheduler-simulator (Apache-2.0), alibaba/clusterdata v2023; ATC'23",
    columns=(
        Column("name", Kind.TEXT, "pod"),
        Column("cpu_milli", Kind.NUMBER, "CPU request", "1/1000 core", required=False),
        Column("memory_mib", Kind.NUMBER, "host memory request", "MiB", required=False),
        Column("num_gpu", Kind.NUMBER, "GPUs", "GPUs"),
        Column("gpu_milli", Kind.NUMBER, "share of each GPU", "1/1000 GPU"),
        Column("gpu_spec", Kind.TEXT, "GPU types that the pod accepts, with | between", required=False),
        Column("qos", Kind.TEXT, "service class: LS, BE, Burstable, Guaranteed", required=False),
        Column("pod_phase", Kind.TEXT, "Running, Succeeded, Failed, Pending"),
        Column("creation_time", Kind.NUMBER, "creation", "s from the trace's zero"),
        Column("deletion_time", Kind.NUMBER, "deletion", "s from the trace's zero", nullable=True),
        Column("scheduled_time", Kind.NUMBER, "placement", "s from the trace's zero", nullable=True),
    ),
    clock="seconds from the trace's own zero; no calendar",
    invariants=("creation <= scheduled <= deletion", "gpus = num_gpu x gpu_milli / 1000", "name is unique"),
    oddities=(
        "fractional GPUs: 3,078 of the default list's 8,152 pods ask for a part of one GPU",
        "pods in phase Running were deleted while they ran (most are services): taken as cancelled",
        "pods in phase Pending have no scheduled_time; they are set aside as never_started",
        "1,088 pods of the default list ask for no GPU; they are set aside as no_gpu",
        "a few deletions fall on the last second of the trace: those durations are lower bounds",
        "there are no users and no job names",
    ),
)


def draft(block: CellBlock, context: ReadContext) -> Mapping[str, Any]:
    del context
    state = read_states(block, "pod_phase", STATES)
    number, milli = block.number("num_gpu"), block.number("gpu_milli")
    start, end = block.number("scheduled_time"), block.number("deletion_time")
    submit = block.number("creation_time")
    cpu = block.number("cpu_milli")
    assert number is not None
    assert milli is not None
    assert start is not None
    assert end is not None
    assert submit is not None
    assert submit is not None
    block.fault((milli < 0) | (milli > MILLI) | ((number > 1) & (milli < MILLI)), Reason.BAD_GPU_COUNT)
    block.fault(np.isnan(start), Reason.NEVER_STARTED)
    block.fault(np.isnan(end), Reason.NOT_ENDED)
    return {
        "job_id": block.text("name"),
        "gpus": number * milli / MILLI,
        "cpus": None if cpu is None else cpu / MILLI,
        "gpu_type": block.text("gpu_spec"),
        "state": state,
        "submit_s": submit,
        "start_s": start,
        "end_s": end,
        "duration_s": end - start,
        "queue_s": start - submit,
    }


def _cluster(file: TraceFile) -> ClusterSpec | None:
    path = file.sibling("openb_node_list_gpu_node.csv", "openb_node_list_all_node.csv")
    if path is None:
        return None
    try:
        table = pd.read_csv(path).fillna({"model": ""})
        nodes = Counter(zip(table["model"].astype(str), table["gpu"].astype(int), table["cpu_milli"], strict=True))
    except (ValueError, KeyError, OSError, EOFError) as error:
        raise InputError(f"the node list cannot be read ({error}): {path.name}") from error
    groups = tuple(
        NodeGroup(count, gpus, model, _MEMORY_MIB.get(model), max(1, int(cpu_milli // MILLI)))
        for (model, gpus, cpu_milli), count in sorted(nodes.items())
        if gpus > 0
    )
    return ClusterSpec({"default": groups})


_MEMORY_MIB = {"P100": 16384.0, "T4": 15360.0, "V100M16": 16384.0, "V100M32": 32768.0, "A10": 23028.0}
"""Sizes of the types that the trace names openly; G2 and G3 are not disclosed."""

LOADER = TableLoader(CONTRACT, draft, has_calendar=False, find_cluster=_cluster)
