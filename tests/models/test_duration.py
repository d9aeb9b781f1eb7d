"""The duration model: better than no model, honest intervals, stated fall-backs, nothing from the future."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.domain.history import Rung
from lucid_pipelines.domain.job import Profile
from lucid_pipelines.domain.states import Outcome
from lucid_pipelines.domain.trace import TraceJob, TraceState
from lucid_pipelines.domain.view import QueuedJob
from lucid_pipelines.models.additive.monotone import Direction
from lucid_pipelines.models.artefacts import ArtefactError
from lucid_pipelines.models.conformal import Intervals
from lucid_pipelines.models.duration import DurationModel, DurationPredictor, Teaching
from lucid_pipelines.models.duration.from_trace import history_from_trace
from lucid_pipelines.models.duration.model import column
from lucid_pipelines.models.duration.training import DurationSettings, train_duration
from lucid_pipelines.models.metrics import bootstrap_sd, coverage_frac, r_squared, spearman
from lucid_pipelines.models.updating import judge_duration
from tests.support_models.worlds import QUICK, START, habits, run

FAST = DurationSettings(fit=QUICK, min_category_rows=30)
AS_OF = START + timedelta(days=8)
NOW_S = (START + timedelta(days=10)).timestamp()
ROWS = habits(700)


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return train_duration(ROWS, AS_OF, FAST, source="made up")


@pytest.fixture(scope="module")
def model(document: dict[str, Any]) -> DurationModel:
    return DurationModel.from_document(json.loads(json.dumps(document)))


@pytest.fixture
def predictor(model: DurationModel) -> DurationPredictor:
    return DurationPredictor.from_rows(model, ROWS, START + timedelta(days=10))


def queued(**changes: Any) -> QueuedJob:
    values: dict[str, Any] = {"job_id": "q1", "vc": "vc", "gpus": 1, "submitted_s": NOW_S, "user": "user1"}
    return QueuedJob(**{**values, "name": "train_resnet_7", **changes})


def test_training_looks_at_nothing_later_than_its_day(document: dict[str, Any]) -> None:
    poisoned = [
        row if row.ended_at <= AS_OF else replace(row, duration_s=1e7, user="mallory", gpus=64, name="poison")
        for row in ROWS
    ]
    again = train_duration([*poisoned, *habits(50, seed=9, days=300)[20:]], AS_OF, FAST, source="made up")
    assert again["model"]["additive"] != {}
    clean = train_duration([row for row in ROWS if row.ended_at <= AS_OF], AS_OF, FAST, source="made up")
    assert clean["model"] == document["model"]
    mixed = train_duration(poisoned, AS_OF, FAST, source="made up")
    assert mixed["model"] == document["model"]
    assert mixed["trained"]["left_out"]["after_as_of"] == sum(row.ended_at > AS_OF for row in ROWS)


def test_it_beats_doing_without_a_model(model: DurationModel) -> None:
    judged = judge_duration({"model": model}, ROWS, AS_OF, START + timedelta(days=11))
    own = judged.numbers["model"]
    for name, numbers in judged.numbers.items():
        if name != "model":
            assert own["spearman"] > numbers["spearman"], name
            assert own["mae_log"] < numbers["mae_log"], name
    assert own["r2_log"] > 0.8
    assert 0.65 < own["coverage_80"] < 0.95


def test_one_estimate_and_many_agree(predictor: DurationPredictor) -> None:
    jobs = [queued(job_id=f"q{u}{g}", user=f"user{u}", gpus=g) for u in range(6) for g in (1, 2, 4)]
    many = predictor.estimate_many(jobs)
    for estimate, job in zip(many, jobs, strict=True):
        assert estimate is not None and estimate.duration_s is not None
        alone = predictor.estimate(job)
        assert alone is not None
        assert alone.duration_s == pytest.approx(estimate.duration_s)
        assert (alone.basis, alone.evidence_job_ids) == (estimate.basis, estimate.evidence_job_ids)
        assert estimate.low_s is not None and estimate.high_s is not None
        assert 0 <= estimate.low_s <= estimate.duration_s <= estimate.high_s
        assert estimate.coverage_frac == 0.8
        assert estimate.basis == "model"
        assert estimate.model_version == predictor.model.version
    assert predictor.estimate_many([]) == []


def test_an_estimate_names_past_jobs_of_the_same_kind(predictor: DurationPredictor) -> None:
    estimate = predictor.estimate(queued())
    assert estimate is not None
    by_id = {row.job_id: row for row in ROWS}
    assert estimate.evidence_job_ids
    for job_id in estimate.evidence_job_ids:
        assert (by_id[job_id].user, by_id[job_id].gpus) == ("user1", 1)
        assert by_id[job_id].name.startswith("train_resnet")
    ends = [by_id[job_id].ended_at for job_id in estimate.evidence_job_ids]
    assert ends == sorted(ends, reverse=True)
    assert estimate.sample_count >= len(ends)


def test_cold_start_goes_down_the_ladder_and_is_counted(predictor: DurationPredictor, model: DurationModel) -> None:
    known_name = predictor.estimate(queued(user="newcomer"))
    assert known_name is not None and known_name.basis == "model"
    same_gpus = predictor.estimate(queued(user="newcomer", name="never seen before xyz", gpus=4))
    assert same_gpus is not None and same_gpus.basis == Rung.SAME_GPUS.value
    mean = predictor.index.gpus_mean(4)[0]
    assert mean is not None
    assert same_gpus.duration_s == pytest.approx(math.expm1(mean), rel=0.05)
    anywhere = predictor.estimate(queued(user="newcomer", name="never seen before xyz", gpus=512))
    assert anywhere is not None and anywhere.basis == Rung.GLOBAL.value
    assert anywhere.sample_count == predictor.index.overall_mean()[1]
    assert DurationPredictor(model).estimate(queued()) is None
    assert predictor.fallbacks == {Rung.SAME_GPUS.value: 1, Rung.GLOBAL.value: 1}


def test_history_is_live(predictor: DurationPredictor) -> None:
    before = predictor.estimate(queued(user="fresh", name="brand new work"))
    for i in range(6):
        predictor.ended(run(1000 + i, at_h=230.0 + i, run_s=80_000.0, user="fresh", name="brand new work"))
    after = predictor.estimate(queued(user="fresh", name="brand new work"))
    assert before is not None and after is not None
    assert after.basis == "model"
    assert (after.duration_s or 0) > 5 * (before.duration_s or 0)


def test_a_prediction_is_finite_whatever_is_asked(predictor: DurationPredictor) -> None:
    jobs = [
        queued(user="", name="", gpus=0),
        queued(name="\0" * 300, user="\u202e" * 80, gpus=10**9, submitted_s=-1e12),
        queued(profile=Profile(float("inf"), -5.0, 1e300), submitted_s=1e13),
    ]
    for estimate in predictor.estimate_many(jobs):
        assert estimate is not None and estimate.duration_s is not None
        assert 0 <= estimate.duration_s <= 10 * 366 * 86_400


def test_the_score_tables_are_all_that_is_served(model: DurationModel, document: dict[str, Any]) -> None:
    inputs = np.array([[np.nan if v is None else v for v in row] for row in document["goldens"]["inputs"]])
    assert model.predict_log(inputs) == pytest.approx(document["goldens"]["outputs"], abs=1e-12)
    changed = json.loads(json.dumps(document))
    changed["model"]["additive"]["terms"][3]["scores"][0] += 0.5
    with pytest.raises(ArtefactError):
        DurationModel.from_document(changed)


def test_features_of_another_program_are_refused(document: dict[str, Any]) -> None:
    from lucid_pipelines.models.artefacts.document import with_evaluation

    other = json.loads(json.dumps(document).replace('"same_age"', '"same_old"'))
    other.pop("digest")
    body = {key: value for key, value in other.items() if key != "version"}
    import hashlib

    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    resealed = {**body, "version": "x", "digest": hashlib.sha256(text.encode()).hexdigest()}
    with pytest.raises(ArtefactError, match="other features than the model wants"):
        DurationModel.from_document(with_evaluation(resealed, {}))


def test_it_is_a_model_of_single_features_and_pairs() -> None:
    """As the paper's GA2M; the pairs are found, and explained like everything else."""
    assert DurationSettings().fit.interactions == 6
    model = DurationModel.from_document(
        train_duration(ROWS, AS_OF, replace(FAST, fit=replace(FAST.fit, interactions=6)))
    )
    assert sum(len(term.features) == 2 for term in model.additive.terms) == 6
    rows = np.zeros((3, len(model.additive.features)))
    contributions = model.additive.contributions(rows)
    assert contributions.shape[1] >= len(model.additive.features) + 6 - 1
    assert np.allclose(model.additive.intercept + contributions.sum(axis=1), model.predict_log(rows))


