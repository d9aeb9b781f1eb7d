"""Who runs an attempt, and whether it still does: read on the machine that runs it.

Also sent to nodes (see ``agent_bundle.py``): standard library only, Python 3.9.
"""

from __future__ import annotations

import errno
import fcntl
import os
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from lucid_pipelines.resources.clusters import wrapper

RECORD_BYTES = 1024 * 1024


@dataclass(frozen=True)
class Identity:
    """A process, beyond the reuse of its number (within one boot)."""

    pid: int
    start_ticks: int


@dataclass(frozen=True)
class Started:
    """Who runs an attempt."""

    wrapper: Identity
    main: Identity
    boot_id: str
    started_at: datetime


def read_started(folder: Path) -> Started | None:
    """``None`` when the attempt's command was never let go. Raises ``OSError`` or ``ValueError``."""
    data = read_record(folder, wrapper.STARTED)
    if data is None:
        return None
    try:
        return Started(
            _identity(data["wrapper"]), _identity(data["main"]), str(data["boot_id"]), moment(data["started_at"])
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"the start record cannot be understood ({error!r}): {folder}") from error


def is_locked(folder: Path, started: Started) -> bool:
    """Whether the wrapper that wrote ``started.json`` lives.

    Only to be asked once there is a start record: before, looking could keep a wrapper from starting.
    """
    try:
        fd = os.open(folder / wrapper.LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:  # somebody removed it; its holder can still be recognised
        return is_alive(started.wrapper, started.boot_id)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EAGAIN):
            return True
        raise
    finally:
        os.close(fd)
    return False


def is_alive(identity: Identity, boot_id: str) -> bool:
    process = wrapper.read_process(identity.pid)
    return (
        process is not None
        and process.start_ticks == identity.start_ticks
        and process.state not in "ZX"
        and boot_id == wrapper.boot_id()
    )


def read_record(folder: Path, name: str) -> dict[str, Any] | None:
    """One of the attempt's JSON files; ``None`` when it is not there. Raises ``OSError`` or ``ValueError``."""
    try:
        return wrapper.read_json(f"{folder}/{name}", RECORD_BYTES)
    except FileNotFoundError:
        return None


def moment(text: str) -> datetime:
    """A time with its zone. Raises ``ValueError``, or ``TypeError`` when it is no text."""
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError(f"a time needs its zone; got {text!r}")
    return found


def _identity(data: dict[str, Any]) -> Identity:
    return Identity(int(data["pid"]), int(data["start_ticks"]))
