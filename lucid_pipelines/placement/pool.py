"""Which nodes profile, where the cluster does not say."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from lucid_pipelines.domain.cluster import Node


def with_pool(
    nodes: Sequence[Node], name: str, wanted: int, may_spare: Callable[[str, Sequence[Node]], bool]
) -> tuple[Node, ...] | None:
    """The nodes with some of them in the virtual cluster ``name``; ``None`` when none can be spared.

    A virtual cluster of that name is used as it is. Otherwise nodes are taken one by one from the virtual cluster
    that has the most, the last of its list first; where nobody can spare its last one, any other that can be spared.

    Args:
        wanted: how many.
        may_spare: whether a virtual cluster can do with the nodes that would be left to it.
    """
    if any(node.vc == name for node in nodes):
        return tuple(nodes)
    by_vc: dict[str, list[Node]] = {}
    for node in nodes:
        by_vc.setdefault(node.vc, []).append(node)
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


def _spared(
    by_vc: Mapping[str, Sequence[Node]], may_spare: Callable[[str, Sequence[Node]], bool]
) -> tuple[str, int] | None:
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
