"""Indolent packing: how much sharing the forecast allows."""

from __future__ import annotations

import pytest

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.domain.view import Forecast
from lucid_pipelines.placement import ModeRules, SharingMode, choose_mode, next_mode_s

RULES = ModeRules(off_below_jobs=2.0, apathetic_below_jobs=6.0, slots_ahead=2)


def forecast(*jobs: float) -> Forecast:
    return Forecast([600.0 * i for i in range(len(jobs))], list(jobs), [2 * j for j in jobs])


@pytest.mark.parametrize(
    ("jobs", "mode"),
    [
        ((5, 2, 2), SharingMode.OFF),
        ((5, 4, 4), SharingMode.APATHETIC),
        ((3, 4, 4), SharingMode.DEFAULT),
        ((9, 9, 9), SharingMode.DEFAULT),
    ],
)
def test_low_throughput_shares_less_unless_it_is_about_to_rise(jobs: tuple[float, ...], mode: SharingMode) -> None:
    chosen, reason = choose_mode(forecast(*jobs), 0.0, RULES)
    assert chosen is mode
    assert reason.facts["jobs_ahead"] == sum(jobs[1:]) / 2


def test_without_a_forecast_the_default_mode_says_so() -> None:
    for missing in (None, forecast(1.0)):
        mode, reason = choose_mode(missing, 700.0, RULES)
        assert mode is SharingMode.DEFAULT
        assert reason.facts["forecast"] == "missing"


def test_the_mode_can_be_looked_at_every_so_often_only() -> None:
    rules = ModeRules(off_below_jobs=2.0, slots_ahead=1, mode_interval_s=500.0)
    series = forecast(0, 9, 0, 9)
    assert choose_mode(series, 599.0, rules)[0] is SharingMode.DEFAULT
    assert choose_mode(series, 999.0, rules)[0] is SharingMode.DEFAULT, "still what was seen at 500"
    assert choose_mode(series, 1000.0, rules)[0] is SharingMode.OFF
    assert next_mode_s(series, 10.0, rules) == 1000.0
    assert next_mode_s(series, 10.0, RULES) == 600.0
    assert next_mode_s(None, 10.0, RULES) is None


@pytest.mark.parametrize("wrong", [{"slots_ahead": 0}, {"mode_interval_s": 0.0}])
def test_impossible_numbers_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError):
        ModeRules(**wrong)  # type: ignore[arg-type]


def test_means_ahead_end_with_the_table() -> None:
    series = forecast(1, 2, 3)
    assert series.mean_jobs_ahead(0.0, 5) == 2.5
    assert series.mean_gpus_ahead(600.0, 5) == 6.0
    assert series.mean_jobs_ahead(1_200.0, 5) is None
    assert series.jobs_at(-1.0) is None
    assert series.jobs_at(650.0) == 2
