"""Make sure that an attempt can never start or write again.

The order carries the proof: the marker is on disk before anything is killed, and a wrapper looks for the
marker after it took the lock. So whoever holds the lock while the marker stands knows that no wrapper of this
attempt lives and that none will ever run its command.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lucid_pipelines.domain.errors import ExternalError
from lucid_pipelines.resources.clusters import wrapper
from lucid_pipelines.resources.clusters.launcher import WRAPPER_MARKER
from lucid_pipelines.resources.clusters.processes import attempt_of
from lucid_pipelines.resources.clusters.start_records import Started, read_started

STEP_S = 0.02
LEAVE_S = 1.0
DISK_PATIENCE_S = 5.0


def fence(folder: Path, attempt_id: str, patience_s: float) -> int:
    """Mark, kill until the lock is ours and nobody is left, record. Returns how many processes were found.

    Raises:
        ExternalError: a process survives SIGKILL, or the marker or record cannot be written.
    """
    try:
        folder.mkdir(exist_ok=True)  # but not its parents: a disk that is not mounted must not be papered over
        (folder / wrapper.FENCED).touch()
        _let_it_leave(folder)
        lock, found = _kill_and_lock(folder, attempt_id, patience_s)
    except OSError as error:
        raise ExternalError(f"attempt {attempt_id!r} cannot be fenced; call again: {error}") from error
    try:
        detail = f"by the control plane; {found} of its processes were found and killed"
        record_end(folder, attempt_id, "fenced", detail, found)
    finally:
        os.close(lock)
    return found


def record_end(folder: Path, attempt_id: str, reason: str, detail: str, leftover_count: int | None) -> None:
    """Write the exit record that no wrapper will write; the caller holds the lock. An existing one stands.

    Raises:
        ExternalError: the disk refuses.
    """
    if os.path.lexists(folder / wrapper.EXIT):
        return
    spec: dict[str, Any] = {
        "attempt_id": attempt_id,
        "attempt_dir": str(folder),
        "disk_retry_s": DISK_PATIENCE_S,
    }
    record = wrapper.unstarted_record(spec, reason, detail)
    started = _started(folder)
    record["started_at"] = None if started is None else started.started_at.isoformat()
    if leftover_count is not None:
        record["leftovers"] = {"found": leftover_count, "killed": leftover_count, "survived": 0}
    try:
        reserve = wrapper.reserve_record(str(folder))
        try:
            wrapper.write_exit(spec, record, reserve)
        finally:
            os.close(reserve)
    except OSError as error:
        raise ExternalError(f"the end of attempt {attempt_id!r} cannot be recorded; call again: {error}") from error


def wrappers_of(processes: Iterable[wrapper.Process], attempt_id: str) -> list[wrapper.Process]:
    """An attempt's wrapper among these, known by its environment; a zombie is none."""
    return [p for p in wrapper.marked(processes, attempt_id, WRAPPER_MARKER) if p.state != "Z"]


def processes_of(folder: Path, attempt_id: str, started: Started | None) -> list[wrapper.Process]:
    """Every living process of an attempt, its wrapper first.

    Recognised by: number and start ticks in the start record; the main process's session or group; the
    attempt's id in the environment; the attempt's log open for writing; descent from any of these. Session
    alone does not convict a process whose environment names an attempt, because a session's number may be
    reused. This process and its ancestors are never taken.
    """
    table = wrapper.process_table()
    ours = _ancestry(table, os.getpid())
    others = {pid: process for pid, process in table.items() if pid not in ours}
    first = wrapper.marked(others.values(), attempt_id, WRAPPER_MARKER)
    found = {process.pid: process for process in first}
    if started is not None and started.boot_id == wrapper.boot_id():
        for identity in (started.wrapper, started.main):
            process = others.get(identity.pid)
            if process is not None and process.start_ticks == identity.start_ticks:
                found[process.pid] = process
        for process in _same_session(others, started):
            found[process.pid] = process
    for process in wrapper.marked(others.values(), attempt_id):
        found[process.pid] = process
    for process in _log_writers(others, folder):
        found[process.pid] = process
    for process in list(found.values()):
        for child in wrapper.descendants(table, process.pid):
            if child.pid not in ours:
                found[child.pid] = child
    return [process for process in found.values() if process.state not in "ZX"]


