from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucid_pipelines.tracker.fields import RecordParser, duration_s
from lucid_pipelines.tracker.records import Kind


def named(text: str) -> dict[str, float]:
    parsed = RecordParser().parse(text)
    return {f.name: v.number for f, v in zip(parsed.shape.fields, parsed.values, strict=True) if f.name}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("step=10 loss: 1.5 lr 3e-4", {"step": 10, "loss": 1.5, "lr": 3e-4}),
        ("{'loss': 1.5, 'epoch': 0.3}", {"loss": 1.5, "epoch": 0.3}),
        ('{"loss": "1.5", "num_updates": "100"}', {"loss": 1.5, "num_updates": 100}),
        ("elapsed time per iteration (ms): 15198.8 |", {"elapsed time per iteration": 15198.8}),
        ("epoch=0/micro_step=90/global_step=11", {"epoch": 0, "micro_step": 90, "global_step": 11}),
        ("training's binary_logloss: 0.5", {"training's binary_logloss": 0.5}),
        ("Acc@1 22.5", {"Acc@1": 22.5}),
        ("loss is 0.5", {"loss": 0.5}),
        ("3epoch:train:1001-1100batch: loss=2", {"epoch": 3, "batch": 1100, "loss": 2}),
        ("total_tokens=419,430,400", {"total_tokens": 419430400}),
        ("tokens_per_sec: 123K", {"tokens_per_sec": 123000}),
        ("loss tensor(0.25, device='cuda:0')", {"loss": 0.25}),
        ("objective: -1.25", {"objective": -1.25}),
        ("损失：0.5 学习率：0.01", {"损失": 0.5, "学习率": 0.01}),
        ("第12轮 第60步/共500步", {"轮": 12, "步": 60}),
        ("after 300 steps", {"steps": 300}),
        ("2.5 avg loss, 0.001 rate", {"rate": 0.001}),
        ("time 3.4 samples/sec: 74.7", {"time": 3.4, "samples/sec": 74.7}),
    ],
)
def test_numbers_get_their_names(text: str, expected: dict[str, float]) -> None:
    assert named(text) == pytest.approx(expected)


@pytest.mark.parametrize(
    "text",
    [
        "[2024-01-10 03:07:32,164] [timer.py:264:stop]",
        "I0728 02:13:12.123456 140 logging_writer.py:48]",
        "NCCL version 2.20.5+cuda12.4 at 10.2.3.4",
        "/opt/conda/lib/python3.10/site-packages/x.py:13: UserWarning",
        "saved https://example.org/a/1/2 0x7f00",
        "model-00005-of-00030.safetensors",
    ],
)
def test_what_says_nothing_gives_no_numbers(text: str) -> None:
    assert RecordParser().parse(text).shape.fields == ()


def test_a_bar_gives_count_times_and_rate() -> None:
    parsed = RecordParser().parse(" 34%|███▍      | 880/2548 [5:19:36<10:05:54, 21.80s/it]")
    share, count, elapsed, left, rate = zip(parsed.shape.fields, parsed.values, strict=True)
    assert share[0].unit == "%"
    assert count[0].bar
    assert (count[1].number, count[1].total) == (880, 2548)
    assert (elapsed[0].name, elapsed[1].number) == ("elapsed", 19176)
    assert (left[0].name, left[1].number) == ("remaining", 36354)
    assert (rate[0].unit, rate[1].number) == ("s/it", 21.8)


def test_a_number_in_parentheses_is_an_aside() -> None:
    fields = RecordParser().parse("loss: 1.735 (1.9)").shape.fields
    assert [field.aside for field in fields] == [False, True]


def test_fractions_with_factors_and_words() -> None:
    for text, number, total in [
        ("train 1.20kit/10.0kit", 1200, 10000),
        ("batch 7 of 90", 7, 90),
        ("iteration  29721/  32114", 29721, 32114),
        ("'global_step/max_steps': '10/1000'", 10, 1000),
    ]:
        parsed = RecordParser().parse(text)
        assert parsed.shape.fields[0].kind is Kind.FRACTION
        assert (parsed.values[0].number, parsed.values[0].total) == (number, total)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1:02:03", 3723),
        ("12:34", 754),
        ("1 day, 2:03:04", 93784),
        ("2 days 1:00:00", 176400),
        ("1h 2m 3s", 3723),
        ("1m 3.5s", 63.5),
        ("2d 3h", 183600),
        ("5分30秒", 330),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert duration_s(text) == pytest.approx(seconds)


def test_durations_in_records() -> None:
    assert named("'elapsed_time': '1m 23s', 'remaining_time': '2h 3m 4s'") == {
        "elapsed_time": 83,
        "remaining_time": 7384,
    }
    with pytest.raises(ValueError, match="nonsense"):
        duration_s("nonsense")


@given(st.text(max_size=200))
def test_garbage_never_raises(text: str) -> None:
    parsed = RecordParser(limit=8).parse(text)
    assert len(parsed.shape.fields) == len(parsed.values)


@given(
    st.integers(0, 10**7),
    st.integers(0, 10**7),
    st.floats(0, 1e6, allow_nan=False).map(lambda x: round(x, 4)),
    st.sampled_from(["step {} of {} loss {:.4f}", "[{}/{}] loss={:.4f}", "it {}/{} | loss {:.4f} |"]),
)
def test_what_the_parser_remembers_does_not_change_what_it_reads(a: int, b: int, x: float, form: str) -> None:
    parser = RecordParser()
    parser.parse(form.format(1, 2, 3.5))
    text = form.format(a, b, x)
    assert parser.parse(text) == RecordParser().parse(text)
    values = [v for value in parser.parse(text).values for v in (value.number, value.total) if v is not None]
    assert values == pytest.approx([a, b, x])
