"""Progress is a counter that climbs, whoever prints it."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucid_pipelines.failures.progress import ProgressIndex


def index_of(lines: list[str]) -> ProgressIndex:
    index = ProgressIndex()
    for at, line in enumerate(lines):
        index.add(at, line.encode())
    return index


@pytest.mark.parametrize(
    "form",
    [
        "[2024-05-02 10:00:{s:02d}] iteration {i:8d}/ 500000 | loss {x:.4f} |",
        "completed step: {i}, seconds: {x:.3f}, loss: {x:.3f}",
        "{i}/9000 [=====>....] - ETA: 12:1{s} - loss: {x:.4f}",
        "\r 12%|#1  | {i}/1000 [00:12<01:30, 9.{s:02d}it/s]",
        "(RayTrainWorker pid=4410, ip=10.2.0.8) step {i} loss {x:.3f}",
        "[{i}]\ttrain-rmse:{x:.5f}\tvalid-rmse:{x:.5f}",
        '{{"step": {i}, "loss": {x:.4f}}}',
        "I0302 11:00:{s:02d}.1 12 loop.py:77] Iter {i} of 100, {x:.1f} samples/s",
    ],
)
def test_counters_of_many_forms_are_progress(form: str) -> None:
    rng = random.Random(1)
    lines = [form.format(i=i + 100, s=i % 60, x=rng.uniform(1, 2)) for i in range(40)]
    index = index_of(lines)
    assert index.climbs()
    assert index.lines_after(20) > 10
    assert index.lines_after(39) == 0


@pytest.mark.parametrize(
    "form",
    [
        "cache hit ratio 0.{a} over last {b} requests",
        "Downloading shards:  {a}%|###  | {b}/30 [00:1{c}<00:2{c}, 1.2s/it]",
        "gpu6: util {a}% mem {b}MiB temp {c}C",
        "heartbeat: worker alive for {t} s",
        "2024-05-02 10:00:{s:02d} INFO scheduler: warmup 2000 steps",
        "constant 7 of 9",
    ],
)
def test_noise_is_not_progress(form: str) -> None:
    rng = random.Random(2)
    lines = [
        form.format(a=rng.randint(10, 99), b=rng.randint(1, 900), c=rng.randint(1, 9), t=i * 10, s=i % 60)
        for i in range(60)
    ]
    assert index_of(lines).climbs() == ()


def test_a_counter_that_begins_again_still_goes_on() -> None:
    lines = [f"Epoch [{e}][{i}/50] loss 0.5" for e in range(4) for i in range(50)]
    index = index_of(lines)
    assert index.lines_after(140) > 4


def test_a_form_that_first_appears_afterwards_needs_many_lines() -> None:
    few = index_of(["x"] * 10 + [f"step {i}" for i in range(10)])
    many = index_of(["x"] * 10 + [f"step {i}" for i in range(60)])
    assert few.lines_after(5) == 0
    assert many.lines_after(5) > 4


@given(st.lists(st.binary(max_size=60), max_size=60), st.integers(-1, 60))
def test_no_bytes_break_it(lines: list[bytes], at: int) -> None:
    index = ProgressIndex()
    for i, line in enumerate(lines):
        index.add(i, line)
    assert index.lines_after(at) >= 0
    last = index.last_place()
    assert last is None or 0 <= last < len(lines)
