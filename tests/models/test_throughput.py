"""The throughput model: nothing from the future, baselines beside it, and counts that add up."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.models.artefacts import ArtefactError
from lucid_pipelines.models.throughput import SubmissionSeries, ThroughputModel, count_submissions, read_series
from lucid_pipelines.models.throughput.baselines import baseline_forecasts
from lucid_pipelines.models.throughput.features import FEATURES, MAX_HORIZON, NAMES, Past, build
from lucid_pipelines.models.throughput.training import ThroughputSettings, judge_throughput, train_throughput
from tests.support_models.worlds import QUICK, START, seasons

FAST = ThroughputSettings(fit=replace(QUICK, interactions=(("hour", "weekday"),)), draws=1)
AS_OF = START + timedelta(days=11)


@pytest.fixture(scope="module")
def document() -> dict:
    return train_throughput(seasons(), AS_OF, FAST, source="made up")


@pytest.fixture(scope="module")
def model(document: dict) -> ThroughputModel:
    return ThroughputModel.from_document(json.loads(json.dumps(document)))


def poisoned(series: SubmissionSeries, from_slot: int) -> SubmissionSeries:
    jobs, gpus = series.jobs.copy(), series.gpus.copy()
    jobs[from_slot:], gpus[from_slot:] = 1e6, 1e6
    return SubmissionSeries(series.begin_s, series.slot_s, jobs, gpus, {})


def test_training_looks_at_nothing_later_than_its_day(document: dict) -> None:
    slot = 11 * 144
    again = train_throughput(poisoned(seasons(), slot), AS_OF, FAST, source="made up")
    assert again["model"] == document["model"]
    assert again["trained"]["data_sha256"] == document["trained"]["data_sha256"]
    earlier = train_throughput(poisoned(seasons(), slot - 1), AS_OF, FAST, source="made up")
    assert earlier["trained"]["data_sha256"] != document["trained"]["data_sha256"]


@pytest.mark.parametrize("horizon", [1, 3, MAX_HORIZON])
def test_features_of_a_slot_end_a_horizon_before_it(horizon: int) -> None:
    series, slots = seasons(9), np.array([1200, 1250])
    for slot in slots.tolist():
        whole = build(Past(series.jobs, 600.0), series.starts_s()[[slot]], np.array([slot]), np.array([horizon]))
        later = poisoned(series, slot - horizon + 1)
        assert np.array_equal(
            build(Past(later.jobs, 600.0), series.starts_s()[[slot]], np.array([slot]), np.array([horizon])), whole
        )
        touched = poisoned(series, slot - horizon)
        other = build(Past(touched.jobs, 600.0), series.starts_s()[[slot]], np.array([slot]), np.array([horizon]))
        assert not np.array_equal(other, whole)
        for name, forecast in baseline_forecasts(Past(later.jobs, 600.0), np.array([slot]), horizon).items():
            assert forecast == baseline_forecasts(Past(series.jobs, 600.0), np.array([slot]), horizon)[name]


def test_features_are_what_they_say() -> None:
    values = np.arange(1500, dtype=float)
    slot, horizon = 1400, 6
    starts = np.array([START.timestamp() + 600.0 * slot])
    row = dict(zip(NAMES, build(Past(values, 600.0), starts, np.array([slot]), np.array([horizon]))[0], strict=True))
    newest = slot - horizon
    moment = START + timedelta(seconds=600 * slot)
    assert row["hour"] == pytest.approx(moment.hour + moment.minute / 60)
    assert row["weekday"] == moment.weekday()
    assert row["day_of_month"] == moment.day
    assert (row["last"], row["second_last"]) == (newest, newest - 1)
    assert row["mean_6"] == np.mean(values[newest - 5 : newest + 1])
    assert row["median_12"] == np.median(values[newest - 11 : newest + 1])
    assert row["trend"] == row["mean_6"] - np.mean(values[newest - 35 : newest + 1])
    weights = 0.5 ** (np.arange(newest + 1)[::-1] / 3)
    assert row["soft_3"] == pytest.approx(np.average(values[: newest + 1], weights=weights))
    assert row["day_mean"] == np.mean([values[slot - 144 * d] for d in range(1, 8)])
    assert row["week"] == np.mean(values[slot - 1008 - 3 : slot - 1008 + 3])
    short = build(Past(values[:3], 600.0), starts[:1], np.array([8]), np.array([6]))[0]
    assert np.isnan(short[NAMES.index("mean_6")])
    assert len(FEATURES) == len(NAMES) == short.shape[0]


def test_it_beats_every_baseline_on_a_cluster_with_habits(model: ThroughputModel) -> None:
    report = judge_throughput(model, seasons(), AS_OF, START + timedelta(days=14))
    for target in ("jobs", "gpus"):
        assert report[target]["mae"] < min(report[target]["baselines"].values())
        assert report[target]["mae_day_sd"] is not None
        assert 0.7 < report[target]["coverage_80"] < 0.92
    assert report["slots"] == 432


def test_a_forecast_names_the_coming_slots(model: ThroughputModel) -> None:
    series = seasons()
    now_s = START.timestamp() + 12 * 86_400.0 + 130.0
    forecast = model.forecast(series.before(now_s))
    assert forecast.starts_s[0] == START.timestamp() + 12 * 86_400.0  # the slot that has begun
    assert len(forecast.starts_s) == MAX_HORIZON
    assert forecast.mean_jobs_ahead(now_s) is not None
    assert min(forecast.jobs) >= 0
    replay = model.forecast_series(series)
    assert len(replay.jobs) == len(series)
    last = model.forecast(series.before(now_s), 1).jobs[0]
    assert model.forecast_series(series, horizon=1).jobs[12 * 144] == pytest.approx(last)


def test_a_replay_forecast_does_not_see_what_comes(model: ThroughputModel) -> None:
    series = seasons()
    seen = model.forecast_series(poisoned(series, 1500)).jobs
    assert seen[: 1500 + MAX_HORIZON] == model.forecast_series(series).jobs[: 1500 + MAX_HORIZON]


def test_what_cannot_be_asked_is_refused(model: ThroughputModel, document: dict) -> None:
    series = seasons()
    with pytest.raises(InputError, match="1 to 6 slots ahead"):
        model.forecast(series, 7)
    with pytest.raises(InputError, match="slots of 600 s; got slots of 60 s"):
        model.forecast(replace(series, slot_s=60.0))
    with pytest.raises(InputError, match="at least one known slot"):
        model.forecast(series.before(0.0))
    with pytest.raises(InputError, match="no slot of the series"):
        judge_throughput(model, series, START + timedelta(days=90), START + timedelta(days=91))
    changed = json.loads(json.dumps(document))
    changed["model"]["targets"]["jobs"]["model"]["intercept"] += 1
    with pytest.raises(ArtefactError):
        ThroughputModel.from_document(changed)


def test_bad_series_are_refused_clearly() -> None:
    with pytest.raises(InputError, match="needs 3 days of submissions"):
        train_throughput(seasons(2), START + timedelta(days=2), FAST)
    flat = SubmissionSeries(START.timestamp(), 600.0, np.full(2000, 3.0), np.full(2000, 3.0), {})
    with pytest.raises(InputError, match="never changes"):
        train_throughput(flat, START + timedelta(days=12), FAST)


def test_a_constant_number_of_gpus_is_learned_all_the_same() -> None:
    series = seasons(6)
    document = train_throughput(replace(series, gpus=np.zeros(len(series))), START + timedelta(days=6), FAST)
    assert ThroughputModel.from_document(document).forecast(series).gpus == pytest.approx([0.0] * 6, abs=1e-9)


@given(
    st.lists(
        st.tuples(st.integers(-5_000, 15_000), st.integers(-1, 16)),
        max_size=40,
    )
)
@settings(max_examples=80)
def test_every_submission_is_counted_or_named(items: list[tuple[int, int]]) -> None:
    until = START + timedelta(seconds=9_000)
    series = count_submissions(
        [(START + timedelta(seconds=s), gpus) for s, gpus in items], begin=START, until=until, slot_s=600.0
    )
    assert len(series) == 15
    inside = [(s, g) for s, g in items if g > 0 and 0 <= s < 9_000]
    assert series.jobs.sum() == len(inside)
    assert series.gpus.sum() == sum(g for _, g in inside)
    bad = {"no_gpu": lambda s, g: g <= 0, "too_early": lambda s, g: s < 0, "too_late": lambda s, g: s >= 9_000}
    for reason, is_bad in bad.items():
        assert series.left_out.get(reason, 0) == sum(is_bad(s, g) for s, g in items)


def test_windows_without_a_whole_slot_are_refused() -> None:
    with pytest.raises(InputError, match="whole slots"):
        count_submissions([], begin=START, until=START + timedelta(seconds=599))
    with pytest.raises(InputError, match="whole slots"):
        count_submissions([], begin=START, until=START + timedelta(days=40_000))


def test_tables_are_read_and_wrong_ones_named(tmp_path: Path) -> None:
    head = "time,submit_gpu_job,submit_gpu_num\n"
    path = tmp_path / "t.csv.gz"
    with gzip.open(path, "wt") as file:
        file.write(head + "2026-03-02 00:20:00,4,8\n2026-03-02 00:00:00,1,2\n")
    series = read_series(path)
    assert (series.begin_s, series.jobs.tolist(), series.gpus.tolist()) == (START.timestamp(), [1, 0, 4], [2, 0, 8])
    plain = tmp_path / "t.csv"
    for text, message in (
        ("time,submit_gpu_jobs\n", "did you mean 'submit_gpu_jobs'"),
        (head, "no rows"),
        (head + "yesterday,1,2\n", "is wrong"),
        (head + "2026-03-02 00:00:00,nan,2\n", "at least 0"),
        (head + "2026-03-02 00:00:00,-1,2\n", "at least 0"),
        (head + "2026-03-02 00:00:00,1,2\n" * 2, "one row for each slot"),
    ):
        plain.write_text(text)
        with pytest.raises(InputError, match=message):
            read_series(plain)
    with pytest.raises(InputError, match="cannot be read"):
        read_series(tmp_path / "missing.csv")


@pytest.mark.shared
@pytest.mark.slow
def test_venus_september_one_hour_ahead(shared_data: Path) -> None:
    series = read_series(shared_data / "lucid" / "cluster_throughput.csv.gz")
    begin, until = datetime(2020, 9, 1, tzinfo=UTC), datetime(2020, 9, 29, tzinfo=UTC)
    settings = ThroughputSettings(fit=replace(ThroughputSettings().fit, bags=2))
    model = ThroughputModel.from_document(train_throughput(series, begin, settings))
    report = judge_throughput(model, series, begin, until)
    assert report["jobs"]["baselines"]["rolling_mean_1h"] == pytest.approx(4.455, abs=0.001)
    assert report["jobs"]["mae"] <= 4.05
    assert report["jobs"]["mae"] < min(report["jobs"]["baselines"].values())
    assert report["gpus"]["mae"] < min(report["gpus"]["baselines"].values())
