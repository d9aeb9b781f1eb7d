"""The input of the Lucid artifact's simulator: ``cluster_full_log.csv`` with a workload for every job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from lucid_pipelines.traces.cells import CellBlock
from lucid_pipelines.traces.clusters import cluster_from_nodes
from lucid_pipelines.traces.contract import Column, Contract, Kind
from lucid_pipelines.traces.helios import STATES
from lucid_pipelines.traces.table import ReadContext, TableLoader, read_states

CONTRACT = Contract(
    format="lucid_artifact",
    title="Lucid artifact cluster_full_log.csv",
    source="github.com/S-Lab-System-Group/Lucid (S-Lab License 1.0, non-commercial); Hu et al., ASPLOS'23",
    columns=(
        Column("job_id", Kind.TEXT, "id, the key of the prediction files"),
        Column("user", Kind.TEXT, "hashed user"),
        Column("vc", Kind.TEXT, "virtual cluster, the key of vc_config.csv"),
        Column("jobname", Kind.TEXT, "job name", required=False, aliases=("name",)),
        Column("gpu_num", Kind.NUMBER, "GPUs of the whole job", "GPUs"),
        Column("cpu_num", Kind.NUMBER, "CPU cores", "cores", required=False),
        Column("state", Kind.TEXT, "final state, as in Helios"),
        Column("submit_time", Kind.TIME, "submission"),
        Column("duration", Kind.NUMBER, "run time", "s"),
        Column("model", Kind.TEXT, "workload: model"),
        Column("dataset", Kind.TEXT, "workload: data set"),
        Column("batchsize", Kind.NUMBER, "workload: samples per GPU and step", "samples"),
        Column("amp", Kind.FLAG, "workload: mixed precision"),
        Column("gpu_util", Kind.NUMBER, "GPU utilisation alone", "%", required=False),
        Column("gmem_util", Kind.NUMBER, "memory utilisation alone", "%", required=False),
        Column("gmem", Kind.NUMBER, "memory footprint alone", "MiB", required=False),
    ),
    clock="local time of the cluster without an offset; the artifact counts seconds from the file's first row",
    invariants=("job_id is unique", "duration is a whole number of at least 1 s", "job_id stands left of duration"),
    oddities=(
        "the workload is not recorded but was assigned by the authors",
        (
            "the first row must be of 2020-04-01 00:00:00: the artifact takes its time as zero and starts its test "
            "window at 13,219,200 s; load it with start='2020-09-01' for the same window"
        ),
        "sorting by submission is not stable in the artifact, so equal seconds may change order there",
        "jobs of a VC that vc_config.csv does not name are dropped by the artifact without a count",
    ),
)


def draft(block: CellBlock, context: ReadContext) -> Mapping[str, Any]:
    del context
    return {
        "job_id": block.text("job_id"),
        "user": block.text("user"),
        "vc": block.text("vc"),
        "name": block.text("jobname"),
        "gpus": block.number("gpu_num"),
        "cpus": block.number("cpu_num"),
        "state": read_states(block, "state", STATES),
        "submit_s": block.time("submit_time"),
        "duration_s": block.number("duration"),
        "model": block.text("model"),
        "dataset": block.text("dataset"),
        "batch_size": block.number("batchsize"),
        "amp": block.flag("amp"),
        "gpu_util_pct": block.number("gpu_util"),
        "memory_util_pct": block.number("gmem_util"),
        "memory_peak_mib": block.number("gmem"),
        "workload_source": np.full(len(block), "recorded", dtype=object),
    }


LOADER = TableLoader(CONTRACT, draft, find_cluster=lambda file: cluster_from_nodes(file, "vc_config.csv"))
