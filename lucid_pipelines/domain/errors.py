"""One error tree. Every message says what to do and ends in the value that was wrong."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class LucidError(Exception):
    """Base of every error that this project raises on purpose.

    ``exit_code`` is what the command line returns for it.
    """

    exit_code = 1


class InputError(LucidError):
    """What the caller gave cannot be used; they can mend it. So is a choice that is not among those offered."""

    exit_code = 2


class NotFoundError(InputError):
    """The named thing (a job, a file, a node, a recorded day) does not exist."""

    exit_code = 4


class StateError(LucidError):
    """The thing exists but is in a state that forbids the request, or somebody else changed it first."""

    exit_code = 5


class StaleLockError(StateError):
    """The worker lost its lock: its result must be dropped."""


class ExternalError(LucidError):
    """Something outside (cluster, disk, database, model server) failed or did not answer."""

    exit_code = 6


class UnreachableError(ExternalError):
    """A machine does not answer: nothing is known of what was asked of it (R-1), and asking again may help."""


class NotPermittedError(LucidError):
    """The request is understood and refused."""

    exit_code = 7


class TimedOutError(LucidError, TimeoutError):
    """What was waited for has not come in the time that the caller gave."""

    exit_code = 8


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `` (did you mean 'x'?)`` for the nearest known name, or an empty string.

    Args:
        name: what the user wrote.
        known: valid names.
    """
    matches = get_close_matches(name, sorted(known), n=1, cutoff=0.5)
    return f" (did you mean {matches[0]!r}?)" if matches else ""
