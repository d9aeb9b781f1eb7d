"""A snapshot as one tar stream, for machines that do not share the disk."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from lucid_pipelines.snapshots.manifests import DirectoryEntry, Entry, FileEntry, LinkEntry
from lucid_pipelines.snapshots.store import SnapshotStore

_DIRECTORY_MODE = 0o755


def write_archive(digest: str, store_root: Path, stream: BinaryIO) -> int:
    """Write an uncompressed POSIX tar of the snapshot; the same bytes for the same digest, everywhere.

    Contents are checked while they are written: when this raises, the stream must be thrown away.

    Returns:
        The number of files.

    Raises:
        NotFoundError, CorruptSnapshotError: no such snapshot, or content missing or damaged.
    """
    store = SnapshotStore(store_root)
    with (
        store.shared(),
        tarfile.open(
            fileobj=stream,
            mode="w|",
            format=tarfile.PAX_FORMAT,
            encoding="utf-8",
            errors="surrogateescape",
        ) as archive,
    ):
        manifest = store.load_manifest(digest)
        for entry in manifest.entries:
            content = _Content(store.read_blob(entry)) if isinstance(entry, FileEntry) else None
            archive.addfile(_header(entry), content)
            if content is not None:
                content.finish()
    return manifest.file_count


def _header(entry: Entry) -> tarfile.TarInfo:
    header = tarfile.TarInfo(entry.path)
    match entry:
        case FileEntry():
            header.size, header.mode = entry.size, entry.mode
        case LinkEntry():
            header.type, header.linkname, header.mode = tarfile.SYMTYPE, entry.target, 0o777
        case DirectoryEntry():
            header.type, header.mode = tarfile.DIRTYPE, _DIRECTORY_MODE
    return header


class _Content(io.RawIOBase):
    """Chunks as a readable stream."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._buffer = b""

    def read(self, size: int = -1, /) -> bytes:
        while len(self._buffer) < size or size < 0:
            chunk = next(self._chunks, None)
            if chunk is None:
                size = len(self._buffer)
                break
            self._buffer += chunk
        data, self._buffer = self._buffer[:size], self._buffer[size:]
        return data

    def finish(self) -> None:
        """Let the check at the end of the content run."""
        for _ in self._chunks:
            pass
