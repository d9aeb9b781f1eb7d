"""The content-addressed store on disk.

``root/blobs/ab/cdef…`` one file per distinct content, ``root/manifests/ab/cdef…`` one per snapshot, ``root/tmp``
what is being written, ``root/corrupt`` what failed a check, ``root/hashes`` the metadata caches, ``root/lock``.

Whatever lies under ``blobs`` or ``manifests`` was written elsewhere and renamed, so a killed process leaves
nothing half done. A manifest appears only after everything that it names has reached the disk.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from lucid_pipelines.domain.errors import ExternalError, InputError, NotFoundError, StateError
from lucid_pipelines.snapshots.disk import create_file, store_errors, sync_paths, write_all
from lucid_pipelines.snapshots.errors import CorruptSnapshotError
from lucid_pipelines.snapshots.manifests import FileEntry, Manifest, digest_hex, parse_manifest
from lucid_pipelines.snapshots.paths import display

_FORMAT = b"lucid snapshots 1\n"
_OWN_NAMES = {"lock", "tmp", "blobs", "manifests", "hashes", "corrupt", "format"}
_POLL_S = 0.05
_SURELY_WRITTEN_S = 120
"""The kernel writes dirty pages back after about 30 s; four times that is taken as done."""
CHUNK_BYTES = 1 << 20


class SnapshotStore:
    """Reads and writes one store. Any number of processes may use it at the same time."""

    def __init__(self, root: Path) -> None:
        self.root = Path(root).absolute()
        # Plain strings where a path is made for every file: pathlib would take a third of the time.
        self._blobs = f"{self.root}/blobs"
        self._tmp = f"{self.root}/tmp"
        self._unsynced: set[str] = set()

    # --- life and locks -------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Create the store, or check that it is one of this version.

        Raises:
            InputError: the folder holds something else.
            StoreFullError, ExternalError: the disk refused.
        """
        with store_errors(self.root):
            self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
            strangers = {path.name for path in self.root.iterdir()} - _OWN_NAMES
            if strangers and not (self.root / "format").exists():
                raise InputError(
                    f"not an empty folder nor a snapshot store; give another one: {self.root} "
                    f"(it holds {min(strangers)!r})"
                )
            with (self.root / "lock").open("ab") as lock:
                fcntl.flock(lock, fcntl.LOCK_SH)
                for name in ("tmp", "blobs", "manifests", "hashes"):
                    (self.root / name).mkdir(exist_ok=True)
                if not (self.root / "format").exists():
                    self._write(_FORMAT, self.root / "format", durable=True)
        self._check_format()

    def _check_format(self) -> None:
        marker = self.root / "format"
        try:
            found = marker.read_bytes()
        except FileNotFoundError:
            raise NotFoundError(f"there is no snapshot store; seal something first: {self.root}") from None
        if found != _FORMAT:
            raise InputError(f"the store has format {found!r}, this version reads {_FORMAT!r}: {self.root}")

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Hold the store against garbage collection; the kernel lets go when the process dies."""
        self._check_format()
        with self._lock_file() as lock:
            if _try_lock(lock, fcntl.LOCK_EX):
                # Nobody else is at work, so whatever lies in tmp was left by a killed process.
                self.clear_temporary()
            fcntl.flock(lock, fcntl.LOCK_SH)
            yield

    @contextmanager
    def exclusive(self, wait_s: float) -> Iterator[None]:
        """Have the store alone.

        Raises:
            StateError: others kept it busy for ``wait_s``.
        """
        self._check_format()
        deadline = time.monotonic() + wait_s
        with self._lock_file() as lock:
            while not _try_lock(lock, fcntl.LOCK_EX):
                if time.monotonic() >= deadline:
                    raise StateError(f"the store was in use for {wait_s:g} s; try again later: {self.root}")
                time.sleep(_POLL_S)
            yield

    def _lock_file(self) -> BinaryIO:
        with store_errors(self.root):
            return (self.root / "lock").open("ab")

    def clear_temporary(self) -> int:
        """Remove what killed processes left in ``tmp``; only under an exclusive lock. Returns how many."""
        leftovers = list((self.root / "tmp").iterdir())
        for path in leftovers:
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        return len(leftovers)

    # --- content --------------------------------------------------------------------------------------

    def blob_path(self, sha256: str) -> str:
        return f"{self._blobs}/{sha256[:2]}/{sha256[2:]}"

    def has_blob(self, sha256: str, size: int) -> bool:
        """Whether the content is here at full size (a power cut can leave a short file)."""
        path = self.blob_path(sha256)
        try:
            found = os.stat(path)  # noqa: PTH116 - for every file
        except FileNotFoundError:
            return False
        if found.st_size != size:
            return False
        if found.st_ctime > time.time() - _SURELY_WRITTEN_S:
            # Perhaps from a seal that was killed before it flushed.
            self._unsynced.add(path)
        return True

    def add_bytes(self, data: bytes, sha256: str) -> bool:
        """Store content that is in memory; ``False`` when it was here already."""
        if self.has_blob(sha256, len(data)):
            return False
        path = self.blob_path(sha256)
        with store_errors(self.root):
            self._write(data, path, durable=False)
        self._unsynced.add(path)
        return True

    @contextmanager
    def incoming(self) -> Iterator[tuple[BinaryIO, Callable[[str, int], bool]]]:
        """A temporary file for content of unknown hash, and ``keep(sha256, size) -> was_new``.

        What is not kept is removed.
        """
        path = self._temporary()
        with store_errors(self.root):
            stream = create_file(path, 0o444)

        def keep(sha256: str, size: int) -> bool:
            stream.close()
            if self.has_blob(sha256, size):
                return False
            target = self.blob_path(sha256)
            with store_errors(self.root):
                self._rename(path, target)
            self._unsynced.add(target)
            return True

        try:
            yield stream, keep
        finally:
            stream.close()
            _remove(path)

    def read_blob(self, entry: FileEntry) -> Iterator[bytes]:
        """The content of a file, in chunks, checked at the end.

        Raises:
            CorruptSnapshotError: it is missing, short or damaged; a damaged one is set aside, so that sealing
                the source again mends the store.
        """
        path = self.blob_path(entry.sha256)
        seen = hashlib.sha256()
        size = 0
        try:
            with Path(path).open("rb", buffering=0) as stream:
                while chunk := stream.read(CHUNK_BYTES):
                    seen.update(chunk)
                    size += len(chunk)
                    yield chunk
        except FileNotFoundError:
            raise CorruptSnapshotError(
                f"the store lost the content of a file; submit the code again to mend it: "
                f"{display(entry.path)!r} (sha256 {entry.sha256})"
            ) from None
        except OSError as error:
            raise ExternalError(f"the store cannot be read ({error.strerror}): {path}") from error
        if size != entry.size or seen.hexdigest() != entry.sha256:
            where = self.set_aside(Path(path))
            raise CorruptSnapshotError(
                f"the store holds damaged content ({size} of {entry.size} bytes, {where}); submit the code "
                f"again to mend it: {display(entry.path)!r} (sha256 {entry.sha256})"
            )

    # --- manifests ------------------------------------------------------------------------------------

    def manifest_path(self, digest: str) -> Path:
        name = digest_hex(digest)
        return self.root / "manifests" / name[:2] / name[2:]

    def add_manifest(self, manifest: Manifest, *, wrote_blobs: bool) -> None:
        """Publish a snapshot once its content, added or looked up through this object, is on the disk."""
        path = self.manifest_path(manifest.digest)
        with store_errors(self.root):
            if not wrote_blobs and _holds(path, manifest.encoded):
                os.utime(path)  # counts as sealed now, for garbage collection
                return
            sync_paths(self._unsynced, self.root)
            self._write(manifest.encoded, path, durable=True)

    def load_manifest(self, digest: str) -> Manifest:
        """Raises ``NotFoundError`` or ``CorruptSnapshotError``."""
        path = self.manifest_path(digest)
        self._check_format()
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            raise NotFoundError(
                f"no such snapshot in {self.root}; it was never sealed here or has been collected: {digest}"
            ) from None
        if f"sha256:{hashlib.sha256(data).hexdigest()}" != digest:
            where = self.set_aside(path)
            raise CorruptSnapshotError(f"the manifest is damaged ({where}); submit the code again: {digest}")
        try:
            return parse_manifest(data)
        except ValueError as error:
            raise CorruptSnapshotError(f"the manifest cannot be used ({error}): {digest}") from error

    def digests(self) -> Iterator[tuple[str, Path]]:
        """Every snapshot in the store and its manifest's path."""
        for path in _two_levels(self.root / "manifests"):
            yield f"sha256:{path.parent.name}{path.name}", path

    def blobs(self) -> Iterator[tuple[str, Path]]:
        """Every content in the store: sha256 and path."""
        for path in _two_levels(self.root / "blobs"):
            yield path.parent.name + path.name, path

    # --- writing --------------------------------------------------------------------------------------

    def set_aside(self, path: Path) -> str:
        """Move something damaged out of the way; says what was done."""
        target = self.root / "corrupt" / f"{path.parent.name}{path.name}.{secrets.token_hex(4)}"
        try:
            target.parent.mkdir(exist_ok=True)
            path.rename(target)
        except OSError as error:
            return f"could not be set aside: {error.strerror}"
        return "set aside"

    def write_cache(self, name: str, data: bytes) -> None:
        """Replace a metadata cache."""
        with store_errors(self.root):
            self._write(data, self.root / "hashes" / name, durable=False)

    def cache_path(self, name: str) -> Path:
        return self.root / "hashes" / name

    def _temporary(self) -> str:
        return f"{self._tmp}/{os.getpid()}-{secrets.token_hex(8)}"

    def _write(self, data: bytes, target: Path | str, *, durable: bool) -> None:
        path = self._temporary()
        try:
            with create_file(path, 0o444) as stream:
                write_all(stream, data)
                if durable:
                    os.fsync(stream.fileno())
            self._rename(path, target)
        except BaseException:
            _remove(path)
            raise
        if durable:
            directory = os.open(Path(target).parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)

    def _rename(self, path: str, target: Path | str) -> None:
        try:
            os.replace(path, target)  # noqa: PTH105 - for every file
        except FileNotFoundError:
            Path(target).parent.mkdir(parents=True, exist_ok=True)
            Path(path).replace(target)


def _remove(path: str) -> None:
    Path(path).unlink(missing_ok=True)


def _try_lock(lock: BinaryIO, kind: int) -> bool:
    try:
        fcntl.flock(lock, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holds(path: Path, data: bytes) -> bool:
    try:
        return path.read_bytes() == data
    except FileNotFoundError:
        return False


def _two_levels(root: Path) -> Iterator[Path]:
    if root.is_dir():
        for shard in sorted(root.iterdir()):
            if shard.is_dir():
                yield from sorted(shard.iterdir())
