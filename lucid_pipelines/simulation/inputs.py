"""From trace jobs to what can be replayed on a cluster; what cannot is set aside and counted (R-44)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from zlib import crc32

from lucid_pipelines.domain.cluster import Node
from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.domain.free_gpus import FreeGpus
from lucid_pipelines.domain.trace import ClusterSpec, TraceJob, TraceState
from lucid_pipelines.placement import can_ever_fit


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A trace job that is left out, and why."""

    job_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class ReplayInput:
    """What a replay runs: jobs in order of submission, each of which fits its virtual cluster."""

    jobs: tuple[TraceJob, ...]
    nodes: tuple[Node, ...]
    quarantined: tuple[Quarantined, ...]

    @property
    def quarantine_counts(self) -> dict[str, int]:
        return dict(Counter(row.reason for row in self.quarantined).most_common())

    @property
    def gpus(self) -> int:
        return sum(node.gpu_count for node in self.nodes)


def prepare(jobs: Iterable[TraceJob], cluster: ClusterSpec) -> ReplayInput:
    """Sort jobs by submission and set aside those that no replay can run.

    Nobody knows the order of jobs with equal times. That of the rows will not do: a file may be sorted by duration
    within a second, which would tell fifo the future. A checksum of the job's id decides.

    Raises:
        InputError: no job is left.
    """
    nodes = cluster.nodes()
    by_vc: dict[str, list[Node]] = {}
    for node in nodes:
        by_vc.setdefault(node.vc, []).append(node)
    empty = {vc: FreeGpus.of_nodes(group) for vc, group in by_vc.items()}
    kept: list[TraceJob] = []
    quarantined: list[Quarantined] = []
    seen: set[str] = set()
    jobs_of_unknown_vcs: Counter[str] = Counter()
    for job in jobs:
        reason = _reason_against(job, empty, seen)
        if reason == _UNKNOWN_VC:
            jobs_of_unknown_vcs[job.vc] += 1
        if reason is None:
            kept.append(job)
            seen.add(job.job_id)
        else:
            quarantined.append(Quarantined(job.job_id, reason))
    if not kept:
        raise InputError(_why_nothing_is_left(quarantined, jobs_of_unknown_vcs, empty))
    kept.sort(key=lambda job: (job.submit_s, crc32(job.job_id.encode())))
    return ReplayInput(tuple(kept), nodes, tuple(quarantined))


def gave_up_s(job: TraceJob) -> float | None:
    """When the user cancelled a job that never started; ``None`` for all other jobs."""
    if job.duration_s > 0 or job.state is not TraceState.CANCELLED:
        return None
    if job.end_s is not None:
        return max(job.end_s, job.submit_s)
    return None if job.queue_s is None else job.submit_s + max(job.queue_s, 0.0)


def _why_nothing_is_left(quarantined: list[Quarantined], unknown_vcs: Counter[str], known_vcs: Iterable[str]) -> str:
    if not quarantined:
        return "a replay needs at least one job; got none"
    counts = Counter(row.reason for row in quarantined)
    told = ", ".join(f"{reason}: {count}" for reason, count in counts.most_common())
    message = f"a replay needs at least one job that the cluster can run; set aside: {told}"
    if unknown_vcs:
        theirs, ours = sorted(unknown_vcs)[:_NAMES_TOLD], sorted(known_vcs)[:_NAMES_TOLD]
        message += f"; jobs are of the virtual clusters {', '.join(theirs)}, the cluster has {', '.join(ours)}"
    return message


_UNKNOWN_VC = "unknown_vc"
_NAMES_TOLD = 10


def _reason_against(job: TraceJob, empty: dict[str, FreeGpus], seen: set[str]) -> str | None:
    if job.job_id in seen:
        return "duplicate_job_id"
    if not math.isfinite(job.submit_s) or not math.isfinite(job.duration_s):
        return "time_not_finite"
    if job.duration_s < 0:
        return "negative_duration"
    if not job.gpus > 0:
        return "no_gpu"
    if job.gpus != int(job.gpus):
        return "fractional_gpus"
    if job.vc not in empty:
        return _UNKNOWN_VC
    if not can_ever_fit(empty[job.vc], int(job.gpus), job.gpu_type):
        return "does_not_fit_its_vc"
    return None
