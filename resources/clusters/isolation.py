"""Reasons against using nodes, kept on disk: several owners, each of whom can lift only their own (R-17)."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from lucid_pipelines.domain.cluster import Isolation
from lucid_pipelines.domain.errors import ExternalError, InputError
from lucid_pipelines.resources.clusters import wrapper
from lucid_pipelines.resources.clusters.layout import replace_json

LEDGER_BYTES = 8 * 1024 * 1024


class IsolationLedger:
    """One file a node. Changes of several processes at once are put in line by a lock."""

    def __init__(self, folder: Path, now: Callable[[], datetime]) -> None:
        self._folder = folder
        self._now = now

    def of(self, node: str) -> tuple[Isolation, ...]:
        """Every reason against the node, oldest first.

        Raises:
            ExternalError: the ledger cannot be read; that is no evidence of a free node.
        """
        try:
            data = wrapper.read_json(str(self._file(node)), LEDGER_BYTES)
            return tuple(_from_json(row) for row in data["isolations"])
        except FileNotFoundError:
            return ()
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ExternalError(
                f"the isolations of node {node!r} cannot be read; mend or remove the file: {error}"
            ) from error

    def add(self, node: str, gpu_indices: Sequence[int], owner: str, reason: str) -> None:
        """Add a reason; the same owner's reason for the same GPUs is reworded and keeps its date."""
        if not owner or not reason:
            raise InputError(f"an isolation has an owner and a reason; got {owner!r}, {reason!r}")
        indices = tuple(sorted(set(gpu_indices)))
        with self._locked():
            kept = [i for i in self.of(node) if (i.owner, i.gpu_indices) != (owner, indices)]
            same = [i for i in self.of(node) if (i.owner, i.gpu_indices) == (owner, indices)]
            since = same[0].since if same else self._now()
            self._write(node, [*kept, Isolation(indices, owner, reason, since)])

    def remove(self, node: str, gpu_indices: Sequence[int], owner: str) -> None:
        """Lift the owner's reasons for these GPUs; for the whole node when none is named.

        A reason against several GPUs shrinks to those that are not named. A reason against the whole node is
        lifted only by naming no GPU: it cannot be turned into a list without guessing.
        """
        lifted = frozenset(gpu_indices)
        with self._locked():
            before = self.of(node)
            after: list[Isolation] = []
            for isolation in before:
                left = tuple(i for i in isolation.gpu_indices if i not in lifted)
                if isolation.owner != owner or (lifted and not isolation.gpu_indices):
                    after.append(isolation)
                elif lifted and left:
                    after.append(Isolation(left, owner, isolation.reason, isolation.since))
            if tuple(after) != before:
                self._write(node, after)

    def _write(self, node: str, isolations: Sequence[Isolation]) -> None:
        ordered = sorted(isolations, key=lambda isolation: isolation.since)
        try:
            replace_json(self._file(node), {"isolations": [_to_json(isolation) for isolation in ordered]})
        except OSError as error:
            raise ExternalError(f"the isolations of node {node!r} cannot be written: {error}") from error

    def _file(self, node: str) -> Path:
        return self._folder / f"{quote(node, safe='')}.json"

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            fd = os.open(self._folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        except OSError as error:
            raise ExternalError(f"the isolations cannot be locked: {error}") from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)


def _to_json(isolation: Isolation) -> dict[str, Any]:
    return {
        "gpu_indices": list(isolation.gpu_indices),
        "owner": isolation.owner,
        "reason": isolation.reason,
        "since": isolation.since.isoformat(),
    }


def _from_json(row: dict[str, Any]) -> Isolation:
    indices = tuple(int(index) for index in row["gpu_indices"])
    return Isolation(indices, str(row["owner"]), str(row["reason"]), datetime.fromisoformat(row["since"]))
