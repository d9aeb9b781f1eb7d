"""The nodes of a Slurm as our placing sees them: what they offer, who holds what, and what speaks against them.

A node that saves power is no fault. Slurm puts it to sleep when it has been idle, and wakes it for a job that is
placed on it; meanwhile it does not answer, and is not expected to. It is down once Slurm says so, which it does when
a node has not come up within ResumeTimeout.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from lucid_pipelines.domain.cluster import Inventory, Node, NodeCondition, Placement
from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.resources.clusters.attempts import live_ids
from lucid_pipelines.resources.clusters.layout import Layout, checked_id
from lucid_pipelines.resources.clusters.slurm_drains import SlurmDrains
from lucid_pipelines.resources.clusters.slurm_gres import NodeGpus, asked_gpus, beside, held_indices, node_gpus
from lucid_pipelines.resources.clusters.slurm_holding import placement_of
from lucid_pipelines.resources.clusters.slurm_json import SlurmJob, SlurmNode
from lucid_pipelines.resources.clusters.slurm_states import is_over
from lucid_pipelines.resources.clusters.slurm_submissions import TAG, read_submission
from lucid_pipelines.resources.clusters.slurm_view import FRESH_S, SlurmView

DOWN_STATES = frozenset({"DOWN", "FAIL", "ERROR", "FUTURE"})
SILENT = "NOT_RESPONDING"
KEPT_FREE_STATES = frozenset({"DRAIN", "MAINT", "REBOOT_ISSUED", "REBOOT_REQUESTED"})
_SAVES_POWER = {
    "POWERING_UP": "waking up; Slurm starts a job there as soon as it is up",
    "POWER_UP": "waking up; Slurm starts a job there as soon as it is up",
    "POWERING_DOWN": "going to sleep; Slurm wakes it again for a job",
    "POWER_DOWN": "going to sleep; Slurm wakes it again for a job",
    "POWERED_DOWN": "asleep; Slurm wakes it for a job",
}
"""In this order: a node that is woken before it has gone to sleep bears both words."""


class SlurmInventory:
    """Every node of our partitions; GPUs that jobs which are not ours hold are taken."""

    def __init__(self, view: SlurmView, layout: Layout, drains: SlurmDrains) -> None:
        self._view = view
        self._layout = layout
        self._drains = drains
        self._placements: dict[str, Placement] = {}

    def read(self, now: datetime) -> Inventory:
        """Raises ``ExternalError`` when Slurm does not answer or the cluster's folder cannot be read."""
        jobs, nodes = self._view.jobs(FRESH_S), self._view.nodes()
        strangers = [job for job in jobs if job.nodes and not is_over(job) and not self._is_ours(job)]
        ours = self._placed_gpus() if any(not node_gpus(node.gres).can_pin for node in nodes.values()) else {}
        return Inventory(tuple(self._node(node, strangers, ours, now) for node in nodes.values()), now)

    def _node(
        self, node: SlurmNode, strangers: Sequence[SlurmJob], ours: Mapping[str, set[int]], now: datetime
    ) -> Node:
        local = self._view.local_node(node)
        layout = node_gpus(node.gres)
        taken: set[int] = set()
        for job in strangers:
            if node.name in job.nodes:
                taken |= _held(layout, job, node.name)
        taken = beside(layout, taken, ours.get(node.name, set()))
        found = Node(
            node.name,
            local.gpus,
            local.vc,
            observed_at=now,
            cpus=node.cpus,
            isolations=self._drains.of(node),
            taken_gpu_indices=frozenset(taken),
        )
        if is_silent(node):
            words = ", ".join(sorted(node.states))
            detail = f"Slurm says {words}" + (f": {node.reason}" if node.reason else "")
            return replace(found, condition=NodeCondition.UNOBSERVED, observed_at=None, detail=detail)
        if node.states & KEPT_FREE_STATES or all(gpu.index in found.isolated_gpu_indices for gpu in found.gpus):
            return replace(found, condition=NodeCondition.DRAINED, detail=node.reason or None)
        return replace(found, detail=power_saving(node))

    def _placed_gpus(self) -> dict[str, set[int]]:
        """GPUs of every node that living attempts were placed on, by our own numbers."""
        ours: dict[str, set[int]] = {}
        live = live_ids(self._layout)
        self._placements = {one: placement for one, placement in self._placements.items() if one in set(live)}
        for attempt_id in live:
            with suppress(OSError, ValueError):
                if attempt_id not in self._placements:
                    self._placements[attempt_id] = placement_of(self._layout.attempts / attempt_id)
                for share in self._placements[attempt_id].shares:
                    ours.setdefault(share.node, set()).update(share.gpu_indices)
        return ours

    def _is_ours(self, job: SlurmJob) -> bool:
        """Whether a job is one of our attempts: its tag alone anybody can write."""
        if not job.comment.startswith(TAG):
            return False
        try:
            folder = self._layout.attempts / checked_id(job.comment.removeprefix(TAG))
            owner = folder.stat().st_uid
            if owner == job.uid:
                return True
            noted = read_submission(folder)
            return noted is not None and noted.is_it(job)
        except (InputError, OSError, ValueError):
            return False


def is_silent(node: SlurmNode) -> bool:
    """Whether Slurm cannot reach a node that it ought to reach."""
    return bool(node.states & DOWN_STATES) or (SILENT in node.states and power_saving(node) is None)


def power_saving(node: SlurmNode) -> str | None:
    """In words, for people, what a node does that saves power; ``None`` when it is up."""
    return next((words for state, words in _SAVES_POWER.items() if state in node.states), None)


def _held(layout: NodeGpus, job: SlurmJob, node: str) -> frozenset[int]:
    """GPUs of a node that a job of somebody else holds; all of them when it holds some and does not say which."""
    position = job.nodes.index(node)
    detail = job.gres_detail[position] if position < len(job.gres_detail) else None
    everything = frozenset(range(len(layout.types)))
    if detail is None:
        return everything if asked_gpus(job.gres_request) or "shard" in job.gres_request else frozenset()
    held = held_indices(layout, detail)
    return everything if held is None else held
