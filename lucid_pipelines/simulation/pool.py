"""Which nodes profile, where the cluster does not say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lucid_pipelines.domain.cluster import Node
from lucid_pipelines.domain.free_gpus import FreeGpus
from lucid_pipelines.domain.trace import TraceJob
from lucid_pipelines.placement import can_ever_fit
from lucid_pipelines.policies import ProfilingRules


def with_profiler(nodes: Sequence[Node], jobs: Sequence[TraceJob], rules: ProfilingRules) -> tuple[Node, ...] | None:
    """The nodes with some of them in the profiler's virtual cluster; ``None`` when none can be spared.

    A virtual cluster of that name is used as it is. Otherwise nodes are taken one by one from the virtual
    cluster that has the most, as long as every job of the trace still fits its own. At most a quarter of all.
    """
    name = rules.profiler_vc
    if name is None:
        return None
    if any(node.vc == name for node in nodes):
        return tuple(nodes)
    wanted = rules.profiler_nodes if rules.profiler_nodes is not None else max(1, round(len(nodes) / 50))
    by_vc: dict[str, list[Node]] = {}
    for node in nodes:
        by_vc.setdefault(node.vc, []).append(node)
    demands: dict[str, set[tuple[int, str | None]]] = {}
    for job in jobs:
        demands.setdefault(job.vc, set()).add((int(job.gpus), job.gpu_type))
    taken: set[str] = set()
    for _ in range(min(wanted, len(nodes) // 4)):
        for vc in sorted(by_vc, key=lambda vc: (-len(by_vc[vc]), -by_vc[vc][-1].gpu_count)):
            rest = by_vc[vc][:-1]
            if rest and _all_fit(rest, demands.get(vc, set())):
                taken.add(by_vc[vc].pop().name)
                break
    if not taken:
        return None
    return tuple(replace(node, vc=name) if node.name in taken else node for node in nodes)


def _all_fit(nodes: Sequence[Node], demands: set[tuple[int, str | None]]) -> bool:
    free = FreeGpus.of_nodes(nodes)
    return all(can_ever_fit(free, gpus, gpu_type) for gpus, gpu_type in demands)
