"""A look at the node before two jobs share a GPU there: what our books say must be what it shows (R-21 to R-23)."""

from __future__ import annotations

from datetime import datetime

from lucid_pipelines.control.facts import age_s
from lucid_pipelines.control.sampling import GpuReadings
from lucid_pipelines.control.system import System
from lucid_pipelines.domain.cluster import GpuSample
from lucid_pipelines.domain.errors import ExternalError
from lucid_pipelines.domain.job import Job
from lucid_pipelines.ports import Sight
from lucid_pipelines.store import ActiveAttempt

_LOADED_AFTER_S, _LEAST_FRAC = 60.0, 0.3
"""After so long a job has loaded what it works on, and uses at least this share of its peak."""


def contradiction(system: System, job: Job, partner: ActiveAttempt, now: datetime, readings: GpuReadings) -> str | None:
    """What speaks against packing ``job`` with ``partner`` now, in words for people; ``None`` = nothing.

    Every GPU must be read, the partner must be seen running, and what is in use there now, with the newcomer's
    measured peak and the margin, must fit.
    """
    attempt = partner.attempt
    try:
        seen = system.cluster.poll([attempt.attempt_id])[attempt.attempt_id]
        samples = readings.samples
    except ExternalError as error:
        return f"the node cannot be asked: {error}"
    if seen.sight is not Sight.RUNNING:
        return f"its partner is {seen.sight.value.replace('_', ' ')}, not running"
    needed_mib = job.profile.memory_peak_mib if job.profile is not None else None
    least_mib = _least_mib(partner, now)
    for share in attempt.placement.shares:
        for index in share.gpu_indices:
            size_mib = readings.size_mib(share.node, index)
            problem = _problem(system, samples.get((share.node, index)), size_mib, needed_mib, least_mib)
            if problem is not None:
                return f"GPU {index} of {share.node}: {problem}"
    return None


def _least_mib(partner: ActiveAttempt, now: datetime) -> float:
    """What must be in use where the partner runs: else it is not there (GPUs swap numbers at a driver's restart)."""
    profile, started = partner.job.profile, partner.attempt.started_at
    if profile is None or profile.memory_peak_mib is None or started is None or age_s(started, now) < _LOADED_AFTER_S:
        return 0.0
    return profile.memory_peak_mib * _LEAST_FRAC


def _problem(
    system: System,
    sample: GpuSample | None,
    size_mib: float | None,
    needed_mib: float | None,
    least_mib: float,
) -> str | None:
    if sample is None or sample.memory_used_mib is None:
        return "how much of its memory is in use is not known"
    if size_mib is None or needed_mib is None:
        return "the sizes of its memory and of the job are not both known"
    if sample.memory_used_mib < least_mib:
        return f"only {sample.memory_used_mib:.0f} MiB are in use: its partner is not there"
    usable_mib = size_mib * (1.0 - system.settings.packing.memory_margin_frac)
    if sample.memory_used_mib + needed_mib > usable_mib:
        return (
            f"{sample.memory_used_mib:.0f} MiB are in use, the job needs {needed_mib:.0f}, "
            f"and {usable_mib:.0f} of {size_mib:.0f} may be used"
        )
    return None
