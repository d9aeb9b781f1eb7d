"""Why each waiting job waits, as ``Hold`` decisions."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable

from lucid_pipelines.domain.decision import Hold, HoldCause, Reason
from lucid_pipelines.domain.free_gpus import FreeGpus
from lucid_pipelines.domain.view import QueuedJob, VcView
from lucid_pipelines.placement import can_ever_fit, find_slots, has_place


def hold(
    free: FreeGpus,
    job: QueuedJob,
    ahead_count: int,
    reasons: tuple[Reason, ...],
    blocker: tuple[str, HoldCause] | None = None,
) -> Hold:
    """Why ``job`` waits, given the GPUs that are free after the pass and the job that blocks it, if any."""
    if not free.layout.names:
        cause, blocked_by = HoldCause.UNKNOWN_VC, None
    elif not can_ever_fit(free, job.gpus, job.gpu_type):
        cause, blocked_by = HoldCause.TOO_LARGE, None
    elif not has_place(free, job):
        cause, blocked_by = HoldCause.AVOIDED_NODES, None
    elif blocker is not None:
        blocked_by, cause = blocker
    elif free.free_gpus < job.gpus:
        cause, blocked_by = HoldCause.FREE_GPUS, None
    elif job.avoid_nodes and find_slots(free, job.gpus, job.gpu_type) is not None:
        cause, blocked_by = HoldCause.AVOIDED_NODES, None
    else:
        cause, blocked_by = HoldCause.FRAGMENTED, None
    return Hold(job.job_id, cause, job.gpus, free.free_gpus, ahead_count, blocked_by, reasons)


def holds(
    vc: VcView,
    free: FreeGpus,
    ordered_ids: Iterable[str],
    started: Container[str],
    reasons: Callable[[QueuedJob], tuple[Reason, ...]],
    blocker: tuple[str, HoldCause] | None,
) -> list[Hold]:
    """A ``Hold`` for every job of ``ordered_ids`` that was not started.

    Args:
        blocker: the job that stopped the pass and what that is to the jobs behind it. A job that is due
            (``AGED_JOB``) blocks everybody else, the first of a strict order those behind it.
    """
    found: list[Hold] = []
    behind = blocker is not None and blocker[1] is HoldCause.AGED_JOB
    for job_id in ordered_ids:
        if job_id in started:
            continue
        job = vc.queued[job_id]
        its = blocker if behind and blocker is not None and blocker[0] != job_id else None
        found.append(hold(free, job, len(found), reasons(job), its))
        behind = behind or (blocker is not None and blocker[0] == job_id)
    return found
