"""Caps: clear errors that name the offenders, before anything is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.snapshots import SnapshotLimits, SnapshotTooLargeError, seal
from lucid_pipelines.snapshots.limits import human_bytes
from tests.support_snapshots.trees import put


def test_a_file_above_its_cap_is_named(tmp_path: Path) -> None:
    put(tmp_path / "s", "data/big.bin", bytes(2000))
    put(tmp_path / "s", "ok.bin", bytes(1000))
    with pytest.raises(SnapshotTooLargeError) as caught:
        seal(tmp_path / "s", tmp_path / "store", limits=SnapshotLimits(max_file_bytes=1000))
    message = str(caught.value)
    assert "data/big.bin (2.0 KiB)" in message and "ok.bin" not in message
    assert "'/data/big.bin' in .lucidignore" in message and "max_file_bytes=1000" in message
    assert list((tmp_path / "store/blobs").iterdir()) == []


def test_the_advice_works(tmp_path: Path) -> None:
    put(tmp_path / "s", "data/big.bin", bytes(2000))
    put(tmp_path / "s", ".lucidignore", "/data/big.bin\n")
    assert seal(tmp_path / "s", tmp_path / "store", limits=SnapshotLimits(max_file_bytes=1000)).file_count == 1


def test_a_total_above_its_cap_names_files_and_directories(tmp_path: Path) -> None:
    for number in range(10):
        put(tmp_path / "s", f"runs/{number}/w.bin", bytes(100 + number))
    put(tmp_path / "s", "train.py", bytes(10))
    with pytest.raises(SnapshotTooLargeError, match=r"runs/9/w\.bin .*runs/8/w\.bin .*by directory: runs/9/"):
        seal(tmp_path / "s", tmp_path / "store", limits=SnapshotLimits(max_total_bytes=1000))


def test_a_value_equal_to_the_cap_passes(tmp_path: Path) -> None:
    put(tmp_path / "s", "a.bin", bytes(1000))
    limits = SnapshotLimits(max_file_bytes=1000, max_total_bytes=1000, max_entries=1)
    assert seal(tmp_path / "s", tmp_path / "store", limits=limits).total_bytes == 1000


def test_too_many_entries_name_the_fullest_directories(tmp_path: Path) -> None:
    for number in range(30):
        put(tmp_path / "s", f"cache/items/{number}", "")
    with pytest.raises(SnapshotTooLargeError, match=r"more than 20 .*cache/items/ \(\d+\).*max_entries=20"):
        seal(tmp_path / "s", tmp_path / "store", limits=SnapshotLimits(max_entries=20))


def test_a_huge_sparse_file_is_refused_without_being_read(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    with (tmp_path / "s/disk.img").open("wb") as stream:
        stream.truncate(5 << 40)
    with pytest.raises(SnapshotTooLargeError, match=r"disk\.img \(5\.0 TiB\)"):
        seal(tmp_path / "s", tmp_path / "store")


def test_trees_nested_too_deep_or_with_paths_too_long(tmp_path: Path) -> None:
    deep = tmp_path / "s" / "/".join(["d"] * 30)
    deep.mkdir(parents=True)
    with pytest.raises(InputError, match="nested deeper than 20"):
        seal(tmp_path / "s", tmp_path / "store", limits=SnapshotLimits(max_depth=20))
    long = tmp_path / "t" / "/".join(["x" * 200] * 16)
    long.mkdir(parents=True)
    with pytest.raises(InputError, match="more than 3000 bytes"):
        seal(tmp_path / "t", tmp_path / "store")


@pytest.mark.parametrize("value", [0, -1])
def test_caps_are_positive(value: int) -> None:
    with pytest.raises(InputError, match="positive"):
        SnapshotLimits(max_file_bytes=value)
    with pytest.raises(InputError, match="250"):
        SnapshotLimits(max_depth=1000)


def test_sizes_for_people() -> None:
    sizes = (0, 1023, 1024, 1536, 1 << 30, 5 << 40, 1 << 60)
    expected = ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "1.0 GiB", "5.0 TiB", "1048576.0 TiB"]
    assert [human_bytes(size) for size in sizes] == expected
