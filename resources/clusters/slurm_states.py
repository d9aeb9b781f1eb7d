"""From the wrapper's records and Slurm's own to what may be said of an attempt.

Rules, in this order:

1. The wrapper's exit record stands, unless it was ended by a signal that we did not send: then Slurm's record
   says whose it was (time limit, preemption, cancellation), never the signal (R-34); until it says, nothing is.
2. Slurm does not answer: UNOBSERVED (R-1).
3. Slurm has it waiting: QUEUED, also while it wakes or boots the nodes, which may take long and is then said. It
   runs: RUNNING, once the wrapper has let the command go.
4. Slurm has ended it and there is no exit record: by its own act (time limit, preemption, cancellation, memory) the
   attempt has EXITED with that reason; otherwise VANISHED, to be fenced. A record may be late on a network disk, so
   that a few seconds are allowed for it. When it lost the node, or the node never came up, before the wrapper had
   started anything, that is said: such an attempt may be placed anew.
5. Slurm does not know it: never submitted is NOT_STARTED. Submitted and forgotten: accounting is asked, where the
   site has one, and its word counts as in 4; otherwise VANISHED.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from lucid_pipelines.domain.job import ExitRecord
from lucid_pipelines.ports import Observation, Sight
from lucid_pipelines.resources.clusters.slurm_json import SlurmJob
from lucid_pipelines.resources.clusters.slurm_submissions import Submission

RECORD_IS_LATE = timedelta(seconds=5)
WAITING = frozenset(
    {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD"}
)
ALIVE = frozenset({"RUNNING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING"})
_BY_SLURM = {
    "TIMEOUT": "timed_out",
    "DEADLINE": "timed_out",
    "PREEMPTED": "preempted",
    "CANCELLED": "cancelled",
    "OUT_OF_MEMORY": "out_of_memory",
}
_NODE_LOST = frozenset({"NODE_FAIL", "BOOT_FAIL"})
_SIGKILL, _SIGTERM = 9, 15
_SLURMS_SIGNALS = frozenset({_SIGTERM, _SIGKILL})


@dataclass(frozen=True, slots=True)
class OnDisk:
    """What the attempt's folder says; ``problem`` when it cannot be read.

    Attributes:
        is_placed: whether it was ever about to be submitted.
        is_adopted: whether it is a user's own batch job, without a wrapper.
        is_stopped: whether we asked for its end.
        stop_is_ours: whether its record speaks of a stop that we asked for.
        is_gone: whether its wrapper died without a record in an allocation that goes on.
        submission: what was noted of its job.
        owner_uid: who owns its folder.
        last_words: what the batch job itself said, where nothing of ours had started.
    """

    is_placed: bool
    exit: ExitRecord | None = None
    stop_is_ours: bool = False
    started_at: datetime | None = None
    problem: str | None = None
    is_adopted: bool = False
    is_stopped: bool = False
    is_gone: bool = False
    owner_uid: int | None = None
    submission: Submission | None = None
    last_words: str = ""


def asks_slurm(disk: OnDisk) -> bool:
    """Whether what is on disk does not settle it: there is no exit record, or Slurm may have caused it."""
    return disk.problem is None and (disk.exit is None or not (disk.stop_is_ours or not _may_be_slurms(disk.exit)))


def is_over(job: SlurmJob) -> bool:
    """Whether Slurm has ended the job and cleaned up after it."""
    return job.state not in WAITING | ALIVE and "COMPLETING" not in job.flags and job.state != "COMPLETING"


def is_ending(job: SlurmJob) -> bool:
    """Whether Slurm has ended the job or is about to have."""
    return job.state not in WAITING | ALIVE


def is_configuring(job: SlurmJob) -> bool:
    """Whether Slurm has given the job its nodes and makes them ready, e.g. wakes them from power saving."""
    return "CONFIGURING" in {job.state, *job.flags}


def observation(
    attempt_id: str, disk: OnDisk, job: SlurmJob | None, fault: str | None, now: datetime, waited: timedelta
) -> Observation:
    """Judge one attempt.

    Args:
        job: Slurm's record of it; ``None`` = Slurm does not know it.
        fault: why Slurm did not answer; ``None`` = it did.
        waited: for how long disk and Slurm have said different things of its end.
    """
    if disk.problem is not None:
        return Observation(attempt_id, Sight.UNOBSERVED, now, "slurm:disk", detail=disk.problem)
    record = disk.exit
    if record is not None and not asks_slurm(disk):
        return _exited(attempt_id, record, now, "slurm:exit_record")
    if fault is not None:
        return Observation(attempt_id, Sight.UNOBSERVED, now, "slurm:error", disk.started_at, detail=fault)
    if job is None:
        return _unknown_to_slurm(attempt_id, disk, now)
    by = f"slurm:{job.source}"
    if disk.is_adopted and is_over(job) and job.state not in _NODE_LOST:
        reason = _BY_SLURM.get(job.state, "exited")
        reason = "stopped" if disk.is_stopped and reason == "cancelled" else reason
        return _exited(attempt_id, by_slurm(job, reason, job.started_at, now), now, by)
    named = f"Slurm job {job.job_id}"
    if is_configuring(job) and disk.started_at is None and record is None:
        detail = f"{named} is given {', '.join(job.nodes) or 'its nodes'}, which Slurm makes ready for it"
        return Observation(attempt_id, Sight.QUEUED, now, by, detail=detail, is_let_in=True)
    if job.state in WAITING:
        detail = f"{named} waits: {job.reason or job.state}"
        return Observation(attempt_id, Sight.QUEUED, now, by, detail=detail)
    is_shared = disk.submission is not None and disk.submission.is_shared
    if not is_over(job) and is_shared and record is not None and waited >= RECORD_IS_LATE:
        return _exited(attempt_id, record, now, "slurm:exit_record")  # what Slurm ends, it ends with the allocation
    if not is_over(job) and is_shared and disk.is_gone and record is None:
        detail = f"its wrapper left no exit record, while {named}, in which it ran, goes on"
        return Observation(attempt_id, Sight.VANISHED, now, by, disk.started_at, detail=detail)
    if not is_over(job):
        started_at = job.started_at if disk.is_adopted else disk.started_at
        if record is not None or started_at is not None:
            return Observation(attempt_id, Sight.RUNNING, now, by, started_at)
        return Observation(attempt_id, Sight.QUEUED, now, by, detail=f"{named} is being started")
    reason = _BY_SLURM.get(job.state)
    if record is not None:
        told = replace(record, reason=reason, detail=_why(job, record.detail)) if reason else record
        return _exited(attempt_id, told, now, f"slurm:exit_record+{job.source}")
    if reason is not None:
        if disk.is_stopped and disk.started_at is None and reason == "cancelled":
            reason = "stopped"  # by us, before it ever ran
        return _exited(attempt_id, by_slurm(job, reason, disk.started_at, now), now, by)
    if job.state not in _NODE_LOST and waited < RECORD_IS_LATE:
        return Observation(attempt_id, Sight.RUNNING, now, by, disk.started_at, detail="its record is awaited")
    if job.state in _NODE_LOST and disk.started_at is None and not disk.is_adopted:
        detail = f"{_why(job, None)}; nothing of it had started"
        return Observation(attempt_id, Sight.VANISHED, now, by, detail=detail, never_ran=True)
    said = f"; its batch job said: {disk.last_words}" if disk.last_words else ""
    detail = f"{_why(job, None)}; its wrapper left no exit record{said}"
    return Observation(attempt_id, Sight.VANISHED, now, by, disk.started_at or job.started_at, detail=detail)


def by_slurm(job: SlurmJob, reason: str, started_at: datetime | None, now: datetime) -> ExitRecord:
    """The exit record of what Slurm itself ended; ``reason`` as in ``ExitRecord``."""
    began = started_at or (job.started_at if job.nodes else None)
    ended = min(job.ended_at or now, now)
    return ExitRecord(
        exit_code=job.exit_code if reason == "exited" else None,
        signal=_SIGKILL if reason == "out_of_memory" else job.exit_signal if reason == "exited" else None,
        reason="exited" if reason == "out_of_memory" else reason,
        started_at=began,
        ended_at=ended if began is None else max(began, ended),  # clocks of two machines may differ
        detail=_why(job, None),
    )


def own_stop(exit_json: Mapping[str, Any]) -> bool:
    """Whether a wrapper's record speaks of a stop that was asked for through its stop file."""
    stop = exit_json.get("stop")
    return isinstance(stop, dict) and stop.get("requested_at") is not None


