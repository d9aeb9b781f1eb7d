"""The tree changes while it is sealed: swapped paths, moving files, vanishing ones, stale memories."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lucid_pipelines.snapshots import (
    ExclusionReason,
    SealProgress,
    SnapshotLimits,
    SourceChangedError,
    materialise,
    seal,
)
from lucid_pipelines.snapshots.hash_cache import HashCache
from lucid_pipelines.snapshots.opening import (
    DirectoryChain,
    EntryGoneError,
    EntrySwappedError,
    open_directory,
    opened_root,
)
from lucid_pipelines.snapshots.store import SnapshotStore
from tests.support_snapshots.trees import put


class After:
    """A progress callback that acts once, when the given number of files has been read."""

    def __init__(self, files: int, action: Callable[[], object]) -> None:
        self._files, self._action = files, action
        self.done = False

    def __call__(self, step: SealProgress) -> None:
        if step.files_total is not None and step.files_done >= self._files and not self.done:
            self.done = True
            self._action()


@pytest.fixture(autouse=True)
def told_of_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lucid_pipelines.snapshots.sealing._PROGRESS_EVERY_S", 0.0)


def test_a_directory_swapped_for_a_link_does_not_leak(tmp_path: Path) -> None:
    source, outside = tmp_path / "s", tmp_path / "outside"
    put(source, "a.py", "first")
    put(source, "d/passwd", "harmless")
    put(outside, "passwd", "root:secret")

    def swap() -> None:
        (source / "d").rename(tmp_path / "moved")
        (source / "d").symlink_to(outside)

    step = After(1, swap)
    with pytest.raises(SourceChangedError, match="d/passwd"):
        seal(source, tmp_path / "store", progress=step)
    assert step.done
    assert not any(
        b"root:secret" in path.read_bytes() for path in (tmp_path / "store/blobs").rglob("*") if path.is_file()
    )


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", ["link", "fifo", "directory"])
def test_a_file_swapped_for_something_else_is_refused(tmp_path: Path, kind: str) -> None:
    source = tmp_path / "s"
    put(source, "a.py")
    put(source, "b.py")

    def swap() -> None:
        (source / "b.py").unlink()
        match kind:
            case "link":
                (source / "b.py").symlink_to("/etc/passwd")
            case "fifo":
                os.mkfifo(source / "b.py")
            case _:
                (source / "b.py").mkdir()

    with pytest.raises(SourceChangedError, match=r"b\.py"):
        seal(source, tmp_path / "store", progress=After(1, swap))


def test_a_file_that_vanishes_is_told(tmp_path: Path) -> None:
    source = tmp_path / "s"
    put(source, "a.py")
    put(source, "b.swap-file")
    sealed = seal(source, tmp_path / "store", progress=After(1, (source / "b.swap-file").unlink))
    assert [(row.path, row.reason) for row in sealed.excluded] == [("b.swap-file", ExclusionReason.VANISHED)]
    assert sealed.file_count == 1


def test_a_file_changed_since_it_was_listed_is_taken_as_it_is_now(tmp_path: Path) -> None:
    source = tmp_path / "s"
    put(source, "a.py")
    put(source, "b.py", "old")
    sealed = seal(source, tmp_path / "store", progress=After(1, lambda: put(source, "b.py", "new and longer")))
    materialise(sealed.digest, tmp_path / "store", tmp_path / "out")
    assert (tmp_path / "out/b.py").read_text() == "new and longer"


def test_a_file_that_grows_past_its_cap_meanwhile_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "s"
    put(source, "a.py")
    put(source, "b.bin", b"1")
    grow = After(1, lambda: put(source, "b.bin", bytes(2000)))
    with pytest.raises(Exception, match=r"b\.bin \(2\.0 KiB\)"):
        seal(source, tmp_path / "store", limits=SnapshotLimits(max_file_bytes=1000), progress=grow)


def test_a_file_that_never_holds_still_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "s"
    log = put(source, "train.log", os.urandom(3 << 20))

    def keep_writing(step: SealProgress) -> None:
        if step.bytes_done:
            with log.open("ab") as stream:
                stream.write(b"more\n")

    with pytest.raises(SourceChangedError, match=r"train\.log"):
        seal(source, tmp_path / "store", progress=keep_writing)
    assert list((tmp_path / "store/tmp").iterdir()) == []


def test_a_file_written_once_while_it_is_read_is_read_again(tmp_path: Path) -> None:
    source = tmp_path / "s"
    data = put(source, "data.bin", bytes(3 << 20) + b"old")
    writes: list[int] = []

    def write_once(step: SealProgress) -> None:
        if step.bytes_done and not writes:
            writes.append(1)
            data.write_bytes(bytes(3 << 20) + b"new")

    sealed = seal(source, tmp_path / "store", progress=write_once)
    materialise(sealed.digest, tmp_path / "store", tmp_path / "out")
    assert writes and (tmp_path / "out/data.bin").read_bytes().endswith(b"new")


def test_opening_never_follows_links(tmp_path: Path) -> None:
    put(tmp_path, "outside/f", "x")
    put(tmp_path, "root/real/f", "x")
    (tmp_path / "root/link").symlink_to("../outside")
    (tmp_path / "root/f").symlink_to("real/f")
    with opened_root(tmp_path / "root") as root:
        chain = DirectoryChain(root)
        descriptor, _ = chain.open_regular(b"real/f")
        os.close(descriptor)
        for path in (b"link/f", b"f", b"real", b"real/f/x"):
            with pytest.raises(EntrySwappedError):
                chain.open_regular(path)
        with pytest.raises(EntryGoneError):
            chain.open_regular(b"real/nothing")
        with pytest.raises(EntrySwappedError):
            open_directory(b"link", root)
        chain.close()


# --- the memory of hashes ---------------------------------------------------------------------------------


@pytest.fixture
def short_racy_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten ticks of the kernel's clock instead of two seconds, so that the tests need not wait for it."""
    monkeypatch.setattr("lucid_pipelines.snapshots.hash_cache._RACY_NS", 40_000_000)


