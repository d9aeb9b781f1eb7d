"""From similar jobs to an estimate, or to the reason why there is none."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucid_pipelines.advisor.calibration import MIN_PAIRS, ScoredPair, calibrate, history_pairs
from lucid_pipelines.advisor.cost import AdviceCost, cost_report
from lucid_pipelines.advisor.estimates import EstimateRules, Fallback, estimate, paper_estimate
from lucid_pipelines.advisor.evidence import Unused, weigh
from lucid_pipelines.advisor.intervals import conformal_interval, empirical_interval
from lucid_pipelines.advisor.past_job_json import past_job_from_json, past_job_to_json
from lucid_pipelines.advisor.scoring import Verdict, score, scoreboard
from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.domain.job import Estimate, Profile
from lucid_pipelines.domain.similarity import PastJob, SimilarJobs, ThroughputPoint
from lucid_pipelines.domain.states import Outcome
from lucid_pipelines.resources.embedders.hashing import HashEmbedder
from lucid_pipelines.resources.history_index import open_index
from tests.support_advisor.past import day, entry, past, similar

HOUR = 3600.0
NOW = day(30)


def run(job_id: str, hours: float | None, ended_day: float = 29.0, **facts: Any) -> PastJob:
    return past(job_id, ended_day, None if hours is None else hours * HOUR, **facts)


def found(*jobs: tuple[PastJob, float]) -> SimilarJobs:
    return similar(jobs, now=NOW)


# ---------------------------------------------------------------------- the two rules


def test_the_paper_takes_the_mean_of_the_best_three() -> None:
    """Paper, section 12: 3.1, 3.3 and 3.2 hours make 3.2."""
    jobs = found((run("a", 3.1), 0.99), (run("b", 3.3), 0.97), (run("c", 3.2), 0.95), (run("d", 50.0), 0.9))
    made = paper_estimate(jobs).estimate
    assert made is not None
    assert made.duration_s == pytest.approx(3.2 * HOUR)
    assert (made.sample_count, set(made.evidence_job_ids)) == (3, {"a", "b", "c"})


def test_one_match_is_enough_for_the_paper_but_must_be_an_equal_for_us() -> None:
    near = found((run("a", 2.0), 0.9))
    assert paper_estimate(near).estimate is not None
    refused = estimate(near)
    assert (refused.estimate, refused.fallback) == (None, Fallback.TOO_FEW)
    equal = estimate(found((run("a", 2.0), 0.995))).estimate
    assert equal is not None and equal.duration_s == pytest.approx(2 * HOUR)


def test_nearer_and_newer_jobs_count_more() -> None:
    def made(*jobs: tuple[PastJob, float]) -> float:
        answer = estimate(found(*jobs)).estimate
        assert answer is not None and answer.duration_s is not None
        return answer.duration_s

    nearer = made((run("a", 2.0), 0.99), (run("b", 4.0), 0.86))
    assert 2 * HOUR < nearer < 2.2 * HOUR
    older = made((run("a", 2.0, ended_day=-150), 0.95), (run("b", 4.0), 0.95))
    assert 3.3 * HOUR < older < 4 * HOUR
    even = made((run("a", 2.0), 0.95), (run("b", 4.0), 0.95))
    assert even == pytest.approx(math.sqrt(8) * HOUR)


def test_the_evidence_is_shown_with_what_was_not_used() -> None:
    crash = run("crash", 0.03, outcome=Outcome.FAILED_USER)
    old = run("old", 9.0, ended_day=-400)
    silent = run("silent", None)
    jobs = found((run("a", 2.0), 0.99), (crash, 0.99), (old, 0.99), (silent, 0.99), (run("b", 2.2), 0.9))
    answer = estimate(jobs)
    assert answer.estimate is not None
    assert answer.estimate.duration_s == pytest.approx(2 * HOUR, rel=0.05)
    assert {item.job.job_id: item.unused for item in answer.evidence} == {
        "a": None,
        "crash": Unused.NOT_COMPLETED,
        "old": Unused.TOO_OLD,
        "silent": Unused.NO_DURATION,
        "b": None,
    }
    assert answer.estimate.evidence_job_ids == ("a", "b")
    assert all(item.weight == 0 for item in answer.evidence if item.unused)


# ---------------------------------------------------------------------- fallbacks


@pytest.mark.parametrize(
    ("jobs", "fallback"),
    [
        ([], Fallback.NO_HISTORY),
        ([(run("a", 1, outcome=Outcome.FAILED_INFRASTRUCTURE), 0.99)], Fallback.NONE_COMPLETED),
        ([(run("a", 1, outcome=Outcome.EVICTED), 0.99)], Fallback.NONE_COMPLETED),
        ([(run("a", 1, ended_day=-400), 0.99)], Fallback.TOO_OLD),
        ([(run("a", 1), 0.9)], Fallback.TOO_FEW),
        ([(run("a", 1), 0.99), (run("b", 30), 0.99)], Fallback.TOO_SPREAD),
        ([(run(str(i), 4.0**i), 0.99) for i in range(5)], Fallback.TOO_SPREAD),
    ],
)
def test_each_reason(jobs: list[tuple[PastJob, float]], fallback: Fallback) -> None:
    answer = estimate(found(*jobs))
    assert (answer.estimate, answer.fallback) == (None, fallback)
    assert answer.detail


def test_no_match_is_not_no_history() -> None:
    nothing = SimilarJobs((), 5, NOW, 0.85, 10, 7, 0.7, "0 of 7 eligible past jobs reach the threshold")
    answer = estimate(nothing)
    assert (answer.fallback, answer.detail) == (Fallback.NO_MATCH, nothing.reason)
    assert paper_estimate(nothing).fallback is Fallback.NO_MATCH


def two_modes(short_day: float, long_day: float) -> list[tuple[PastJob, float]]:
    short = [(run(f"s{i}", 1 + i / 20, ended_day=short_day + i / 100), 0.95) for i in range(4)]
    return short + [(run(f"l{i}", 24 + i, ended_day=long_day + i / 100), 0.95) for i in range(4)]


def test_several_modes_are_reported_and_never_averaged() -> None:
    jobs = two_modes(20, 20)
    mixed = [(run(f"{job.job_id}", job.duration_s / HOUR, 20 + i % 4), s) for i, (job, s) in enumerate(jobs)]  # pyright: ignore
    answer = estimate(found(*mixed))
    assert answer.fallback is Fallback.SEVERAL_MODES
    assert [round(mode.weight_frac, 1) for mode in answer.modes] == [0.5, 0.5]
    assert sorted(round(mode.center_s / HOUR) for mode in answer.modes) == [1, 25]
    assert "2 different durations" in answer.detail


def test_most_of_the_evidence_may_stand_for_all() -> None:
    more = [(run(f"m{i}", 1.1, ended_day=20), 0.95) for i in range(12)]
    answer = estimate(found(*two_modes(20, 20), *more))
    assert answer.estimate is not None and answer.estimate.duration_s is not None
    assert 1 * HOUR <= answer.estimate.duration_s <= 1.2 * HOUR
    assert len(answer.modes) == 2
    assert "20%" in answer.detail


@pytest.mark.parametrize(("short_day", "long_day", "hours"), [(28, 20, 1.07), (20, 28, 25.5)])
def test_the_newest_runs_lead(short_day: float, long_day: float, hours: float) -> None:
    """Runs come in sessions: what was started last is mostly what is started again."""
    made = estimate(found(*two_modes(short_day, long_day))).estimate
    assert made is not None and made.duration_s == pytest.approx(hours * HOUR, rel=0.05)


def test_scatter_is_not_taken_for_modes() -> None:
    """Of one log-normal kind, several modes are seen in few samples of a hundred."""
    rng = np.random.default_rng(3)
    seen = 0
    for _ in range(100):
        jobs = [(past(f"j{i}", 20, float(rng.lognormal(8, 1.2))), 0.95) for i in range(20)]
        seen += len(estimate(found(*jobs)).modes) > 1
    assert seen < 15


def test_an_outlier_is_not_a_mode() -> None:
    answer = estimate(found(*[(run(f"j{i}", 2 + i / 50), 0.95) for i in range(9)], (run("odd", 60), 0.95)))
    assert len(answer.modes) == 1
    assert answer.estimate is not None


@given(
    st.lists(st.tuples(st.floats(1, 1e6), st.floats(0.85, 1), st.floats(-300, 29)), min_size=1, max_size=12),
)
def test_an_estimate_lies_among_its_evidence(rows: list[tuple[float, float, float]]) -> None:
    jobs = [(past(f"j{i}", ended, duration), near) for i, (duration, near, ended) in enumerate(rows)]
    answer = estimate(found(*jobs))
    assert (answer.estimate is None) == (answer.fallback is not None)
    if answer.estimate is None:
        return
    used = [d for i, (d, _, _) in enumerate(rows) if f"j{i}" in answer.estimate.evidence_job_ids]
    assert answer.estimate.duration_s is not None
    assert min(used) * (1 - 1e-9) <= answer.estimate.duration_s <= max(used) * (1 + 1e-9)
    if answer.estimate.low_s is not None and answer.estimate.high_s is not None:
        assert answer.estimate.low_s <= answer.estimate.high_s
        assert answer.estimate.coverage_frac is not None and 0 < answer.estimate.coverage_frac <= 0.9


def test_rules_are_checked() -> None:
    for wrong in ({"min_jobs": 0}, {"gap_ratio": 1.0}, {"dominant_frac": 0.4}, {"coverage_frac": 1.0}):
        with pytest.raises(InputError):
            EstimateRules(**wrong)


# ---------------------------------------------------------------------- utilisation


def test_utilisation_is_a_mean_and_memory_a_maximum() -> None:
    jobs = found(
        (run("a", 2.0, profile=Profile(gpu_util_pct=80, memory_peak_mib=10_000)), 0.99),
        (run("b", 2.0, profile=Profile(gpu_util_pct=60, memory_peak_mib=14_000)), 0.99),
        (run("c", 2.0, profile=None), 0.99),
    )
    profile = estimate(jobs).profile
    assert profile is not None
    assert (profile.gpu_util_pct, profile.memory_peak_mib, profile.sample_count) == (pytest.approx(70), 14_000, 2)
    assert profile.memory_util_pct is None
    assert profile.source == "advisor"
    assert estimate(found((run("c", 2.0, profile=None), 0.99))).profile is None


def test_the_throughput_surface_keeps_its_cells_apart() -> None:
    jobs = found(
        (
            run("a", 2.0, throughput=(ThroughputPoint("A100", 1, 64, 100.0), ThroughputPoint("A100", 2, 128, 190.0))),
            0.99,
        ),
        (run("b", 2.0, throughput=(ThroughputPoint("A100", 1, 64, 120.0), ThroughputPoint("V100", 1, 64, 50.0))), 0.99),
    )
    assert estimate(jobs).throughput == (
        ThroughputPoint("A100", 1, 64, pytest.approx(110.0)),
        ThroughputPoint("A100", 2, 128, pytest.approx(190.0)),
        ThroughputPoint("V100", 1, 64, pytest.approx(50.0)),
    )


# ---------------------------------------------------------------------- intervals


def test_an_empirical_interval_covers_what_it_says() -> None:
    rng = np.random.default_rng(0)
    for count in (3, 5, 9, 19):
        held, told = 0, 0.0
        for _ in range(2_000):
            sample = rng.lognormal(8, 1, count + 1)
            interval = empirical_interval(list(sample[:-1]), 0.8)
            assert interval is not None
            told = interval.coverage_frac
            held += interval.low_s <= sample[-1] <= interval.high_s
        assert held / 2_000 == pytest.approx(told, abs=0.04)
    assert empirical_interval([1.0, 2.0], 0.8) is None


def test_a_conformal_interval_covers_what_is_asked() -> None:
    rng = np.random.default_rng(1)
    errors = list(rng.normal(0.2, 0.5, 1_000))
    interval = conformal_interval(100.0, errors, 0.8)
    assert interval is not None
    fresh = 100.0 * np.exp(rng.normal(0.2, 0.5, 4_000))
    assert np.mean((interval.low_s <= fresh) & (fresh <= interval.high_s)) == pytest.approx(0.8, abs=0.04)
    assert conformal_interval(100.0, errors[:10], 0.8) is None


def test_past_errors_make_the_interval() -> None:
    jobs = found(*[(run(f"j{i}", 2.0), 0.95) for i in range(5)])
    alone = estimate(jobs).estimate
    taught = estimate(jobs, residuals=[(-1) ** i * 0.7 for i in range(100)]).estimate
    assert alone is not None and taught is not None
    assert (alone.low_s, alone.high_s) == (2 * HOUR, 2 * HOUR)
    assert taught.high_s == pytest.approx(2 * HOUR * math.exp(0.7))
    assert taught.coverage_frac == 0.8


# ---------------------------------------------------------------------- after the outcome


def test_scores() -> None:
    made = Estimate(100.0, "advisor_history", 80.0, 150.0, 0.8)
    right = score(made, None, Outcome.COMPLETED, 120.0)
    assert (right.verdict, right.within) == (Verdict.HIT_RIGHT, True)
    assert right.residual == pytest.approx(math.log(1.2))
    wrong = score(made, None, Outcome.COMPLETED, 40.0)
    assert (wrong.verdict, wrong.within, wrong.relative_error) == (Verdict.HIT_WRONG, False, 1.5)
    crash = score(made, None, Outcome.FAILED_USER, 40.0)
    assert (crash.verdict, crash.relative_error) == (Verdict.NOT_SCORED, None)
    fell = score(None, Fallback.NO_MATCH, Outcome.COMPLETED, 40.0)
    assert (fell.verdict, fell.fallback) == (Verdict.FALLBACK, Fallback.NO_MATCH)
    board = scoreboard([right, wrong, crash, fell])
    assert (board.right_frac, board.answered_frac, board.coverage_frac) == (0.5, 0.75, 0.5)
    assert dict(board.fallbacks) == {Fallback.NO_MATCH: 1}
    empty = scoreboard([])
    assert (empty.right_frac, empty.answered_frac) == (None, None)


def test_cost_against_savings() -> None:
    report = cost_report([AdviceCost(36.0, 18.0, 3_600.0), AdviceCost(36.0, 18.0, None)])
    assert (report.jobs, report.jobs_that_skipped_profiling) == (2, 1)
    assert report.net_gpu_h == pytest.approx(1 - 0.01)
    assert cost_report([]).net_gpu_h == 0


# ---------------------------------------------------------------------- the threshold


def test_the_lowest_threshold_that_keeps_the_precision_is_taken() -> None:
    pairs = [ScoredPair(0.9 + i / 10_000, True) for i in range(80)] + [
        ScoredPair(0.6 + i / 10_000, False) for i in range(80)
    ]
    chosen = calibrate(pairs, 0.8)
    assert chosen.threshold is not None and 0.60 < chosen.threshold < 0.61
    assert chosen.precision_frac == pytest.approx(0.8)
    strict = calibrate(pairs, 1.0)
    assert (strict.threshold, strict.precision_frac, strict.kept_frac) == (0.9, 1.0, 0.5)
    few = calibrate(pairs[: MIN_PAIRS - 1])
    assert few.threshold is None and few.reason is not None
    assert calibrate([ScoredPair(0.9, False)] * 100).threshold is None


def test_pairs_come_from_the_past_only(tmp_path: Any) -> None:
    embedder = HashEmbedder(64)
    from lucid_pipelines.advisor.advising import vector_space

    index = open_index(f"sqlite:///{tmp_path / 'h.db'}", vector_space(embedder))
    jobs = [run("first", 1.0, ended_day=1), run("second", 1.5, ended_day=2), run("third", 9.0, ended_day=3)]
    from lucid_pipelines.domain.similarity import IndexEntry

    index.add([IndexEntry(job, embedder.embed([job.fingerprint])[0]) for job in jobs])
    pairs = list(history_pairs(index, embedder))
    assert [pair.agrees for pair in pairs] == [True, False, False]


# ---------------------------------------------------------------------- records


def test_a_past_job_survives_json() -> None:
    job = run("a", 2.0, throughput=(ThroughputPoint("A100", 1, 64, 100.0),), software=(("torch", "2.4"),))
    assert past_job_from_json(past_job_to_json(job)) == job
    bare = run("b", None, task_type=None, gpu_type=None, gpus=None, profile=None)
    assert past_job_from_json(past_job_to_json(bare)) == bare


@pytest.mark.parametrize(
    "change",
    [
        {"duration_s": float("nan")},
        {"duration_s": -1},
        {"duration_s": "long"},
        {"outcome": "won"},
        {"job_id": ""},
        {"job_id": 7},
        {"ended_at": "yesterday"},
        {"profile": {"speed": 1}},
        {"throughput": [1]},
        {"record_version": 9},
        {"fingerprint": None},
    ],
    ids=str,
)
def test_a_broken_record_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        past_job_from_json({**past_job_to_json(run("a", 1.0)), **change})


def test_ages_never_go_below_zero() -> None:
    item = weigh(found((run("a", 1.0, ended_day=31), 0.95)))[0]
    assert item.age == timedelta(0)


def test_entries_are_what_the_index_takes() -> None:
    assert entry(run("a", 1.0)).job.teaches_duration