def _let_it_leave(folder: Path) -> None:
    """A wrapper that has written its record ends by itself in a moment: it is nothing that was left."""
    deadline = time.monotonic() + LEAVE_S
    while os.path.lexists(folder / wrapper.EXIT) and time.monotonic() < deadline:
        lock = wrapper.take_lock(str(folder))
        if lock is not None:
            os.close(lock)
            return
        time.sleep(STEP_S)


def _kill_and_lock(folder: Path, attempt_id: str, patience_s: float) -> tuple[int, int]:
    seen: set[tuple[int, int]] = set()
    lock: int | None = None
    deadline = time.monotonic() + patience_s
    try:
        while True:
            alive = processes_of(folder, attempt_id, _started(folder))
            for process in alive:
                seen.add((process.pid, process.start_ticks))
                wrapper.send_signal(process.pid, process.start_ticks, signal.SIGKILL)
            if lock is not None and not alive:
                return lock, len(seen)
            if lock is None:
                lock = wrapper.take_lock(str(folder))
            if time.monotonic() >= deadline:
                left = sorted(process.pid for process in alive)
                what = f"these processes survive SIGKILL: {left}" if left else "another process holds its lock"
                raise ExternalError(f"attempt {attempt_id!r} cannot be fenced yet; call again: {what}")
            if alive or lock is None:
                time.sleep(STEP_S)
    except BaseException:
        if lock is not None:
            os.close(lock)
        raise


def _started(folder: Path) -> Started | None:
    """The start record; without it, or when it is spoilt, environment and log still tell whose a process is."""
    try:
        return read_started(folder)
    except (OSError, ValueError):
        return None


def _same_session(table: dict[int, wrapper.Process], started: Started) -> list[wrapper.Process]:
    """Members of the main process's session or group, unless its number has passed to somebody else."""
    main = started.main
    leader = table.get(main.pid)
    if leader is not None and leader.start_ticks != main.start_ticks:
        return []
    members = [
        process
        for process in table.values()
        if main.pid in (process.session, process.pgrp) and process.start_ticks >= main.start_ticks
    ]
    return [process for process in members if attempt_of(process.pid) is None]  # named ones are found by name


def _log_writers(table: dict[int, wrapper.Process], folder: Path) -> list[wrapper.Process]:
    """Processes that can still write into the attempt's log; readers (``tail -f``) are left alone."""
    log = os.path.realpath(folder / wrapper.LOG)
    return [process for process in table.values() if _can_write(process.pid, {log, f"{log} (deleted)"})]


def _can_write(pid: int, paths: set[str]) -> bool:
    """Compares names and opens nothing behind them: a dead network disk must not hold up a fence."""
    try:
        with os.scandir(f"/proc/{pid}/fd") as descriptors:
            for descriptor in descriptors:
                if os.readlink(descriptor.path) in paths:  # noqa: PTH115 - a loop over thousands
                    flags = Path(f"/proc/{pid}/fdinfo/{descriptor.name}").read_text().split("flags:")[1].split()[0]
                    if int(flags, 8) & os.O_ACCMODE != os.O_RDONLY:
                        return True
    except (OSError, IndexError, ValueError):
        pass  # it ended meanwhile, or is not ours to look at
    return False


def _ancestry(table: dict[int, wrapper.Process], pid: int) -> set[int]:
    family: set[int] = set()
    while pid and pid not in family:
        family.add(pid)
        process = table.get(pid)
        pid = process.ppid if process is not None else 0
    return family
