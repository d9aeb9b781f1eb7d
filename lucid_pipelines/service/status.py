"""What is known of the running service: read by `up`, `down` and `doctor`, written by the supervisor alone."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from lucid_pipelines.service.dagster_home import RunFiles, run_files
from lucid_pipelines.settings import ModesSettings, Settings
from lucid_pipelines.whole_files import write_whole


@dataclass(frozen=True, slots=True)
class ProcessStatus:
    """One process; ``restarts`` counts how often it had to be started again."""

    pid: int
    restarts: int = 0
    last_exit: str | None = None


@dataclass(frozen=True, slots=True)
class ServiceStatus:
    """The service at one moment.

    Attributes:
        phase: starting, running, stopping or failed.
        modes: those of its automations; empty where an older program wrote the status.
    """

    pid: int
    phase: str
    url: str
    started_at: str
    detail: str | None = None
    processes: Mapping[str, ProcessStatus] = field(default_factory=dict)
    modes: Mapping[str, str] = field(default_factory=dict)


def write_status(files: RunFiles, status: ServiceStatus) -> None:
    """Replace the status file atomically."""
    write_whole(files.status, json.dumps(asdict(status), indent=1))


def read_status(files: RunFiles) -> ServiceStatus | None:
    """The last status that a supervisor wrote; ``None`` when there is none or it cannot be read."""
    try:
        raw: Any = json.loads(files.status.read_text(encoding="utf-8"))
        processes = {name: ProcessStatus(**values) for name, values in raw.pop("processes").items()}
        return ServiceStatus(**raw, processes=processes)
    except (OSError, ValueError, TypeError, KeyError):
        return None


def is_running(files: RunFiles) -> bool:
    """Whether a supervisor holds the service's lock: the truth, whatever the status file says."""
    lock = hold_lock(files)
    if lock is None:
        return True
    lock.close()
    return False


def modes_in_force(settings: Settings) -> ModesSettings:
    """The modes of the running service; without one, or where it tells none, those of the settings.

    A service reads its settings once; a shell may have others, by its environment or by a ``lucid.yaml`` that was
    changed meanwhile.
    """
    try:
        files = run_files(settings)
        status = read_status(files) if is_running(files) else None
        known = {} if status is None else {k: v for k, v in status.modes.items() if k in ModesSettings.model_fields}
        return ModesSettings.model_validate({**settings.modes.model_dump(), **known})
    except (OSError, ValueError):  # a folder of somebody else's, or written by another version of the program
        return settings.modes


def hold_lock(files: RunFiles) -> IO[str] | None:
    """Take the service's lock for the life of this process; ``None`` when somebody has it."""
    lock = files.lock.open("a", encoding="utf-8")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        return None
    return lock


def now_text() -> str:
    """The present moment as it stands in the status file."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def tail(path: Path, lines: int = 12, max_bytes: int = 16_384) -> str:
    """The end of a log, for an error message; empty when it cannot be read."""
    try:
        with path.open("rb") as stream:
            stream.seek(0, os.SEEK_END)
            stream.seek(max(0, stream.tell() - max_bytes))
            text = stream.read().decode("utf-8", errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])
