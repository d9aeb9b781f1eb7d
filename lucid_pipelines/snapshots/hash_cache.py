"""Remembers the hash of files that have not been touched, so that an unchanged tree is not read again.

A file counts as untouched when size, modification time, change time, inode and device are all as they were. The
change time is the kernel's own and cannot be set back by the user. One trap is left, which git calls racy: a file
written twice within one tick of the clock looks the same both times. So nothing is remembered of a file that was
changed less than two seconds before it was read.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from lucid_pipelines.snapshots.paths import to_bytes
from lucid_pipelines.snapshots.secret_contents import RULES_VERSION
from lucid_pipelines.snapshots.store import SnapshotStore

_RACY_NS = 2_000_000_000
_HEADER = {"cache": "lucid-hashes", "version": 2, "secret_rules": RULES_VERSION}


@dataclass(frozen=True, slots=True)
class Stamp:
    """The metadata by which a file is recognised."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    device: int

    @classmethod
    def of(cls, found: os.stat_result) -> Stamp:
        return cls(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_dev)


class HashCache:
    """Hashes of one source directory.

    A row is the metadata, whether the content was searched for secrets, and the hash. Files in which a secret was
    found are not remembered.
    """

    def __init__(self, rows: dict[str, tuple[int | str, ...]], name: str) -> None:
        self._old = rows
        self._new: dict[str, tuple[int | str, ...]] = {}
        self._name = name

    @classmethod
    def load(cls, store: SnapshotStore, source_dir: Path, warnings: list[str]) -> HashCache:
        """Read what is remembered of a source; what cannot be used is told and treated as nothing."""
        name = hashlib.sha256(to_bytes(str(source_dir))).hexdigest()
        try:
            header, rows = json.loads(store.cache_path(name).read_bytes())
            if header != _HEADER:
                return cls({}, name)  # written by another version: nothing is wrong with it
            return cls({path: tuple(row) for path, row in rows.items()}, name)
        except FileNotFoundError:
            return cls({}, name)
        except (OSError, ValueError, TypeError, AttributeError) as error:
            warnings.append(f"the cache of file hashes could not be used ({error}); every file was read")
            return cls({}, name)

    def get(self, path: str, found: os.stat_result, *, searched: bool) -> str | None:
        """The hash of an untouched file, or ``None``; also when it must be searched and was not."""
        row = self._old.get(path)
        if row is None or row[:-2] != _row(Stamp.of(found)) or (searched and not row[-2]):
            return None
        self._new[path] = row
        return str(row[-1])

    def put(self, path: str, found: os.stat_result, sha256: str, *, searched: bool, read_at_ns: int) -> None:
        """Remember a file that was read from ``read_at_ns`` (the epoch's nanoseconds) on."""
        if max(found.st_ctime_ns, found.st_mtime_ns) < read_at_ns - _RACY_NS:
            self._new[path] = (*_row(Stamp.of(found)), int(searched), sha256)

    def save(self, store: SnapshotStore) -> None:
        """Keep what this seal saw, and no more: entries of deleted files go."""
        if self._new != self._old:
            store.write_cache(self._name, json.dumps([_HEADER, self._new], separators=(",", ":")).encode())


def _row(stamp: Stamp) -> tuple[int, ...]:
    return (stamp.size, stamp.mtime_ns, stamp.ctime_ns, stamp.inode, stamp.device)
