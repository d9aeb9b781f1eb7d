"""What a sweep has measured, one line per replay: a sweep that was killed goes on where it was."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from lucid_pipelines.domain.errors import StateError
from lucid_pipelines.tuning.measuring import Measures
from lucid_pipelines.tuning.space import Values

FORMAT = "lucid-sweep/1"


def key_of(values: Values) -> str:
    """A point of the space as text, the same whatever the order of its settings."""
    return json.dumps(dict(sorted(values.items())), separators=(",", ":"))


class Journal:
    """Measures by scenario and point, in a file that only grows; without a file, in memory."""

    def __init__(self, path: Path | None, fingerprint: str) -> None:
        """Read what is there.

        Raises:
            StateError: the file belongs to other scenarios, is damaged, or another sweep is writing it.
        """
        self._path = path
        self._known: dict[tuple[str, str], Measures] = {}
        self.resumed = 0
        self._lock: IO[bytes] | None = None
        if path is None:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = _locked(path)
        data = path.read_bytes() if path.exists() else b""
        whole = data[: data.rfind(b"\n") + 1]
        if whole != data:
            # The line that a killed sweep was writing.
            with path.open("r+b") as file:
                file.truncate(len(whole))
        lines = whole.decode("utf-8", errors="replace").splitlines()
        if not lines:
            self._append({"format": FORMAT, "fingerprint": fingerprint})
            return
        head = _read(lines[0], path)
        if head.get("format") != FORMAT or head.get("fingerprint") != fingerprint:
            raise StateError(f"another trace's sweep lies here; choose another folder with --out, or remove {path}")
        for line in lines[1:]:
            row = _read(line, path)
            try:
                self._known[row["scenario"], key_of(row["values"])] = dict(row["measures"])
            except (KeyError, TypeError, ValueError, AttributeError):
                raise _damaged(line, path) from None
        self.resumed = len(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def get(self, scenario: str, values: Values) -> Measures | None:
        """What was measured; ``None`` = not yet."""
        return self._known.get((scenario, key_of(values)))

    def add(self, scenario: str, values: Values, measures: Measures) -> None:
        """Note one replay."""
        self._known[scenario, key_of(values)] = measures
        self._append({"scenario": scenario, "values": dict(values), "measures": dict(measures)})

    def _append(self, row: Mapping[str, object]) -> None:
        if self._path is None:
            return
        with self._path.open("ab") as file:
            file.write(json.dumps(row).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())


def _read(line: str, path: Path) -> dict[str, Any]:
    try:
        row = json.loads(line)
        if isinstance(row, dict):
            return row
    except (ValueError, RecursionError):
        pass
    raise _damaged(line, path)


def _damaged(line: str, path: Path) -> StateError:
    return StateError(f"the sweep's journal is damaged; remove the line, or the file {path}: {line[:80]!r}")


def _locked(path: Path) -> IO[bytes]:
    """Held as long as the journal is; the system lets go of it when the process dies."""
    lock = path.with_name(f".{path.name}.lock").open("ab")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise StateError(
            f"another sweep is at work in this folder; wait for it, or choose another: {path.parent}"
        ) from None
    return lock
