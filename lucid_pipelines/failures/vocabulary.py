"""The words in which a failure is told: classes, components, roles of a line, restart advice."""

from __future__ import annotations

from enum import StrEnum

from lucid_pipelines.domain.states import Cause, Outcome


class Category(StrEnum):
    """Who is to blame (SchedMate sections 2 and 13)."""

    INFRASTRUCTURE = "infrastructure"
    FRAMEWORK = "framework"
    USER_SCRIPT = "user_script"

    @property
    def cause(self) -> Cause:
        """The same in the words of the state database."""
        return _CAUSES[self]

    @property
    def outcome(self) -> Outcome:
        """The outcome of an attempt that ended this way."""
        return _OUTCOMES[self]


class Component(StrEnum):
    """What part of the infrastructure failed."""

    GPU = "gpu"
    NVLINK = "nvlink"
    NETWORK = "network"
    NODE = "node"
    STORAGE = "storage"


class Restart(StrEnum):
    """Whether running the job again can help."""

    ELSEWHERE = "elsewhere"
    """On other hardware, from the newest complete checkpoint."""
    AGAIN = "again"
    """A plain restart cures it (races, a taken port)."""
    AFTER_FIX = "after_fix"
    """Only when a person has mended the cause: a full disk, a cut checkpoint."""
    UNSURE = "unsure"
    """It may help, but only the wording says so: a person confirms."""
    NEVER = "never"

    @property
    def is_automatic(self) -> bool:
        """Whether the recovery policy may consider it without a person."""
        return self in (Restart.ELSEWHERE, Restart.AGAIN)


class Role(StrEnum):
    """What one record of a log is in the story of a failure."""

    ROOT = "root"
    """Names a cause by itself."""
    WEAK = "weak"
    """A cause only when nothing better is seen: what a lost peer looks like from outside."""
    CASCADE = "cascade"
    """An echo: launcher summaries, victims of signals, aborts of other ranks (R-7)."""
    EVIDENCE = "evidence"
    """Not an error of the job, but tells what kind of error it was."""
    CANCEL = "cancel"
    """Ended on purpose: by the user, the scheduler, a time limit."""
    SUCCESS = "success"
    HANDLED = "handled"
    """Says that the program went on after an error."""
    RESTARTED = "restarted"
    TEARDOWN = "teardown"
    """Printed while a finished program is taken apart (R-5)."""
    BENIGN = "benign"
    """Looks like an error and is none."""
    UNKNOWN = "unknown"
    """Looks like an error; no rule knows it."""
    NONE = "none"


class Ending(StrEnum):
    """What a log says about how the run ended."""

    FAILED = "failed"
    SUCCEEDED = "succeeded"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"
    PREEMPTED = "preempted"
    TIME_LIMIT = "time_limit"
    TERMINATED = "terminated"
    """A termination signal came from outside and nothing earlier explains it."""
    ROOT_LOST = "root_lost"
    """Only echoes are left: the part that held the cause is not in the log."""
    UNKNOWN = "unknown"

    @property
    def is_blameless(self) -> bool:
        """Whether nothing is to blame: no restart, no isolation follows from such a log."""
        return self is not Ending.FAILED


_CAUSES = {
    Category.INFRASTRUCTURE: Cause.INFRASTRUCTURE,
    Category.FRAMEWORK: Cause.FRAMEWORK,
    Category.USER_SCRIPT: Cause.USER,
}
_OUTCOMES = {
    Category.INFRASTRUCTURE: Outcome.FAILED_INFRASTRUCTURE,
    Category.FRAMEWORK: Outcome.FAILED_FRAMEWORK,
    Category.USER_SCRIPT: Outcome.FAILED_USER,
}
