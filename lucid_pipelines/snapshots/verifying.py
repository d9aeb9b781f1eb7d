"""Looking into a stored snapshot without unpacking it."""

from __future__ import annotations

from pathlib import Path

from lucid_pipelines.domain.errors import NotFoundError, did_you_mean
from lucid_pipelines.snapshots.errors import CorruptSnapshotError
from lucid_pipelines.snapshots.manifests import FileEntry, Manifest
from lucid_pipelines.snapshots.paths import display
from lucid_pipelines.snapshots.store import SnapshotStore

_SHOWN = 5


def manifest(digest: str, store_root: Path) -> Manifest:
    """What a snapshot holds; the manifest itself is checked, the contents are not.

    Raises:
        NotFoundError, CorruptSnapshotError: no such snapshot, or its manifest is damaged.
    """
    return SnapshotStore(store_root).load_manifest(digest)


def verify(digest: str, store_root: Path) -> Manifest:
    """Read every byte of a snapshot and compare it with its hash.

    Damaged contents are set aside, so that sealing the source again mends the store.

    Raises:
        NotFoundError: no such snapshot.
        CorruptSnapshotError: names how many files are missing or damaged, and the first few.
    """
    store = SnapshotStore(store_root)
    broken: dict[str, str] = {}
    with store.shared():
        found = store.load_manifest(digest)
        checked: set[str] = set()
        for entry in found.files:
            if entry.sha256 in checked:
                continue
            checked.add(entry.sha256)
            try:
                for _ in store.read_blob(entry):
                    pass
            except CorruptSnapshotError as error:
                broken[entry.path] = str(error)
    if broken:
        names = ", ".join(display(path) for path in list(broken)[:_SHOWN])
        raise CorruptSnapshotError(
            f"{len(broken)} contents of the snapshot are missing or damaged ({names}); {next(iter(broken.values()))}; "
            f"snapshot {digest}"
        )
    return found


def read_file(digest: str, store_root: Path, path: str, max_bytes: int) -> bytes:
    """Up to ``max_bytes`` of a file's beginning, without unpacking the snapshot.

    Links are not followed and nothing outside the snapshot can be named (R-43).

    Raises:
        NotFoundError: no such snapshot, or no such file in it.
        CorruptSnapshotError: the content is missing.
    """
    store = SnapshotStore(store_root)
    found = store.load_manifest(digest)
    entry = found.get(path)
    if not isinstance(entry, FileEntry):
        near = did_you_mean(path, (file.path for file in found.files))
        raise NotFoundError(f"no such file in the snapshot{near}: {display(path)!r}")
    try:
        with Path(store.blob_path(entry.sha256)).open("rb") as stream:
            return stream.read(max_bytes)
    except FileNotFoundError:
        raise CorruptSnapshotError(
            f"the store lost the content of a file; submit the code again to mend it: {display(path)!r}"
        ) from None
