"""Killed at any moment, run by several processes at once, collected meanwhile: nothing lost, nothing half done."""

from __future__ import annotations

import os
import random
import signal
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lucid_pipelines.domain.errors import InputError, NotFoundError, StateError
from lucid_pipelines.snapshots import garbage_collect, manifest, materialise, seal, verify
from lucid_pipelines.snapshots.store import SnapshotStore
from tests.support_processes import start
from tests.support_snapshots.trees import put, read

_SEAL = """
import sys
from pathlib import Path
from lucid_pipelines.snapshots import seal
print("go", flush=True)
print(seal(Path(sys.argv[1]), Path(sys.argv[2])).digest)
"""
_MATERIALISE = """
import sys
from pathlib import Path
from lucid_pipelines.snapshots import materialise
print("go", flush=True)
print(materialise(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])).already)
"""
_SOON = timedelta(seconds=-5)
"""Everything counts as old."""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """600 small files and some larger ones: a seal takes long enough to be hit in its middle."""
    source = tmp_path_factory.mktemp("tree")
    randomness = random.Random(3)
    for number in range(400):
        put(source, f"pkg{number % 20}/m{number}.py", randomness.randbytes(300).hex())
    for number in range(3):
        put(source, f"data/{number}.bin", randomness.randbytes(4 << 20))
    return source


def kill_after(delay_s: float, code: str, *arguments: object) -> bool:
    """Start, let it begin, kill it; whether it was still at work."""
    process = start(code, *arguments)
    assert process.stdout is not None and process.stdout.readline() == "go\n"
    time.sleep(delay_s)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=30)
    return process.returncode == -signal.SIGKILL


def is_whole(store: Path) -> None:
    """Every published snapshot verifies."""
    for digest, _ in list(SnapshotStore(store).digests()):
        verify(digest, store)


def test_a_killed_seal_leaves_nothing_half_done(tree: Path, tmp_path: Path) -> None:
    expected = seal(tree, tmp_path / "reference").digest
    randomness = random.Random(11)
    hits = 0
    for round_number in range(8):
        store = tmp_path / f"store-{round_number % 3}"  # later rounds go on where killed ones stopped
        hits += kill_after(randomness.uniform(0.0, 0.12), _SEAL, tree, store)
        if (store / "format").exists():
            is_whole(store)
    assert hits >= 4
    for store in (tmp_path / "store-0", tmp_path / "store-1", tmp_path / "store-2"):
        assert seal(tree, store).digest == expected
        assert list((store / "tmp").iterdir()) == []
        verify(expected, store)


def test_a_killed_materialise_leaves_nothing_half_done(tree: Path, tmp_path: Path) -> None:
    digest = seal(tree, tmp_path / "store").digest
    randomness = random.Random(12)
    hits = 0
    target = tmp_path / "jobs" / "code"
    for _ in range(6):
        hits += kill_after(randomness.uniform(0.0, 0.08), _MATERIALISE, digest, tmp_path / "store", target)
        if target.exists():
            assert read(target) == read(tree)
            target.rename(tmp_path / f"complete-{random.random()}")
    assert hits >= 3
    materialise(digest, tmp_path / "store", target)
    assert read(target) == read(tree)
    assert sorted(path.name for path in target.parent.iterdir()) == [".code.snapshot", "code"]


def test_many_seals_of_one_tree_agree(tree: Path, tmp_path: Path) -> None:
    processes = [start(_SEAL, tree, tmp_path / "store") for _ in range(4)]
    outputs = [process.communicate(timeout=60) for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0, 0], outputs
    (digest,) = {out.split()[-1] for out, _ in outputs}
    verify(digest, tmp_path / "store")
    assert len(list(SnapshotStore(tmp_path / "store").digests())) == 1


