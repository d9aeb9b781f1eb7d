"""Removing snapshots that nobody needs, while others seal."""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from pathlib import Path

from lucid_pipelines.domain.errors import NotFoundError
from lucid_pipelines.snapshots.disk import store_errors
from lucid_pipelines.snapshots.errors import CorruptSnapshotError
from lucid_pipelines.snapshots.manifests import digest_hex
from lucid_pipelines.snapshots.results import CollectedGarbage
from lucid_pipelines.snapshots.store import SnapshotStore


def garbage_collect(
    store_root: Path,
    keep: Collection[str],
    older_than: timedelta,
    *,
    now: datetime | None = None,
    wait_s: float = 30.0,
) -> CollectedGarbage:
    """Remove snapshots that are neither in ``keep`` nor sealed within ``older_than``, and content only they used.

    Safe against seals and materialisations at the same time: they hold the store's lock shared, the collection holds
    it alone. A digest that was returned but is not yet recorded by the caller is protected by its age.

    Args:
        keep: digests that some job may still need.
        older_than: age since a snapshot was last sealed.
        now: present moment, timezone-aware; default: the system's.
        wait_s: how long to wait for seals under way.

    Raises:
        InputError: ``keep`` holds something that is no digest.
        NotFoundError: there is no store.
        StateError: the store stayed busy for ``wait_s``.
    """
    for digest in keep:
        digest_hex(digest)
    store = SnapshotStore(store_root)
    cutoff_s = ((now or datetime.now(UTC)) - older_than).timestamp()
    wanted = set(keep)
    seen: set[str] = set()
    used: set[str] = set()
    corrupt: list[str] = []
    manifests_removed = bytes_freed = blobs_removed = 0
    with store.exclusive(wait_s), store_errors(store.root):
        store.clear_temporary()
        for digest, path in list(store.digests()):
            seen.add(digest)
            found = path.stat()
            if digest not in wanted and found.st_mtime < cutoff_s:
                path.unlink()
                manifests_removed += 1
                bytes_freed += found.st_size
                continue
            try:
                used.update(entry.sha256 for entry in store.load_manifest(digest).files)
            except (CorruptSnapshotError, NotFoundError):
                corrupt.append(digest)
        for sha256, path in store.blobs():
            found = path.stat()
            if sha256 not in used and found.st_mtime < cutoff_s:
                path.unlink()
                blobs_removed += 1
                bytes_freed += found.st_size
        _remove_old_caches(store, cutoff_s)
    return CollectedGarbage(
        manifests_removed=manifests_removed,
        blobs_removed=blobs_removed,
        bytes_freed=bytes_freed,
        manifests_kept=len(seen) - manifests_removed - len(corrupt),
        missing=tuple(sorted(wanted - seen)),
        corrupt=tuple(corrupt),
    )


def _remove_old_caches(store: SnapshotStore, cutoff_s: float) -> None:
    for path in (store.root / "hashes").iterdir():
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_mtime < cutoff_s:
                path.unlink()
