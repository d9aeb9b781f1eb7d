"""The Update Engine's functions: unseen windows, a gate that keeps the worse out, drift, and a walk through time."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np
import pytest

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.models.artefacts import ModelKind, Registry
from lucid_pipelines.models.duration import DurationModel
from lucid_pipelines.models.duration.training import DurationSettings, train_duration
from lucid_pipelines.models.throughput import ThroughputModel
from lucid_pipelines.models.throughput.training import ThroughputSettings, train_throughput
from lucid_pipelines.models.updating import (
    Candidate,
    Evaluation,
    duration_candidate,
    duration_drift,
    gate,
    packing_candidate,
    throughput_candidate,
    throughput_drift,
    walk_forward,
)
from lucid_pipelines.models.updating.drift import residual_trend
from tests.support_models.worlds import QUICK, START, habits, pairs, run, seasons

FAST = DurationSettings(fit=QUICK, min_category_rows=30)
FAST_SLOTS = ThroughputSettings(fit=QUICK, draws=1)
ROWS = habits(600)
DAY_9 = START + timedelta(days=9)


@pytest.fixture(scope="module")
def candidate() -> Candidate:
    return duration_candidate(ROWS, DAY_9, settings=FAST, source="made up")


def evaluation(
    candidate: float | None, baselines: dict[str, float], serving: float | None = None, **more
) -> Evaluation:
    values = {
        "kind": ModelKind.DURATION,
        "metric": "spearman",
        "higher_is_better": True,
        "rows": 100,
        "candidate": {"spearman": candidate},
        "baselines": {name: {"spearman": value} for name, value in baselines.items()},
        "in_service": None if serving is None else {"spearman": serving},
        "in_service_version": None if serving is None else "old",
    }
    return Evaluation(**{**values, **more})


@pytest.mark.parametrize(
    ("case", "promote", "reason"),
    [
        (evaluation(0.6, {"a": 0.5, "b": 0.55}), True, "beats 0.55 of no model (b) on 100 unseen rows"),
        (evaluation(0.6, {"a": 0.5}, 0.58), True, "and 0.58 of the one in service (old)"),
        (evaluation(0.6, {"a": 0.5}, 0.6), False, "0.6 does not beat 0.6 of the one in service (old)"),
        (evaluation(0.6, {"a": 0.7}, 0.1), False, "does not beat 0.7 of no model (a)"),
        (evaluation(None, {"a": 0.1}), False, "has no spearman"),
        (evaluation(0.9, {"a": 0.1}, rows=7), False, "holds 7 rows; 30 are needed"),
        (evaluation(0.2, {"a": 0.3}, higher_is_better=False), True, "beats 0.3"),
        (evaluation(0.4, {"a": 0.3}, higher_is_better=False), False, "does not beat"),
        (evaluation(0.4, {}), True, "nothing to compare with"),
    ],
)
def test_the_gate(case: Evaluation, promote: bool, reason: str) -> None:
    verdict = gate(case)
    assert verdict.promote is promote
    assert reason in verdict.reason
    assert json.loads(json.dumps(case.to_json()))["metric"] == "spearman"


def test_a_lead_can_be_asked_for() -> None:
    assert not gate(evaluation(0.6, {"a": 0.55}), min_lead=0.1).promote


def test_a_good_candidate_passes_and_its_document_says_so(candidate: Candidate, tmp_path) -> None:
    assert candidate.verdict.promote
    assert candidate.evaluation.rows > 30
    assert candidate.evaluation.sd is not None
    told = candidate.document["metrics"]["evaluation"]
    assert told["promote"] is True
    assert told["reason"] == candidate.verdict.reason
    registry = Registry(tmp_path)
    assert registry.keep(candidate.document) == candidate.version
    assert (
        DurationModel.from_document(registry.read(ModelKind.DURATION, candidate.version)).version == candidate.version
    )


def test_the_window_is_unseen_and_nothing_after_the_day_is_looked_at(candidate: Candidate) -> None:
    begin = DAY_9 - timedelta(days=1)
    assert candidate.document["trained"]["as_of"] == begin.isoformat()
    poisoned = [
        row if row.ended_at <= DAY_9 else replace(row, duration_s=1e7, user="mallory", name="poison") for row in ROWS
    ]
    again = duration_candidate(poisoned, DAY_9, settings=FAST, source="made up")
    assert again.document["model"] == candidate.document["model"]
    assert dict(again.evaluation.candidate) == dict(candidate.evaluation.candidate)
    window = [replace(row, duration_s=1.0) if begin < row.ended_at else row for row in ROWS]
    assert duration_candidate(window, DAY_9, settings=FAST).document["model"] == candidate.document["model"]


def test_the_same_model_does_not_beat_itself(candidate: Candidate) -> None:
    again = duration_candidate(ROWS, DAY_9, in_service=candidate.document, settings=FAST)
    assert not again.verdict.promote
    assert candidate.version in again.verdict.reason
    assert again.evaluation.in_service is not None


def test_noise_is_not_promoted() -> None:
    """Durations that nothing explains: the model has no business in service."""
    source = np.random.default_rng(3)
    rows = [
        run(i, at_h=i / 4, run_s=float(np.expm1(source.normal(5, 2))), user=f"u{source.integers(5)}", name=f"n{i}")
        for i in range(300)
    ]
    verdict = duration_candidate(rows, START + timedelta(days=3), settings=FAST).verdict
    strong = evaluation(0.0, {"a": 0.0})
    assert not gate(strong).promote
    assert "spearman" in verdict.reason


def test_a_throughput_candidate_meets_its_window() -> None:
    series = seasons()
    day = START + timedelta(days=12)
    first = throughput_candidate(series, day, settings=FAST_SLOTS)
    assert first.evaluation.rows == 144
    assert first.verdict.promote
    assert set(first.evaluation.baselines) >= {"newest_slot", "rolling_median_2h"}
    again = throughput_candidate(series.before(day.timestamp()), day, settings=FAST_SLOTS, in_service=first.document)
    assert again.document["model"] == first.document["model"]
    assert not again.verdict.promote


def test_a_packing_candidate_is_judged_on_workloads_left_out() -> None:
    table = pairs()
    first = packing_candidate(table, source="made up")
    assert first.evaluation.baselines.keys() == {"utilisation_sum"}
    assert first.evaluation.candidate["value"] is not None
    again = packing_candidate(table, in_service=first.document)
    assert not again.verdict.promote
    assert "same measurements" in again.evaluation.notes[0]
    other = packing_candidate(pairs(seed=5), in_service=first.document)
    assert "may have seen" in other.evaluation.notes[0]


def test_drift_is_found_where_it_is_and_only_there() -> None:
    model = DurationModel.from_document(train_duration(ROWS, START + timedelta(days=7), FAST))
    steady = duration_drift(model, ROWS, START + timedelta(days=7), START + timedelta(days=11))
    assert not {f.name for f in steady.findings if f.has_drifted and f.check != "input"}
    slower = [
        replace(row, duration_s=(row.duration_s or 0) * 6, gpus=64)
        if row.submitted_at >= START + timedelta(days=7)
        else row
        for row in ROWS
    ]
    moved = duration_drift(model, slower, START + timedelta(days=7), START + timedelta(days=11))
    drifted = {(f.check, f.name) for f in moved.findings if f.has_drifted}
    assert ("input", "gpus") in drifted
    assert ("residual", "bias") in drifted
    assert moved.has_drifted
    assert not {name for _, name in drifted} & {"weekday"}
    assert json.loads(json.dumps(moved.to_json()))["rows"] == moved.rows
    with pytest.raises(InputError, match="needs 30 rows"):
        duration_drift(model, ROWS, START + timedelta(days=90), START + timedelta(days=91))


def test_throughput_drift() -> None:
    series = seasons(25)
    model = ThroughputModel.from_document(train_throughput(series, START + timedelta(days=21), FAST_SLOTS))
    window = (START + timedelta(days=21), START + timedelta(days=25))
    steady = throughput_drift(model, series, *window)
    assert not [f for f in steady.findings if f.has_drifted]
    jobs = series.jobs.copy()
    jobs[21 * 144 :] = jobs[21 * 144 :] * 3 + 20
    moved = throughput_drift(model, replace(series, jobs=jobs), *window)
    assert {"bias", "last", "0.8"} <= {f.name for f in moved.findings if f.has_drifted}


def test_a_trend_is_told_from_noise() -> None:
    source = np.random.default_rng(0)
    days = np.repeat(np.arange(14), 30)
    at_s = days * 86_400.0
    noise = source.normal(size=420)
    quiet = {f.name: f.has_drifted for f in residual_trend(noise, at_s, days)}
    rising = {f.name: f.has_drifted for f in residual_trend(noise + 0.15 * (days - 6.5), at_s, days)}
    assert quiet == {"bias": False, "trend_per_day": False}
    assert rising["trend_per_day"]


def test_a_walk_predicts_each_attempt_once_with_the_model_of_its_time() -> None:
    begin, until = START + timedelta(days=6), START + timedelta(days=8)
    models: dict[datetime, DurationModel] = {}
    static = walk_forward(ROWS, begin, until, None, FAST, models=models)
    daily = walk_forward(ROWS, begin, until, timedelta(days=1), FAST, models=models)
    assert set(models) == {begin, begin + timedelta(days=1)}, "each is trained once"
    assert {row.attempt_id for row in static} == {row.attempt_id for row in daily}
    assert len({row.attempt_id for row in daily}) == len(daily) > 60
    assert {row.trained_as_of for row in static} == {begin}
    assert {row.trained_as_of for row in daily} == {begin + timedelta(days=d) for d in range(2)}
    frozen = walk_forward(ROWS, begin, until, None, FAST, live=False, models=models)
    assert {row.attempt_id for row in frozen} == {row.attempt_id for row in static}
    assert [row.predicted_s for row in frozen] != [row.predicted_s for row in static]
    by_id = {row.attempt_id: row for row in ROWS}
    for row in daily:
        submitted = by_id[row.attempt_id].submitted_at
        assert row.trained_as_of <= submitted < row.trained_as_of + timedelta(days=1)
    with pytest.raises(InputError, match="above 0"):
        walk_forward(ROWS, begin, until, timedelta(0), FAST)