def test_many_materialisations_of_one_target_agree(tree: Path, tmp_path: Path) -> None:
    digest = seal(tree, tmp_path / "store").digest
    processes = [start(_MATERIALISE, digest, tmp_path / "store", tmp_path / "out") for _ in range(4)]
    outputs = [process.communicate(timeout=60) for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0, 0], outputs
    assert sorted(out.split()[-1] for out, _ in outputs) == ["False", "True", "True", "True"]
    assert read(tmp_path / "out") == read(tree)


# --- garbage collection -----------------------------------------------------------------------------------


def test_what_is_kept_stays_and_the_rest_goes(tmp_path: Path) -> None:
    store = tmp_path / "store"
    put(tmp_path / "s", "shared.bin", b"s" * 1000)
    put(tmp_path / "s", "own.bin", b"a" * 2000)
    one = seal(tmp_path / "s", store).digest
    put(tmp_path / "s", "own.bin", b"b" * 3000)
    two = seal(tmp_path / "s", store).digest
    missing = "sha256:" + "0" * 64
    result = garbage_collect(store, {one, missing}, _SOON)
    assert (result.manifests_removed, result.blobs_removed, result.manifests_kept) == (1, 1, 1)
    assert result.bytes_freed > 3000 and result.missing == (missing,) and result.corrupt == ()
    verify(one, store)
    with pytest.raises(NotFoundError):
        manifest(two, store)
    assert seal(tmp_path / "s", store).digest == two


def test_the_young_stay(tmp_path: Path) -> None:
    store = tmp_path / "store"
    put(tmp_path / "s", "a.bin", b"a")
    digest = seal(tmp_path / "s", store).digest
    assert garbage_collect(store, (), timedelta(hours=1)).manifests_removed == 0
    later = datetime.now(UTC) + timedelta(hours=2)
    os.utime(next(path for sealed, path in SnapshotStore(store).digests() if sealed == digest), (1, 1))
    seal(tmp_path / "s", store)  # sealing again makes it young, though nothing is written
    assert garbage_collect(store, (), timedelta(hours=1)).manifests_removed == 0
    assert garbage_collect(store, (), timedelta(hours=1), now=later).manifests_removed == 1


def test_leftovers_of_killed_seals_go(tmp_path: Path) -> None:
    store = tmp_path / "store"
    (tmp_path / "s").mkdir()
    kept = seal(tmp_path / "s", store).digest
    put(store, "tmp/12-dead", bytes(100))
    SnapshotStore(store).add_bytes(b"orphan", "ab" * 32)
    result = garbage_collect(store, {kept}, _SOON)
    assert result.blobs_removed == 1
    assert list((store / "tmp").iterdir()) == []


def test_a_damaged_manifest_does_not_stop_the_collection(tmp_path: Path) -> None:
    store = tmp_path / "store"
    put(tmp_path / "s", "a.bin", b"a")
    digest = seal(tmp_path / "s", store).digest
    path = next(path for _, path in SnapshotStore(store).digests())
    path.chmod(0o644)
    path.write_bytes(b"garbage")
    assert garbage_collect(store, {digest}, timedelta(hours=1)).corrupt == (digest,)
    assert seal(tmp_path / "s", store).digest == digest
    verify(digest, store)


def test_a_collection_waits_for_seals_and_gives_up_clearly(tmp_path: Path) -> None:
    store = tmp_path / "store"
    (tmp_path / "s").mkdir()
    seal(tmp_path / "s", store)
    with SnapshotStore(store).shared(), pytest.raises(StateError, match="in use"):
        garbage_collect(store, (), _SOON, wait_s=0.1)
    with pytest.raises(InputError):
        garbage_collect(store, {"latest"}, _SOON)


def test_seals_and_collections_at_the_same_time(tree: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    seal(tree, store)
    for _ in range(3):
        process = start(_SEAL, tree, store)
        assert process.stdout is not None and process.stdout.readline() == "go\n"
        for _ in range(6):
            garbage_collect(store, (), _SOON)  # everything but what a seal holds is garbage
        out, err = process.communicate(timeout=30)
        assert process.returncode == 0, err
        assert seal(tree, store).digest == out.split()[-1]
        verify(out.split()[-1], store)
