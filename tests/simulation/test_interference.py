"""Pair speeds and sharing scores: measured, corrected, fitted, never absent."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.domain.trace import TraceJob
from lucid_pipelines.simulation.interference import FittedPairs, MeasuredPairs, UnaffectedModels, read_measured_pairs
from lucid_pipelines.simulation.scoring import FittedScorer, MeasuredScorer
from lucid_pipelines.simulation.workloads import ProfiledWorkload, read_profiles
from tests.support_simulation.cases import trace_job

HEADER = "model1,dataset1,batchsize1,amp1,speed1,model2,dataset2,batchsize2,amp2,speed2\n"


def job(model: str | None, util_pct: float | None = 50.0, batch: int = 32) -> TraceJob:
    return trace_job("j", 0, 1, model=model, dataset="d", batch_size=batch, gpu_util_pct=util_pct, memory_util_pct=10.0)


UTIL = st.one_of(st.none(), st.floats(0.0, 100.0))


@given(UTIL, UTIL)
def test_fitted_speeds_are_fractions_equal_for_both_and_fall_with_load(
    first: float | None, second: float | None
) -> None:
    pairs = FittedPairs()
    one, other = pairs.speeds(job("A", first), job("B", second))
    assert one == other
    assert pairs.floor <= one <= 1.0
    assert pairs.speeds(job("A", 100.0), job("B", second))[0] <= one
    assert (pairs.fallbacks["unknown_gpu_util"] > 0) == (first is None or second is None)


def test_two_busy_jobs_slow_each_other_and_two_idle_ones_do_not() -> None:
    pairs = FittedPairs()
    assert pairs.speeds(job("A", 100.0), job("B", 100.0))[0] == pytest.approx(0.591, abs=0.001)
    assert pairs.speeds(job("A", 10.0), job("B", 20.0)) == (1.0, 1.0)


def tables(tmp_path: Path) -> MeasuredPairs:
    rows = "A,d,32,0,0.9,B,d,32,0,0.7\nA,d,32,0,0.5,C,d,32,0,0.6\n"
    (tmp_path / "pairs.csv").write_text(HEADER + rows)
    profiles = (
        "model,dataset,batchsize,amp,gpu_util,gmem_util,label\nA,d,32,0,60,10,1\nB,d,32,0,50,10,1\nC,d,32,0,90,40,2\n"
    )
    (tmp_path / "profiles.csv").write_text(profiles)
    return MeasuredPairs(
        read_measured_pairs(tmp_path / "pairs.csv"), read_profiles(tmp_path / "profiles.csv"), neighbours=1
    )


def test_measured_speeds_are_found_in_either_order(tmp_path: Path) -> None:
    pairs = tables(tmp_path)
    assert pairs.speeds(job("A"), job("B")) == (0.9, 0.7)
    assert pairs.speeds(job("B"), job("A")) == (0.7, 0.9)
    assert not pairs.fallbacks


def test_an_unknown_partner_gets_the_fitted_speed_corrected_by_the_nearest_measured_one(tmp_path: Path) -> None:
    pairs = tables(tmp_path)
    fitted = FittedPairs().speed_of(0.6, 0.5)
    own, its = pairs.speeds(job("A", 60.0), job("new", 50.0))
    assert (own, its) == pytest.approx((0.9, 0.7)), "as beside B, which is exactly like it"
    assert pairs.speeds(job("new", 50.0), job("A", 60.0)) == pytest.approx((0.7, 0.9))
    far = pairs.speeds(job("A", 60.0), job("new", 52.0))[0]
    assert far == pytest.approx(FittedPairs().speed_of(0.6, 0.52) + 0.9 - fitted)
    assert pairs.speeds(job("new", 10.0), job("other", 20.0)) == (1.0, 1.0)
    assert pairs.fallbacks["pair_not_measured"] == 4


def test_the_artifacts_exempt_models_never_slow_anybody(tmp_path: Path) -> None:
    pairs = UnaffectedModels(("B",), tables(tmp_path))
    assert pairs.speeds(job("A"), job("B")) == (1.0, 1.0)
    assert pairs.speeds(job("A"), job("C")) == (0.5, 0.6)


def test_scores_follow_the_thresholds_and_unknown_stays_unknown() -> None:
    scorer = FittedScorer()
    assert [scorer.score(job("A", util)) for util in (5.0, 60.0, 100.0)] == [0, 1, 2]
    assert scorer.score(job("A", None)) is None
    strict = FittedScorer(tiny_above=0.999, medium_above=0.99)
    assert strict.score(job("A", 60.0)) == 2


def test_scores_come_from_the_table_or_from_what_is_most_alike_rounded_up() -> None:
    profiles = {
        ("A", "d", 32, False): ProfiledWorkload(10.0, 0.0, 0),
        ("B", "d", 32, False): ProfiledWorkload(20.0, 5.0, 1),
        ("C", "d", 32, False): ProfiledWorkload(90.0, 50.0, 2),
    }
    scorer = MeasuredScorer(profiles, neighbours=2)
    assert scorer.score(job("A")) == 0
    assert not scorer.fallbacks
    assert scorer.score(job("new", 12.0)) == 1
    assert scorer.score(job("new", 85.0)) == 2
    assert scorer.score(job("new", None)) is None
    assert scorer.fallbacks["score_not_measured"] == 3


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "needs the column"),
        ("model1,dataset1,batchsize1,amp1,speed_1\n", "did you mean 'speed_1'"),
        (HEADER + "A,d,32,0,fast,B,d,32,0,0.7\n", "line 2: a number is wrong"),
        (HEADER + "A,d,32,0,0,B,d,32,0,0.7\n", "must be above 0"),
    ],
)
def test_wrong_tables_say_what_is_wrong(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=says):
        read_measured_pairs(path)


def test_a_missing_or_binary_table_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_profiles(tmp_path / "none.csv")
    (tmp_path / "bin.csv").write_bytes(b"\xff\xfe\x00model")
    with pytest.raises(InputError):
        read_profiles(tmp_path / "bin.csv")
    (tmp_path / "label.csv").write_text("model,dataset,batchsize,amp,gpu_util,gmem_util,label\nA,d,1,0,1,1,7\n")
    with pytest.raises(InputError, match="0, 1 or 2"):
        read_profiles(tmp_path / "label.csv")
