"""Damage, full disks, missing permissions: clear errors, nothing half done, and the way back works."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lucid_pipelines.domain.errors import ExternalError
from lucid_pipelines.snapshots import (
    CorruptSnapshotError,
    StoreFullError,
    UnreadableSourceError,
    materialise,
    read_file,
    seal,
    verify,
    write_archive,
)
from tests.support_processes import run
from tests.support_snapshots.trees import put, read

_LIMITED = """
import resource, sys
from pathlib import Path
from lucid_pipelines.snapshots import seal, materialise
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
try:
    if sys.argv[1] == "seal":
        seal(Path(sys.argv[2]), Path(sys.argv[3]))
    else:
        materialise(sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]))
except Exception as error:
    print(type(error).__name__, error)
"""
_AS_NOBODY = """
import os, sys
from pathlib import Path
from lucid_pipelines.snapshots import seal
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    print(seal(Path(sys.argv[1]), Path(sys.argv[2])).digest)
except Exception as error:
    print(type(error).__name__, error)
"""


def blob_of(store: Path, content: bytes) -> Path:
    (blob,) = [path for path in (store / "blobs").rglob("*") if path.is_file() and path.read_bytes() == content]
    blob.chmod(0o644)
    return blob


@pytest.fixture
def sealed(tmp_path: Path) -> str:
    put(tmp_path / "s", "a.py", "aaaa")
    put(tmp_path / "s", "b.py", "bbbb")
    return seal(tmp_path / "s", tmp_path / "store").digest


@pytest.mark.parametrize("damage", ["missing", "flipped", "short", "long", "empty"])
def test_damaged_content_is_found_and_mended_by_sealing_again(tmp_path: Path, sealed: str, damage: str) -> None:
    store = tmp_path / "store"
    blob = blob_of(store, b"aaaa")
    if damage == "missing":
        blob.unlink()
    else:
        blob.write_bytes({"flipped": b"aaxa", "short": b"aa", "long": b"aaaab", "empty": b""}[damage])
    with pytest.raises(CorruptSnapshotError, match=r"1 contents .*a\.py.*submit the code again"):
        verify(sealed, store)
    with pytest.raises(CorruptSnapshotError):
        materialise(sealed, store, tmp_path / "jobs/out")
    assert not (tmp_path / "jobs/out").exists()
    assert [path.name for path in (tmp_path / "jobs").iterdir()] == [".out.snapshot"]
    with pytest.raises(CorruptSnapshotError):
        read_file(sealed, store, "a.py", 100)
    again = seal(tmp_path / "s", store)
    assert (again.digest, again.new_bytes) == (sealed, 4)
    assert verify(sealed, store).file_count == 2
    materialise(sealed, store, tmp_path / "jobs/out")


def test_a_damaged_manifest_is_found_and_mended(tmp_path: Path, sealed: str) -> None:
    store = tmp_path / "store"
    (path,) = [path for path in (store / "manifests").rglob("*") if path.is_file()]
    path.chmod(0o644)
    path.write_bytes(path.read_bytes().replace(b"a.py", b"x.py"))
    with pytest.raises(CorruptSnapshotError, match="manifest is damaged"):
        verify(sealed, store)
    assert seal(tmp_path / "s", store).digest == sealed
    verify(sealed, store)


def test_a_damaged_archive_raises(tmp_path: Path, sealed: str) -> None:
    blob_of(tmp_path / "store", b"bbbb").write_bytes(b"bbxb")
    with (tmp_path / "out.tar").open("wb") as stream, pytest.raises(CorruptSnapshotError):
        write_archive(sealed, tmp_path / "store", stream)


def test_a_full_disk_while_sealing(tmp_path: Path) -> None:
    put(tmp_path / "s", "big.bin", os.urandom(3 << 20))
    put(tmp_path / "s", "small.bin", b"1")
    out = run(_LIMITED, "seal", tmp_path / "s", tmp_path / "store")
    assert out.startswith("StoreFullError") and "free some space" in out
    store = tmp_path / "store"
    assert list((store / "tmp").iterdir()) == [] and list((store / "manifests").iterdir()) == []
    verify(seal(tmp_path / "s", store).digest, store)


def test_a_full_disk_while_materialising(tmp_path: Path) -> None:
    put(tmp_path / "s", "a-small.bin", b"1")
    put(tmp_path / "s", "big.bin", os.urandom(3 << 20))
    digest = seal(tmp_path / "s", tmp_path / "store").digest
    out = run(_LIMITED, "materialise", digest, tmp_path / "store", tmp_path / "jobs/out")
    assert out.startswith("StoreFullError")
    assert [path.name for path in (tmp_path / "jobs").iterdir()] == [".out.snapshot"]
    materialise(digest, tmp_path / "store", tmp_path / "jobs/out")
    assert read(tmp_path / "jobs/out") == read(tmp_path / "s")


def test_a_full_disk_under_the_cache_of_hashes_only_costs_time(tmp_path: Path, monkeypatch) -> None:
    put(tmp_path / "s", "a.py", "1")

    def full(*_: object) -> None:
        raise StoreFullError("no room to write")

    monkeypatch.setattr("lucid_pipelines.snapshots.store.SnapshotStore.write_cache", full)
    monkeypatch.setattr("lucid_pipelines.snapshots.hash_cache._RACY_NS", -(10**12))
    sealed = seal(tmp_path / "s", tmp_path / "store")
    assert "the snapshot is safe" in sealed.warnings[0]
    verify(sealed.digest, tmp_path / "store")


def test_a_failed_flush_publishes_nothing(tmp_path: Path, monkeypatch) -> None:
    put(tmp_path / "s", "a.py", "1")

    def failing(_: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("lucid_pipelines.snapshots.disk.os.fsync", failing)
    with pytest.raises(ExternalError, match="Input/output error"):
        seal(tmp_path / "s", tmp_path / "store")
    assert list((tmp_path / "store/manifests").iterdir()) == []


def test_unreadable_files_and_directories_are_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents:  # with several workers there is one folder more
        if parent.stat().st_uid == os.geteuid() and parent.name.startswith(("pytest", "popen")):
            parent.chmod(0o755)
    source = tmp_path / "s"
    put(source, "open.py")
    put(source, "locked/inside.py")
    put(source, "closed.py", mode=0o000)
    (source / "locked").chmod(0o000)
    work = tmp_path / "w"
    work.mkdir()
    work.chmod(0o777)
    try:
        out = run(_AS_NOBODY, source, work / "store")
        assert out.startswith(UnreadableSourceError.__name__) and "locked/" in out and ".lucidignore" in out
        (source / "locked").chmod(0o755)
        out = run(_AS_NOBODY, source, work / "store")
        assert out.startswith(UnreadableSourceError.__name__) and "closed.py" in out
        put(source, ".lucidignore", "closed.py\n")
        assert run(_AS_NOBODY, source, work / "store").startswith("sha256:")
    finally:
        (source / "locked").chmod(0o755)
        (source / "closed.py").chmod(0o644)


@pytest.mark.parametrize("count", [5, 60])
def test_everything_a_manifest_names_is_flushed_before_it_appears(tmp_path: Path, monkeypatch, count: int) -> None:
    put(tmp_path / "s", "large.bin", os.urandom(2 << 20))
    for number in range(count):
        put(tmp_path / "s", f"d/{number}.py", str(number))
    store = tmp_path / "store"
    flushed: set[str] = set()
    published: list[bool] = []

    def one(descriptor: int) -> None:
        flushed.add(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        published.append(any(path.is_file() for path in (store / "manifests").rglob("*")))

    def everything(place: Path) -> None:
        assert place == store
        flushed.update(str(path) for path in place.rglob("*"))
        published.append(any(path.is_file() for path in (store / "manifests").rglob("*")))

    monkeypatch.setattr("lucid_pipelines.snapshots.disk.os.fsync", one)
    monkeypatch.setattr("lucid_pipelines.snapshots.disk.sync_file_system", everything)
    seal(tmp_path / "s", store)
    assert {str(path) for path in (store / "blobs").rglob("*")} <= flushed
    assert published[:-1] == [False] * (len(published) - 1)  # the last flush is of the manifest's own directory
