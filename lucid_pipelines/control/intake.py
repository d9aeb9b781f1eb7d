"""Take new submissions in: snapshot -> advise -> queue, each arrow one guarded transition.

Safe to run twice and to die in: a job that stopped half way is claimed again from the state that it reached.
"""

from __future__ import annotations

import contextlib
import errno
import logging
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path

from lucid_pipelines import snapshots
from lucid_pipelines.control.advising import OFF, advise, advised_profile, keep, learn_ended
from lucid_pipelines.control.forecasting import forecast_now
from lucid_pipelines.control.known_profiles import known_profile
from lucid_pipelines.control.pool import owned_nodes, would_profile
from lucid_pipelines.control.sampling import is_known
from lucid_pipelines.control.system import System
from lucid_pipelines.domain.errors import (
    ExternalError,
    InputError,
    LucidError,
    NotFoundError,
    StaleLockError,
    StateError,
)
from lucid_pipelines.domain.job import Job, Profile
from lucid_pipelines.domain.states import Cause, JobState, Mode, Outcome
from lucid_pipelines.snapshots.errors import CorruptSnapshotError
from lucid_pipelines.store import Claim, JobChanges

_log = logging.getLogger(__name__)
WHO = "submission"
INTAKE_STATES = frozenset({JobState.SUBMITTED, JobState.SNAPSHOTTED, JobState.ADVISED})
_CLAIM_TTL_S = 120.0
_RETRY_S = 15.0
_MAX_TRIES = 3
"""So often is a damaged snapshot read again before the job fails: a disk may have been away."""


class IntakeResult(StrEnum):
    """What became of one submission in this batch."""

    QUEUED = "queued"
    REFUSED = "refused"
    OVERTAKEN = "overtaken"
    """Somebody else moved the job (a cancellation, another worker)."""
    LATER = "later"
    """Something outside did not answer; the job is taken again in a later batch."""


def claim_batch(system: System, worker: str) -> list[Claim[Job]]:
    """Claim the oldest submissions that wait to be taken in. What has ended meanwhile becomes evidence for them."""
    if system.advisor is not None:
        system.advisor.begin_batch(system.store)
        learn_ended(system)
    return system.store.jobs.claim(
        INTAKE_STATES,
        worker=worker,
        now=system.clock.now(),
        limit=system.settings.submission.batch,
        ttl_s=_CLAIM_TTL_S,
    )


def take_in(system: System, claim: Claim[Job]) -> IntakeResult:
    """Bring one claimed job into the queue.

    Returns:
        What became of it. Never raises for what is wrong with the job itself: that fails the job, with the
        reason in its record.

    Raises:
        ExternalError: the state database does not answer; the job is claimed again when the claim has run out.
    """
    try:
        job = _snapshot(system, claim)
        job = _advise(system, job)
        _enqueue(system, job)
    except _SnapshotLostError as error:
        return _refuse(system, claim.item.job_id, str(error), is_users=False)
    except StateError:
        return IntakeResult.OVERTAKEN
    except ExternalError as error:
        if isinstance(error, CorruptSnapshotError) and claim.tries >= _MAX_TRIES:
            why = f"its snapshot is damaged; submit it again ({error})"
            return _refuse(system, claim.item.job_id, why, is_users=False)
        _put_off(system, claim, error)
        return IntakeResult.LATER
    except LucidError as error:
        return _refuse(system, claim.item.job_id, str(error))
    return IntakeResult.QUEUED


def _put_off(system: System, claim: Claim[Job], error: ExternalError) -> None:
    now = system.clock.now()
    system.store.counters.add("intake_retries", now=now)
    system.store.jobs.annotate(claim.item.job_id, who=WHO, why=f"will be tried again: {error}", now=now)
    with contextlib.suppress(StaleLockError):  # its first step went through, which ends the claim
        # The claim is kept for a while, so that what is away is not asked again at once.
        system.store.jobs.renew(claim, ttl_s=min(_RETRY_S * claim.tries, _CLAIM_TTL_S), now=now)


def job_dir(system: System, job_id: str) -> Path:
    """The folder of one job: its code, outputs, checkpoints and attempts."""
    return system.settings.jobs / job_id


def code_dir(system: System, job_id: str) -> Path:
    """Where the job's snapshot is unpacked."""
    return job_dir(system, job_id) / "code"


class _SnapshotLostError(Exception):
    """What was sealed for the job is not there any more, or something else stands in its place."""


def _snapshot(system: System, claim: Claim[Job]) -> Job:
    """Unpack the sealed snapshot into the job's own folder; a job submitted without code gets an empty one."""
    job = claim.item
    target = code_dir(system, job.job_id)
    try:
        evidence = _unpack(system, job.spec.snapshot_digest, target)
        _check_workdir(target, job.spec.workdir)
    except OSError as error:
        raise ExternalError(f"the job's folder cannot be prepared: {error}: {target}") from error
    return _forward(system, job, JobState.SUBMITTED, JobState.SNAPSHOTTED, "snapshot verified", evidence, claim)


