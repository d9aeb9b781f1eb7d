"""What Slurm said last of its jobs and nodes, so that one pass need not ask twice, and which nodes are ours."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

from lucid_pipelines.domain.cluster import Gpu, Placement
from lucid_pipelines.resources.clusters.nodes import LocalNode
from lucid_pipelines.resources.clusters.slurm_commands import SlurmCommands
from lucid_pipelines.resources.clusters.slurm_gres import node_gpus
from lucid_pipelines.resources.clusters.slurm_json import SlurmJob, SlurmNode
from lucid_pipelines.resources.clusters.slurm_options import SlurmOptions

FRESH_S = 1.0
"""An inventory may use the list of jobs that the poll of the same pass read."""
KNOWN_FOR_S = 60.0
"""How long names, partitions and gres of nodes, which change rarely, are taken for true."""


class SlurmView:
    """Jobs and nodes, asked for as seldom as may be. Methods raise ``ExternalError`` when Slurm does not answer.

    Args:
        declared: what the settings say of nodes: memory of their GPUs, answers of checks.
    """

    def __init__(
        self, commands: SlurmCommands, options: SlurmOptions, declared: Mapping[str, LocalNode], *, is_virtual: bool
    ) -> None:
        self.commands = commands
        self.is_virtual = is_virtual
        self._options = options
        self._declared = declared
        self._guard = threading.Lock()
        self._jobs: tuple[float, list[SlurmJob]] | None = None
        self._nodes: tuple[float, dict[str, SlurmNode]] | None = None

    def jobs(self, at_most_s: float = 0.0) -> list[SlurmJob]:
        """Every job that the controller remembers; the list that was read at most so long ago, or a new one."""
        with self._guard:
            kept = self._jobs
        if kept is not None and time.monotonic() - kept[0] < at_most_s:
            return kept[1]
        jobs = self.commands.jobs()
        with self._guard:
            self._jobs = (time.monotonic(), jobs)
        return jobs

    def nodes(self) -> dict[str, SlurmNode]:
        """Every node of ours by name, asked anew."""
        nodes = {node.name: node for node in self.commands.nodes() if self.is_ours(node)}
        with self._guard:
            self._nodes = (time.monotonic(), nodes)
        return nodes

    def known_nodes(self) -> dict[str, SlurmNode]:
        """The same for what changes rarely: names, partitions, gres."""
        with self._guard:
            kept = self._nodes
        if kept is not None and time.monotonic() - kept[0] < KNOWN_FOR_S:
            return kept[1]
        return self.nodes()

    def forget_jobs(self) -> None:
        with self._guard:
            self._jobs = None

    def forget_nodes(self) -> None:
        with self._guard:
            self._nodes = None

    def is_ours(self, node: SlurmNode) -> bool:
        """Whether a node has GPUs and lies in one of our partitions."""
        partitions = self._options.partitions
        return bool(node_gpus(node.gres).types) and (not partitions or any(p in partitions for p in node.partitions))

    def local_node(self, node: SlurmNode) -> LocalNode:
        """A node with its GPUs as every cluster describes them."""
        types = node_gpus(node.gres).types
        declared = self._declared.get(node.name)
        size = declared.gpus[0].memory_mib if declared is not None and declared.gpus else None
        gpus = tuple(Gpu(index, None, kind, size, is_virtual=self.is_virtual) for index, kind in enumerate(types))
        vc = next((name for name in node.partitions if name in self._options.partitions), None)
        return LocalNode(node.name, gpus, vc or (node.partitions[0] if node.partitions else "default"), node.cpus)

    def local_nodes(self) -> dict[str, LocalNode]:
        return {name: self.local_node(node) for name, node in self.known_nodes().items()}

    def pins(self, placement: Placement) -> bool:
        """Whether Slurm can be told which GPUs it is to give, on every node of a placement."""
        known = self.known_nodes()
        return all(node_gpus(known[share.node].gres).can_pin for share in placement.shares)

    def holds(self, placement: Placement) -> bool:
        """Whether a second job could only run inside this one's allocation, and shall be able to."""
        known = self.known_nodes()
        by_shards = all(node_gpus(known[share.node].gres).can_share for share in placement.shares)
        return self._options.hold and self._options.share and not by_shards
