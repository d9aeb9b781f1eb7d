"""What is done to attempts on the machine that runs them: start, look, stop, fence.

The local cluster calls it in its own process; other clusters send it to their nodes (see ``agent_bundle.py``):
standard library only, Python 3.9.
"""

from __future__ import annotations

import json
import logging
import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from lucid_pipelines.domain.errors import ExternalError, NotFoundError
from lucid_pipelines.resources.clusters import fencing, wrapper
from lucid_pipelines.resources.clusters.launcher import start_wrapper
from lucid_pipelines.resources.clusters.layout import SPEC_BYTES, Layout, replace_json
from lucid_pipelines.resources.clusters.start_records import (
    Started,
    is_alive,
    is_locked,
    read_record,
    read_started,
)

OWN_LOG_BYTES = 16 * 1024
_log = logging.getLogger(__name__)


def folder_of(layout: Layout, attempt_id: str) -> Path:
    """The folder of an attempt that was launched here.

    Raises:
        NotFoundError: none of this name was.
        ExternalError: the disk refuses.
    """
    try:
        folder = layout.find(attempt_id)
    except OSError as error:
        raise ExternalError(f"the cluster's folder cannot be read: {error}") from error
    if folder is None:
        raise NotFoundError(f"no attempt of this name was launched here: {attempt_id!r}")
    return folder


def live_ids(layout: Layout) -> list[str]:
    """Attempts that were launched and not yet seen to have ended. Raises ``ExternalError``."""
    try:
        return layout.live_ids()
    except OSError as error:
        raise ExternalError(f"the cluster's folder cannot be read: {error}") from error


def launch(
    layout: Layout, spec: Mapping[str, Any], job_dir: Path, program: Path, env: Mapping[str, str], timeout_s: float
) -> tuple[str, bool]:
    """Place an attempt and start its wrapper. Returns its log's path and whether it had been launched before.

    Raises:
        StateError: the attempt's folder belongs to another attempt.
        ExternalError: it could not be launched now; the same call may be repeated.
    """
    attempt_id = spec["attempt_id"]
    try:
        folder = layout.place(attempt_id, job_dir, spec)
        log_path = str(folder / wrapper.LOG)
        if any(os.path.lexists(folder / name) for name in (wrapper.EXIT, wrapper.STARTED)):
            return log_path, True
        for output in (spec["output_dir"], spec["checkpoint_dir"]):
            Path(output).mkdir(parents=True, exist_ok=True)
        layout.mark_live(attempt_id, folder)
    except (OSError, ValueError) as error:
        raise ExternalError(f"attempt {attempt_id!r} cannot be placed; launch it again: {error}") from error
    state = start_wrapper(program, folder / wrapper.SPEC, attempt_id, env, timeout_s)
    return log_path, state not in ("started", "spawn_failed")


def look(layout: Layout, attempt_id: str) -> dict[str, Any]:
    """What can be seen of an attempt, as JSON: ``sight`` and, where known, ``exit``, ``started_at``, ``detail``.

    Rules, in this order:

    1. An exit record stands: exited.
    2. No start record: not_started, provided that the place where it would be can be read.
    3. The wrapper's lock is held: running.
    4. An exit record stands after all (it ended while we looked): exited.
    5. Its folder was removed, which is not the same as out of sight: running while a process of it lives, else
       vanished.
    6. Otherwise vanished: started, no wrapper, no record.

    Whatever cannot be read or understood on the way: unobserved (R-1). Never raises for what the disk does.
    """
    try:
        return _look(layout, attempt_id)
    except (OSError, ValueError) as error:
        return {"sight": "unobserved", "detail": f"cannot be observed: {error}"}


def stop(layout: Layout, attempt_id: str, request: Mapping[str, Any]) -> None:
    """Ask an attempt to end; one that was never launched never starts. ``request`` is what ``stop.json`` says.

    Raises:
        ExternalError: it cannot be told now; the same call may be repeated.
    """
    reason = str(request["reason"])
    try:
        folder = layout.bury(attempt_id)
        if layout.was_removed(attempt_id):
            for process in fencing.wrappers_of(wrapper.process_table().values(), attempt_id):
                wrapper.send_signal(process.pid, process.start_ticks, signal.SIGTERM)
            return
        if os.path.lexists(folder / wrapper.EXIT):
            return
        unwritten = _try_to_write(folder / wrapper.STOP, request)
        started = read_started(folder)
        if started is None:
            _end_unstarted(folder, attempt_id, reason)
            started = read_started(folder)
    except (OSError, ValueError) as error:
        raise ExternalError(f"attempt {attempt_id!r} cannot be stopped now; call again: {error}") from error
    signalled = False
    if started is not None and started.boot_id == wrapper.boot_id():
        signalled = wrapper.send_signal(started.wrapper.pid, started.wrapper.start_ticks, signal.SIGTERM)
    if unwritten is not None and not signalled:
        raise ExternalError(f"attempt {attempt_id!r} cannot be told to stop; call again: {unwritten}")


