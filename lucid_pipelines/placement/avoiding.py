"""Placement of a job with what it asks for and the nodes that it is kept off (R-19).

A list of nodes to avoid is either strict (``must_avoid``) or gives way when it leaves the job no place even on an
empty virtual cluster: a job that has failed everywhere does not have a bad node for a cause. GPUs that nobody may
use (isolated, dirty) are no matter of this list: they are not in the layout at all.
"""

from __future__ import annotations

from collections.abc import Hashable

from lucid_pipelines.domain.decision import Reason
from lucid_pipelines.domain.free_gpus import FreeGpus, Slots
from lucid_pipelines.domain.view import QueuedJob
from lucid_pipelines.placement.consolidated import can_ever_fit, find_slots


def find_place(free: FreeGpus, job: QueuedJob) -> Slots | None:
    """Choose GPUs for a job without taking them; ``None`` when it cannot be placed now."""
    if job.avoid_nodes and not gives_way(free, job):
        free = free.without(job.avoid_nodes)
    return find_slots(free, job.gpus, job.gpu_type)


def has_place(free: FreeGpus, job: QueuedJob) -> bool:
    """Whether the job could be placed if every GPU of the virtual cluster were free."""
    avoid = job.avoid_nodes if job.must_avoid else ()
    known = free.layout.fits_empty.get((job.gpus, job.gpu_type, avoid))
    return can_ever_fit(free, job.gpus, job.gpu_type, avoid) if known is None else known


def gives_way(free: FreeGpus, job: QueuedJob) -> bool:
    """Whether the job's list of nodes to avoid leaves it no place at all and is therefore left aside."""
    return (
        bool(job.avoid_nodes) and not job.must_avoid and not can_ever_fit(free, job.gpus, job.gpu_type, job.avoid_nodes)
    )


def demand_of(job: QueuedJob) -> tuple[Hashable, ...]:
    """Jobs of equal demand are placed alike; the first two items are GPUs and GPU type."""
    if job.avoid_nodes:
        return (job.gpus, job.gpu_type, job.avoid_nodes, job.must_avoid)
    return (job.gpus, job.gpu_type)


def avoid_reason(free: FreeGpus, job: QueuedJob) -> Reason:
    """What became of the job's list."""
    facts = {
        "nodes": ", ".join(job.avoid_nodes),
        "must_avoid": job.must_avoid,
        "gave_way": gives_way(free, job),
    }
    return Reason("avoid_nodes", facts)
