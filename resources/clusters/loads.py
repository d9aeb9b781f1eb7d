"""What virtual GPUs are asked for: the sum of what their running jobs declare."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from lucid_pipelines.domain.cluster import GpuSample
from lucid_pipelines.resources.clusters import wrapper
from lucid_pipelines.resources.clusters.layout import SPEC_BYTES
from lucid_pipelines.resources.clusters.nodes import LocalNode

Load = tuple[float | None, float | None, float | None]


@dataclass(frozen=True, slots=True)
class GpuLoad:
    """One job's load on one virtual GPU: utilisation and memory utilisation in percent, memory in MiB."""

    node: str
    gpu_index: int
    load: Load


def attempt_load(folder: Path) -> list[GpuLoad]:
    """What one running attempt asks of its virtual GPUs now. Raises ``OSError`` or ``ValueError``."""
    spec: dict[str, Any] = wrapper.read_json(str(folder / wrapper.SPEC), SPEC_BYTES)
    readings = wrapper.LoadReader(str(folder), spec["gpus"], spec["declared_load"]).latest()
    return [
        GpuLoad(gpu["node"], gpu["index"], reading[1:]) for gpu, reading in zip(spec["gpus"], readings, strict=True)
    ]


def virtual_samples(nodes: Iterable[LocalNode], loads: Sequence[GpuLoad], now: datetime) -> list[GpuSample]:
    """One sample a virtual GPU. Idle is 0; one unknown part makes the sum unknown (R-25)."""
    by_gpu: dict[tuple[str, int], list[Load]] = {}
    for load in loads:
        by_gpu.setdefault((load.node, load.gpu_index), []).append(load.load)
    return [
        _sample(node.name, gpu.index, gpu.memory_mib, by_gpu, now)
        for node in nodes
        for gpu in node.gpus
        if gpu.is_virtual
    ]


def _sample(
    node: str, index: int, memory_mib: float | None, by_gpu: Mapping[tuple[str, int], list[Load]], now: datetime
) -> GpuSample:
    loads = by_gpu.get((node, index), [])
    return GpuSample(
        node=node,
        gpu_index=index,
        sampled_at=now,
        source="declared",
        gpu_util_pct=_total((load[0] for load in loads), 100.0),
        memory_util_pct=_total((load[1] for load in loads), 100.0),
        memory_used_mib=_total((load[2] for load in loads), memory_mib),
        process_count=len(loads),
    )


def _total(values: Iterable[float | None], limit: float | None) -> float | None:
    total = 0.0
    for value in values:
        if value is None:
            return None
        total += value
    return total if limit is None else min(total, limit)