def age(*paths: Path) -> None:
    """Wait until the files are no longer racy: the change time cannot be set back, so time must pass."""
    newest_s = max(path.stat().st_ctime for path in paths)
    time.sleep(max(0.0, newest_s + 0.05 - time.time()))


@pytest.mark.usefixtures("short_racy_window")
def test_untouched_files_are_not_read_again_and_touched_ones_are(tmp_path: Path) -> None:
    source = tmp_path / "s"
    one, two = put(source, "one.py", "aaaa"), put(source, "two.py", "bbbb")
    age(one, two)
    first = seal(source, tmp_path / "store")
    second = seal(source, tmp_path / "store")
    assert (first.rehashed_count, second.rehashed_count) == (2, 0)
    assert first.digest == second.digest

    # Same size and the old modification time: only the change time gives it away.
    before = two.stat()
    two.write_text("BBBB")
    os.utime(two, ns=(before.st_atime_ns, before.st_mtime_ns))
    third = seal(source, tmp_path / "store")
    assert third.rehashed_count == 1 and third.digest != first.digest

    # Replaced by another file of the same size and time.
    stat_one = one.stat()
    put(source, "other.py", "cccc")
    os.utime(source / "other.py", ns=(stat_one.st_atime_ns, stat_one.st_mtime_ns))
    (source / "other.py").rename(one)
    fourth = seal(source, tmp_path / "store")
    assert fourth.digest != third.digest
    assert fourth.digest == seal(source, tmp_path / "store", use_cache=False).digest


@pytest.mark.usefixtures("short_racy_window")
def test_a_lost_blob_is_stored_again_although_the_hash_is_remembered(tmp_path: Path) -> None:
    source = tmp_path / "s"
    age(put(source, "one.py", "aaaa"))
    first = seal(source, tmp_path / "store")
    (blob,) = [path for path in (tmp_path / "store/blobs").rglob("*") if path.is_file()]
    blob.unlink()
    second = seal(source, tmp_path / "store")
    assert (second.digest, second.new_bytes, second.rehashed_count) == (first.digest, 4, 1)
    materialise(second.digest, tmp_path / "store", tmp_path / "out")


@pytest.mark.parametrize(("read_after_s", "remembered"), [(0.0, False), (1.9, False), (2.1, True)])
def test_files_changed_just_before_they_were_read_are_not_remembered(
    tmp_path: Path, read_after_s: float, remembered: bool
) -> None:
    found = put(tmp_path / "s", "a.py").stat()
    store, warnings = SnapshotStore(tmp_path / "store"), list[str]()
    store.prepare()
    cache = HashCache.load(store, tmp_path / "s", warnings)
    read_at_ns = found.st_ctime_ns + int(read_after_s * 1e9)
    cache.put("a.py", found, "0" * 64, searched=True, read_at_ns=read_at_ns)
    cache.save(store)
    again = HashCache.load(store, tmp_path / "s", warnings)
    assert (again.get("a.py", found, searched=True) == "0" * 64) is remembered
    assert warnings == []


def test_a_file_that_was_not_searched_is_read_when_it_must_be(tmp_path: Path) -> None:
    found = put(tmp_path / "s", "a.py").stat()
    store = SnapshotStore(tmp_path / "store")
    store.prepare()
    cache = HashCache.load(store, tmp_path / "s", [])
    cache.put("a.py", found, "0" * 64, searched=False, read_at_ns=found.st_ctime_ns + 10**10)
    cache.save(store)
    again = HashCache.load(store, tmp_path / "s", [])
    assert again.get("a.py", found, searched=True) is None
    assert again.get("a.py", found, searched=False) == "0" * 64


@pytest.mark.usefixtures("short_racy_window")
def test_a_damaged_memory_is_told_and_ignored(tmp_path: Path) -> None:
    source = tmp_path / "s"
    age(put(source, "one.py", "aaaa"))
    first = seal(source, tmp_path / "store")
    (memory,) = (tmp_path / "store/hashes").iterdir()
    for garbage in (b"", b"{}", b"[1,2,3]", b"\xff", b'[{"cache":"other"},{}]', memory.read_bytes()[:-20]):
        memory.chmod(0o644)
        memory.write_bytes(garbage)
        sealed = seal(source, tmp_path / "store")
        assert sealed.digest == first.digest
        assert sealed.rehashed_count == 1
        assert len(sealed.warnings) == (0 if b"other" in garbage else 1)


@pytest.mark.usefixtures("short_racy_window")
def test_a_choice_that_is_taken_back_is_not_remembered(tmp_path: Path) -> None:
    source = tmp_path / "s"
    put(source, ".lucidignore", "!*.pem\n!train.py\n")
    body = "".join(chr(97 + number * 7 % 26) + str(number * 37 % 100) for number in range(18))[:36]
    age(put(source, "server.pem", "opaque"), put(source, "train.py", f"TOKEN = 'ghp_{body}'"))
    assert seal(source, tmp_path / "store").secrets == ()
    put(source, ".lucidignore", "")
    assert [finding.path for finding in seal(source, tmp_path / "store").secrets] == ["server.pem", "train.py"]