def fence(layout: Layout, attempt_id: str, patience_s: float) -> int:
    """Kill whatever is left of an attempt and record that. Returns how many processes were found.

    Raises:
        ExternalError: a process survives SIGKILL, or the disk refuses.
    """
    try:
        folder = layout.bury(attempt_id)
        if layout.was_removed(attempt_id):
            folder.mkdir(parents=True, exist_ok=True)  # its disk is there: the record of its end needs a place
    except OSError as error:
        raise ExternalError(f"attempt {attempt_id!r} cannot be fenced; call again: {error}") from error
    found = fencing.fence(folder, attempt_id, patience_s)
    layout.unmark_live(attempt_id)
    return found


def shown(layout: Layout, attempt_id: str, since_s: float | None) -> dict[str, Any] | None:
    """What a running attempt has shown of its needs so far, or since a moment (seconds since 1970), summed up.

    ``None`` before its first sample.

    Raises:
        NotFoundError: no such attempt was ever launched here.
        ExternalError: its samples cannot be read.
    """
    folder = folder_of(layout, attempt_id)
    try:
        started = read_started(folder)
        if started is None:
            return None
        spec = wrapper.read_json(str(folder / wrapper.SPEC), SPEC_BYTES)
        samples = _read_samples(folder / wrapper.SAMPLES)
    except (OSError, ValueError) as error:
        raise ExternalError(f"the samples of an attempt cannot be read: {error}: {folder}") from error
    steady_from = started.started_at.timestamp() + float(spec["warmup_s"])
    if since_s is not None:
        steady_from = max(steady_from, since_s)
        samples = [sample for sample in samples if sample[0] >= since_s]
    if not samples:
        return None
    measured = spec["telemetry"] != "declared"
    return {**wrapper.summarise(samples, steady_from, measured), "source": spec["telemetry"]}


def _look(layout: Layout, attempt_id: str) -> dict[str, Any]:
    entry = layout.attempts / attempt_id  # leads through the link, which saves reading it
    record = read_record(entry, wrapper.EXIT)
    if record is not None:
        return {"sight": "exited", "exit": record}
    started = read_started(entry)
    if started is None:
        return _not_started(layout, attempt_id)
    started_at = started.started_at.isoformat()
    if is_locked(entry, started):
        return {"sight": "running", "started_at": started_at}
    record = read_record(entry, wrapper.EXIT)
    if record is not None:
        return {"sight": "exited", "exit": record}
    return {"sight": "vanished", "started_at": started_at, "detail": _vanished_detail(started)}


def _not_started(layout: Layout, attempt_id: str) -> dict[str, Any]:
    folder = layout.find(attempt_id)
    if folder is None:
        return {"sight": "not_started", "detail": "never launched here"}
    if layout.was_removed(attempt_id):
        return _removed(attempt_id)
    folder.stat()  # a folder that has gone away says nothing
    return {"sight": "not_started", "detail": _last_words(folder)}


def _removed(attempt_id: str) -> dict[str, Any]:
    """Somebody removed the folder of a launched attempt: its processes alone can tell what it does.

    A wrapper that has nobody left only tries to write a record that has no place any more.
    """
    table = wrapper.process_table()
    left = wrapper.marked(table.values(), attempt_id)
    for process in fencing.wrappers_of(table.values(), attempt_id):
        left += wrapper.descendants(table, process.pid)
    if any(process.state != "Z" for process in left):
        return {"sight": "running", "detail": "its folder was removed; it still runs, and cannot record its end"}
    return {"sight": "vanished", "detail": "its folder was removed, and nothing of it runs any more"}


def _last_words(folder: Path) -> str:
    try:
        said = wrapper.read_bytes(str(folder / wrapper.OWN_LOG), OWN_LOG_BYTES).decode("utf-8", "replace").strip()
    except (OSError, ValueError):
        said = ""
    return "placed, but its command has not started" + (f"; its wrapper said: {said[-500:]}" if said else "")


def _vanished_detail(started: Started) -> str:
    if started.boot_id != wrapper.boot_id():
        return "the machine was restarted while it ran"
    left = "still runs" if is_alive(started.main, started.boot_id) else "is gone"
    return f"its wrapper is gone without an exit record; its main process {started.main.pid} {left}"


def _end_unstarted(folder: Path, attempt_id: str, reason: str) -> None:
    """Record the end of an attempt that has no wrapper; with one, its wrapper reads the request itself."""
    lock = wrapper.take_lock(str(folder))
    if lock is None:
        return
    try:
        if not os.path.lexists(folder / wrapper.STARTED):
            fencing.record_end(folder, attempt_id, "stopped", f"before it started: {reason}", None)
    finally:
        os.close(lock)


def _try_to_write(path: Path, request: Mapping[str, Any]) -> OSError | None:
    """A full disk need not keep a job from being stopped: a bare signal means its own grace period."""
    try:
        replace_json(path, request)
    except OSError as error:
        _log.warning("a stop request cannot be written, a signal must do: %s", error)
        return error
    return None


def _read_samples(path: Path) -> list[wrapper.Sample]:
    samples: list[wrapper.Sample] = []
    with suppress(FileNotFoundError), path.open(encoding="utf-8") as file:
        for line in file:
            with suppress(ValueError, KeyError, TypeError):  # the line that is being written at this moment
                row = json.loads(line)
                samples.append((float(row["at"]), [(int(i), u, m, mib) for i, u, m, mib in row["gpus"]]))
    return samples