def test_a_monotone_constraint_holds_and_its_cost_is_reported() -> None:
    settings = replace(FAST, fit=replace(FAST.fit, interactions=4), monotone={"gpus": Direction.INCREASING})
    document = train_duration(ROWS, AS_OF, settings)
    model = DurationModel.from_document(document)
    pairs = [term.features for term in model.additive.terms if len(term.features) == 2]
    assert len(pairs) == 4 and not any(column("gpus") in pair for pair in pairs)
    term = model.additive.terms[model.additive.term_of("gpus")]
    assert (np.diff(term.scores[:-1]) >= -1e-12).all()
    assert {"before_monotone", "after_monotone"} <= set(document["metrics"])
    assert document["metrics"]["monotone"]["gpus"]["direction"] == "increasing"
    matrix = np.zeros((5, len(model.additive.features)))
    matrix[:, column("gpus")] = [1, 2, 4, 8, 64]
    assert (np.diff(model.predict_log(matrix)) >= -1e-12).all()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "at least 20 usable runs"),
        ([run(i) for i in range(10)], "got 10"),
        ([run(i, run_s=float("nan")) for i in range(100)], r"left out: 100 bad_duration"),
        ([run(i, submitted_at=datetime(2999, 1, 1, tzinfo=UTC)) for i in range(100)], r"left out: 100 after_as_of"),
        ([run(i, outcome=Outcome.LOST) for i in range(100)], r"left out: 100 outcome_does_not_teach"),
    ],
)
def test_too_little_history_is_refused_with_the_reasons(rows: list, message: str) -> None:
    with pytest.raises(InputError, match=message):
        train_duration(rows, AS_OF, FAST)


