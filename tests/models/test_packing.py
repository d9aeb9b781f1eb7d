"""The packing model: labels from measurements, judged on workloads that it never saw, careful with the unknown."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.domain.job import Profile
from lucid_pipelines.models.artefacts import ArtefactError
from lucid_pipelines.models.packing import (
    Configuration,
    MeasuredPair,
    PackingModel,
    PairTable,
    Sharer,
    Thresholds,
    default_packing_model,
    read_pair_table,
)
from lucid_pipelines.models.packing.defaults import default_packing_document
from lucid_pipelines.models.packing.labels import mean_speeds
from lucid_pipelines.models.packing.pairs import profile_matrix
from lucid_pipelines.models.packing.training import (
    PackingSettings,
    PairQuality,
    choose_bound,
    fit_packing,
    hold_out,
    judge_packing,
    train_packing,
)
from tests.support_models.worlds import pair_speed, pairs, slower, write_tables


@pytest.fixture(scope="module")
def model() -> PackingModel:
    return fit_packing(pairs(), PackingSettings())


def test_labels_are_the_mean_speed_of_all_pairs_of_a_configuration() -> None:
    names = ["a", "b", "c"]
    table = PairTable.of(
        [Configuration(n, n, Profile(10.0, 5.0, 100.0)) for n in names],
        [MeasuredPair("a", "b", 0.9, 1.0), MeasuredPair("a", "a", 0.7, 0.7), MeasuredPair("b", "a", 0.8, 1.0)],
    )
    means, counts = mean_speeds(table.arrays(), 3)
    assert means[:2] == pytest.approx([(0.95 + 0.7 + 0.9) / 3, (0.95 + 0.9) / 2])
    assert np.isnan(means[2])
    assert counts.tolist() == [3, 2, 0]
    scores = Thresholds().scores(np.array([0.951, 0.95, 0.851, 0.85, 0.2, np.nan]))
    assert np.array_equal(scores, [0, 1, 1, 2, 2, np.nan], equal_nan=True)


def test_thresholds_can_change_without_training(model: PackingModel) -> None:
    row = [[55.0, 27.0, 3600.0, 0.0]]
    speed = float(model.tree.predict(np.array(row))[0])
    strict = PackingModel(model.tree, Thresholds(speed + 0.02, speed + 0.01), model.speeds, model.bound_frac)
    loose = PackingModel(model.tree, Thresholds(speed - 0.01, speed - 0.02), model.speeds, model.bound_frac)
    assert (strict.scores(row)[0], loose.scores(row)[0]) == (2.0, 0.0)


@given(
    util=st.floats(0, 100), memory=st.floats(0, 100), footprint=st.floats(0, 24_000),
    more=st.tuples(st.floats(0, 50), st.floats(0, 50), st.floats(0, 9_000)), amp=st.sampled_from([True, False, None]),
)  # fmt: skip
@settings(max_examples=150)
def test_a_heavier_profile_never_gets_a_lighter_score(
    util: float, memory: float, footprint: float, more: tuple[float, float, float], amp: bool | None
) -> None:
    model = default_packing_model()
    light = model.score(Profile(util, memory, footprint), amp)
    # No reading lies above 100 %: such a one is unknown, and an unknown profile has no score.
    heavier = Profile(min(100.0, util + more[0]), min(100.0, memory + more[1]), footprint + more[2])
    heavy = model.score(heavier, amp)
    assert light is not None and heavy is not None
    assert heavy >= light
    one, two = Sharer(Profile(util, memory, footprint)), Sharer(Profile(util + more[0], memory, footprint))
    assert (model.pair_speeds(one, two) or (0, 0))[0] <= (model.pair_speeds(one, one) or (0, 0))[0] + 1e-12


def test_one_job_and_many_agree_and_the_path_leads_to_the_score(model: PackingModel) -> None:
    rows = [[u, u / 2, 2000.0 + 30 * u, a] for u in (5.0, 40.0, 61.0, 99.0) for a in (0.0, 1.0)]
    for row, score in zip(rows, model.scores(rows), strict=True):
        reason = model.explain_score(Profile(*row[:3]), bool(row[3]))
        assert reason.score == score
        assert reason.rows is not None and reason.rows > 0
        values = dict(zip(("gpu_util_pct", "memory_util_pct", "memory_peak_mib", "amp"), row, strict=True))
        assert all(step.value == values[step.feature] for step in reason.path)


def test_the_unknown_is_never_packed(model: PackingModel) -> None:
    idle = Profile(1.0, 1.0, 100.0)
    assert model.score(None) is None
    assert model.score(Profile(None, 3.0, 100.0)) is None
    assert model.explain_score(Profile(None, 3.0, 100.0)).missing == "gpu_util_pct"
    opinion = model.opinion(Sharer(Profile(None, 3.0, 100.0)), Sharer(idle))
    assert (opinion.allowed, opinion.reason, opinion.mean_speed_frac) == (False, "unknown_profile", None)
    assert model.opinion(Sharer(idle), Sharer(None)).reason == "unknown_profile"
    assert model.opinion(Sharer(idle), Sharer(idle)).allowed


def test_an_opinion_names_the_rule_that_decided(model: PackingModel) -> None:
    busy, idle = Sharer(Profile(99.0, 60.0, 5000.0)), Sharer(Profile(2.0, 1.0, 1000.0))
    assert model.opinion(busy, busy).reason == "speed"
    assert model.opinion(busy, idle).reason == "allowed"
    quiet = model.opinion(busy, idle, capacity=1)
    assert quiet.reason == "scores"
    assert sum(s or 0 for s in quiet.scores) > 1


def test_measured_peculiarities_reach_the_workload_and_its_partners_only() -> None:
    plain, odd = (fit_packing(t, PackingSettings()) for t in (pairs(noise=0.0), slower(pairs(noise=0.0), "net1", 0.2)))
    known = Sharer(Profile(30.0, 15.0, 3000.0), workload="net1", configuration="net1/data/0/fp32")
    stranger = Sharer(Profile(30.0, 15.0, 3000.0))
    other = Sharer(Profile(30.0, 15.0, 3000.0), workload="net3")
    for model in (plain, odd):
        assert model.pair_speeds(stranger, stranger) == pytest.approx(
            model.pair_speeds(stranger, Sharer(stranger.profile)) or ()
        )
    before, after = plain.pair_speeds(known, other), odd.pair_speeds(known, other)
    assert before is not None and after is not None
    assert sum(after) < sum(before) - 0.15


def test_what_is_left_out_is_not_seen() -> None:
    """Poison: other speeds of a workload change nothing in what is predicted for it while it is left out."""
    table, poisoned = pairs(), slower(pairs(), "net2", 0.3)
    for folds in ([("net2",)], [("net2", "net4")]):
        a = hold_out(table, PackingSettings(), folds, with_scores=True)
        b = hold_out(poisoned, PackingSettings(), folds, with_scores=True)
        assert np.array_equal(a.pair, b.pair)
        assert np.allclose(a.speed, b.speed)
        assert np.array_equal(a.score_sum, b.score_sum)
    without = ~table.arrays().touches(["net2"])
    assert choose_bound(table, PackingSettings(), without) == choose_bound(poisoned, PackingSettings(), without)


def test_the_law_of_a_made_up_gpu_is_found() -> None:
    table = pairs(noise=0.0)
    model = fit_packing(table, PackingSettings())
    demand = np.linspace(0.2, 2.0, 19)
    assert model.speeds.law(demand) == pytest.approx([pair_speed(100 * d) for d in demand], abs=0.02)
    report = judge_packing(table)
    assert report["held_out"]["stay_frac"] >= 0.981
    assert report["held_out"]["used_frac"] >= 0.87
    assert set(report["bounds"]) == set(table.workloads)


def test_quality_counts_pairs() -> None:
    speeds = np.array([[0.9, 0.9], [0.8, 0.95], [0.6, 0.7], [1.0, 1.0]])
    quality = PairQuality.of(np.array([True, True, True, False]), speeds)
    assert (quality.stay_frac, quality.used_frac, quality.both_stay_frac) == (
        pytest.approx(2 / 3), pytest.approx(2 / 3), pytest.approx(1 / 3),
    )  # fmt: skip
    nothing = PairQuality.of(np.zeros(4, dtype=bool), speeds)
    assert nothing.stay_frac is None
    assert nothing.used_frac == 0.0


def test_a_sealed_model_gives_the_same_answers(model: PackingModel) -> None:
    document = json.loads(json.dumps(train_packing(pairs(), judge=False, source="made up")))
    read = PackingModel.from_document(document)
    rows = np.column_stack([np.linspace(0, 100, 50)] * 2 + [np.full(50, 3000.0), np.zeros(50)])
    assert np.array_equal(read.scores(rows), fit_packing(pairs(), PackingSettings()).scores(rows))
    assert read.version == document["version"]
    document["model"]["tree"]["nodes"][0]["value"] = 0.1
    with pytest.raises(ArtefactError):
        PackingModel.from_document(document)


def test_a_tree_that_points_back_is_refused(model: PackingModel) -> None:
    document = model.tree.to_json()
    inner = next(node for node in document["nodes"] if "feature" in node)
    inner["left"] = 0
    with pytest.raises(InputError, match="point behind itself"):
        type(model.tree).from_json(document)


def test_the_shipped_model_is_whole_and_says_what_it_rests_on() -> None:
    model = default_packing_model()
    assert model.header is not None
    assert "RTX 3090" in model.header.trained.source
    assert model.header.metrics["held_out"]["stay_frac"] >= 0.981
    assert model.header.metrics["held_out"]["used_frac"] >= 0.87
    assert model.score(Profile(12.0, 0.0, 2051.0), False) == 0
    assert model.score(Profile(99.0, 62.0, 20_162.0), False) == 2
    # Golden rows are a grid, not rows of somebody's table.
    assert default_packing_document()["goldens"]["inputs"][2][0] == 10.0


@pytest.mark.parametrize(
    ("speeds", "reason"),
    [
        ((0.0, 1.0), "speed_not_positive"),
        ((float("nan"), 1.0), "speed_not_finite"),
        ((float("inf"), 1.0), "speed_not_finite"),
    ],
)
def test_unusable_measurements_are_counted(speeds: tuple[float, float], reason: str) -> None:
    table = pairs(2)
    first = table.configurations[0].name
    broken = [*table.pairs, MeasuredPair(first, first, *speeds), MeasuredPair(first, "nobody", 1.0, 1.0)]
    assert PairTable.of(table.configurations, broken).left_out == {reason: 1, "configuration_not_profiled": 1}


def test_too_little_is_refused_with_a_number() -> None:
    one_network = pairs(1)
    with pytest.raises(InputError, match="8 measured configurations; got 4"):
        fit_packing(one_network, PackingSettings())
    with pytest.raises(InputError, match="needs measured pairs"):
        PairTable.of(one_network.configurations, [])
    with pytest.raises(InputError, match="twice: net0/data/0/fp32"):
        PairTable.of([one_network.configurations[0]] * 2, one_network.pairs)
    with pytest.raises(InputError, match="0 < medium <= tiny"):
        Thresholds(0.8, 0.9)


def test_tables_are_read_and_wrong_ones_named(tmp_path: Path) -> None:
    table = pairs(3)
    write_tables(table, tmp_path / "pairs.csv", tmp_path / "solo.csv")
    read = read_pair_table(tmp_path / "pairs.csv", tmp_path / "solo.csv")
    assert read.sha256() == table.sha256()
    assert np.allclose(profile_matrix(read.configurations), profile_matrix(table.configurations))
    text = (tmp_path / "pairs.csv").read_text()
    (tmp_path / "pairs.csv").write_text(text.replace("speed1", "sped1"))
    with pytest.raises(InputError, match=r"needs the column 'speed1' \(did you mean 'sped1'"):
        read_pair_table(tmp_path / "pairs.csv", tmp_path / "solo.csv")
    (tmp_path / "pairs.csv").write_text(text + "net0,data,0,maybe,1,net0,data,0,0,1\n")
    with pytest.raises(InputError, match="amp is 0 or 1; got 'maybe'"):
        read_pair_table(tmp_path / "pairs.csv", tmp_path / "solo.csv")
    (tmp_path / "pairs.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="cannot be read"):
        read_pair_table(tmp_path / "pairs.csv", tmp_path / "solo.csv")


@pytest.mark.shared
@pytest.mark.slow
def test_the_paper_s_goals_on_workloads_left_out(shared_data: Path) -> None:
    folder = shared_data / "lucid"
    table = read_pair_table(folder / "colocate_info.csv", folder / "single_data.csv")
    report = judge_packing(table)
    assert report["held_out"]["stay_frac"] >= 0.981
    assert report["held_out"]["used_frac"] >= 0.870
    assert report["held_out"]["used_frac"] > report["plain_rule"]["used_frac"]
    assert report["held_out"]["stay_frac"] > report["plain_rule"]["stay_frac"]
    assert default_packing_model().header is not None
    shipped = default_packing_model().header
    assert shipped is not None
    assert shipped.trained.data_sha256 == table.sha256()
