"""Which nodes profile, where the cluster does not say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from lucid_pipelines.domain.cluster import Node


def with_pool(
    nodes: Sequence[Node], name: str, wanted: int, may_spare: Callable[[str, Sequence[Node]], bool]
) -> tuple[Node, ...] | None:
    """The nodes with some of them in the virtual cluster ``name``; ``None`` when none can be spared.

    A virtual cluster of that name is used as it is. Otherwise nodes are taken one by one from the virtual cluster
    that has the most, the last of its list first.

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
        for vc in sorted(by_vc, key=lambda vc: (-len(by_vc[vc]), -by_vc[vc][-1].gpu_count)):
            rest = by_vc[vc][:-1]
            if rest and may_spare(vc, rest):
                taken.add(by_vc[vc].pop().name)
                break
    if not taken:
        return None
    return tuple(replace(node, vc=name) if node.name in taken else node for node in nodes)
