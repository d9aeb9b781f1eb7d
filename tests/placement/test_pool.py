"""Which nodes profile where neither the site nor the cluster says."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucid_pipelines.domain.cluster import Gpu, Node
from lucid_pipelines.placement import default_pool_nodes, with_pool


def nodes(**sizes: int | Sequence[int]) -> tuple[Node, ...]:
    """Nodes by virtual cluster: how many of eight GPUs, or how many GPUs each has."""
    return tuple(
        Node(f"{vc}-{number}", tuple(Gpu(i, None, "X", 1_024.0, is_virtual=True) for i in range(gpus)), vc)
        for vc, size in sizes.items()
        for number, gpus in enumerate([8] * size if isinstance(size, int) else size)
    )


def given_by(cluster: tuple[Node, ...], wanted: int | None = None) -> list[str]:
    """Names of the nodes that the pool gets."""
    pooled = with_pool(cluster, "pool", wanted, lambda vc, rest: True)
    return [] if pooled is None else [node.name for node in pooled if node.vc == "pool"]


@pytest.mark.parametrize(
    ("cluster", "expected"),
    [
        (nodes(a=4), 0),  # all alone it only loses
        (nodes(a=49), 0),
        (nodes(a=50), 1),
        (nodes(a=100, b=25), 2),
        (nodes(a=4, b=1), 1),
        (nodes(a=3, b=3), 0),  # a third of a virtual cluster is too much
        (nodes(a=[8, 8, 8, 8], b=[4]), 1),
        (nodes(a=[8, 2], b=[8]), 1),
        (nodes(**{f"vc{i}": 3 for i in range(20)}), 0),
    ],
)
def test_a_small_cluster_gives_a_node_only_where_it_is_not_missed(cluster: tuple[Node, ...], expected: int) -> None:
    assert default_pool_nodes(cluster) == expected
    assert len(given_by(cluster)) == expected


def test_a_number_that_is_asked_for_is_given_all_the_same() -> None:
    assert given_by(nodes(a=3), 1) == ["a-2"]
    assert given_by(nodes(a=2, b=2), 2) == ["a-1", "b-1"]
    assert given_by(nodes(a=2), 0) == []


def test_a_declared_pool_is_used_as_it_is() -> None:
    assert given_by(nodes(a=100, pool=1)) == ["pool-0"]


@given(st.dictionaries(st.sampled_from("abcdef"), st.lists(st.sampled_from([1, 4, 8]), min_size=1, max_size=60)))
def test_no_virtual_cluster_gives_more_than_a_quarter_unasked(sizes: dict[str, list[int]]) -> None:
    cluster = nodes(**sizes)
    pool = set(given_by(cluster))
    assert len(pool) <= default_pool_nodes(cluster)
    for vc in sizes:
        mine = [node for node in cluster if node.vc == vc]
        gone = sum(node.gpu_count for node in mine if node.name in pool)
        assert gone <= 0.25 * sum(node.gpu_count for node in mine)
