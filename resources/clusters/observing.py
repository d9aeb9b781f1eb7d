"""From an attempt's folder to what may be said of the attempt.

Rules, in this order:

1. An exit record stands: EXITED.
2. No start record: NOT_STARTED, provided that the place where it would be can be read.
3. The wrapper's lock is held: RUNNING.
4. An exit record stands after all (it ended while we looked): EXITED.
5. Otherwise VANISHED: started, no wrapper, no record.

Whatever cannot be read or understood on the way: UNOBSERVED (R-1).
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from lucid_pipelines.domain.job import ExitRecord
from lucid_pipelines.ports import Observation, Sight
from lucid_pipelines.resources.clusters import wrapper
from lucid_pipelines.resources.clusters.layout import Layout
from lucid_pipelines.resources.clusters.records import Started, is_alive, is_locked, read_exit, read_started

OWN_LOG_BYTES = 16 * 1024


def observe(layout: Layout, attempt_id: str, now: datetime) -> Observation:
    """What is known of one attempt; never raises for what the disk does."""
    try:
        return _look(layout, attempt_id, now)
    except (OSError, ValueError) as error:
        return Observation(attempt_id, Sight.UNOBSERVED, now, "local:error", detail=f"cannot be observed: {error}")


def _look(layout: Layout, attempt_id: str, now: datetime) -> Observation:
    entry = layout.attempts / attempt_id  # leads through the link, which saves reading it
    record = read_exit(entry)
    if record is not None:
        return _exited(attempt_id, record, now)
    started = read_started(entry)
    if started is None:
        return _not_started(layout, attempt_id, now)
    if is_locked(entry, started):
        return Observation(attempt_id, Sight.RUNNING, now, "local:lock", started.started_at)
    record = read_exit(entry)
    if record is not None:
        return _exited(attempt_id, record, now)
    detail = _vanished_detail(started)
    return Observation(attempt_id, Sight.VANISHED, now, "local:lock", started.started_at, detail=detail)


def _exited(attempt_id: str, record: ExitRecord, now: datetime) -> Observation:
    return Observation(
        attempt_id, Sight.EXITED, now, "local:exit_record", record.started_at, record, record.profile, record.detail
    )


def _not_started(layout: Layout, attempt_id: str, now: datetime) -> Observation:
    folder = layout.find(attempt_id)
    if folder is None:
        return Observation(attempt_id, Sight.NOT_STARTED, now, "local:registry", detail="never launched here")
    folder.stat()  # a folder that has gone away says nothing
    return Observation(attempt_id, Sight.NOT_STARTED, now, "local:registry", detail=_last_words(folder))


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
