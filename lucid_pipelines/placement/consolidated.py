"""Consolidated placement: as few nodes as possible, the fullest node that still fits.

Source: Lucid's resource orchestrator (section 9 of the project's digest), with nodes of any size and GPU type.

* A job that fits on one node gets exactly one: the node with the fewest free GPUs that still fits, the first
  in the list on ties.
* A larger job gets completely free nodes of one GPU type; what is left over goes to the next node in
  descending order of free GPUs.
* Inside a node the lowest-numbered free GPUs are taken.
"""

from __future__ import annotations

from lucid_pipelines.domain.free_gpus import FreeGpus, NodeGroupLayout, Slots, lowest_bits


def find_slots(free: FreeGpus, gpus: int, gpu_type: str | None = None) -> Slots | None:
    """Choose GPUs for a job without taking them; ``None`` when it cannot be placed now.

    Args:
        gpus: how many, at least 1.
        gpu_type: the only acceptable type; ``None`` = any, but one type for the whole job.
    """
    if free.free_gpus < gpus:
        return None
    groups = free.layout.groups
    if len(groups) == 1:
        if gpu_type is not None and groups[0].gpu_type != gpu_type:
            return None
        if gpus <= groups[0].largest_node:
            counts = free.by_count[0]
            for count in range(gpus, len(counts)):
                if nodes := counts[count]:
                    return _first_of(free, nodes, gpus)
            return None
        return _over_nodes(free, 0, gpus)
    wanted = [i for i, group in enumerate(groups) if gpu_type is None or group.gpu_type == gpu_type]
    single = [free.by_count[i] for i in wanted if groups[i].largest_node >= gpus]
    found = _on_one_node(free, gpus, single) if single else None
    if found is not None:
        return found
    for i in wanted:
        if groups[i].largest_node < gpus <= free.free_in_group(i):
            found = _over_nodes(free, i, gpus)
            if found is not None:
                return found
    return None


def can_ever_fit(free: FreeGpus, gpus: int, gpu_type: str | None = None, avoid: tuple[str, ...] = ()) -> bool:
    """Whether the job could be placed, off the nodes to ``avoid``, if every GPU of the virtual cluster were free."""
    key = (gpus, gpu_type, avoid)
    known = free.layout.fits_empty.get(key)
    if known is None:
        known = find_slots(FreeGpus(free.layout).without(avoid), gpus, gpu_type) is not None
        free.layout.fits_empty[key] = known
    return known


def _first_of(free: FreeGpus, nodes: int, gpus: int) -> Slots:
    position = (nodes & -nodes).bit_length() - 1
    return ((position, lowest_bits(free.masks[position], gpus)),)


def _on_one_node(free: FreeGpus, gpus: int, groups: list[list[int]]) -> Slots | None:
    for count in range(gpus, max(map(len, groups))):
        nodes = 0
        for counts in groups:
            if count < len(counts):
                nodes |= counts[count]
        if nodes:
            return _first_of(free, nodes, gpus)
    return None


def _over_nodes(free: FreeGpus, index: int, gpus: int) -> Slots | None:
    group = free.layout.groups[index]
    counts = free.by_count[index]
    if not group.is_uniform:
        return _over_unequal_nodes(free, index, gpus)
    full_nodes, rest = divmod(gpus, group.largest_node)
    whole = counts[group.largest_node]
    if whole.bit_count() < full_nodes:
        return None
    chosen: list[tuple[int, int]] = []
    for _ in range(full_nodes):
        bit = whole & -whole
        whole ^= bit
        position = bit.bit_length() - 1
        chosen.append((position, free.masks[position]))
    if rest:
        nodes = whole or _fullest_below(group, counts, rest)
        if not nodes:
            return None
        position = (nodes & -nodes).bit_length() - 1
        chosen.append((position, lowest_bits(free.masks[position], rest)))
    return tuple(chosen)


def _fullest_below(group: NodeGroupLayout, counts: list[int], at_least: int) -> int:
    """The nodes, not completely free, that have the most free GPUs, if that is enough."""
    for count in range(group.largest_node - 1, at_least - 1, -1):
        if counts[count]:
            return counts[count]
    return 0


def _over_unequal_nodes(free: FreeGpus, index: int, gpus: int) -> Slots | None:
    layout = free.layout
    free_counts = [
        (-mask.bit_count(), position)
        for position, mask in enumerate(free.masks)
        if mask and layout.group_of[position] == index
    ]
    chosen: list[tuple[int, int]] = []
    rest = gpus
    for negative_count, position in sorted(free_counts):
        mask = free.masks[position]
        if rest >= -negative_count and mask == layout.capacity[position]:
            chosen.append((position, mask))
            rest += negative_count
        elif rest < -negative_count:
            chosen.append((position, lowest_bits(mask, rest)))
            rest = 0
        if rest == 0:
            return tuple(chosen)
    return None
