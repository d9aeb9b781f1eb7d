"""Reading what the wrapper wrote. A record that cannot be understood is no evidence, so it raises."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from lucid_pipelines.domain.job import ExitRecord, Profile
from lucid_pipelines.resources.clusters import wrapper

RECORD_BYTES = 1024 * 1024
_REASONS = frozenset({"exited", "stopped", "spawn_failed", "fenced"})


@dataclass(frozen=True, slots=True)
class Identity:
    """A process, beyond the reuse of its number (within one boot)."""

    pid: int
    start_ticks: int


@dataclass(frozen=True, slots=True)
class Started:
    """Who runs an attempt."""

    wrapper: Identity
    main: Identity
    boot_id: str
    started_at: datetime


def read_started(folder: Path) -> Started | None:
    """``None`` when the attempt's command was never let go. Raises ``OSError`` or ``ValueError``."""
    data = _read(folder, wrapper.STARTED)
    if data is None:
        return None
    try:
        return Started(
            _identity(data["wrapper"]), _identity(data["main"]), str(data["boot_id"]), _moment(data["started_at"])
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"the start record cannot be understood ({error!r}): {folder}") from error


def read_exit(folder: Path) -> ExitRecord | None:
    """``None`` when there is no exit record. Raises ``OSError`` or ``ValueError``."""
    data = _read(folder, wrapper.EXIT)
    if data is None:
        return None
    try:
        return _exit_record(data)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"the exit record cannot be understood ({error!r}): {folder}") from error


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


def profile_of(data: Mapping[str, Any]) -> Profile:
    """A profile as the wrapper sums it up."""
    source = data.get("source")
    return Profile(
        gpu_util_pct=wrapper.within(data.get("gpu_util_pct"), 100.0),
        memory_util_pct=wrapper.within(data.get("memory_util_pct"), 100.0),
        memory_peak_mib=wrapper.within(data.get("memory_peak_mib"), None),
        window_s=wrapper.within(data.get("window_s"), None),
        sample_count=int(data.get("sample_count") or 0),
        source=None if source is None else str(source),
        unknown_because=None if data.get("unknown_because") is None else str(data["unknown_because"]),
    )


def _exit_record(data: Mapping[str, Any]) -> ExitRecord:
    reason = data["reason"]
    if reason not in _REASONS:
        raise ValueError(f"an exit record has a reason of {sorted(_REASONS)}; got {reason!r}")
    leftovers = data.get("leftovers")
    profile = data.get("profile")
    detail = [text for text in (data.get("detail"), data.get("declared_problem")) if text]
    return ExitRecord(
        exit_code=_whole(data["exit_code"]),
        signal=_whole(data["signal"]),
        reason=reason,
        started_at=None if data["started_at"] is None else _moment(data["started_at"]),
        ended_at=_moment(data["ended_at"]),
        detail="; ".join(detail) or None,
        profile=None if profile is None else profile_of(profile),
        declared=tuple(sorted((str(k), str(v)) for k, v in (data.get("declared") or {}).items())),
        leftover_count=None if leftovers is None else _whole(leftovers["found"]),
    )


def _read(folder: Path, name: str) -> dict[str, Any] | None:
    try:
        return wrapper.read_json(f"{folder}/{name}", RECORD_BYTES)
    except FileNotFoundError:
        return None


def _identity(data: Mapping[str, Any]) -> Identity:
    return Identity(int(data["pid"]), int(data["start_ticks"]))


def _whole(value: Any) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise TypeError(f"a whole number or null; got {value!r}")


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"a time needs its zone; got {text!r}")
    return moment
