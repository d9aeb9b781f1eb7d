"""Durations as people read them; every form says when a unit is full."""

from collections.abc import Callable

import pytest

from lucid_pipelines.duration_text import compact_text, one_unit_text, spaced_text, span_text

LENGTHS_S = (0.0, 4.23, 59.97, 60, 185, 3599.6, 7630, 86_399, 445_000)


@pytest.mark.parametrize(
    ("form", "shown"),
    [
        (compact_text, ("0.0s", "4.2s", "1m00s", "1m00s", "3m05s", "1h00m", "2h07m", "23h59m", "5d03h")),
        (span_text, ("0s", "4s", "1m", "1m", "3m", "1h00m", "2h07m", "23h59m", "5d03h")),
        (spaced_text, ("0 s", "4 s", "1 min", "1 min", "3 min", "1 h 0 min", "2 h 7 min", "23 h 59 min", "5 d 3 h")),
        (one_unit_text, ("0 s", "4 s", "60 s", "60 s", "3 min", "60 min", "2.1 h", "24.0 h", "123.6 h")),
    ],
)
def test_each_form_from_seconds_to_days(form: Callable[[float], str], shown: tuple[str, ...]) -> None:
    assert tuple(map(form, LENGTHS_S)) == shown


def test_what_is_unknown_is_a_dash() -> None:
    assert compact_text(None) == spaced_text(None) == "–"
