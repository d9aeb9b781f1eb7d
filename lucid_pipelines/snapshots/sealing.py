"""Sealing: from a working tree to a content-addressed snapshot (R-31, R-43).

list → check caps → read, recognise secrets, store → decide about links → publish the manifest. Two passes: the caps
are known before a byte is read, so that a huge tree costs nothing.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable
from pathlib import Path

from lucid_pipelines.domain.errors import ExternalError
from lucid_pipelines.snapshots.disk import finish_sparse, store_errors, write_sparsely
from lucid_pipelines.snapshots.errors import SourceChangedError, UnreadableSourceError
from lucid_pipelines.snapshots.hash_cache import HashCache
from lucid_pipelines.snapshots.limits import check_sizes, human_bytes
from lucid_pipelines.snapshots.manifests import FileEntry, Manifest
from lucid_pipelines.snapshots.opening import (
    DirectoryChain,
    EntryGoneError,
    EntrySwappedError,
    opened_root,
)
from lucid_pipelines.snapshots.paths import display, to_bytes
from lucid_pipelines.snapshots.results import (
    ExclusionReason,
    ProgressCallback,
    SealedSnapshot,
    SealProgress,
    SnapshotLimits,
)
from lucid_pipelines.snapshots.scanning import FoundFile, Listing, scan, secret_finding
from lucid_pipelines.snapshots.search_plan import plan_search
from lucid_pipelines.snapshots.secret_contents import find_secret, is_public_material
from lucid_pipelines.snapshots.store import CHUNK_BYTES, SnapshotStore

_IN_MEMORY_BYTES = 1 << 20
"""Files up to this size are read whole and searched for secrets."""
_READ_ATTEMPTS = 3
_PROGRESS_EVERY_S = 0.1

DEFAULT_LIMITS = SnapshotLimits()


def seal(
    source_dir: Path,
    store_root: Path,
    *,
    limits: SnapshotLimits = DEFAULT_LIMITS,
    progress: ProgressCallback | None = None,
    use_cache: bool = True,
    keep_out: Iterable[Path] = (),
) -> SealedSnapshot:
    """Put the tree below ``source_dir`` into the store and return its digest.

    Sealing the same content again yields the same digest and stores nothing. Any number of processes may seal at
    the same time; one that is killed leaves nothing that a later reader would take for a snapshot.

    Args:
        source_dir: the working tree; it is only read.
        store_root: the store; created when missing.
        limits: caps, checked before anything is read.
        progress: called about ten times a second, and at the end.
        use_cache: recognise untouched files by their metadata instead of reading them.
        keep_out: directories that are left out should they lie inside, besides the store itself.

    Raises:
        NotFoundError, InputError: there is no such directory; a cap is passed (``SnapshotTooLargeError``); something
            cannot be read (``UnreadableSourceError``).
        SourceChangedError: a file kept changing while it was read.
        StoreFullError, ExternalError: the store cannot be written.
    """
    source_dir = Path(source_dir).resolve()
    store = SnapshotStore(store_root)
    with opened_root(source_dir) as root:
        store.prepare()
        with store.shared():
            meter = _Meter(progress)
            listing = scan(root, source_dir, (store.root, *keep_out), limits, meter.listed)
            total = check_sizes(((file.path, file.found.st_size) for file in listing.files), limits)
            meter.begin(len(listing.files), total)
            cache = HashCache.load(store, source_dir, listing.warnings) if use_cache else HashCache({}, "")
            intake = _Intake(root, store, cache, listing, limits, meter)
            files = intake.take_all()
            manifest = Manifest.of([*files, *listing.links, *listing.directories])
            store.add_manifest(manifest, wrote_blobs=intake.new_bytes > 0 or intake.new_blobs > 0)
            if use_cache:
                _save(cache, store, listing.warnings)
            meter.end()
    return SealedSnapshot(
        digest=manifest.digest,
        file_count=manifest.file_count,
        total_bytes=manifest.total_bytes,
        new_bytes=intake.new_bytes,
        excluded=listing.excluded.report(),
        secrets=tuple(sorted(listing.secrets, key=lambda finding: finding.path)),
        warnings=tuple(listing.warnings),
        rehashed_count=intake.rehashed,
    )


class _Intake:
    """Reads the listed files, one after the other, into the store."""

    def __init__(
        self,
        root: int,
        store: SnapshotStore,
        cache: HashCache,
        listing: Listing,
        limits: SnapshotLimits,
        meter: _Meter,
    ) -> None:
        self._chain = DirectoryChain(root)
        self._store = store
        self._cache = cache
        self._listing = listing
        self._limits = limits
        self._meter = meter
        sizes = ((file.path, file.found.st_size) for file in listing.files)
        self._plan = plan_search(sizes, limits.max_searched_bytes)
        if self._plan.skipped_count:
            listing.warnings.append(
                f"{self._plan.skipped_count:,} files ({human_bytes(self._plan.skipped_bytes)}) were not searched for "
                f"secrets, only recognised by name (max_searched_bytes={limits.max_searched_bytes})"
            )
        self.new_bytes = 0
        self.new_blobs = 0
        self.rehashed = 0

    def take_all(self) -> list[FileEntry]:
        """Entries of all files that go into the snapshot; the rest is noted as excluded."""
        entries: list[FileEntry] = []
        try:
            for file in sorted(self._listing.files, key=lambda file: to_bytes(file.path)):
                entry = self._take(file)
                if entry is not None:
                    entries.append(entry)
                self._meter.add(file.found.st_size)
        finally:
            self._chain.close()
        return entries

    def _take(self, file: FoundFile) -> FileEntry | None:
        # A file with the name of a key is read every time: its content, not its hash, decides.
        searched = self._must_search(file)
        known = None if file.suspect else self._cache.get(file.path, file.found, searched=searched)
        if known is not None and self._store.has_blob(known, file.found.st_size):
            return _entry(file.path, file.found, known)
        self.rehashed += 1
        for _ in range(_READ_ATTEMPTS):
            try:
                descriptor, before = self._chain.open_regular(to_bytes(file.path))
            except EntryGoneError:
                self._listing.excluded.add(file.path, ExclusionReason.VANISHED, "")
                return None
            except EntrySwappedError:
                continue
            except OSError as error:
                raise UnreadableSourceError(
                    f"a file cannot be read ({error.strerror}); change its permissions or leave it out in "
                    f".lucidignore: {display(file.path)}"
                ) from error
            try:
                settled, entry = self._read(file, descriptor, before)
            finally:
                os.close(descriptor)
            if settled:
                return entry
        raise SourceChangedError(
            f"a file changed again and again while it was read; wait until it is written, or leave it out in "
            f".lucidignore: {display(file.path)}"
        )

    def _read(self, file: FoundFile, descriptor: int, before: os.stat_result) -> tuple[bool, FileEntry | None]:
        """Read once; the first value tells whether the file held still."""
        started_ns = time.time_ns()
        if before.st_size != file.found.st_size:
            check_sizes([(file.path, before.st_size)], self._limits)  # it grew since the caps were checked
        if before.st_size > _IN_MEMORY_BYTES:
            if file.suspect:  # it was small when it was listed, so that its content could decide
                self._listing.secrets.append(secret_finding(file.path, file.suspect.label, None))
                return True, None
            sha256 = self._stream(descriptor, before)
        else:
            data = _read_up_to(descriptor, before.st_size + 1, file.path)
            if len(data) != before.st_size or not _same(before, os.fstat(descriptor)):
                return False, None
            if self._is_secret(file, data):
                return True, None
            sha256 = hashlib.sha256(data).hexdigest()
            if self._store.add_bytes(data, sha256):
                self._count(len(data))
        if sha256 is None:
            return False, None
        searched = self._must_search(file)
        self._cache.put(file.path, before, sha256, searched=searched, read_at_ns=started_ns)
        return True, _entry(file.path, before, sha256)

    def _must_search(self, file: FoundFile) -> bool:
        asked_for = file.explicit is not None and file.explicit.names_one_file
        return file.path in self._plan.chosen and not asked_for

    def _is_secret(self, file: FoundFile, data: bytes) -> bool:
        if file.suspect and not is_public_material(data):
            self._listing.secrets.append(secret_finding(file.path, file.suspect.label, None))
            return True
        if not self._must_search(file):
            return False
        finding = find_secret(data, file.path)
        if finding:
            self._listing.secrets.append(secret_finding(file.path, finding.rule, finding.line))
        return finding is not None

    def _stream(self, descriptor: int, before: os.stat_result) -> str | None:
        """Copy a large file into the store while hashing it; ``None`` when it did not hold still."""
        digest = hashlib.sha256()
        left = before.st_size
        with self._store.incoming() as (stream, keep):
            while left and (chunk := os.read(descriptor, min(CHUNK_BYTES, left))):
                digest.update(chunk)
                left -= len(chunk)
                with store_errors(self._store.root):
                    write_sparsely(stream, chunk)
                self._meter.within(before.st_size - left)
            if left or not _same(before, os.fstat(descriptor)):
                return None
            with store_errors(self._store.root):
                finish_sparse(stream)
            sha256 = digest.hexdigest()
            if keep(sha256, before.st_size):
                self._count(before.st_size)
        return sha256

    def _count(self, size: int) -> None:
        self.new_blobs += 1
        self.new_bytes += size


class _Meter:
    """Tells the caller how far things are, not too often."""

    def __init__(self, callback: ProgressCallback | None) -> None:
        self._callback = callback
        self._next_at = 0.0
        self._files = 0
        self._bytes = 0
        self._files_total: int | None = None
        self._bytes_total: int | None = None

    def listed(self, count: int) -> None:
        self._tell(count, 0)

    def begin(self, files_total: int, bytes_total: int) -> None:
        self._files_total, self._bytes_total = files_total, bytes_total

    def within(self, bytes_of_file: int) -> None:
        self._tell(self._files, self._bytes + bytes_of_file)

    def add(self, size: int) -> None:
        self._files += 1
        self._bytes += size
        self._tell(self._files, self._bytes)

    def end(self) -> None:
        self._next_at = 0.0
        self._tell(self._files, self._bytes)

    def _tell(self, files: int, size: int) -> None:
        if self._callback is None or time.monotonic() < self._next_at:
            return
        self._next_at = time.monotonic() + _PROGRESS_EVERY_S
        self._callback(SealProgress(files, self._files_total, size, self._bytes_total))


def _save(cache: HashCache, store: SnapshotStore, warnings: list[str]) -> None:
    try:
        cache.save(store)
    except ExternalError as error:
        warnings.append(f"the snapshot is safe, but the next one will read every file again: {error}")


def _entry(path: str, found: os.stat_result, sha256: str) -> FileEntry:
    return FileEntry(path, found.st_mode & 0o777, found.st_size, sha256)


def _read_up_to(descriptor: int, most: int, path: str) -> bytes:
    try:
        data = os.read(descriptor, most)
        while len(data) < most and (more := os.read(descriptor, most - len(data))):
            data += more
    except OSError as error:
        raise UnreadableSourceError(f"a file cannot be read ({error.strerror}): {display(path)}") from error
    return data


def _same(before: os.stat_result, after: os.stat_result) -> bool:
    return (before.st_size, before.st_mtime_ns, before.st_ctime_ns) == (
        after.st_size,
        after.st_mtime_ns,
        after.st_ctime_ns,
    )