def _may_be_slurms(record: ExitRecord) -> bool:
    """Whether Slurm may have sent the signal that ended it: to its wrapper, or to the job before its wrapper."""
    by_signal = record.signal in _SLURMS_SIGNALS or record.exit_code in {128 + number for number in _SLURMS_SIGNALS}
    return record.reason == "stopped" or (record.reason == "exited" and by_signal)


def _unknown_to_slurm(attempt_id: str, disk: OnDisk, now: datetime) -> Observation:
    if disk.exit is not None:  # stopped by a signal, and whoever sent it is forgotten
        return _exited(attempt_id, disk.exit, now, "slurm:exit_record")
    by = "slurm:squeue"
    if disk.submission is not None or disk.started_at is not None:
        number = "its job" if disk.submission is None else f"job {disk.submission.job_id}"
        detail = f"Slurm no longer knows {number}, and its wrapper left no exit record"
        return Observation(attempt_id, Sight.VANISHED, now, by, disk.started_at, detail=detail)
    detail = "placed, but not submitted to Slurm" if disk.is_placed else "never launched here"
    return Observation(attempt_id, Sight.NOT_STARTED, now, by, detail=detail)


def _exited(attempt_id: str, record: ExitRecord, now: datetime, source: str) -> Observation:
    return Observation(attempt_id, Sight.EXITED, now, source, record.started_at, record, record.profile, record.detail)


def _why(job: SlurmJob, said: str | None) -> str:
    words = {
        "TIMEOUT": "ended by Slurm at its time limit"
        + (f" of {job.time_limit_s / 60:g} min" if job.time_limit_s else ""),
        "DEADLINE": "ended by Slurm at its deadline",
        "PREEMPTED": "preempted by Slurm for another job",
        "CANCELLED": "cancelled in Slurm (scancel)",
        "OUT_OF_MEMORY": "killed by Slurm: it used more memory than it was given",
        "NODE_FAIL": f"Slurm lost its node {', '.join(job.nodes) or ''}".rstrip(),
        "BOOT_FAIL": "its node could not be started",
    }
    reason = f" ({job.reason})" if job.reason not in ("", "None", "NonZeroExitCode") else ""
    text = f"Slurm job {job.job_id}: " + words.get(job.state, f"ended as {job.state}") + reason
    return f"{text}; {said}" if said else text
