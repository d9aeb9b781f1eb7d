from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.tracker.follow import FollowState, follow
from tests.support_tracker.formats import FORMATS
from tests.support_tracker.write import write


class Bytes:
    """A log in memory that counts how much of it is read."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.read = 0

    def size(self) -> int:
        return len(self.data)

    def read_at(self, offset: int, size: int) -> bytes:
        self.read += min(size, max(0, len(self.data) - offset))
        return self.data[offset : offset + size]


def lines(first: int, last: int) -> bytes:
    return b"".join(b"step %d loss %.4f 0.5s/step\n" % (i, 9 - i / 1000) for i in range(first, last))


def test_each_sample_is_handed_out_once() -> None:
    log = Bytes(lines(0, 50))
    first = follow(log)
    log.data += lines(50, 70)
    second = follow(log, first.state)
    log.data += b"step 70 lo"
    third = follow(log, second.state)
    assert [s.step for s in first.new_samples] == list(range(50))
    assert [s.step for s in second.new_samples] == list(range(50, 70))
    assert second.new_samples[-1].loss == pytest.approx(9 - 69 / 1000, abs=1e-4)
    assert third.new_samples == ()
    assert third.progress.step == 69


def test_a_log_that_did_not_grow_is_not_read_again() -> None:
    log = Bytes(lines(0, 5000))
    state = follow(log).state
    log.read = 0
    again = follow(log, state)
    assert again.progress.step == 4999
    assert log.read < 2000


def test_the_state_survives_a_restart_of_the_tracker() -> None:
    log = Bytes(lines(0, 50))
    stored = FollowState.from_json(follow(log).state.to_json())
    log.data += lines(50, 60)
    look = follow(log, stored)
    assert [s.step for s in look.new_samples] == list(range(50, 60))
    assert not look.restarted
    with pytest.raises(InputError, match="sampled_to"):
        FollowState.from_json({"size": 1})


def test_a_log_in_another_s_place_is_noticed() -> None:
    log = Bytes(lines(0, 50))
    state = follow(log).state
    log.data = b"a new run\n" + lines(0, 20)
    look = follow(log, state)
    assert look.restarted
    assert look.progress.step == 19
    log.data = b"a new run, longer than before\n" + lines(0, 500)
    again = follow(log, look.state)
    assert again.restarted
    assert again.progress.step == 499


@settings(max_examples=30)
@given(st.sampled_from(FORMATS), st.lists(st.integers(1, 4000), max_size=6))
def test_however_a_log_grew_the_answer_is_that_of_the_whole_log(form: object, steps: list[int]) -> None:
    assert isinstance(form, type(FORMATS[0]))
    data = write(form, seed=2, reports=60).data
    log, state, end = Bytes(b""), None, 0
    for step in steps:
        end += step
        log.data = data[:end]
        state = follow(log, state).state
    log.data = data
    assert follow(log, state).progress == follow(Bytes(data)).progress