def _unpack(system: System, digest: str | None, target: Path) -> dict[str, object]:
    target.parent.mkdir(parents=True, exist_ok=True)
    if digest is None:
        target.mkdir(exist_ok=True)
        return {"digest": None}
    try:
        unpacked = snapshots.materialise(digest, system.settings.snapshots, target)
    except (NotFoundError, StateError) as error:
        # Neither is the user's fault: the store lost what it had taken, or a stranger wrote into the job's folder.
        raise _SnapshotLostError(f"its snapshot cannot be unpacked; submit it again ({error})") from error
    return {"digest": digest, "files": unpacked.file_count, "bytes": unpacked.total_bytes}


def _check_workdir(target: Path, workdir: str) -> None:
    try:
        found = (target / workdir).resolve()
        is_folder = found.is_dir()
    except (OSError, RuntimeError, ValueError) as error:
        if isinstance(error, OSError) and error.errno not in (errno.ENAMETOOLONG, errno.ELOOP):
            raise
        # Too long, a loop of links, or no path at all: no second try can cure that.
        raise InputError(f"the working directory is no usable path: {workdir[:80]!r}") from error
    if not found.is_relative_to(target.resolve()):
        raise InputError(f"the working directory must lie inside the submitted tree: {workdir!r}")
    if not is_folder:
        raise InputError(f"the working directory is not in the snapshot (was it ignored?): {workdir!r}")


def _advise(system: System, job: Job) -> Job:
    """Ask what similar jobs took. In shadow mode the answer is only kept; the plain estimate counts."""
    if job.state is not JobState.SNAPSHOTTED:
        return job  # a batch that died had come further
    advice = advise(system, job, code_dir(system, job.job_id))
    if advice is not None:
        keep(system, advice)
    now = system.clock.now()
    estimate = advice.estimate if advice is not None and advice.mode == Mode.LIVE else None
    if estimate is None:
        (estimate,) = system.durations.estimate(system.store, system.settings, [job], now)
    system.store.estimates.record({job.job_id: estimate}, now=now)
    evidence = {
        "advice": OFF if advice is None else advice.basis,
        "mode": None if advice is None else advice.mode,
        "estimate_s": estimate.duration_s,
        "basis": estimate.basis,
    }
    return _forward(system, job, JobState.SNAPSHOTTED, JobState.ADVISED, "advised", evidence)


def _enqueue(system: System, job: Job) -> Job:
    """Into the queue, or the profiling pool's where there is one and nobody knows the job's profile."""
    if job.state is not JobState.ADVISED:
        return job  # a batch that died had come further
    profile = job.profile if is_known(job.profile) else known_profile(system, job)
    if profile is None:
        nodes = owned_nodes(system, system.cluster.inventory().nodes)
        is_profiled = would_profile(system, nodes, job, forecast_now(system, system.clock.now()))
        profile = advised_profile(system, job, is_profiled=is_profiled)
    else:
        is_profiled = False
    if profile is None and is_profiled:
        return _forward(system, job, JobState.ADVISED, JobState.PROFILE_QUEUED, "waits to be profiled", None)
    evidence = None if profile is None else {"profile": asdict(profile)}
    return _forward(system, job, JobState.ADVISED, JobState.QUEUED, "waits for GPUs", evidence, profile=profile)


def _forward(
    system: System,
    job: Job,
    from_state: JobState,
    to_state: JobState,
    why: str,
    evidence: object,
    claim: Claim[Job] | None = None,
    *,
    profile: Profile | None = None,
) -> Job:
    if job.state is not from_state:
        return job  # a batch that died had come further
    changes: JobChanges = {} if profile is None else {"profile": profile}
    return system.store.jobs.transition(
        job.job_id,
        {from_state},
        to_state,
        who=WHO,
        why=why,
        now=system.clock.now(),
        evidence=evidence,
        claim=claim,
        **changes,
    )


def _refuse(system: System, job_id: str, why: str, *, is_users: bool = True) -> IntakeResult:
    try:
        system.store.jobs.transition(
            job_id,
            INTAKE_STATES,
            JobState.FAILED,
            who=WHO,
            why=why,
            now=system.clock.now(),
            outcome=Outcome.FAILED_USER if is_users else Outcome.CONTROL_PLANE_ERROR,
            cause=Cause.USER if is_users else Cause.CONTROL_PLANE,
            detail=why,
        )
    except StateError:
        return IntakeResult.OVERTAKEN
    return IntakeResult.REFUSED
