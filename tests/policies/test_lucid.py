"""Lucid's binder, sharing modes and splitting, through decisions."""

from __future__ import annotations

import pytest

from lucid_pipelines import policies
from lucid_pipelines.domain.decision import Pack, Stop, StopCause
from lucid_pipelines.domain.view import Forecast, RunningJob
from lucid_pipelines.placement import ClusterState
from tests.support_policies.views import BUSY, held, packed, runs, spec, started, stopped, view_of, waiting

SMALL = {"score": 0, "memory_mib": 2_000.0}
ALL_GPUS = {"a/0": list(range(8))}


def full_node(**more: object) -> list[RunningJob]:
    """Eight running one-GPU jobs that are easy to share with."""
    return [
        runs(waiting(f"r{i}", 1, 5_000.0, **{**SMALL, **more}), {"a/0": [i]})  # type: ignore[arg-type]
        for i in range(8)
    ]


def test_jobs_share_only_when_no_gpu_is_free() -> None:
    queue = [waiting("x", 1, 100.0, **SMALL), waiting("y", 1, 200.0, **SMALL)]
    running = full_node()[:7]
    decisions = policies.get("lucid").decide(view_of(spec(), queue, running, forecast=BUSY))
    assert started(decisions) == ["x"]
    assert packed(decisions) == {"y": "r0"}
    first = policies.get("lucid", share_first=True).decide(view_of(spec(), queue, running, forecast=BUSY))
    assert packed(first) == {"x": "r0", "y": "r1"}


def test_nobody_joins_a_job_on_gpus_that_may_not_be_used() -> None:
    cluster = spec()
    state = ClusterState.of(
        cluster.nodes(),
        [waiting("x", 1, 100.0, **SMALL)],
        full_node(),
        unusable_gpus={"a/0": [0, 1]},  # type: ignore[arg-type]
    )
    view = state.view(0.0, forecast=BUSY)
    assert packed(policies.get("lucid").decide(view)) == {"x": "r2"}
    assert packed(policies.get("horus", max_util_frac=9.0).decide(view)) == {}, "their utilisation is not known"


def test_a_partner_is_taken_once_and_the_pack_names_its_gpus_and_reasons() -> None:
    queue = [waiting("x", 8, 100.0, **SMALL), waiting("y", 8, 200.0, **SMALL)]
    running = [runs(waiting("r", 8, 5_000.0, **SMALL), ALL_GPUS)]
    decisions = policies.get("lucid").decide(view_of(spec(), queue, running, forecast=BUSY))
    pack = next(d for d in decisions if isinstance(d, Pack))
    assert (pack.job_id, pack.partner_job_id, pack.placement.gpu_count) == ("x", "r", 8)
    assert {"affine_pair", "memory_safe", "sharing_score", "predicted_gpu_time"} <= {r.rule for r in pack.reasons}
    why = {r.rule: r.facts for r in held(decisions)["y"].reasons}
    assert why["no_affine_partner"]["candidates"] == 1


def test_two_waiting_jobs_become_a_pair() -> None:
    queue = [waiting("x", 8, 500.0, **SMALL), waiting("y", 8, 600.0, **SMALL)]
    decisions = policies.get("lucid").decide(view_of(spec(), queue, forecast=BUSY))
    assert (started(decisions), packed(decisions)) == (["x"], {"y": "x"})


@pytest.mark.parametrize(
    ("job", "setting"),
    [
        ({"score": 2, "memory_mib": 2_000.0}, None),
        ({"score": 0, "memory_mib": 30_000.0}, None),
        ({"score": None, "memory_mib": 2_000.0}, None),
        ({"score": 0, "memory_mib": None}, None),
        ({"score": 0, "memory_mib": 2_000.0, "never_pack": True}, "split_unstable"),
        ({"score": 0, "memory_mib": 2_000.0, "predicted_s": 50_000.0}, "remaining_time"),
        ({"score": 2, "memory_mib": 2_000.0}, "sharing_score"),
        ({"score": 0, "memory_mib": 30_000.0}, "memory_safe"),
    ],
)
def test_rules_keep_jobs_apart_until_switched_off(job: dict[str, object], setting: str | None) -> None:
    queue = [waiting("x", 1, **{"predicted_s": 100.0, **job})]  # type: ignore[arg-type]
    view = view_of(spec(), queue, full_node(score=1), forecast=BUSY)
    assert packed(policies.get("lucid").decide(view)) == {}
    if setting is not None:
        assert packed(policies.get("lucid", **{setting: False}).decide(view)) == {"x": "r0"}


