from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucid_pipelines.logs import LineTime, TimeKind, find_time

NOON = datetime(2025, 3, 11, 12, 0, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        "2025-03-11 12:00:05 INFO start",
        "2025-03-11T12:00:05Z text",
        "2025-03-11T13:00:05+01:00 text",
        "[2025-03-11 12:00:05 swin_tiny] (main.py 222): INFO",
        "2025/03/11 12:00:05 - mmengine - INFO",
        "2025-03-11,12:00:05 | INFO | Train",
        "[INFO|2025-03-11 12:00:05] llamafactory",
        "03/11/2025 12:00:05 - INFO - __main__ - step",
        "Mar 11 2025 12:00:05 host",
        "Tue Mar 11 12:00:05 UTC 2025",
        "Tue Mar 11 12:00:05 2025 host",
        "time=2025-03-11T12:00:05Z level=info",
        "1741694405 step 5",
        "[1741694405.0] step 5",
        "2025年3月11日 12:00:05 第 3 轮",
        "20250311-12:00:05 step",
    ],
)
def test_full_dates(text: str) -> None:
    found = find_time(text)
    assert found is not None
    assert found.kind is TimeKind.FULL
    assert found.at() == NOON


@pytest.mark.parametrize(
    ("text", "kind", "at_s"),
    [
        ("[03/11 12:40:02 d2.utils.events]:  eta", TimeKind.NO_YEAR, (31 + 29 + 10) * 86400 + 45602),
        ("I0311 12:40:02.500000 140 train.py:1] step", TimeKind.NO_YEAR, (31 + 29 + 10) * 86400 + 45602.5),
        ("[W311 12:40:02.500 reducer.cpp:1]", TimeKind.NO_YEAR, (31 + 29 + 10) * 86400 + 45602.5),
        ("Mar 11 12:40:02 node kernel: x", TimeKind.NO_YEAR, (31 + 29 + 10) * 86400 + 45602),
        ("[12:40:02] step 3", TimeKind.CLOCK_ONLY, 45602),
        ("12:40:02,250 - INFO - step", TimeKind.CLOCK_ONLY, 45602.25),
    ],
)
def test_partial_dates(text: str, kind: TimeKind, at_s: float) -> None:
    found = find_time(text)
    assert found is not None
    assert (found.kind, found.at_s) == (kind, pytest.approx(at_s))
    assert found.at() is None


@pytest.mark.parametrize(
    "text",
    [
        " 34%|███▍| 880/2548 [5:19:36<10:05:54, 21.80s/it]",
        "step: 5 loss: 1.2 eta: 0:13:30",
        "2025-13-45 12:00:00",
        "ratio 12:75:99",
        "",
        "1741694405123456 bytes",
    ],
)
def test_what_is_no_timestamp(text: str) -> None:
    assert find_time(text) is None


def test_milliseconds_and_differences() -> None:
    a, b = find_time("[2024-01-10 03:07:32,164] x"), find_time("[2024-01-10 03:07:55,040] y")
    assert a and b
    assert a.seconds_until(b) == pytest.approx(22.876)


def test_midnight_and_new_year_are_crossed() -> None:
    assert LineTime(86390, TimeKind.CLOCK_ONLY).seconds_until(LineTime(5, TimeKind.CLOCK_ONLY)) == 15
    before, after = find_time("[12/31 23:59:50 d2]"), find_time("[01/01 00:00:05 d2]")
    assert before and after
    assert before.seconds_until(after) == 15
    assert before.seconds_until(LineTime(5, TimeKind.CLOCK_ONLY)) is None


@given(st.text(max_size=200))
def test_garbage_never_raises(text: str) -> None:
    found = find_time(text)
    assert found is None or found.at_s >= -86400


@given(st.datetimes(min_value=datetime(1971, 1, 1), max_value=datetime(2090, 1, 1)))  # noqa: DTZ001
def test_iso_round_trip(moment: datetime) -> None:
    found = find_time(moment.strftime("%Y-%m-%d %H:%M:%S,%f") + " INFO x")
    assert found is not None
    at = found.at()
    assert at is not None
    assert abs((at - moment.replace(tzinfo=UTC)).total_seconds()) < 1e-3
