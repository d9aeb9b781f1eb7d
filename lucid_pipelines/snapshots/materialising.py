"""From a digest back to files in which a job may run and write."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from lucid_pipelines.domain.errors import StateError
from lucid_pipelines.snapshots.disk import (
    create_file,
    finish_sparse,
    store_errors,
    sync_paths,
    write_all,
    write_sparsely,
)
from lucid_pipelines.snapshots.manifests import DirectoryEntry, FileEntry, LinkEntry, Manifest
from lucid_pipelines.snapshots.paths import to_bytes
from lucid_pipelines.snapshots.results import Materialised
from lucid_pipelines.snapshots.store import SnapshotStore

_DIRECTORY_MODE = 0o755


def materialise(digest: str, store_root: Path, target_dir: Path) -> Materialised:
    """Make ``target_dir`` hold the files of a snapshot: own copies, checked against their hashes.

    Idempotent, also for two processes at once: when an earlier call completed, nothing is touched, so what a job
    wrote there meanwhile stays. Everything is built beside the target and renamed; a killed call leaves at most a
    hidden ``.<name>.*`` that the next one removes. ``.<name>.snapshot`` beside the target records the digest.

    Raises:
        NotFoundError: no such snapshot.
        CorruptSnapshotError: the store lost or damaged some content; nothing was put in place.
        StateError: the target holds something else.
        StoreFullError, ExternalError: the target's disk refused.
    """
    store = SnapshotStore(store_root)
    target = Path(target_dir).absolute()
    already = False
    with store_errors(target.parent):
        target.parent.mkdir(parents=True, exist_ok=True)
    with store.shared(), _record(target) as record:
        manifest = store.load_manifest(digest)
        _remove_leftovers(target)
        if _occupied(target):
            recorded = _read(record)
            if recorded != digest:
                raise StateError(
                    f"the target holds {recorded or 'something that is no snapshot'}, not {digest}; "
                    f"choose another place or remove it: {target}"
                )
            already = True
        else:
            _build(manifest, store, target, record)
    return Materialised(digest, target, manifest.file_count, manifest.total_bytes, already)


def _build(manifest: Manifest, store: SnapshotStore, target: Path, record: BinaryIO) -> None:
    building = target.parent / f".{target.name}.{secrets.token_hex(6)}.building"
    try:
        with store_errors(target.parent):
            building.mkdir()
            building.chmod(_DIRECTORY_MODE)
        root = os.open(building, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for entry in manifest.entries:
                _create(entry, root, store, target)
        finally:
            os.close(root)
        with store_errors(target.parent):
            paths = (f"{building}/{entry.path}" for entry in manifest.entries if not isinstance(entry, LinkEntry))
            sync_paths([str(building), *paths], building)
            _write(record, manifest.digest)
            building.rename(target)
    except BaseException:
        shutil.rmtree(building, ignore_errors=True)
        raise


def _create(entry: FileEntry | LinkEntry | DirectoryEntry, root: int, store: SnapshotStore, target: Path) -> None:
    path = to_bytes(entry.path)
    match entry:
        case DirectoryEntry():
            with store_errors(target):
                os.mkdir(path, dir_fd=root)
                os.chmod(path, _DIRECTORY_MODE, dir_fd=root)
        case LinkEntry():
            with store_errors(target):
                os.symlink(to_bytes(entry.target), path, dir_fd=root)
        case FileEntry():
            with store_errors(target):
                stream = create_file(path, entry.mode, dir_fd=root)
            with stream:
                for chunk in store.read_blob(entry):
                    with store_errors(target):
                        write_sparsely(stream, chunk) if entry.size > len(chunk) else write_all(stream, chunk)
                with store_errors(target):
                    finish_sparse(stream)


@contextmanager
def _record(target: Path) -> Iterator[BinaryIO]:
    """The file that says what the target holds; locked, so that one process at a time builds it."""
    path = target.parent / f".{target.name}.snapshot"
    with store_errors(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    with os.fdopen(descriptor, "r+b", buffering=0) as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield stream


def _read(record: BinaryIO) -> str:
    record.seek(0)
    return record.read(200).decode("ascii", "replace").strip()


def _write(record: BinaryIO, digest: str) -> None:
    record.seek(0)
    write_all(record, f"{digest}\n".encode())
    record.truncate(len(digest) + 1)
    os.fsync(record.fileno())


def _occupied(target: Path) -> bool:
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        return True
    return target.is_dir() and any(target.iterdir())


def _remove_leftovers(target: Path) -> None:
    prefix = f".{target.name}."
    for path in target.parent.iterdir():
        if path.name.startswith(prefix) and path.name.endswith(".building"):
            shutil.rmtree(path, ignore_errors=True)
