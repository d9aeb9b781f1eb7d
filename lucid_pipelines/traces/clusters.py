"""Clusters for traces: read from files beside the trace, or fitted to its load."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.domain.trace import MAX_GPUS, ClusterSpec, NodeGroup
from lucid_pipelines.traces.files import TraceFile
from lucid_pipelines.traces.frames import by_group, column, floats, parsed_numbers

GPUS_PER_NODE = 8
"""Nodes of Helios, Philly (as the Lucid authors model it), Venus and Acme have eight GPUs."""


def fit_cluster(
    frame: pd.DataFrame,
    load_frac: float = 0.7,
    gpus_per_node: int = GPUS_PER_NODE,
    *,
    gpu_type: str | None = None,
    gpu_memory_mib: float | None = None,
    span_s: float | None = None,
) -> ClusterSpec:
    """A cluster on which the trace would occupy about ``load_frac`` of each virtual cluster's GPUs.

    Each virtual cluster gets nodes for ``GPU-seconds / (span x load_frac)``, at least as many as its largest
    job needs. Without ``span_s`` the span is from the first submission to the last.

    Raises:
        InputError: the trace has no jobs, the load is not within (0, 1], or no cluster file may be that large.
    """
    if not 0 < load_frac <= 1:
        raise InputError(f"load_frac must be above 0 and at most 1; got {load_frac}")
    if frame.empty:
        raise InputError("a cluster cannot be fitted to a trace without jobs")
    submit = floats(frame, "submit_s")
    span_s = max(1.0, float(submit.max() - submit.min()) if span_s is None else span_s)
    gpus, vc = column(frame, "gpus"), column(frame, "vc")
    work = by_group(gpus * column(frame, "duration_s"), vc, "sum")
    largest = by_group(gpus, vc, "max")
    nodes = {
        str(name): max(
            math.ceil(float(most) / gpus_per_node),
            math.ceil(float(gpu_s) / (span_s * load_frac * gpus_per_node)),
            1,
        )
        for name, gpu_s, most in zip(work.index, work.to_numpy(), largest.to_numpy(), strict=True)
    }
    gpus_all = sum(nodes.values()) * gpus_per_node
    if gpus_all > MAX_GPUS:
        raise InputError(
            f"a load of {load_frac} over {span_s:,.0f} s asks for {gpus_all:,} GPUs, and a cluster has at most "
            f"{MAX_GPUS:,}; ask for a higher load"
        )
    return ClusterSpec(
        {name: (NodeGroup(count, gpus_per_node, gpu_type, gpu_memory_mib),) for name, count in nodes.items()}
    )


def cover_jobs(spec: ClusterSpec, frame: pd.DataFrame) -> tuple[ClusterSpec, tuple[str, ...]]:
    """Add virtual clusters that the trace names and the cluster lacks, just large enough for their jobs.

    Returns:
        The cluster, and the names that were added.
    """
    largest = by_group(column(frame, "gpus"), column(frame, "vc"), "max")
    added = {
        str(vc): (NodeGroup(max(1, math.ceil(float(gpus) / GPUS_PER_NODE)), GPUS_PER_NODE),)
        for vc, gpus in zip(largest.index, largest.to_numpy(), strict=True)
        if str(vc) not in spec.virtual_clusters
    }
    return ClusterSpec({**spec.virtual_clusters, **added}), tuple(added)


def cluster_yaml(spec: ClusterSpec) -> str:
    """The text of a cluster file that ``ClusterSpec.from_yaml`` reads back."""
    document = {"virtual_clusters": {vc: _groups(groups) for vc, groups in spec.virtual_clusters.items()}}
    return yaml.safe_dump(document, sort_keys=False)


def cluster_from_nodes(file: TraceFile, *names: str) -> ClusterSpec | None:
    """Read a two-column table beside the trace: virtual cluster, number of eight-GPU nodes."""
    path = file.sibling(*names)
    if path is None:
        return None
    table = _read(path)
    if table.shape[1] != 2:
        raise InputError(f"a table of nodes has two columns (VC, nodes); got {table.shape[1]}: {path.name}")
    counts = _whole_numbers(table.iloc[:, 1], path)
    return _uniform(dict(zip(table.iloc[:, 0].astype(str), counts, strict=True)), path)


def cluster_from_daily_gpus(file: TraceFile) -> ClusterSpec | None:
    """Read ``cluster_gpu_number.csv`` of Helios (GPUs per day and VC): the largest size of each VC."""
    path = file.sibling("cluster_gpu_number.csv")
    if path is None:
        return None
    table = _read(path).drop(columns=["date", "total"], errors="ignore")
    sizes = {
        str(vc): int(_whole_numbers(column(table, vc), path).max()) // GPUS_PER_NODE
        for vc in table.columns
        if len(table)
    }
    return _uniform(sizes, path)


def _uniform(nodes: Mapping[str, int], path: Path) -> ClusterSpec:
    kept = {vc: int(count) for vc, count in nodes.items() if count > 0}
    if not kept:
        raise InputError(f"the table names no virtual cluster with nodes: {path.name}")
    return ClusterSpec.uniform(kept, GPUS_PER_NODE)


def _read(path: Path) -> pd.DataFrame:
    try:
        return pd.read_csv(path)
    except (ValueError, OSError, EOFError) as error:
        raise InputError(f"the table of cluster sizes cannot be read ({error}): {path.name}") from error


def _whole_numbers(values: pd.Series, path: Path) -> np.ndarray:
    numbers = parsed_numbers(values)
    if np.isnan(numbers).any() or (numbers < 0).any() or (numbers != np.floor(numbers)).any():
        raise InputError(f"column {values.name!r} must hold whole numbers of at least 0: {path.name}")
    return numbers.astype(np.int64)


def _groups(groups: tuple[NodeGroup, ...]) -> object:
    rows = [
        {
            key: value
            for key, value in (
                ("nodes", group.nodes),
                ("gpus_per_node", group.gpus_per_node),
                ("gpu_type", group.gpu_type),
                ("gpu_memory_mib", group.gpu_memory_mib),
                ("cpus_per_node", group.cpus_per_node),
            )
            if value is not None
        }
        for group in groups
    ]
    return rows[0] if len(rows) == 1 else rows
