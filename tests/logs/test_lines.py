from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lucid_pipelines.logs import Labels, RawLine, normalise, unglue

BAR = " 5%|▌    | 854/16252 [05:31<1:39:09,  2.59it/s, loss=4.64]"


def raw(data: bytes) -> RawLine:
    return RawLine(7, 100, len(data) + 1, data)


def test_a_line_keeps_number_offset_rank_and_time() -> None:
    (line,) = normalise(raw(b"[rank3]:2025-03-11 12:00:05,5 step: 7 loss: 1.5"))
    assert (line.number, line.offset, line.rank, line.prefix) == (7, 100, 3, "[rank3]:")
    assert line.text == "2025-03-11 12:00:05,5 step: 7 loss: 1.5"
    assert line.time is not None


def test_states_of_a_bar_are_numbered() -> None:
    lines = normalise(raw(b"\r 1/3\r 2/3\r 3/3"))
    assert [(x.state, x.state_count, x.text) for x in lines] == [(0, 3, " 1/3"), (1, 3, " 2/3"), (2, 3, " 3/3")]
    (newest,) = normalise(raw(b"\r 1/3\r 2/3\r 3/3"), newest=1)
    assert (newest.state, newest.text) == (2, " 3/3")


def test_glued_writers_are_separated() -> None:
    assert unglue(BAR + "Traceback (most recent call last):") == [BAR, "Traceback (most recent call last):"]
    assert unglue(BAR + BAR) == [BAR, BAR]
    assert unglue("Epoch: [4][10/100]\tLoss 3") == ["Epoch: [4][10/100]\tLoss 3"]
    assert unglue("[09/07 16:55:49 d2.utils]: iter: 3") == ["[09/07 16:55:49 d2.utils]: iter: 3"]


def test_task_labels_are_taken_off_when_the_log_has_them() -> None:
    (line,) = normalise(raw(b"12: step 5"), Labels(task=True))
    assert (line.rank, line.text) == (12, "step 5")


@given(st.binary(max_size=300))
def test_garbage_never_raises(data: bytes) -> None:
    lines = normalise(raw(data.replace(b"\n", b"")))
    assert [line.state for line in lines] == list(range(len(lines)))
