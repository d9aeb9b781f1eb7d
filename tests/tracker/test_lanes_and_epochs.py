from __future__ import annotations

import random
from itertools import pairwise

import pytest

from tests.tracker.test_formats import track


def lagging(text: str, lags: list[int], *, shown: int = 90) -> bytes:
    lines = [text.format(rank=rank, step=max(1, i - lag)) for i in range(1, shown) for rank, lag in enumerate(lags)]
    return "\n".join(lines).encode() + b"\n"


@pytest.mark.parametrize(
    ("text", "lags", "step"),
    [
        ("[rank{rank}] step {step} loss 2.31 0.5 s/step", [0, 0, 0, 1], 89),
        ("[rank{rank}] step {step} loss 2.31 0.5 s/step", [4, 0, 0, 0], 85),
        ("gpu {rank}: step {step} loss 2.31 0.5 s/step", [0, 30], 89),
        ("step {step} loss 2.31 0.5 s/step", [0, 0, 2, 1], 89),
        ("[rank{rank}] step {step} loss 2.31 0.5 s/step", [0] * 40 + [3] * 24, 89),
    ],
)
def test_ranks_that_lag_do_not_hide_the_step(text: str, lags: list[int], step: int) -> None:
    got = track(lagging(text, lags))
    assert got.step == step
    assert got.step_time_s == pytest.approx(0.5)
    steps = [sample.step for sample in got.samples]
    assert all(b > a for a, b in pairwise(steps))


def test_numbers_that_only_wander_are_no_counter() -> None:
    rng = random.Random(5)
    lines = [f"step {rng.randrange(90)} loss 2.31 0.5 s/step" for _ in range(300)]
    assert track("\n".join(lines).encode()).step is None


def epochs(first: int, until: int, *, total: int = 20, length: int = 100, head: bool = True) -> bytes:
    lines = [
        f"Epoch {first + done // length}/{total} step {done % length + 1}/{length} loss 2.31 0.5 s/step"
        for done in range(0 if head else until - 40, until)
    ]
    return "\n".join(lines).encode() + b"\n"


@pytest.mark.parametrize("first", [0, 1])
def test_the_start_of_the_log_says_where_epochs_begin(first: int) -> None:
    got = track(epochs(first, 730), tail_bytes=4096)
    assert (got.step, got.total_steps) == (30, 100)
    assert (got.global_step, got.global_total_steps, got.steps_left) == (730, 2000, 1270)
    assert got.eta_s == pytest.approx(1270 * 0.5)


def test_what_may_be_one_epoch_s_remainder_is_not_given_as_the_job_s() -> None:
    # Epoch 10 of 20, half through 100 steps: of this epoch, or of all?
    got = track(epochs(1, 950, head=False))
    assert (got.step, got.total_steps) == (50, 100)
    assert got.steps_left is None
    assert got.eta_s is None


def test_the_start_of_the_log_says_whether_steps_begin_again() -> None:
    halfway = epochs(1, 950)  # epoch 10 of 20, at step 50 of 100
    got = track(halfway, tail_bytes=2048)
    assert (got.global_step, got.steps_left) == (950, 1050)
    over_all = [f"Epoch {1 + i // 50}/20 step {i + 1}/1000 loss 2.31 0.5 s/step" for i in range(500)]
    got = track("\n".join(over_all).encode() + b"\n", tail_bytes=2048)
    assert (got.step, got.global_step, got.steps_left) == (500, None, 500)


def test_in_the_last_epoch_nothing_else_is_left() -> None:
    got = track(epochs(1, 1990, head=False), tail_bytes=2048)
    assert (got.step, got.steps_left) == (90, 10)


def test_a_step_s_time_is_not_taken_for_an_epoch_s() -> None:
    lines = [f"epoch {i}/200 loss 2.31 0.75 s/step" for i in range(1, 60)]
    got = track("\n".join(lines).encode())
    assert (got.step, got.step_unit, got.step_time_unit) == (59, "epoch", "step")
    assert got.eta_s is None
    lines = [f"epoch {i}/200 loss 2.31 75 s/epoch" for i in range(1, 60)]
    got = track("\n".join(lines).encode())
    assert (got.step_time_s, got.step_time_unit) == (75.0, "epoch")
    assert got.eta_s == pytest.approx(141 * 75.0)