@pytest.mark.parametrize(
    "rows",
    [
        [run(i, run_s=60.0) for i in range(60)],
        [run(i, run_s=float(i % 7) * 10, user="only one") for i in range(60)],
        [run(i, run_s=0.0) for i in range(60)],
        [run(i, at_h=1.0, run_s=float(i + 1)) for i in range(60)],
        [run(i, name="a\ud800b\0\x1b[31m", user="\ud800", run_s=float(i % 13)) for i in range(60)],
        [run(i, name="", user="", run_s=float(i)) for i in range(60)],
        [run(i, gpus=10**9 + i % 3, run_s=float(i)) for i in range(60)],
    ],
    ids=[
        "every run alike",
        "one user",
        "no time at all",
        "all at one moment",
        "names that are no text",
        "no names",
        "absurdly many GPUs",
    ],
)
def test_poor_history_still_makes_a_model(rows: list) -> None:
    model = DurationModel.from_document(train_duration(rows, AS_OF, FAST))
    estimate = DurationPredictor.from_rows(model, rows, AS_OF).estimate(queued(user=rows[0].user, name="train"))
    assert estimate is not None and estimate.duration_s is not None
    assert 0 <= estimate.duration_s <= max(row.duration_s for row in rows) * 3 + 60


def test_few_rows_have_no_interval_instead_of_a_wrong_one() -> None:
    model = DurationModel.from_document(train_duration([run(i, run_s=60.0 + i) for i in range(25)], AS_OF, FAST))
    assert model.intervals is None
    estimate = DurationPredictor.from_rows(model, [run(i) for i in range(25)], AS_OF).estimate(queued(user="ada"))
    assert estimate is not None
    assert (estimate.low_s, estimate.high_s, estimate.coverage_frac) == (None, None, None)


