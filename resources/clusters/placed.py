"""Which nodes an attempt was sent to, written down before it is sent: for clusters of several machines.

Below the cluster's root on the control plane's disk, in ``attempts/ID`` (see ``layout.py``)::

    nodes.json   the nodes in rank order and the job; its presence means that the attempt may be on them
    exit.json    the attempt was stopped or fenced before it was sent anywhere, or its node was taken out of the
                 cluster for good; written like a wrapper's record

and in ``by_job/JOB/NUMBER`` the id of the job's attempt of that number.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lucid_pipelines.domain.errors import ExternalError
from lucid_pipelines.resources.clusters import attempts, fencing, wrapper
from lucid_pipelines.resources.clusters.layout import SPEC_BYTES, Layout, checked_id, write_once

NODES = "nodes.json"
FENCE_PATIENCE_S = 5.0


@dataclass(frozen=True, slots=True)
class Sent:
    """Where an attempt was sent; ``log_path`` is for people to read, ``NODE:PATH``."""

    attempt_id: str
    job_id: str
    attempt_number: int
    nodes: tuple[str, ...]


class PlacedAttempts:
    """The register. Any number of processes may use it at once.

    Methods raise ``ExternalError`` when the disk refuses: that is no evidence that nothing was sent.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def record(self, sent: Sent) -> Sent | None:
        """Note where an attempt is about to be sent; the first caller's word stands.

        Returns:
            Where it is to be sent; ``None`` when it was stopped or fenced before and must never start.
        """
        with self._locked(sent.attempt_id) as folder:
            if os.path.lexists(folder / wrapper.EXIT) and not os.path.lexists(folder / NODES):
                return None
            self._by_job(sent.job_id).mkdir(parents=True, exist_ok=True)
            (self._by_job(sent.job_id) / str(sent.attempt_number)).write_text(sent.attempt_id)
            return _sent(write_once(folder / NODES, _to_json(sent)))

    def find(self, attempt_id: str) -> Sent | None:
        """Where it was sent; ``None`` when it was sent nowhere."""
        try:
            folder = self._layout.attempts / checked_id(attempt_id)
            return _sent(wrapper.read_json(str(folder / NODES), SPEC_BYTES))
        except FileNotFoundError:
            self._reachable()
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ExternalError(f"it cannot be read where attempt {attempt_id!r} was sent: {error}") from error

    def latest_of(self, job_id: str, before: int) -> Sent | None:
        """The last attempt of a job with a number below ``before`` that was sent anywhere."""
        try:
            entries = [entry for entry in self._by_job(job_id).iterdir() if entry.name.isdigit()]
            earlier = sorted((entry for entry in entries if int(entry.name) < before), key=lambda e: int(e.name))
            return self.find(earlier[-1].read_text()) if earlier else None
        except FileNotFoundError:
            self._reachable()
            return None
        except OSError as error:
            raise ExternalError(f"the register of attempts cannot be read: {error}") from error

    def known(self, attempt_id: str) -> bool:
        """Whether the id was ever used here."""
        try:
            return (self._layout.attempts / checked_id(attempt_id)).is_dir() or self._reachable()
        except OSError as error:
            raise ExternalError(f"the register of attempts cannot be read: {error}") from error

    def look(self, attempt_id: str) -> dict[str, Any]:
        """What this disk alone says of an attempt (see ``attempts.look``)."""
        return attempts.look(self._layout, attempt_id)

    def stop_unsent(self, attempt_id: str, request: Mapping[str, Any]) -> bool:
        """Keep an attempt that was sent nowhere from ever being sent; ``False`` when it was sent."""
        with self._locked(attempt_id) as folder:
            if os.path.lexists(folder / NODES):
                return False
            attempts.stop(self._layout, attempt_id, request)
            return True

    def fence_unsent(self, attempt_id: str) -> bool:
        """As ``stop_unsent``, for a fence."""
        with self._locked(attempt_id) as folder:
            if os.path.lexists(folder / NODES):
                return False
            fencing.fence(folder, attempt_id, FENCE_PATIENCE_S)
            return True

    def end(self, attempt_id: str, detail: str) -> None:
        """Record as fenced what was sent to a machine that is no longer part of the cluster."""
        with self._locked(attempt_id) as folder:
            fencing.record_end(folder, attempt_id, "fenced", detail, None)

    def _by_job(self, job_id: str) -> Path:
        return self._layout.root / "by_job" / checked_id(job_id)

    def _reachable(self) -> bool:
        self._layout.attempts.stat()  # a root that has gone away is no evidence that nothing was sent
        return False

    @contextmanager
    def _locked(self, attempt_id: str) -> Iterator[Path]:
        try:
            folder = self._layout.attempts / checked_id(attempt_id)
            folder.mkdir(exist_ok=True)
            fd = os.open(folder / ".register", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise ExternalError(f"attempt {attempt_id!r} cannot be registered; call again: {error}") from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield folder
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ExternalError(f"attempt {attempt_id!r} cannot be registered; call again: {error}") from error
        finally:
            os.close(fd)


def _to_json(sent: Sent) -> dict[str, Any]:
    return {
        "attempt_id": sent.attempt_id,
        "job_id": sent.job_id,
        "attempt_number": sent.attempt_number,
        "nodes": list(sent.nodes),
    }


def _sent(data: Mapping[str, Any]) -> Sent:
    return Sent(
        str(data["attempt_id"]), str(data["job_id"]), int(data["attempt_number"]), tuple(map(str, data["nodes"]))
    )
