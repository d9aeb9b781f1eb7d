"""Cursors into logs that grow, shrink and are replaced."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucid_pipelines.domain.errors import ExternalError
from lucid_pipelines.resources.clusters.logs import read_chunk


@given(st.binary(max_size=300), st.lists(st.integers(1, 64), min_size=1, max_size=400))
def test_any_way_of_cutting_gives_the_same_bytes(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, sizes: list[int]
) -> None:
    path = tmp_path_factory.getbasetemp() / "cut.log"
    path.write_bytes(content)
    read, offset = b"", 0
    for size in sizes:
        chunk = read_chunk(path, offset, size)
        assert not chunk.restarted
        read, offset = read + chunk.data, chunk.next_offset
    assert content.startswith(read)
    assert len(read) == min(len(content), sum(sizes))


def test_truncation_and_replacement_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_bytes(b"0123456789")
    first = read_chunk(path, 0, 100)
    path.write_bytes(b"abc")
    cut = read_chunk(path, first.next_offset, 100)
    assert (cut.data, cut.offset, cut.restarted, cut.identity == first.identity) == (b"abc", 0, True, True)
    path.rename(tmp_path / "job.log.1")
    path.write_bytes(b"a longer log than before")
    replaced = read_chunk(path, cut.next_offset, 100)
    assert not replaced.restarted  # by size alone it cannot be seen
    assert replaced.identity != first.identity


def test_a_log_that_is_not_there_yet_is_empty(tmp_path: Path) -> None:
    chunk = read_chunk(tmp_path / "none.log", 0, 10)
    assert (chunk.data, chunk.next_offset, chunk.size, chunk.restarted, chunk.identity) == (b"", 0, 0, False, None)
    assert read_chunk(tmp_path / "none.log", 7, 10).restarted


def test_a_huge_log_is_read_from_its_end_at_once(tmp_path: Path) -> None:
    path = tmp_path / "huge.log"
    size = 40 * 1024**3
    with path.open("wb") as file:
        file.truncate(size)
        file.seek(size)
        file.write(b"last line\n")
    chunk = read_chunk(path, size, 1 << 40)
    assert (chunk.data, chunk.size) == (b"last line\n", size + 10)
    assert len(read_chunk(path, 0, 1 << 40).data) <= 64 << 20


def test_only_a_regular_file_is_a_log(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "link.log").symlink_to(tmp_path / "secret")
    (tmp_path / "folder.log").mkdir()
    for name in ("link.log", "folder.log"):
        with pytest.raises(ExternalError):
            read_chunk(tmp_path / name, 0, 10)
