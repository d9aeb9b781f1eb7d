"""The manifest: a canonical list of what a snapshot holds. Its sha256 is the snapshot's digest.

JSON lines in ASCII: a header, then one line per entry, sorted by the bytes of the path. Directories are listed
too, so that empty ones come back. Nothing in it depends on time, order of reading, machine or user.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.snapshots.links import leaves_tree
from lucid_pipelines.snapshots.paths import quote, to_bytes, unquote

_HEADER = '{"format":"lucid-snapshot","version":1}'
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}\Z")
_HEX = re.compile(r"[0-9a-f]{64}\Z")


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A regular file: ``sha256`` (hex) of its content, ``mode`` its nine permission bits."""

    path: str
    mode: int
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class LinkEntry:
    """A symbolic link that stays inside the tree; ``target`` is relative."""

    path: str
    target: str


@dataclass(frozen=True, slots=True)
class DirectoryEntry:
    """A directory; the root itself is not listed."""

    path: str


Entry = FileEntry | LinkEntry | DirectoryEntry


@dataclass(frozen=True)
class Manifest:
    """Entries in canonical order. Paths are ``str`` with ``surrogateescape``, relative, ``/``-separated."""

    entries: tuple[Entry, ...]

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> Manifest:
        """Put entries into canonical order."""
        return cls(tuple(sorted(entries, key=lambda entry: to_bytes(entry.path))))

    @property
    def files(self) -> Iterator[FileEntry]:
        return (entry for entry in self.entries if isinstance(entry, FileEntry))

    @cached_property
    def file_count(self) -> int:
        return sum(1 for _ in self.files)

    @cached_property
    def total_bytes(self) -> int:
        return sum(entry.size for entry in self.files)

    @cached_property
    def encoded(self) -> bytes:
        """The canonical bytes."""
        return "\n".join((_HEADER, *map(_encode, self.entries), "")).encode("ascii")

    @cached_property
    def digest(self) -> str:
        return f"sha256:{hashlib.sha256(self.encoded).hexdigest()}"

    @cached_property
    def _by_path(self) -> dict[str, Entry]:
        return {entry.path: entry for entry in self.entries}

    def get(self, path: str) -> Entry | None:
        """The entry of that path, or ``None``."""
        return self._by_path.get(path)


def parse_manifest(data: bytes) -> Manifest:
    """Read canonical bytes back.

    Every entry is checked as if the bytes came from a stranger: relative paths without ``..``, each parent
    listed as a directory before its children, no link that leaves the tree.

    Raises:
        ValueError: the bytes are not what ``Manifest.encoded`` produces.
    """
    lines = data.decode("ascii").split("\n")
    if lines[0] != _HEADER or lines[-1] != "":
        raise ValueError(f"not a manifest of this version: {lines[0][:80]!r}")
    manifest = Manifest(tuple(_decode(line) for line in lines[1:-1]))
    if manifest.encoded != data:
        raise ValueError("the manifest is not in canonical form")
    _check_tree(manifest)
    return manifest


def digest_hex(digest: str) -> str:
    """The hexadecimal part of a digest.

    Raises:
        InputError: it is not a snapshot digest.
    """
    if not _DIGEST.match(digest):
        raise InputError(f"a snapshot digest is 'sha256:' and 64 hexadecimal digits; got {digest!r}")
    return digest.removeprefix("sha256:")


def _encode(entry: Entry) -> str:
    match entry:
        case FileEntry():
            row: dict[str, object] = {
                "mode": f"{entry.mode:03o}",
                "path": quote(entry.path),
                "sha256": entry.sha256,
                "size": entry.size,
                "type": "file",
            }
        case LinkEntry():
            row = {"path": quote(entry.path), "target": quote(entry.target), "type": "link"}
        case DirectoryEntry():
            row = {"path": quote(entry.path), "type": "dir"}
    return json.dumps(row, separators=(",", ":"))


def _decode(line: str) -> Entry:
    try:
        row = json.loads(line)
        path = unquote(row["path"])
        match row["type"]:
            case "file":
                mode, size, sha256 = int(row["mode"], 8), row["size"], row["sha256"]
                if not (0 <= mode <= 0o777 and isinstance(size, int) and size >= 0 and _HEX.match(sha256)):
                    raise ValueError("mode, size or sha256 out of range")
                return FileEntry(path, mode, size, sha256)
            case "link":
                return LinkEntry(path, unquote(row["target"]))
            case "dir":
                return DirectoryEntry(path)
            case other:
                raise ValueError(f"unknown type {other!r}")
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"unreadable manifest line ({error}): {line[:200]!r}") from error


def _check_tree(manifest: Manifest) -> None:
    links = {entry.path: entry.target for entry in manifest.entries if isinstance(entry, LinkEntry)}
    directories = {""}
    previous = b""
    for entry in manifest.entries:
        steps = entry.path.split("/")
        if any(step in ("", ".", "..") for step in steps) or "\0" in entry.path:
            raise ValueError(f"a manifest path is relative and plain; got {entry.path!r}")
        raw = to_bytes(entry.path)
        if raw <= previous:
            raise ValueError(f"manifest out of order or doubled at {entry.path!r}")
        previous = raw
        if "/".join(steps[:-1]) not in directories:
            raise ValueError(f"the directory of an entry is not listed: {entry.path!r}")
        if isinstance(entry, DirectoryEntry):
            directories.add(entry.path)
        elif isinstance(entry, LinkEntry) and (
            not entry.target or "\0" in entry.target or leaves_tree(entry.path, links)
        ):
            raise ValueError(f"a link leaves the tree: {entry.path!r} -> {entry.target!r}")
