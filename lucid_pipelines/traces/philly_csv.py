"""Philly (Microsoft, ATC'19) as a flat table: one row per job, without users or states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lucid_pipelines.traces.cells import CellBlock
from lucid_pipelines.traces.clusters import cluster_from_nodes
from lucid_pipelines.traces.contract import Column, Contract, Kind
from lucid_pipelines.traces.helios_venus import STATES
from lucid_pipelines.traces.table import ReadContext, TableLoader, numbered_ids, read_states

CONTRACT = Contract(
    format="philly_csv",
    title="Philly, flat CSV",
    source="github.com/siasosp23/artifacts, philly.csv; of github.com/msr-fiddle/philly-traces (CC-BY-4.0)",
    columns=(
        Column("timestamp", Kind.TIME, "submission"),
        Column("duration", Kind.NUMBER, "run time, all attempts", "s", aliases=("run_time",)),
        Column("num_gpus", Kind.NUMBER, "GPUs of the whole job", "GPUs", aliases=("gpu_num",)),
        Column("gpu_time", Kind.NUMBER, "duration x num_gpus", "GPU s", required=False),
        Column("cluster", Kind.TEXT, "hashed virtual cluster", required=False, aliases=("vc",)),
        Column("user", Kind.TEXT, "hashed or numbered user", required=False),
        Column("state", Kind.TEXT, "Pass, Killed, Failed", required=False, aliases=("new_status", "status")),
    ),
    clock="local time of the cluster (US Pacific) without an offset",
    invariants=("gpu_time = duration x num_gpus", "rows are ordered by submission"),
    oddities=(
        "no job id: ids are made from the row number (philly-2 is the first row)",
        "no user, name or state: every job is taken as completed, and recurrence cannot be seen",
        "daylight saving ends on 2017-11-05: the hour from 01:00 occurs twice on the local clock",
        "a few rows are equal in all columns; without an id they cannot be told from true repetitions and stay",
        "the published node list names 11 of the 13 virtual clusters of the file",
    ),
    excludes=("submit_time", "job_id"),
)


def draft(block: CellBlock, context: ReadContext) -> Mapping[str, Any]:
    del context
    return {
        "job_id": numbered_ids(block, "philly"),
        "user": block.text("user"),
        "vc": block.text("cluster"),
        "gpus": block.number("num_gpus"),
        "state": read_states(block, "state", STATES),
        "submit_s": block.time("timestamp"),
        "duration_s": block.number("duration"),
    }


LOADER = TableLoader(
    CONTRACT, draft, find_cluster=lambda file: cluster_from_nodes(file, "philly_vc_nodes.csv", "philly_vc.csv")
)
