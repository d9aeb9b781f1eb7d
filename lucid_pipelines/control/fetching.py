"""Logs as files of this machine, for what reads whole logs: fetched where they lie on another one."""

from __future__ import annotations

from pathlib import Path

from lucid_pipelines.control.intake import job_dir
from lucid_pipelines.control.system import System
from lucid_pipelines.domain.errors import ExternalError, NotFoundError
from lucid_pipelines.domain.job import Attempt
from lucid_pipelines.whole_files import whole_file

MOST_BYTES = 512 << 20
_PIECE_BYTES = 4 << 20
_NAME = "fetched.log"


def local_log(system: System, attempt: Attempt) -> Path | None:
    """The attempt's log on this machine; ``None`` when it has none.

    Of a log beyond 512 MiB only the end is fetched, which is counted (``logs_cut``).

    Raises:
        ExternalError: its node or this disk does not answer; the same call goes on later.
    """
    path = Path(attempt.log_path) if attempt.log_path else None
    if path is None or path.is_file():
        return path
    target = job_dir(system, attempt.job_id) / "attempts" / str(attempt.number) / _NAME
    try:
        return _fetch(system, attempt.attempt_id, target)
    except NotFoundError:
        return None
    except OSError as error:
        raise ExternalError(f"the log cannot be fetched: {error}: {target}") from error


def _fetch(system: System, attempt_id: str, target: Path) -> Path:
    size = system.cluster.read_log(attempt_id, 0, 1).size
    offset = max(0, size - MOST_BYTES)
    if offset:
        system.store.counters.add("logs_cut", now=system.clock.now())
    with whole_file(target) as temporary, temporary.open("wb") as file:
        while offset < size:
            chunk = system.cluster.read_log(attempt_id, offset, min(_PIECE_BYTES, size - offset))
            if not chunk.data:
                break
            file.write(chunk.data)
            offset = chunk.next_offset
    return target
