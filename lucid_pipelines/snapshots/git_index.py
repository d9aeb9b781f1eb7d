"""Which files git tracks, read from the index of the work tree without running git.

Running git in a stranger's repository would run what its configuration names (hooks, file-system monitors).
Format: gitformat-index(5), versions 2 to 4.
"""

from __future__ import annotations

import hashlib
import os
import struct
from dataclasses import dataclass
from pathlib import Path

_MAX_INDEX_BYTES = 256 << 20
_FIXED = 62
_EXTENDED = 0x4000
_NAME_MASK = 0x0FFF
_TREE_MODE = 0o040000


class UnreadableIndexError(ValueError):
    """The index is not of a form that this reader knows."""


@dataclass(frozen=True, slots=True)
class WorkTree:
    """The git work tree around a directory: its top and its git directory."""

    top: Path
    git_dir: Path


def find_work_tree(directory: Path) -> WorkTree | None:
    """The innermost work tree that ``directory`` lies in, or ``None``."""
    for place in (directory, *directory.parents):
        marker = place / ".git"
        if marker.is_dir():
            return WorkTree(place, marker)
        if marker.is_file():
            pointer = marker.read_bytes()[:4096].strip()
            if pointer.startswith(b"gitdir: "):
                return WorkTree(place, place / os.fsdecode(pointer.removeprefix(b"gitdir: ")))
            return None
    return None


def tracked_paths(work_tree: WorkTree) -> frozenset[bytes]:
    """Paths in the index, relative to the top; empty when nothing was ever added.

    Raises:
        UnreadableIndexError: too large, split, sparse, damaged, or of another version.
    """
    path = work_tree.git_dir / "index"
    try:
        if path.stat().st_size > _MAX_INDEX_BYTES:
            raise UnreadableIndexError("the index is larger than 256 MiB")
        data = path.read_bytes()
    except FileNotFoundError:
        return frozenset()
    except OSError as error:
        raise UnreadableIndexError(str(error.strerror)) from error
    try:
        return frozenset(_parse(data))
    except (struct.error, ValueError, IndexError) as error:
        raise UnreadableIndexError(str(error)) from error


def _parse(data: bytes) -> list[bytes]:
    signature, version, count = struct.unpack_from(">4sII", data)
    if signature != b"DIRC" or version not in (2, 3, 4):
        raise UnreadableIndexError(f"index version {version}")
    # The trailing checksum is 20 bytes (SHA-1) or 32 (SHA-256), and so are the object names.
    hash_bytes = _hash_bytes(data)
    fixed = _FIXED - 20 + hash_bytes
    paths: list[bytes] = []
    offset, previous = 12, b""
    for _ in range(count):
        (mode,) = struct.unpack_from(">I", data, offset + 24)
        (flags,) = struct.unpack_from(">H", data, offset + fixed - 2)
        if mode == _TREE_MODE:
            raise UnreadableIndexError("a sparse index")
        start = offset + fixed + (2 if flags & _EXTENDED else 0)
        if version == 4:
            strip, start = _variable_int(data, start)
            end = data.index(b"\0", start)
            name = previous[: len(previous) - strip] + data[start:end]
            offset = end + 1
        else:
            length = flags & _NAME_MASK
            end = start + length if length < _NAME_MASK else data.index(b"\0", start)
            name = data[start:end]
            offset += (end - offset + 8) & ~7
        paths.append(name)
        previous = name
    if data[offset : offset + 4] == b"link":
        raise UnreadableIndexError("a split index")
    return paths


def _hash_bytes(data: bytes) -> int:
    for size, name in ((20, "sha1"), (32, "sha256")):
        if hashlib.new(name, data[:-size], usedforsecurity=False).digest() == data[-size:]:
            return size
    if data[-20:] == bytes(20):  # index.skipHash
        return 20
    raise UnreadableIndexError("its checksum does not match")


def _variable_int(data: bytes, offset: int) -> tuple[int, int]:
    byte = data[offset]
    value = byte & 0x7F
    while byte & 0x80:
        offset += 1
        byte = data[offset]
        value = ((value + 1) << 7) | (byte & 0x7F)
    return value, offset + 1
