from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.logs import LineSplitter, RawLine, SplitterState

pieces = st.lists(
    st.sampled_from([b"a", b"\n", b"\r", b"\xe2\x96\x88", b"\0", b"step 1", b"\n\n", b"x" * 40]), max_size=30
)


def split(chunks: list[bytes], **limits: int) -> list[RawLine]:
    splitter = LineSplitter(**limits)  # type: ignore[arg-type]
    lines = [line for chunk in chunks for line in splitter.feed(chunk)]
    last = splitter.pending()
    return [*lines, last] if last else lines


def chunked(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(c % (len(data) + 1) for c in cuts)})
    return [data[a:b] for a, b in pairwise(edges)]


@given(pieces, st.lists(st.integers(0, 10_000), max_size=12), st.integers(1, 30), st.integers(1, 30))
def test_any_chunking_gives_the_same_lines(parts: list[bytes], cuts: list[int], head: int, tail: int) -> None:
    data = b"".join(parts)
    limits = {"head_bytes": head, "tail_bytes": tail}
    assert split(chunked(data, cuts), **limits) == split([data], **limits)


@given(st.binary(max_size=400), st.lists(st.integers(0, 400), max_size=8))
def test_offsets_and_numbers_describe_the_file(data: bytes, cuts: list[int]) -> None:
    lines = split(chunked(data, cuts))
    assert b"".join(line.data + b"\n" * line.complete for line in lines) == data
    for index, line in enumerate(lines):
        assert line.number == index + 1
        assert data[line.offset : line.offset + line.size].rstrip(b"\n") == line.data.rstrip(b"\n")


def test_a_long_line_keeps_its_head_and_whole_states_of_its_end() -> None:
    bar = b"".join(b"\r%6d/999999" % i for i in range(100_000))
    (line,) = split([b"loading", bar[:500_000], bar[500_000:], b"\n"], head_bytes=100, tail_bytes=1000)
    assert line.size == len(bar) + 8
    assert line.dropped_bytes > 1_000_000
    assert line.data.startswith(b"loading\r     0/999999")
    states = line.data[101:].split(b"\r")
    assert states[-1] == b" 99999/999999"
    assert all(len(state) == 13 for state in states if state)


def test_a_cut_character_is_not_kept_in_half() -> None:
    (line,) = split(["█".encode() * 1000], head_bytes=3, tail_bytes=10)
    assert line.data.decode() == "█\r███"


def test_reading_goes_on_from_a_state() -> None:
    first = LineSplitter()
    first.feed(b"one\ntwo\nthr")
    assert first.state == SplitterState(8, 3)
    again = LineSplitter(first.state)
    assert again.feed(b"three\n") == [RawLine(3, 8, 6, b"three")]


def test_limits_must_be_positive() -> None:
    with pytest.raises(InputError, match="at least one byte"):
        LineSplitter(head_bytes=0)


blanks = st.one_of(
    st.builds(lambda part, n: part * n, st.sampled_from([b"\n", b"\r\n", b" \n", b"\t", b"\r"]), st.integers(1, 150)),
    st.sampled_from([b"step 1", b"x\r", b"\n\n"]),
)


@given(st.lists(blanks, max_size=10), st.lists(st.integers(0, 10_000), max_size=8))
def test_folded_blank_lines_hide_no_other_line(parts: list[bytes], cuts: list[int]) -> None:
    data = b"".join(parts)
    plain = split([data])
    splitter = LineSplitter()
    folded = [line for chunk in chunked(data, cuts) for line in splitter.feed_folded(chunk)]
    last = splitter.pending()
    at = 0
    for line in [*folded, last] if last else folded:
        stand_for = plain[at : at + line.blank_lines]
        if line.blank_lines == 1:
            assert stand_for == [line]
        assert all(not other.data.strip() for other in stand_for) or line.blank_lines == 1
        assert (stand_for[0].number, stand_for[0].offset) == (line.number, line.offset)
        assert sum(other.size for other in stand_for) == line.size
        at += line.blank_lines
    assert at == len(plain)


def test_a_million_blank_lines_are_a_few() -> None:
    splitter = LineSplitter()
    folded = [*splitter.feed_folded(b"a\n" + b"\n" * 1_000_000), *splitter.feed_folded(b" \r\n" * 1000 + b"b\n")]
    assert len(folded) < 10
    assert folded[-1] == RawLine(1_001_002, 1_003_002, 2, b"b")
