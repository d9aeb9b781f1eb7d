"""What every command ends with; the table for people is in docs/operating.md, and a test keeps the two alike."""

from __future__ import annotations

from enum import IntEnum

from lucid_pipelines.domain.errors import (
    ExternalError,
    InputError,
    NotFoundError,
    NotPermittedError,
    StateError,
    TimedOutError,
)


class ExitStatus(IntEnum):
    """One meaning per number, the same for all commands. Those of errors are the numbers of the error tree."""

    DONE = 0
    ANSWER_IS_NO = 1
    WRONG_INPUT = InputError.exit_code
    NOT_FOUND = NotFoundError.exit_code
    WRONG_STATE = StateError.exit_code
    OUTSIDE_FAILED = ExternalError.exit_code
    NOT_PERMITTED = NotPermittedError.exit_code
    TIMED_OUT = TimedOutError.exit_code
    NEEDS_ATTENTION = 9
    NOT_COMPLETED = 10
    INTERRUPTED = 130
    NOBODY_LISTENS = 141
