"""Which nodes profile in a replay, where the cluster does not say."""

from __future__ import annotations

from collections.abc import Sequence

from lucid_pipelines.domain.cluster import Node
from lucid_pipelines.domain.free_gpus import FreeGpus
from lucid_pipelines.domain.trace import TraceJob
from lucid_pipelines.placement import can_ever_fit, with_pool
from lucid_pipelines.policies import ProfilingRules


def with_profiler(nodes: Sequence[Node], jobs: Sequence[TraceJob], rules: ProfilingRules) -> tuple[Node, ...] | None:
    """The nodes with some of them in the profiler's virtual cluster; ``None`` when none can be spared.

    See ``with_pool``; every job of the trace still fits its own virtual cluster. At most a quarter of all nodes.
    """
    if rules.profiler_vc is None:
        return None
    wanted = None if rules.profiler_nodes is None else min(rules.profiler_nodes, len(nodes) // 4)
    demands: dict[str, set[tuple[int, str | None]]] = {}
    for job in jobs:
        demands.setdefault(job.vc, set()).add((int(job.gpus), job.gpu_type))

    def all_fit(vc: str, rest: Sequence[Node]) -> bool:
        free = FreeGpus.of_nodes(rest)
        return all(can_ever_fit(free, gpus, gpu_type) for gpus, gpu_type in demands.get(vc, set()))

    return with_pool(nodes, rules.profiler_vc, wanted, all_fit)
