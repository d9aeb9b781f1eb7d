"""GPUs that a cluster's own scheduler has given to somebody else."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from lucid_pipelines.client import Client
from lucid_pipelines.control.scheduling import run_pass
from lucid_pipelines.control.system import System
from lucid_pipelines.domain.cluster import Inventory
from tests.support_control.pretend import OwnClock, PretendCluster
from tests.support_control.worlds import take_in_all


@dataclass
class Shared(PretendCluster):
    """Somebody else runs on its first node."""

    taken: frozenset[int] = frozenset()

    def inventory(self) -> Inventory:
        first, *others = super().inventory().nodes
        return Inventory((replace(first, taken_gpu_indices=self.taken), *others), self.clock.now())


def test_nothing_is_placed_on_gpus_that_others_hold(client: Client, source: Path) -> None:
    clock = OwnClock()
    cluster = Shared(clock, taken=frozenset({0, 3}))
    system = System.of(client.settings, client.system.store, cluster, clock)
    for name in ("first", "second"):
        client.submit(["hold"], source_dir=source, gpus=2, vc="vision", name=name)
    take_in_all(system)

    def placed() -> list[tuple[int, ...]]:
        run_pass(system, "test")
        return [share.gpu_indices for one in system.store.attempts.active() for share in one.placement.shares]

    assert placed() == [(1, 2)], "the second waits"
    cluster.taken = frozenset()
    assert sorted(placed()) == [(0, 3), (1, 2)], "they were given back"
