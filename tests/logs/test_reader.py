from __future__ import annotations

import bz2
import gzip
import lzma
import os
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lucid_pipelines.domain.errors import ExternalError, InputError, NotFoundError
from lucid_pipelines.logs import (
    Cursor,
    FileSource,
    Labels,
    iter_blocks,
    iter_lines,
    iter_raw_lines,
    iter_raw_lines_backward,
    labels_of,
    read_extent,
    read_new,
    require_log_file,
)


class Bytes:
    def __init__(self, data: bytes) -> None:
        self.data = data

    def size(self) -> int:
        return len(self.data)

    def read_at(self, offset: int, size: int) -> bytes:
        return self.data[offset : offset + size]


def follow(path: Path, cursor: Cursor | None = None) -> tuple[list[bytes], Cursor]:
    lines: list[bytes] = []
    while True:
        batch = read_new(path, cursor)
        lines += [line.data for line in batch.lines]
        cursor = batch.cursor
        if batch.at_end:
            return lines, cursor


def test_a_growing_log_gives_each_line_once(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_bytes(b"one\ntw")
    batch = read_new(log)
    assert [line.data for line in batch.lines] == [b"one"]
    assert batch.pending is not None
    assert batch.pending.data == b"tw"
    with log.open("ab") as file:
        file.write(b"o\nthree\n")
    stored = Cursor.from_json(batch.cursor.to_json())
    again = read_new(log, stored)
    assert [(line.number, line.offset, line.data) for line in again.lines] == [(2, 4, b"two"), (3, 8, b"three")]
    assert not again.restarted
    assert read_new(log, again.cursor).lines == ()


def test_truncation_is_noticed_even_when_the_log_has_grown_past_the_cursor(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_bytes(b"old line\n" * 10)
    cursor = read_new(log).cursor
    log.write_bytes(b"new\n")
    batch = read_new(log, cursor)
    assert batch.restarted
    assert [(line.number, line.data) for line in batch.lines] == [(1, b"new")]
    log.write_bytes(b"another line that is longer\n" * 20)
    assert read_new(log, cursor).restarted


def test_a_rotated_log_is_read_to_its_end_first(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_bytes(b"1\n2\n")
    lines, cursor = follow(log)
    with log.open("ab") as file:
        file.write(b"3\n4 cut")
    log.rename(tmp_path / "train.log.1")
    log.write_bytes(b"5\n")
    more, cursor = follow(log, cursor)
    assert lines + more == [b"1", b"2", b"3", b"4 cut", b"5"]
    assert follow(log, cursor)[0] == []


def test_a_missing_log_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"no log at .*gone\.log"):
        read_new(tmp_path / "gone.log")
    with pytest.raises(InputError, match="byte offset"):
        Cursor.from_json({"offset": -1, "line_number": 1})


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_compressed_logs_read_as_plain_ones(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    data = b"".join(b"line %d\n" % i for i in range(5000)) + b"cut"
    log = tmp_path / "train.log.z"
    log.write_bytes(pack(data))
    assert b"".join(iter_blocks(log)) == data
    assert b"".join(iter_blocks(log, offset=100)) == data[100:]
    lines = list(iter_raw_lines(log))
    assert (lines[-1].number, lines[-1].data, lines[-1].complete) == (5001, b"cut", False)
    extent = read_extent(log, head_bytes=50, tail_bytes=1000)
    assert (extent.size, extent.head, extent.tail) == (len(data), data[:50], data[-1000:])
    assert extent.newlines_before_tail == data[:-1000].count(b"\n")
    if pack is gzip.compress:
        log.write_bytes(pack(data)[:-2000])
        cut = b"".join(iter_blocks(log))
        assert cut
        assert data.startswith(cut)


@given(st.binary(max_size=300), st.integers(1, 40))
def test_backward_reading_is_forward_reading_reversed(data: bytes, block: int) -> None:
    data = data.replace(b"\x01", b"\n")
    backward = [(x.offset, x.size, x.data) for x in iter_raw_lines_backward(Bytes(data), block_bytes=block)]
    expected, offset = [], 0
    for piece in data.split(b"\n"):
        end = offset + len(piece)
        whole = end < len(data)
        if piece or whole:
            expected.append((offset, len(piece) + whole, piece))
        offset = end + 1
    assert backward == expected[::-1]


@settings(max_examples=25)
@given(st.binary(min_size=1, max_size=300), st.lists(st.integers(1, 60), min_size=1, max_size=8))
def test_growth_in_any_steps_gives_the_same_lines(data: bytes, steps: list[int]) -> None:
    import tempfile

    data = data.replace(b"\x01", b"\n")
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "x.log"
        log.write_bytes(b"")
        cursor, seen, position = None, [], 0
        for step in [*steps, len(data)]:
            with log.open("ab") as file:
                file.write(data[position : position + step])
            position += step
            batch = read_new(log, cursor)
            assert not batch.restarted
            seen += [line.data for line in batch.lines]
            cursor = batch.cursor
        assert seen == data.split(b"\n")[:-1]


def test_the_end_of_a_log_of_many_gigabytes_is_read_at_once_and_in_little_memory(tmp_path: Path) -> None:
    log = tmp_path / "huge.log"
    with log.open("wb") as file:
        file.write(b"first\n")
        os.truncate(log, 40 << 30)
        file.seek(40 << 30)
        file.write(b"\nstep 1\nstep 2\n")
    tracemalloc.start()
    begin = time.perf_counter()
    extent = read_extent(log, head_bytes=1 << 16, tail_bytes=1 << 20)
    newest = next(iter_raw_lines_backward(FileSource(log)))
    took_s = time.perf_counter() - begin
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert extent.newlines_before_tail is None
    assert extent.tail.endswith(b"\nstep 1\nstep 2\n")
    assert newest.data == b"step 2"
    assert took_s < 2
    assert peak < 16 << 20


def test_a_line_of_ten_megabytes_backward_keeps_its_end() -> None:
    bar = b"".join(b"\r%7d/9999999" % i for i in range(700_000))
    lines = list(iter_raw_lines_backward(Bytes(b"a\n" + bar + b"\nb\n")))
    assert [line.data[-15:] for line in lines] == [b"b", bar[-15:], b"a"]
    assert lines[1].size == len(bar) + 1
    assert lines[1].dropped_bytes == len(bar) - len(lines[1].data)


def test_labels_are_found_from_both_ends(tmp_path: Path) -> None:
    log = tmp_path / "srun.log"
    log.write_bytes(b"".join(b"%d: step %d\n" % (i * 5 % 8, i) for i in range(40)))
    assert labels_of(log) == Labels(task=True)
    assert {line.rank for line in iter_lines(log)} == set(range(8))


def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.log"
    os.mkfifo(pipe)  # opening it would wait for a writer for ever
    for path, kind in ((pipe, "named pipe"), (tmp_path, "folder"), (Path("/dev/zero"), "device")):
        with pytest.raises(ExternalError, match=kind):
            read_extent(path, head_bytes=64, tail_bytes=64)
        with pytest.raises(ExternalError, match=kind):
            list(iter_blocks(path))
        with pytest.raises(InputError, match=kind):
            require_log_file(path)


@pytest.mark.parametrize("magic", [b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18", b"PK\x03\x04"])
def test_a_packing_that_is_not_read_is_named(magic: bytes, tmp_path: Path) -> None:
    path = tmp_path / "job.log.packed"
    path.write_bytes(magic + b"step 1/10 loss 2.0\n")
    with pytest.raises(InputError, match="unpack it first"):
        require_log_file(path)
    # A job that prints such bytes is not kept from being diagnosed: its own log is read as text.
    assert b"".join(iter_blocks(path)).endswith(b"loss 2.0\n")
