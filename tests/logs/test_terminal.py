from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucid_pipelines.logs import count_undecodable, frames, last_frame


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"plain text", ["plain text"]),
        (b"", []),
        (b"windows line\r", ["windows line"]),
        (b"\r 10%\r 20%\r 30%", [" 10%", " 20%", " 30%"]),
        (b"\x1b[32m[09/07 16:55:49 d2]: \x1b[0m eta: 4:03", ["[09/07 16:55:49 d2]:  eta: 4:03"]),
        (b"\x1b[38;2;180;60;0mgrad_norm: 1.2\x1b[39m", ["grad_norm: 1.2"]),
        (b"10%\x1b[2K\x1b[1G20%", ["10%", "20%"]),
        (b"bar 1\x1b[A\rbar 2", ["bar 1", "bar 2"]),
        (b"\x1b]0;title\x07text", ["text"]),
        (b"abc\b\b\b\b12/20", ["abc", "12/20"]),
        (b"12%\b\b34%", ["134%"]),
        (b"st\x00ep\x00 1", ["step 1"]),
        (b"s\0t\0e\0p\0", ["step"]),
        (b"caf\xe9 1", ["caf� 1"]),
        ("一步 3".encode(), ["一步 3"]),
        (b"   ", []),
        (b"10%\x1b[K", ["10%"]),
        (b"\xef\xbb\xbfepoch 1", ["epoch 1"]),
    ],
)
def test_states_of_a_line(data: bytes, expected: list[str]) -> None:
    assert frames(data) == expected


def test_a_keras_bar_that_erases_itself_with_backspaces_shows_each_state() -> None:
    data = b"  1/3 loss: 3.0" + b"\b" * 15 + b"  2/3 loss: 2.0" + b"\b" * 15 + b"  3/3 loss: 1.0"
    assert frames(data) == ["  1/3 loss: 3.0", "  2/3 loss: 2.0", "  3/3 loss: 1.0"]
    assert last_frame(data) == "  3/3 loss: 1.0"


def test_undecodable_bytes_are_counted() -> None:
    assert count_undecodable(b"ok") == 0
    assert count_undecodable("schön".encode()) == 0
    assert count_undecodable(b"caf\xe9 \xff") == 2


@given(st.binary(max_size=300))
def test_garbage_never_raises_and_leaves_no_control_characters(data: bytes) -> None:
    for text in frames(data):
        assert not any(ord(c) < 9 or 13 < ord(c) < 32 for c in text)
    assert count_undecodable(data) >= 0
