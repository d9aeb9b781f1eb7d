"""What the doctor says of a cluster's GPUs: no more than is known."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from lucid_pipelines.cli.doctor import kind_of_gpus
from lucid_pipelines.domain.cluster import Gpu, Inventory, Node, NodeCondition
from tests.support_control.worlds import make_settings

NOW = datetime(2026, 1, 5, tzinfo=UTC)
REAL, VIRTUAL = (Gpu(0, "GPU-a"),), (Gpu(0, is_virtual=True),)
SILENT = NodeCondition.UNOBSERVED


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ([Node("a", REAL), Node("b", REAL)], "real, through NVML"),
        ([Node("a", VIRTUAL)], "virtual: these nodes have no NVIDIA driver"),
        ([Node("a", REAL, condition=SILENT)], "not known of 1 nodes that do not answer"),
        (
            [Node("a", REAL), Node("b", VIRTUAL), Node("c", REAL, condition=SILENT)],
            (
                "real, through NVML, on 1 of 3 nodes; virtual, on 1: these nodes have no NVIDIA driver;"
                " not known of 1 nodes that do not answer"
            ),
        ),
    ],
)
def test_a_node_that_does_not_answer_has_no_kind_of_gpu(tmp_path: Path, nodes: list[Node], said: str) -> None:
    settings = make_settings(tmp_path, cluster={"kind": "ssh", "gpus": "auto", "nodes": [{"name": "a", "gpus": 1}]})
    assert kind_of_gpus(settings, Inventory(tuple(nodes), NOW)) == said
