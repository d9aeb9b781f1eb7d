"""The words for what a job is doing and how it ended (ARCHITECTURE section 5)."""

from __future__ import annotations

from enum import StrEnum

from lucid_pipelines.domain.errors import StateError


class JobState(StrEnum):
    """Where a job is in its life."""

    SUBMITTED = "submitted"
    SNAPSHOTTED = "snapshotted"
    ADVISED = "advised"
    PROFILE_QUEUED = "profile_queued"
    PROFILING = "profiling"
    QUEUED = "queued"
    RUNNING = "running"
    EVICTED = "evicted"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    LOST = "lost"

    @property
    def is_terminal(self) -> bool:
        """Whether nothing follows by itself (a failed job may still be requeued by the recovery policy)."""
        return self in TERMINAL_STATES

    @property
    def is_active(self) -> bool:
        """Whether the job holds GPUs."""
        return self in (JobState.RUNNING, JobState.PROFILING)


TERMINAL_STATES = frozenset({JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED, JobState.LOST})

_BEFORE_QUEUE = {JobState.CANCELLED, JobState.FAILED}
TRANSITIONS: dict[JobState, frozenset[JobState]] = {
    JobState.SUBMITTED: frozenset({JobState.SNAPSHOTTED} | _BEFORE_QUEUE),
    JobState.SNAPSHOTTED: frozenset({JobState.ADVISED} | _BEFORE_QUEUE),
    JobState.ADVISED: frozenset({JobState.PROFILE_QUEUED, JobState.QUEUED} | _BEFORE_QUEUE),
    JobState.PROFILE_QUEUED: frozenset({JobState.PROFILING, JobState.QUEUED} | _BEFORE_QUEUE),
    JobState.PROFILING: frozenset(
        {
            JobState.PROFILE_QUEUED,
            JobState.QUEUED,
            JobState.RUNNING,
            JobState.COMPLETED,
            JobState.FAILED,
            JobState.CANCELLED,
            JobState.LOST,
        }
    ),
    JobState.QUEUED: frozenset({JobState.RUNNING, JobState.PROFILE_QUEUED} | _BEFORE_QUEUE),
    JobState.RUNNING: frozenset(
        {
            JobState.QUEUED,
            JobState.EVICTED,
            JobState.COMPLETED,
            JobState.FAILED,
            JobState.CANCELLED,
            JobState.LOST,
        }
    ),
    JobState.EVICTED: frozenset({JobState.QUEUED, JobState.CANCELLED}),
    JobState.FAILED: frozenset({JobState.QUEUED}),
    JobState.LOST: frozenset({JobState.QUEUED}),
    JobState.COMPLETED: frozenset(),
    JobState.CANCELLED: frozenset(),
}


def require_transition(from_state: JobState, to_state: JobState) -> None:
    """Raise ``StateError`` unless the arrow exists in the plan's picture of a job's life."""
    if to_state not in TRANSITIONS[from_state]:
        allowed = ", ".join(sorted(TRANSITIONS[from_state])) or "nothing, it has ended"
        raise StateError(f"a job that is {from_state} can become {allowed}; not {to_state}")


class Outcome(StrEnum):
    """How an attempt, and with it a job, ended."""

    COMPLETED = "completed"
    CANCELLED = "cancelled"
    FAILED_USER = "failed_user"
    FAILED_FRAMEWORK = "failed_framework"
    FAILED_INFRASTRUCTURE = "failed_infrastructure"
    FAILED_UNKNOWN = "failed_unknown"
    EVICTED = "evicted"
    LOST = "lost"
    CONTROL_PLANE_ERROR = "control_plane_error"

    @property
    def teaches_duration(self) -> bool:
        """Only completed runs teach how long a job takes."""
        return self is Outcome.COMPLETED


class Cause(StrEnum):
    """What kind of thing is to blame for an abnormal exit (R-3)."""

    USER = "user"
    FRAMEWORK = "framework"
    INFRASTRUCTURE = "infrastructure"
    CONTROL_PLANE = "control_plane"
    UNKNOWN = "unknown"


class AttemptState(StrEnum):
    """What is known of one attempt's processes."""

    PLACED = "placed"
    RUNNING = "running"
    STOPPING = "stopping"
    ENDED = "ended"


class Mode(StrEnum):
    """How far an automation may go (ARCHITECTURE section 2, idea 4)."""

    OFF = "off"
    SHADOW = "shadow"
    APPROVE = "approve"
    LIVE = "live"
