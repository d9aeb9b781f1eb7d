"""Only a checkpoint that is certainly whole is used for a restart (R-33)."""

from __future__ import annotations

import io
import json
import os
import struct
import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lucid_pipelines.control.checkpoints import find_checkpoints
from lucid_pipelines.domain.errors import ExternalError
from lucid_pipelines.failures.recovery import newest_complete

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)


def zipped(size: int = 2000) -> bytes:
    """What ``torch.save`` and ``np.savez`` write."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("data", b"x" * size)
    return buffer.getvalue()


def safetensors(size: int = 400) -> bytes:
    header = json.dumps({"w": {"dtype": "F32", "shape": [size // 4], "data_offsets": [0, size]}}).encode()
    return struct.pack("<Q", len(header)) + header + b"\0" * size


def write(folder: Path, name: str, data: bytes, age_s: float = 600.0) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    at = (NOW - timedelta(seconds=age_s)).timestamp()
    os.utime(path, (at, at))
    return path


def verdicts(folder: Path) -> dict[str, bool | None]:
    return {Path(found.path).name: found.is_complete for found in find_checkpoints(folder, NOW)}


def newest(folder: Path) -> str | None:
    found = newest_complete(find_checkpoints(folder, NOW))
    return Path(found.path).name if found else None


def test_a_file_that_was_cut_off_is_not_used_and_the_older_one_is(tmp_path: Path) -> None:
    write(tmp_path, "step_100.npz", zipped(), 900)
    write(tmp_path, "step_200.npz", zipped()[:-40], 600)
    assert verdicts(tmp_path) == {"step_100.npz": True, "step_200.npz": False}
    assert newest(tmp_path) == "step_100.npz"
    write(tmp_path, "step_300.npz", zipped(), 1)
    assert newest(tmp_path) == "step_100.npz", "what was touched just now may still be written to"


def test_unfinished_names_links_and_pointers_are_no_checkpoints(tmp_path: Path) -> None:
    write(tmp_path, "step_100.pt", zipped())
    for name in (".step_200.pt", "step_200.pt.tmp", "step_300.pt.part", "latest", "tmp-checkpoint-400/model.pt"):
        write(tmp_path, name, zipped(), 100)
    (tmp_path / "best.pt").symlink_to("step_100.pt")
    (tmp_path / "loop").symlink_to("loop")
    assert verdicts(tmp_path) == {"step_100.pt": True}


def test_a_folder_needs_all_its_numbered_shards(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        write(tmp_path, f"step_10/model-{number:05d}-of-00003.safetensors", safetensors(), 900)
    for number in (1, 3):
        write(tmp_path, f"step_20/model-{number:05d}-of-00003.safetensors", safetensors(), 600)
    assert verdicts(tmp_path) == {"step_10": True, "step_20": False}


def test_an_index_names_every_file(tmp_path: Path) -> None:
    index = json.dumps({"weight_map": {"a": "one.bin", "b": "two.bin"}}).encode()
    write(tmp_path, "step_10/pytorch_model.bin.index.json", index)
    write(tmp_path, "step_10/one.bin", zipped())
    assert verdicts(tmp_path) == {"step_10": False}
    write(tmp_path, "step_10/two.bin", zipped())
    assert verdicts(tmp_path) == {"step_10": True}


@pytest.mark.parametrize("marker", ["COMPLETE", "_SUCCESS", "commit_success.txt", ".metadata"])
def test_a_marker_says_so_but_not_against_what_can_be_seen(tmp_path: Path, marker: str) -> None:
    write(tmp_path, "step_10/rank0.raw", b"x" * 100)
    assert verdicts(tmp_path) == {"step_10": None}, "nothing tells"
    write(tmp_path, f"step_10/{marker}", b"list of shards" if marker == ".metadata" else b"")
    assert verdicts(tmp_path) == {"step_10": True}
    write(tmp_path, "step_10/model.safetensors", safetensors()[:-10])
    assert verdicts(tmp_path) == {"step_10": False}


def test_what_nothing_tells_of_is_compared_with_the_one_before(tmp_path: Path) -> None:
    for rank in range(4):
        write(tmp_path, f"step_10/rank_{rank}.raw", b"x" * 1000, 900)
        write(tmp_path, f"step_20/rank_{rank}.raw", b"x" * 1000, 600)
    write(tmp_path, "step_10/COMPLETE", b"", 899)
    for rank in range(3):
        write(tmp_path, f"step_30/rank_{rank}.raw", b"x" * 1000, 300)
    for rank in range(4):
        write(tmp_path, f"step_40/rank_{rank}.raw", b"x" * (1000 if rank < 3 else 10), 200)
    write(tmp_path, "step_50/rank_0.raw", b"", 100)
    found = verdicts(tmp_path)
    assert found == {"step_10": True, "step_20": True, "step_30": False, "step_40": False, "step_50": False}


def test_a_folder_that_cannot_be_read_is_no_empty_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_checkpoints(tmp_path / "none", NOW) == []

    def refuses(path: object) -> object:
        raise PermissionError("no")

    monkeypatch.setattr(os, "scandir", refuses)
    with pytest.raises(ExternalError):
        find_checkpoints(tmp_path, NOW)
