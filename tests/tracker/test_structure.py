from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucid_pipelines.tracker.fields import RecordParser
from lucid_pipelines.tracker.forms import form_of
from lucid_pipelines.tracker.steady import granularity, steady_mean
from lucid_pipelines.tracker.tables import Header, may_be_row, name_columns, read_header
from lucid_pipelines.tracker.ticks import behaviour


def test_a_counter_counts_and_noise_does_not() -> None:
    assert behaviour([10, 20, 30, 40]).counts
    assert behaviour([10, 10, 20, 20, 30]).counts
    assert not behaviour([5, 3, 9, 1, 7, 2, 8, 3]).counts
    assert not behaviour([7, 7, 7]).counts


def test_a_new_epoch_is_a_reset_and_a_restart_is_a_break() -> None:
    epochs = behaviour([90, 100, 10, 20, 30], [100.0] * 5)
    assert (epochs.resets, epochs.breaks) == (1, 0)
    restart = behaviour([900, 910, 920, 800, 810], [5000.0] * 5)
    assert (restart.resets, restart.breaks) == (0, 1)
    assert restart.counts


def test_pauses_are_left_out() -> None:
    values = [1.0, 1.02, 0.98, 1.01, 30.0, 1.0, 0.99, 1.0, 1.01, 1.0]
    steady = steady_mean(values)
    assert steady is not None
    assert steady.mean == pytest.approx(1.0, rel=0.02)
    assert (steady.kept, steady.dropped) == (9, 1)


def test_a_job_whose_steps_alternate_keeps_both_kinds() -> None:
    steady = steady_mean([0.1, 2.3] * 20)
    assert steady is not None
    assert steady.mean == pytest.approx(1.2)
    assert steady.dropped == 0


def test_warm_up_is_left_out_on_either_side() -> None:
    steady = steady_mean([6.0, 3.0, *[1.0] * 20, 0.1])
    assert steady is not None
    assert steady.mean == pytest.approx(1.0)


def test_a_new_pace_is_no_outlier() -> None:
    steady = steady_mean([1.0] * 40 + [3.0] * 10)
    assert steady is not None
    assert steady.dropped == 0
    assert steady.mean == pytest.approx(1.4)
    one_pause = steady_mean([1.0] * 40 + [3.0])
    assert one_pause is not None
    assert one_pause.mean == pytest.approx(1.0)


def test_no_measurement_no_mean() -> None:
    assert steady_mean([]) is None
    assert steady_mean([1.0], [0.0]) is None


@given(st.lists(st.floats(1e-3, 1e4), min_size=1, max_size=60))
def test_the_mean_lies_between_the_kept_values(values: list[float]) -> None:
    steady = steady_mean(values)
    assert steady is not None
    assert min(values) * 0.999 <= steady.mean <= max(values) * 1.001
    assert steady.low <= steady.high
    assert steady.kept + steady.dropped == len(values)


def test_how_precisely_values_were_printed() -> None:
    assert granularity([1.0, 3.0]) == 1.0
    assert granularity([1.2, 0.7]) == pytest.approx(0.1)
    assert granularity([0.125, 3.0]) == pytest.approx(0.001)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (
            "epoch     train_loss  valid_loss  accuracy  time    ",
            ("epoch", "train_loss", "valid_loss", "accuracy", "time"),
        ),
        ("| epoch | step  |  loss   |", ("epoch", "step", "loss")),
        ("epoch,step,loss,lr", ("epoch", "step", "loss", "lr")),
        (
            "      Epoch    GPU_mem   box_loss   obj_loss   cls_loss  Instances       Size",
            ("Epoch", "GPU_mem", "box_loss", "obj_loss", "cls_loss", "Instances", "Size"),
        ),
        ("E    #       LOSS TOK2VEC  LOSS NER  SCORE", ("epoch", "step", "LOSS TOK2VEC", "LOSS NER", "SCORE")),
    ],
)
def test_headers(text: str, names: tuple[str, ...]) -> None:
    header = read_header(text)
    assert header is not None
    assert header.names == names


@pytest.mark.parametrize(
    "text", ["", "loss went down over time", "a | b | c", "epoch 1 loss 2", "------", "step: loss: time:", "INFO start"]
)
def test_what_is_no_header(text: str) -> None:
    assert read_header(text) is None


def test_rows_take_the_names_of_their_header() -> None:
    row = "2158      0.483458    0.531803    0.631600  01:08  "
    shape = RecordParser().parse(row).shape
    header = read_header("epoch     train_loss  valid_loss  accuracy  time    ")
    assert header is not None
    assert may_be_row(shape)
    named = name_columns(shape, row, header)
    assert named is not None
    assert [field.name for field in named.fields] == ["epoch", "train_loss", "valid_loss", "accuracy", "time"]
    assert name_columns(shape, row, Header(("epoch", "loss", "lr", "a", "b", "c"))) is None


@given(st.binary(max_size=120), st.integers(0, 10**9))
def test_lines_that_differ_in_numbers_only_have_one_form(line: bytes, number: int) -> None:
    line = line.replace(b"\n", b"")
    assert form_of(line + b" step 1") == form_of(line + b" step %d" % number)


def test_lines_that_differ_in_words_have_different_forms() -> None:
    assert form_of(b"train loss 1.5") != form_of(b"valid loss 1.5")
    assert form_of("损失 1".encode()) != form_of("验证损失 1".encode())
    assert form_of(b"---- ----") != form_of(b"12 34")
