"""srtf and tiresias: who is stopped, who is started, when they look again."""

from __future__ import annotations

import pytest

from lucid_pipelines import policies
from lucid_pipelines.domain.decision import HoldCause, Start
from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.placement import ClusterState
from tests.support_policies.views import held, runs, spec, started, stopped, view_of, waiting


def test_srtf_stops_a_long_job_for_a_short_one_and_only_if_that_helps() -> None:
    long = runs(waiting("long", 8, true_remaining_s=1_000.0), {"a/0": list(range(8))})
    short = waiting("short", 2, true_remaining_s=100.0)
    decisions = policies.get("srtf").decide(view_of(spec(), [short], [long], now_s=50.0))
    assert (stopped(decisions), started(decisions)) == (["long"], ["short"])
    longer = waiting("longer", 2, true_remaining_s=951.0)
    decisions = policies.get("srtf").decide(view_of(spec(), [longer], [long], now_s=50.0))
    assert (stopped(decisions), started(decisions)) == ([], [])
    assert held(decisions)["longer"].cause is HoldCause.PREEMPTED_BY_ORDER


def test_gpus_that_may_not_be_used_stay_so_when_their_job_is_stopped() -> None:
    long = runs(waiting("long", 8, true_remaining_s=1_000.0), {"a/0": list(range(8))})
    queue = [waiting(f"s{i}", 1, true_remaining_s=1.0 + i) for i in range(8)]
    state = ClusterState.of(spec().nodes(), queue, [long], unusable_gpus={"a/0": [0, 1, 2, 3, 4, 5]})
    decisions = policies.get("srtf").decide(state.view(0.0))
    assert stopped(decisions) == ["long"]
    used = [d.placement.shares[0].gpu_indices for d in decisions if isinstance(d, Start)]
    assert used == [(6,), (7,)]


def test_srtf_lets_jobs_behind_a_large_one_in_if_they_fit_the_quota() -> None:
    queue = [
        waiting("short", 4, true_remaining_s=1.0),
        waiting("wide", 8, true_remaining_s=2.0),
        waiting("next", 4, true_remaining_s=3.0),
    ]
    assert started(policies.get("srtf").decide(view_of(spec(), queue))) == ["short", "next"]


def test_srtf_looks_again_a_second_after_a_stop() -> None:
    policy = policies.get("srtf")
    long = runs(waiting("long", 8, true_remaining_s=900.0), {"a/0": list(range(8))})
    view = view_of(spec(), [waiting("x", true_remaining_s=5.0)], [long], now_s=7.0)
    assert stopped(policy.decide(view)) == ["long"]
    assert policy.next_pass_s(view) == 8.0, "the stopped job has more left to do than before"
    starts = view_of(spec(), [waiting("x", true_remaining_s=5.0)], now_s=7.0)
    assert started(policy.decide(starts)) == ["x"]
    assert policy.next_pass_s(starts) is None, "a start alone changes no order"
    idle = view_of(spec(), now_s=9.0)
    policy.decide(idle)
    assert policy.next_pass_s(idle) is None


def test_tiresias_prefers_little_attained_service_then_submission() -> None:
    served = runs(waiting("served", 8, submitted_s=0.0), {"a/0": list(range(8))})
    fresh = waiting("fresh", 8, submitted_s=50.0)
    at = 60.0 * 37  # 8 GPUs × 2220 s = 17,760 GPU-seconds: not yet over the threshold
    decisions = policies.get("tiresias").decide(view_of(spec(), [fresh], [served], now_s=at))
    assert (stopped(decisions), started(decisions)) == ([], [])
    decisions = policies.get("tiresias").decide(view_of(spec(), [fresh], [served], now_s=at + 60.0))
    assert (stopped(decisions), started(decisions)) == (["served"], ["fresh"])


def test_tiresias_decides_at_its_rounds_only_and_says_when() -> None:
    policy = policies.get("tiresias", interval_s=60.0)
    queue = [waiting("x", submitted_s=70.0)]
    view = view_of(spec(), queue, now_s=70.0)
    decisions = policy.decide(view)
    assert started(decisions) == []
    assert held(decisions)["x"].cause is HoldCause.NEXT_ROUND
    assert policy.next_pass_s(view) == 120.0
    assert started(policy.decide(view_of(spec(), queue, now_s=119.0))) == []
    assert started(policy.decide(view_of(spec(), queue, now_s=121.5))) == ["x"], "a driver that comes late is served"


def test_tiresias_wakes_when_a_running_job_outgrows_its_queue() -> None:
    policy = policies.get("tiresias", thresholds_gpu_s=(800.0,))
    running = [runs(waiting("r", 8), {"a/0": list(range(8))})]
    view = view_of(spec(), [waiting("q", 8, submitted_s=1.0)], running, now_s=60.0)
    assert started(policy.decide(view)) == []
    assert policy.next_pass_s(view) == 120.0, "800 GPU-seconds are exceeded after 100 s"


@pytest.mark.parametrize(
    "wrong", [{"interval_s": 0.0}, {"thresholds_gpu_s": (5.0, 5.0)}, {"thresholds_gpu_s": (9.0, 5.0)}]
)
def test_impossible_settings_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InputError):
        policies.get("tiresias", **wrong)


def test_live_views_without_true_durations_hold_everything() -> None:
    decisions = policies.get("srtf").decide(view_of(spec(), [waiting("x")]))
    assert held(decisions)["x"].cause is HoldCause.NO_TRUE_DURATION
