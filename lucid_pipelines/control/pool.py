"""Which nodes belong to which virtual cluster now: as declared, but for the profiling pool and for loans."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lucid_pipelines.domain.cluster import Inventory, Node
from lucid_pipelines.domain.free_gpus import FreeGpus
from lucid_pipelines.domain.job import Job
from lucid_pipelines.domain.states import JobState
from lucid_pipelines.domain.view import Forecast
from lucid_pipelines.placement import can_ever_fit, with_pool
from lucid_pipelines.store import Loan

if TYPE_CHECKING:
    from lucid_pipelines.control.system import System


def owned_nodes(system: System, nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes, each in its own virtual cluster, the profiling pool among them; loans are not looked at.

    Nodes of the profiling pool (``profiling.nodes``) are taken from the largest virtual clusters, each of which keeps
    at least one node as large as its largest.
    """
    return _with_profilers(system, tuple(nodes))


def effective_inventory(system: System, inventory: Inventory, loans: Iterable[Loan] = ()) -> Inventory:
    """The nodes, each in the virtual cluster for which it works now."""
    lent = {loan.node: loan.to_vc for loan in loans}
    owned = owned_nodes(system, inventory.nodes)
    nodes = tuple(replace(node, vc=lent[node.name]) if node.name in lent else node for node in owned)
    return Inventory(nodes, inventory.observed_at)


def profiler_vc(system: System) -> str | None:
    """The profiling pool's virtual cluster; ``None`` when the policy profiles nobody."""
    rules = system.policy.profiling
    return None if rules is None else rules.profiler_vc


def would_profile(system: System, nodes: Iterable[Node], job: Job, forecast: Forecast | None = None) -> bool:
    """Whether a job is profiled first: the policy wants it, and the pool could hold it.

    Args:
        nodes: as ``owned_nodes`` gives them: a node that is only lent may go before the job's turn comes.
    """
    rules = system.policy.profiling
    if rules is None or not rules.wants(job.spec.gpus):
        return False
    waiting = system.store.jobs.counts()[JobState.PROFILE_QUEUED]
    if not rules.wants_now(job.spec.gpus, waiting, forecast, system.clock.now().timestamp()):
        return False
    pool = [node for node in nodes if node.vc == rules.profiler_vc]
    return bool(pool) and can_ever_fit(FreeGpus.of_nodes(pool), job.spec.gpus)


def _with_profilers(system: System, nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    name = profiler_vc(system)
    if name is None:
        return nodes
    rules = system.policy.profiling
    chosen = None if rules is None else rules.profiler_nodes  # the site's number, or a tuned one
    largest: dict[str, int] = {}
    for node in nodes:
        largest[node.vc] = max(largest.get(node.vc, 0), node.gpu_count)

    def keeps_its_largest(vc: str, rest: Sequence[Node]) -> bool:
        return max(node.gpu_count for node in rest) == largest[vc]

    return with_pool(nodes, name, chosen, keeps_its_largest) or nodes
