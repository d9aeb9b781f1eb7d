"""A profile that a repeated command starts with: what its last run was measured to ask for (Lucid, section 3)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from lucid_pipelines.control.sampling import is_known
from lucid_pipelines.control.system import System
from lucid_pipelines.domain.job import Job, Profile

_LOOKED_AT = 50


def known_profile(system: System, job: Job) -> Profile | None:
    """The profile of the newest run of the same command by the same user on as many GPUs, if it is young enough.

    The command, its environment and its folder must be the same, word for word; the code may have changed, which
    is why the profile of a running job is looked at again.
    """
    days = system.settings.profiling.reuse_days
    if not days:
        return None
    spec = job.spec
    for past in system.store.jobs.find(user=spec.user, name=spec.name, limit=_LOOKED_AT):
        same = past.spec.command == spec.command and past.spec.env == spec.env and past.spec.workdir == spec.workdir
        if past.job_id == job.job_id or not same or past.spec.gpus != spec.gpus:
            continue
        if past.profile is None or not is_known(past.profile):
            continue
        if job.submitted_at - past.submitted_at > timedelta(days=days):
            return None
        return replace(past.profile, source=f"earlier run {past.job_id}")
    return None