def test_intervals_cover_what_they_promise() -> None:
    source = np.random.default_rng(0)
    residuals = source.standard_t(3, 4_000)
    groups = np.where(np.arange(4_000) % 3 == 0, "wide", "narrow")
    residuals[groups == "wide"] *= 4
    intervals = Intervals.calibrate(residuals[:2_000], groups[:2_000].tolist())
    assert intervals is not None
    for level in (0.5, 0.8, 0.9):
        low, high = intervals.of(np.zeros(2_000), groups[2_000:].tolist(), level)
        for group in ("wide", "narrow"):
            mine = groups[2_000:] == group
            assert coverage_frac(low[mine], high[mine], residuals[2_000:][mine]) == pytest.approx(level, abs=0.05)
    rare = intervals.of(np.zeros(1), ["never seen"], 0.8)
    assert rare[0] < 0 < rare[1]
    assert Intervals.from_json(json.loads(json.dumps(intervals.to_json()))) == intervals
    assert Intervals.calibrate(residuals[:10], groups[:10].tolist()) is None
    with pytest.raises(InputError, match="calibrated levels are"):
        intervals.of(np.zeros(1), ["wide"], 0.42)


def test_metrics_against_known_answers() -> None:
    assert spearman([1, 2, 3, 4], [10, 20, 30, 40]) == pytest.approx(1.0)
    assert spearman([1, 2, 3, 4], [4, 3, 2, 1]) == pytest.approx(-1.0)
    assert spearman([1, 1, 2, 3], [1, 2, 3, 3]) == pytest.approx(8 / 9)
    assert spearman([1, 1], [1, 2]) is None
    assert r_squared([2, 2], [1, 3]) == 0.0
    assert r_squared([1.0], [1.0]) is None
    values = np.random.default_rng(0).normal(size=400)
    assert bootstrap_sd(values) == pytest.approx(values.std() / 20, rel=0.3)
    grouped = np.repeat(values[:40], 10)
    assert (bootstrap_sd(grouped, groups=np.repeat(np.arange(40), 10)) or 0) > 2 * (bootstrap_sd(grouped) or 0)
    assert bootstrap_sd([1.0, 2.0], groups=[1, 1]) is None


def test_trace_jobs_become_history() -> None:
    jobs = [
        TraceJob("1", "ada", "vc", "train", 2, START.timestamp(), 60.0, queue_s=30.0, gpu_util_pct=40.0),
        TraceJob("2", "ada", "vc", "train", 0.5, START.timestamp(), 60.0),
        TraceJob("3", "ada", "vc", "train", 1, START.timestamp(), float("nan"), TraceState.FAILED),
        TraceJob(
            "4", "ada", "vc", "train", 1, START.timestamp(), 10.0, TraceState.CANCELLED, start_s=START.timestamp() + 5
        ),
    ]
    rows = history_from_trace(jobs)
    assert [row.job_id for row in rows] == ["1", "3", "4"]
    assert rows[0].ended_at == START + timedelta(seconds=90)
    assert rows[0].profile == Profile(40.0, None, None, source="trace")
    assert [row.outcome for row in rows] == [Outcome.COMPLETED, Outcome.FAILED_USER, Outcome.CANCELLED]
    assert rows[2].started_at == START + timedelta(seconds=5)


@pytest.mark.shared
@pytest.mark.slow
def test_venus_later_days(shared_data: Path) -> None:
    from lucid_pipelines.traces.loading import load

    trace = load(shared_data / "helios_venus_users" / "venus_jobs_2020-05-28_2020-06-10.csv.gz")
    rows = history_from_trace(trace.jobs)
    split = datetime(2020, 6, 8, tzinfo=UTC)
    fit = replace(DurationSettings().fit, bags=3)
    models = {
        teaching.value: DurationModel.from_document(
            train_duration(rows, split, DurationSettings(teaching=teaching, fit=fit))
        )
        for teaching in Teaching
    }
    until = max(row.ended_at for row in rows)
    for population in Teaching:
        numbers = judge_duration(models, rows, split, until, teaching=population).numbers
        own = numbers[population.value]["spearman"]
        assert own > 0.5
        assert own > numbers["last_of_user_and_gpus"]["spearman"] + 0.1
        assert own > numbers["last_completed_of_user_and_gpus"]["spearman"]
        assert own > numbers["ladder_mean"]["spearman"]
        assert numbers[population.value]["coverage_80"] > 0.65