def test_a_job_without_an_estimate_is_not_packed() -> None:
    view = view_of(spec(), [waiting("x", 1, **SMALL)], full_node(), forecast=BUSY)  # type: ignore[arg-type]
    policy = policies.get("lucid")
    assert packed(policy.decide(view)) == {}
    assert policy.fallbacks["no_estimate"] == 1
    assert packed(policies.get("lucid:no_estimator").decide(view)) == {"x": "r0"}


def test_unknown_gpu_memory_forbids_packing_and_is_counted() -> None:
    policy = policies.get("lucid")
    queue = [waiting("x", 1, 10.0, **SMALL)]  # type: ignore[arg-type]
    assert packed(policy.decide(view_of(spec(memory_mib=None), queue, full_node(), forecast=BUSY))) == {}
    assert policy.fallbacks["unknown_gpu_memory"] == 8
    assert packed(
        policies.get("lucid", full_gpu_memory_mib=24_000.0).decide(
            view_of(spec(memory_mib=None), queue, full_node(), forecast=BUSY)
        )
    ) == {"x": "r0"}


@pytest.mark.parametrize(("jobs_ahead", "expected"), [(1.0, {}), (50.0, {"x": "r0"})])
def test_a_quiet_forecast_turns_sharing_off(jobs_ahead: float, expected: dict[str, str]) -> None:
    forecast = Forecast([0.0, 600.0, 1_200.0], [9.0, jobs_ahead, jobs_ahead], [9.0, 9.0, 9.0])
    view = view_of(spec(), [waiting("x", 1, 10.0, **SMALL)], full_node(), 5.0, forecast)  # type: ignore[arg-type]
    policy = policies.get("lucid")
    assert packed(policy.decide(view)) == expected
    assert policy.next_pass_s(view) == (None if expected else 600.0), "the mode may change with the next slot"


def test_no_packing_never_packs_and_naive_packing_only_minds_memory() -> None:
    heavy = {"score": 2, "memory_mib": 9_000.0}
    view = view_of(spec(), [waiting("x", 1, 99_999.0, **heavy)], full_node(**heavy), forecast=BUSY)  # type: ignore[arg-type]
    assert packed(policies.get("lucid:no_packing").decide(view)) == {}
    assert packed(policies.get("lucid").decide(view)) == {}
    assert packed(policies.get("lucid:naive_packing").decide(view)) == {"x": "r0"}


def test_sharing_lets_jobs_pass_a_large_one_and_exclusive_mode_does_not() -> None:
    running = [runs(waiting("r", 4, 9_000.0, score=2, memory_mib=20_000.0), {"a/0": [0, 1, 2, 3]})]
    queue = [waiting("large", 8, 1.0, **SMALL), waiting("small", 2, 1_000.0, **SMALL)]  # type: ignore[arg-type]
    quiet = Forecast([0.0, 600.0], [0.0, 0.0], [0.0, 0.0])
    assert started(policies.get("lucid").decide(view_of(spec(), queue, running, forecast=BUSY))) == ["small"]
    assert started(policies.get("lucid").decide(view_of(spec(), queue, running, forecast=quiet))) == []


def test_an_unstable_pair_is_split_and_the_later_job_starts_over_alone() -> None:
    pair = [
        runs(waiting("old", 8, 900.0, **SMALL), ALL_GPUS, 0.0, partners=("new",), is_unstable=True),  # type: ignore[arg-type]
        runs(waiting("new", 8, 900.0, **SMALL), ALL_GPUS, 5.0, partners=("old",)),  # type: ignore[arg-type]
    ]
    decisions = policies.get("lucid").decide(view_of(spec(), [], pair, 10.0, BUSY))
    (stop,) = [d for d in decisions if isinstance(d, Stop)]
    assert (stop.job_id, stop.cause, stop.requeue, stop.never_pack) == ("new", StopCause.UNSTABLE_PAIR, True, True)
    kept = policies.get("lucid", split_unstable=False).decide(view_of(spec(), [], pair, 10.0, BUSY))
    assert stopped(kept) == []


def test_different_demands_share_only_without_that_rule() -> None:
    running = [runs(waiting("r", 8, 9_000.0, **SMALL), ALL_GPUS)]  # type: ignore[arg-type]
    queue = [waiting("x", 2, 10.0, **SMALL)]  # type: ignore[arg-type]
    view = view_of(spec(), queue, running, forecast=BUSY)
    assert packed(policies.get("lucid").decide(view)) == {}
    loose = policies.get("lucid", same_gpus=False).decide(view)
    (pack,) = [d for d in loose if isinstance(d, Pack)]
    assert [share.gpu_indices for share in pack.placement.shares] == [(0, 1)]
