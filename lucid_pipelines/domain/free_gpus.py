"""Which GPUs of a virtual cluster are free: bit sets with constant-time search and cheap copies.

A node's GPUs are one integer (bit = GPU index). Nodes with the same number of free GPUs are one integer too
(bit = position of the node), so "the fullest node that still fits, the first in the list on ties" costs a
handful of operations whatever the size of the cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from lucid_pipelines.domain.cluster import Node, NodeShare, Placement
from lucid_pipelines.domain.errors import StateError

Slots = tuple[tuple[int, int], ...]
"""A choice of GPUs: (position of the node, mask of its GPUs), in rank order."""


def gpu_count_of(slots: Slots) -> int:
    """How many GPUs a choice has."""
    if len(slots) == 1:
        return slots[0][1].bit_count()
    return sum([mask.bit_count() for _, mask in slots])


@lru_cache(maxsize=65_536)
def lowest_bits(mask: int, count: int) -> int:
    """The ``count`` lowest set bits of ``mask``."""
    chosen = 0
    for _ in range(count):
        bit = mask & -mask
        chosen |= bit
        mask ^= bit
    return chosen


@lru_cache(maxsize=65_536)
def bit_indices(mask: int) -> tuple[int, ...]:
    """The positions of the set bits, ascending."""
    return tuple(i for i in range(mask.bit_length()) if mask >> i & 1)


class NodeLayout:
    """The nodes of one virtual cluster, in list order; never changes.

    Nodes of one GPU type form a group; a job never spans two groups.
    """

    __slots__ = (
        "_on_one_node",
        "_shares",
        "_slots_of",
        "capacity",
        "fits_empty",
        "gpus",
        "group_of",
        "groups",
        "index",
        "names",
        "nodes",
    )

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes: tuple[Node, ...] = tuple(nodes)
        self.names: tuple[str, ...] = tuple(node.name for node in nodes)
        self.index: dict[str, int] = {name: i for i, name in enumerate(self.names)}
        self.capacity: tuple[int, ...] = tuple(sum(1 << gpu.index for gpu in node.gpus) for node in nodes)
        types = [node.gpus[0].gpu_type if node.gpus else None for node in nodes]
        order: dict[str | None, int] = {}
        self.group_of: tuple[int, ...] = tuple(order.setdefault(kind, len(order)) for kind in types)
        self.groups: tuple[NodeGroupLayout, ...] = tuple(
            NodeGroupLayout(kind, [node for node, its in zip(nodes, types, strict=True) if its == kind])
            for kind in order
        )
        self.gpus: int = sum(group.gpus for group in self.groups)
        self.fits_empty: dict[tuple[int, str | None, tuple[str, ...]], bool] = {}
        self._shares: dict[tuple[int, int], NodeShare] = {}
        self._on_one_node: dict[tuple[int, int], Placement] = {}
        self._slots_of: dict[int, tuple[Placement, Slots]] = {}

    def share(self, position: int, mask: int) -> NodeShare:
        key = (position, mask)
        share = self._shares.get(key)
        if share is None:
            share = self._shares[key] = NodeShare(self.names[position], bit_indices(mask))
        return share

    def placement(self, slots: Slots) -> Placement:
        if len(slots) != 1:
            return Placement(tuple([self.share(position, mask) for position, mask in slots]))
        placement = self._on_one_node.get(slots[0])
        if placement is None:
            placement = self._on_one_node[slots[0]] = Placement((self.share(*slots[0]),))
            self._slots_of[id(placement)] = (placement, slots)
        return placement

    def slots(self, placement: Placement) -> Slots:
        """The inverse of ``placement``; shares on nodes that are not in this layout are left out."""
        known = self._slots_of.get(id(placement))
        if known is not None and known[0] is placement:
            return known[1]
        return tuple(
            (self.index[share.node], sum(1 << i for i in share.gpu_indices))
            for share in placement.shares
            if share.node in self.index
        )


class NodeGroupLayout:
    """Facts of the nodes of one GPU type."""

    __slots__ = ("gpu_type", "gpus", "is_uniform", "largest_node", "memory_mib")

    def __init__(self, gpu_type: str | None, nodes: Sequence[Node]) -> None:
        sizes = [node.gpu_count for node in nodes]
        memories = [gpu.memory_mib for node in nodes for gpu in node.gpus]
        self.gpu_type = gpu_type
        self.gpus: int = sum(sizes)
        self.largest_node: int = max(sizes, default=0)
        self.is_uniform: bool = len(set(sizes)) <= 1
        # The smallest memory of the group: what is safe on any of its GPUs. Unknown if any is unknown.
        known = [memory for memory in memories if memory is not None]
        self.memory_mib: float | None = min(known) if known and len(known) == len(memories) else None


class FreeGpus:
    """Free GPUs of one virtual cluster. Readers copy it to try something."""

    __slots__ = ("by_count", "free_gpus", "layout", "masks")

    def __init__(self, layout: NodeLayout) -> None:
        """All GPUs of ``layout`` are free."""
        self.layout = layout
        self.masks: list[int] = list(layout.capacity)
        self.by_count: list[list[int]] = [[0] * (group.largest_node + 1) for group in layout.groups]
        self.free_gpus: int = layout.gpus
        for position, mask in enumerate(self.masks):
            self.by_count[layout.group_of[position]][mask.bit_count()] |= 1 << position

    @classmethod
    def of_nodes(cls, nodes: Iterable[Node]) -> FreeGpus:
        return cls(NodeLayout(tuple(nodes)))

    def copy(self) -> FreeGpus:
        other = FreeGpus.__new__(FreeGpus)
        other.layout = self.layout
        other.masks = self.masks.copy()
        other.by_count = [counts.copy() for counts in self.by_count]
        other.free_gpus = self.free_gpus
        return other

    def free_in_group(self, group: int) -> int:
        """Free GPUs of one group of nodes."""
        return sum(count * nodes.bit_count() for count, nodes in enumerate(self.by_count[group]))

    def without(self, names: Iterable[str]) -> FreeGpus:
        """A copy in which nothing is free on the nodes of these names."""
        other = self.copy()
        for name in names:
            position = self.layout.index.get(name)
            if position is not None:
                other._set(position, other.masks[position], 0)
        return other

    def take(self, slots: Slots) -> None:
        """Mark GPUs as used.

        Raises:
            StateError: one of them is not free.
        """
        masks = self.masks
        for position, mask in slots:
            before = masks[position]
            if before & mask != mask:
                raise StateError(
                    f"only free GPUs can be given; {self.layout.names[position]} has "
                    f"{list(bit_indices(before))} free, not {list(bit_indices(mask))}"
                )
            # As ``_set``: a call takes as long as what it does, and every start and end of a replay is one.
            after = masks[position] = before ^ mask
            counts, bit = self.by_count[self.layout.group_of[position]], 1 << position
            counts[before.bit_count()] ^= bit
            counts[after.bit_count()] ^= bit
            self.free_gpus -= mask.bit_count()

    def release(self, slots: Slots) -> None:
        """Mark GPUs as free again.

        Raises:
            StateError: one of them was free already, or its node does not have it.
        """
        masks, layout = self.masks, self.layout
        for position, mask in slots:
            before = masks[position]
            if before & mask or mask & ~layout.capacity[position]:
                raise StateError(
                    f"only used GPUs can be released; {layout.names[position]} has "
                    f"{list(bit_indices(before))} free, got {list(bit_indices(mask))}"
                )
            after = masks[position] = before | mask
            counts, bit = self.by_count[layout.group_of[position]], 1 << position
            counts[before.bit_count()] ^= bit
            counts[after.bit_count()] ^= bit
            self.free_gpus += mask.bit_count()

    def _set(self, position: int, before: int, after: int) -> None:
        """Replace what is free on one node."""
        count_before, count_after = before.bit_count(), after.bit_count()
        counts, bit = self.by_count[self.layout.group_of[position]], 1 << position
        counts[count_before] ^= bit
        counts[count_after] ^= bit
        self.masks[position] = after
        self.free_gpus += count_after - count_before
