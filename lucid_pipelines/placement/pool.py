"""Which nodes profile, where the cluster does not say."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from lucid_pipelines.domain.cluster import Node

MaySpare = Callable[[str, Sequence[Node]], bool]
"""Whether a virtual cluster can do with the nodes that would be left to it."""
_NODES_A_POOL_NODE = 50
_MOST_OF_A_VC_FRAC = 0.25


def default_pool_nodes(nodes: Sequence[Node]) -> int:
    """How many nodes profile (Cprof) where neither site nor cluster says.

    One of fifty. A smaller cluster spares one if it has several virtual clusters, since jobs of the small ones then
    find their feedback elsewhere; in one that is all alone a pool only takes away (``benchmarks/small_pools.py``).
    None where no virtual cluster could give a node without losing more than a quarter of its GPUs.
    """
    gpus_of: dict[str, list[int]] = {}
    for node in nodes:
        gpus_of.setdefault(node.vc, []).append(node.gpu_count)
    if len(nodes) < _NODES_A_POOL_NODE and len(gpus_of) < 2:
        return 0
    if all(min(gpus) > _MOST_OF_A_VC_FRAC * sum(gpus) for gpus in gpus_of.values()):
        return 0
    return max(1, round(len(nodes) / _NODES_A_POOL_NODE))


def with_pool(nodes: Sequence[Node], name: str, wanted: int | None, may_spare: MaySpare) -> tuple[Node, ...] | None:
    """The nodes with some of them in the virtual cluster ``name``; ``None`` when none can be spared.

    A virtual cluster of that name is used as it is. Otherwise nodes are taken one by one from the virtual cluster
    that has the most, the last of its list first; where nobody can spare its last one, any other that can be spared.

    Args:
        wanted: how many; ``None`` = ``default_pool_nodes``, and no virtual cluster gives more than a quarter of its
            GPUs.
    """
    if any(node.vc == name for node in nodes):
        return tuple(nodes)
    by_vc: dict[str, list[Node]] = {}
    for node in nodes:
        by_vc.setdefault(node.vc, []).append(node)
    if wanted is None:
        wanted, may_spare = default_pool_nodes(nodes), _at_most_a_quarter(by_vc, may_spare)
    taken: set[str] = set()
    for _ in range(wanted):
        spared = _spared(by_vc, may_spare)
        if spared is None:
            break
        vc, at = spared
        taken.add(by_vc[vc].pop(at).name)
    if not taken:
        return None
    return tuple(replace(node, vc=name) if node.name in taken else node for node in nodes)


def _at_most_a_quarter(by_vc: Mapping[str, Sequence[Node]], may_spare: MaySpare) -> MaySpare:
    gpus = {vc: sum([node.gpu_count for node in nodes]) for vc, nodes in by_vc.items()}

    def may(vc: str, rest: Sequence[Node]) -> bool:
        left = sum([node.gpu_count for node in rest])
        return gpus[vc] - left <= _MOST_OF_A_VC_FRAC * gpus[vc] and may_spare(vc, rest)

    return may


def _spared(by_vc: Mapping[str, Sequence[Node]], may_spare: MaySpare) -> tuple[str, int] | None:
    """The virtual cluster that gives a node, and the node's place in its list."""
    in_order = sorted(by_vc, key=lambda vc: (-len(by_vc[vc]), -by_vc[vc][-1].gpu_count))
    for last_only in (True, False):
        for vc in in_order:
            nodes = by_vc[vc]
            places = range(len(nodes) - 1, -1, -1)
            for at in places[:1] if last_only else places[1:]:
                rest = [*nodes[:at], *nodes[at + 1 :]]
                if rest and may_spare(vc, rest):
                    return vc, at
    return None
