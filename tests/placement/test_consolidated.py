"""Consolidated placement against a plain reading of its rules."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucid_pipelines.domain.cluster import Gpu, Node
from lucid_pipelines.domain.errors import StateError
from lucid_pipelines.domain.free_gpus import FreeGpus
from lucid_pipelines.placement import can_ever_fit, find_slots


def node(name: str, gpus: int, gpu_type: str = "X") -> Node:
    return Node(name, tuple(Gpu(i, gpu_type=gpu_type) for i in range(gpus)))


def free_with(nodes: list[Node], used: list[int]) -> FreeGpus:
    """Free GPUs after the first ``used[i]`` of each node were given away."""
    free = FreeGpus.of_nodes(nodes)
    free.take(tuple((i, (1 << count) - 1) for i, count in enumerate(used) if count))
    return free


def as_names(free: FreeGpus, gpus: int, gpu_type: str | None = None) -> dict[str, tuple[int, ...]] | None:
    slots = find_slots(free, gpus, gpu_type)
    if slots is None:
        return None
    return {share.node: share.gpu_indices for share in free.layout.placement(slots).shares}


def test_a_small_job_goes_to_the_fullest_node_that_fits_and_takes_its_lowest_gpus() -> None:
    free = free_with([node("n0", 8), node("n1", 8), node("n2", 8), node("n3", 8)], [0, 3, 5, 5])
    assert as_names(free, 3) == {"n2": (5, 6, 7)}
    assert as_names(free, 4) == {"n1": (3, 4, 5, 6)}
    assert as_names(free, 8) == {"n0": tuple(range(8))}


def test_a_small_job_never_spans_nodes() -> None:
    assert as_names(free_with([node("n0", 8), node("n1", 8)], [4, 4]), 5) is None


def test_a_large_job_takes_whole_nodes_and_the_most_free_next_one() -> None:
    free = free_with([node("n0", 8), node("n1", 8), node("n2", 8), node("n3", 8)], [2, 0, 4, 0])
    assert as_names(free, 16) == {"n1": tuple(range(8)), "n3": tuple(range(8))}
    assert as_names(free, 18) == {"n1": tuple(range(8)), "n3": tuple(range(8)), "n0": (2, 3)}
    assert as_names(free, 12) == {"n1": tuple(range(8)), "n3": (0, 1, 2, 3)}, "the rest goes to the most free node"
    assert as_names(free, 24) is None


def test_a_job_stays_on_one_gpu_type() -> None:
    free = FreeGpus.of_nodes([node("x0", 4), node("y0", 4, "Y"), node("x1", 4), node("y1", 4, "Y")])
    assert as_names(free, 8) == {"x0": (0, 1, 2, 3), "x1": (0, 1, 2, 3)}
    assert as_names(free, 8, "Y") == {"y0": (0, 1, 2, 3), "y1": (0, 1, 2, 3)}
    assert as_names(free, 12) is None
    assert as_names(free, 1, "Z") is None
    assert can_ever_fit(free, 8)
    assert not can_ever_fit(free, 12)


def test_what_is_not_free_cannot_be_given_and_what_is_free_cannot_be_released() -> None:
    free = free_with([node("n0", 4)], [2])
    with pytest.raises(StateError, match="only free GPUs"):
        free.take(((0, 0b11),))
    with pytest.raises(StateError, match="only used GPUs"):
        free.release(((0, 0b100),))
    with pytest.raises(StateError, match="only used GPUs"):
        free.release(((0, 0b1_0000),))


def plain_rules(free_counts: list[int], size: int, gpus: int) -> list[tuple[int, int]] | None:
    """The rules of uniform nodes, written down once more without bit sets: (node, GPUs) in rank order."""
    if sum(free_counts) < gpus:
        return None
    if gpus <= size:
        fitting = [(count, i) for i, count in enumerate(free_counts) if count >= gpus]
        return [(min(fitting)[1], gpus)] if fitting else None
    order = sorted(range(len(free_counts)), key=lambda i: -free_counts[i])
    whole, rest = divmod(gpus, size)
    if len(order) < whole or any(free_counts[i] != size for i in order[:whole]):
        return None
    chosen = [(i, size) for i in order[:whole]]
    if rest:
        if len(order) == whole or free_counts[order[whole]] < rest:
            return None
        chosen.append((order[whole], rest))
    return chosen


@given(st.integers(1, 8), st.lists(st.integers(0, 8), min_size=1, max_size=7), st.integers(1, 40))
def test_uniform_nodes_follow_the_plain_rules(size: int, used: list[int], gpus: int) -> None:
    used = [min(count, size) for count in used]
    free = free_with([node(f"n{i}", size) for i in range(len(used))], used)
    slots = find_slots(free, gpus)
    expected = plain_rules([size - count for count in used], size, gpus)
    assert (None if slots is None else [(i, mask.bit_count()) for i, mask in slots]) == expected


@given(
    st.lists(st.tuples(st.integers(1, 8), st.sampled_from("XY"), st.integers(0, 8)), min_size=1, max_size=6),
    st.integers(1, 30),
    st.sampled_from([None, "X", "Y"]),
)
def test_any_choice_is_free_of_the_right_size_and_of_one_type(
    spec: list[tuple[int, str, int]], gpus: int, gpu_type: str | None
) -> None:
    nodes = [node(f"n{i}", size, kind) for i, (size, kind, _) in enumerate(spec)]
    free = free_with(nodes, [min(size, used) for size, _, used in spec])
    before = (list(free.masks), free.free_gpus)
    slots = find_slots(free, gpus, gpu_type)
    assert (list(free.masks), free.free_gpus) == before, "searching changes nothing"
    if slots is None:
        return
    assert sum(mask.bit_count() for _, mask in slots) == gpus
    kinds = {nodes[i].gpus[0].gpu_type for i, _ in slots}
    assert len(kinds) == 1
    assert gpu_type is None or kinds == {gpu_type}
    trial = free.copy()
    trial.take(slots)
    assert trial.free_gpus == free.free_gpus - gpus
    trial.release(slots)
    assert trial.masks == free.masks
    assert trial.by_count == free.by_count
    assert free.layout.slots(free.layout.placement(slots)) == slots
