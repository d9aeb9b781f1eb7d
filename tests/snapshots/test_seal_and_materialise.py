"""Sealing and materialising are inverse, and the digest depends on content alone."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lucid_pipelines.domain.errors import InputError, NotFoundError, StateError
from lucid_pipelines.snapshots import SealProgress, manifest, materialise, seal, verify
from tests.support_snapshots.trees import Directory, File, Link, Tree, build, put, read, trees

_SETTINGS = settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])


@given(tree=trees())
@_SETTINGS
def test_a_snapshot_comes_back_as_it_was(tree: Tree) -> None:
    with tempfile.TemporaryDirectory() as name:
        here = Path(name)
        source = build(here / "source", tree)
        sealed = seal(source, here / "store")
        assert sealed.excluded == () and sealed.secrets == ()
        materialise(sealed.digest, here / "store", here / "out")
        assert read(here / "out") == read(source)
        again = seal(here / "out", here / "store")
        assert again.digest == sealed.digest
        assert again.new_bytes == 0
        assert verify(sealed.digest, here / "store").file_count == sealed.file_count


@given(tree=trees(), seed=st.randoms(use_true_random=False))
@_SETTINGS
def test_the_digest_knows_no_order_time_or_place(tree: Tree, seed) -> None:
    with tempfile.TemporaryDirectory() as name:
        here = Path(name)
        one = seal(build(here / "one", tree), here / "store-1")
        shuffled = list(tree.items())
        seed.shuffle(shuffled)
        other_place = build(here / "deep" / "other", dict(shuffled))
        for path, node in tree.items():
            if isinstance(node, File):
                os.utime(other_place / os.fsdecode(path), (1, 1))
        two = seal(other_place, here / "store-2", use_cache=False)
        assert one.digest == two.digest


@given(tree=trees(), content=st.binary(max_size=20))
@_SETTINGS
def test_different_content_gives_a_different_digest(tree: Tree, content: bytes) -> None:
    with tempfile.TemporaryDirectory() as name:
        here = Path(name)
        source = build(here / "source", tree)
        before = seal(source, here / "store")
        extra = source / "zz-extra"
        extra.write_bytes(content)
        assert seal(source, here / "store").digest != before.digest
        extra.unlink()
        assert seal(source, here / "store").digest == before.digest


def test_modes_matter_and_special_bits_are_dropped(tmp_path: Path) -> None:
    put(tmp_path / "s", "run.sh", "#!/bin/sh\n", 0o644)
    plain = seal(tmp_path / "s", tmp_path / "store")
    (tmp_path / "s/run.sh").chmod(0o4755)
    executable = seal(tmp_path / "s", tmp_path / "store")
    assert executable.digest != plain.digest
    materialise(executable.digest, tmp_path / "store", tmp_path / "out")
    assert (tmp_path / "out/run.sh").stat().st_mode & 0o7777 == 0o755


def test_content_is_stored_once_across_files_and_snapshots(tmp_path: Path) -> None:
    payload = os.urandom(3 << 20)
    put(tmp_path / "a", "one.bin", payload)
    put(tmp_path / "a", "copy/two.bin", payload)
    first = seal(tmp_path / "a", tmp_path / "store")
    assert (first.file_count, first.total_bytes, first.new_bytes) == (2, 6 << 20, 3 << 20)
    put(tmp_path / "b", "elsewhere/three.bin", payload)
    put(tmp_path / "b", "small.txt", b"hello")
    second = seal(tmp_path / "b", tmp_path / "store")
    assert second.new_bytes == 5
    blobs = [path for path in (tmp_path / "store/blobs").rglob("*") if path.is_file()]
    assert len(blobs) == 2


def test_a_later_edit_of_the_source_changes_nothing(tmp_path: Path) -> None:
    source = put(tmp_path / "s", "train.py", "print(1)\n").parent
    sealed = seal(source, tmp_path / "store")
    (source / "train.py").write_text("print(2)\n")
    materialise(sealed.digest, tmp_path / "store", tmp_path / "out")
    assert (tmp_path / "out/train.py").read_text() == "print(1)\n"


def test_jobs_write_in_place_without_touching_the_store(tmp_path: Path) -> None:
    put(tmp_path / "s", "config.json", "{}", 0o666)
    sealed = seal(tmp_path / "s", tmp_path / "store")
    materialise(sealed.digest, tmp_path / "store", tmp_path / "job-1")
    with (tmp_path / "job-1/config.json").open("r+b") as stream:
        stream.write(b"broken")
    (tmp_path / "job-1/new.txt").write_text("output")
    verify(sealed.digest, tmp_path / "store")
    materialise(sealed.digest, tmp_path / "store", tmp_path / "job-2")
    assert read(tmp_path / "job-2") == {b"config.json": File(b"{}", 0o666)}


def test_materialise_again_leaves_what_the_job_wrote(tmp_path: Path) -> None:
    put(tmp_path / "s", "a.py", "1")
    sealed = seal(tmp_path / "s", tmp_path / "store")
    first = materialise(sealed.digest, tmp_path / "store", tmp_path / "out")
    (tmp_path / "out/a.py").write_text("changed by the job")
    second = materialise(sealed.digest, tmp_path / "store", tmp_path / "out")
    assert (first.already, second.already) == (False, True)
    assert (tmp_path / "out/a.py").read_text() == "changed by the job"


def test_materialise_refuses_a_place_that_holds_something_else(tmp_path: Path) -> None:
    put(tmp_path / "s", "a.py", "1")
    one = seal(tmp_path / "s", tmp_path / "store")
    put(tmp_path / "s", "a.py", "22")
    two = seal(tmp_path / "s", tmp_path / "store")
    materialise(one.digest, tmp_path / "store", tmp_path / "out")
    with pytest.raises(StateError, match=one.digest):
        materialise(two.digest, tmp_path / "store", tmp_path / "out")
    put(tmp_path / "mine", "precious.txt", "mine")
    with pytest.raises(StateError, match="no snapshot"):
        materialise(one.digest, tmp_path / "store", tmp_path / "mine")
    assert (tmp_path / "mine/precious.txt").read_text() == "mine"
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    with pytest.raises(StateError):
        materialise(one.digest, tmp_path / "store", tmp_path / "link")


def test_an_empty_target_is_filled(tmp_path: Path) -> None:
    put(tmp_path / "s", "a.py", "1")
    sealed = seal(tmp_path / "s", tmp_path / "store")
    (tmp_path / "out").mkdir()
    assert not materialise(sealed.digest, tmp_path / "store", tmp_path / "out").already
    assert (tmp_path / "out/a.py").read_text() == "1"


def test_the_empty_tree_is_a_snapshot(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    sealed = seal(tmp_path / "s", tmp_path / "store")
    assert (sealed.file_count, sealed.total_bytes) == (0, 0)
    materialise(sealed.digest, tmp_path / "store", tmp_path / "out")
    assert read(tmp_path / "out") == {}
    materialise(sealed.digest, tmp_path / "store", tmp_path / "out")
    assert read(tmp_path / "out") == {}


def test_sparse_files_stay_sparse(tmp_path: Path) -> None:
    source = tmp_path / "s"
    source.mkdir()
    with (source / "hole.bin").open("wb") as stream:
        stream.truncate(300 << 20)
        stream.seek(150 << 20)
        stream.write(b"middle")
    sealed = seal(source, tmp_path / "store")
    materialise(sealed.digest, tmp_path / "store", tmp_path / "out")
    out = (tmp_path / "out/hole.bin").stat()
    assert out.st_size == 300 << 20
    assert out.st_blocks * 512 < 8 << 20
    with (tmp_path / "out/hole.bin").open("rb") as stream:
        stream.seek(150 << 20)
        assert stream.read(7) == b"middle\0"
    stored = sum(path.stat().st_blocks * 512 for path in (tmp_path / "store/blobs").rglob("*"))
    assert stored < 8 << 20


def test_progress_is_told(tmp_path: Path) -> None:
    for number in range(5):
        put(tmp_path / "s", f"{number}.bin", os.urandom(2 << 20))
    seen: list[SealProgress] = []
    seal(tmp_path / "s", tmp_path / "store", progress=seen.append)
    assert seen[-1] == SealProgress(5, 5, 10 << 20, 10 << 20)
    assert [step.bytes_done for step in seen] == sorted(step.bytes_done for step in seen)


@pytest.mark.parametrize("digest", ["", "sha256:12", "md5:" + "0" * 64, "sha256:" + "G" * 64, "sha256:../../x"])
def test_a_word_that_is_no_digest_is_refused(tmp_path: Path, digest: str) -> None:
    (tmp_path / "s").mkdir()
    seal(tmp_path / "s", tmp_path / "store")
    with pytest.raises(InputError, match="snapshot digest"):
        manifest(digest, tmp_path / "store")


def test_unknown_things_are_named(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="source directory does not exist"):
        seal(tmp_path / "nowhere", tmp_path / "store")
    put(tmp_path, "file.txt", "x")
    with pytest.raises(InputError, match="must be a directory"):
        seal(tmp_path / "file.txt", tmp_path / "store")
    with pytest.raises(NotFoundError, match="no snapshot store"):
        verify("sha256:" + "0" * 64, tmp_path / "no-store")
    (tmp_path / "s").mkdir()
    seal(tmp_path / "s", tmp_path / "store")
    with pytest.raises(NotFoundError, match="no such snapshot"):
        materialise("sha256:" + "0" * 64, tmp_path / "store", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_of_something_else_is_not_taken_for_a_store(tmp_path: Path) -> None:
    put(tmp_path / "home", "thesis.tex", "x")
    (tmp_path / "s").mkdir()
    with pytest.raises(InputError, match=r"thesis\.tex"):
        seal(tmp_path / "s", tmp_path / "home")
    assert sorted(path.name for path in (tmp_path / "home").iterdir()) == ["thesis.tex"]


def test_the_source_may_be_reached_through_a_link_and_hold_the_store(tmp_path: Path) -> None:
    source = put(tmp_path / "real", "a.py", "1").parent
    (tmp_path / "link").symlink_to(source)
    one = seal(tmp_path / "link", source / "artefacts")
    two = seal(source, source / "artefacts")
    assert one.digest == two.digest
    assert [entry.path for entry in manifest(one.digest, source / "artefacts").entries] == ["a.py"]


def test_the_manifest_lists_every_kind(tmp_path: Path) -> None:
    build(
        tmp_path / "s",
        {b"d/f": File(b"1", 0o600), b"d/e": Directory(), b"l": Link(b"d/f"), "é\n".encode(): File(b"2")},
    )
    found = manifest(seal(tmp_path / "s", tmp_path / "store").digest, tmp_path / "store")
    assert [type(entry).__name__ + ":" + entry.path for entry in found.entries] == [
        "DirectoryEntry:d",
        "DirectoryEntry:d/e",
        "FileEntry:d/f",
        "LinkEntry:l",
        "FileEntry:é\n",
    ]


def test_nothing_is_left_in_temporary_places(tmp_path: Path) -> None:
    put(tmp_path / "s", "a.bin", os.urandom(2 << 20))
    sealed = seal(tmp_path / "s", tmp_path / "store")
    materialise(sealed.digest, tmp_path / "store", tmp_path / "jobs/out")
    assert list((tmp_path / "store/tmp").iterdir()) == []
    assert sorted(path.name for path in (tmp_path / "jobs").iterdir()) == [".out.snapshot", "out"]
    shutil.rmtree(tmp_path / "jobs")
