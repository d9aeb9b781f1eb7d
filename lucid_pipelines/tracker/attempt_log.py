"""The log of an attempt, read through the cluster port: what ``follow`` needs of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from lucid_pipelines.ports import LogChunk

_MAX_READ_BYTES = 1 << 20


class ReadsLogs(Protocol):
    """The part of a cluster that is needed here."""

    def read_log(self, attempt_id: str, offset: int, max_bytes: int) -> LogChunk: ...


@dataclass(frozen=True, slots=True)
class AttemptLog:
    """A ``LogSource`` over ``Cluster.read_log``. Raises ``ExternalError`` when the cluster cannot be reached."""

    cluster: ReadsLogs
    attempt_id: str

    def size(self) -> int:
        """How many bytes the log has now."""
        return self.cluster.read_log(self.attempt_id, 0, 1).size

    def read_at(self, offset: int, size: int) -> bytes:
        """At most ``size`` bytes from ``offset``; nothing where the log has meanwhile shrunk below it."""
        found = bytearray()
        while len(found) < size:
            wanted = min(size - len(found), _MAX_READ_BYTES)
            chunk = self.cluster.read_log(self.attempt_id, offset + len(found), wanted)
            if chunk.restarted or not chunk.data:
                break
            found += chunk.data[:wanted]
        return bytes(found)
