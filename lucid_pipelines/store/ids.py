"""Names of jobs, attempts and locks."""

from __future__ import annotations

import os
import re
import secrets
import threading
from datetime import UTC, datetime

from lucid_pipelines.store.types import as_utc

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_EPOCH = datetime(2020, 1, 1, tzinfo=UTC)
_RANDOM_BITS = 28
_ID = re.compile(r"j-[0-9a-z]{12}")
_PREFIX = re.compile(r"j-[0-9a-z]{1,12}")


class JobIds:
    """Makes ids ``j-`` + 12 characters: 32 bits of seconds, 28 bits of chance, sortable by time.

    Ids made by one process within a second ascend, so that a batch keeps its order.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0
        self._process_id = os.getpid()

    def next(self, now: datetime) -> str:
        seconds = int((as_utc(now) - _EPOCH).total_seconds()) & 0xFFFFFFFF
        with self._lock:
            if self._process_id != os.getpid():  # a forked child must not count on from its parent
                self._last, self._process_id = 0, os.getpid()
            if self._last >> _RANDOM_BITS == seconds:
                value = self._last + 1 + secrets.randbelow(64)
            else:
                value = (seconds << _RANDOM_BITS) | secrets.randbits(_RANDOM_BITS - 1)
            self._last = value
        return "j-" + "".join(_ALPHABET[(value >> shift) & 31] for shift in range(55, -1, -5))


def attempt_id(job_id: str, number: int) -> str:
    """``<job id>-a<number>``, counted from 1."""
    return f"{job_id}-a{number}"


def job_id_of(attempt: str) -> str:
    """The job that an attempt id belongs to."""
    return attempt.rpartition("-a")[0]


def new_token() -> str:
    """A lock token that nobody guesses or makes twice."""
    return secrets.token_hex(16)


def is_job_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


def prefix_range(text: str) -> tuple[str, str] | None:
    """The half-open range of ids that begin with ``text``; ``None`` when no id can."""
    if _PREFIX.fullmatch(text) is None:
        return None
    return text, text[:-1] + chr(ord(text[-1]) + 1)
