"""Order, blocking and explanations of the policies that never preempt."""

from __future__ import annotations

import pytest

from lucid_pipelines import policies
from lucid_pipelines.domain.decision import HoldCause
from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.domain.job import Estimate
from lucid_pipelines.domain.view import QueuedJob
from tests.support_policies.views import held, runs, spec, started, view_of, waiting


def test_fifo_keeps_the_order_of_submission_and_blocks_behind_its_head() -> None:
    queue = [
        waiting("late", 1, submitted_s=9.0),
        waiting("first", 4, submitted_s=1.0),
        waiting("big", 6, submitted_s=2.0),
        waiting("small", 1, submitted_s=3.0),
    ]
    decisions = policies.get("fifo").decide(view_of(spec(), queue, now_s=10.0))
    assert started(decisions) == ["first"]
    holds = held(decisions)
    assert (holds["big"].cause, holds["big"].gpus_needed, holds["big"].gpus_free) == (HoldCause.FREE_GPUS, 6, 4)
    assert [(h.cause, h.blocked_by, h.ahead_count) for h in (holds["small"], holds["late"])] == [
        (HoldCause.BEHIND, "big", 1),
        (HoldCause.BEHIND, "big", 2),
    ]


def test_enough_gpus_on_too_many_nodes_is_called_fragmentation() -> None:
    running = [runs(waiting("r0", 5), {"a/0": [0, 1, 2, 3, 4]}), runs(waiting("r1", 5), {"a/1": [0, 1, 2, 3, 4]})]
    decisions = policies.get("fifo").decide(view_of(spec(2), [waiting("x", 4)], running))
    assert held(decisions)["x"].cause is HoldCause.FRAGMENTED


def test_what_can_never_fit_blocks_nobody() -> None:
    queue = [
        waiting("huge", 9, submitted_s=0.0),
        waiting("wrong_type", 1, gpu_type="Z", submitted_s=1.0),
        waiting("nowhere", 1, vc="zz"),
        waiting("fine", 1, submitted_s=2.0),
    ]
    decisions = policies.get("fifo").decide(view_of(spec(), queue))
    assert started(decisions) == ["fine"]
    causes = {job_id: hold.cause for job_id, hold in held(decisions).items()}
    assert causes == {
        "huge": HoldCause.TOO_LARGE,
        "wrong_type": HoldCause.TOO_LARGE,
        "nowhere": HoldCause.UNKNOWN_VC,
    }


def test_sjf_orders_by_true_duration_and_holds_what_it_does_not_know() -> None:
    queue = [
        waiting("long", 8, true_remaining_s=100.0),
        waiting("short", 8, true_remaining_s=10.0),
        waiting("unknown", 1),
    ]
    decisions = policies.get("sjf").decide(view_of(spec(), queue))
    assert started(decisions) == ["short"]
    assert held(decisions)["unknown"].cause is HoldCause.NO_TRUE_DURATION


@pytest.mark.parametrize("name", ["qssf", "lucid:no_packing"])
def test_predicted_gpu_time_orders_and_says_its_numbers(name: str) -> None:
    queue = [waiting("wide", 8, 100.0), waiting("narrow", 1, 700.0)]
    decisions = policies.get(name).decide(view_of(spec(), queue))
    assert started(decisions) == ["narrow"]
    reason = next(r for r in held(decisions)["wide"].reasons if r.rule == "predicted_gpu_time")
    assert reason.facts == {"priority_gpu_s": 800.0, "gpus": 8, "predicted_duration_s": 100.0, "basis": "test"}


def test_standalone_orders_by_predicted_duration_alone() -> None:
    queue = [waiting("wide", 8, 100.0), waiting("narrow", 1, 700.0)]
    policy = policies.get("standalone")
    decisions = policy.decide(view_of(spec(), queue))
    assert started(decisions) == ["wide"]
    assert policy.fallbacks["not_advised"] == 2, "these estimates rest on something else"
    reason = next(r for r in held(decisions)["narrow"].reasons if r.rule == "predicted_duration")
    assert reason.facts == {"predicted_duration_s": 700.0, "gpus": 1, "basis": "test"}


def test_an_estimator_is_asked_once_per_job_whatever_the_passes() -> None:
    asked: list[str] = []

    def estimator(job: QueuedJob) -> Estimate | None:
        asked.append(job.job_id)
        return None if job.job_id == "silent" else Estimate(50.0, "asked")

    policy = policies.get("qssf", estimator=estimator)
    queue = [waiting("x", 8), waiting("y", 8), waiting("silent", 8), waiting("given", 8, 1.0)]
    for now_s in range(5):
        policy.decide(view_of(spec(), queue, now_s=float(now_s)))
    assert sorted(asked) == ["silent", "x", "y"]
    assert policy.fallbacks == {"no_estimate": 1}


def test_a_job_whose_estimate_changed_takes_its_new_place() -> None:
    policy = policies.get("qssf")
    assert started(policy.decide(view_of(spec(), [waiting("x", 8, 10.0), waiting("y", 8, 20.0)]))) == ["x"]
    assert started(policy.decide(view_of(spec(), [waiting("x", 8, 30.0), waiting("y", 8, 20.0)]))) == ["y"]


def test_negative_predictions_fall_back_and_are_counted() -> None:
    policy = policies.get("qssf", fallback_duration_s=5.0)
    queue = [waiting("negative", 8, -3.0), waiting("ten", 8, 10.0)]
    assert started(policy.decide(view_of(spec(), queue))) == ["negative"]
    assert policy.fallbacks == {"negative_estimate": 1}


def test_backfill_passes_what_does_not_fit() -> None:
    queue = [
        waiting("six", 6, submitted_s=0.0),
        waiting("seven", 7, submitted_s=1.0),
        waiting("two", 2, submitted_s=2.0),
    ]
    running = [runs(waiting("r", 4), {"a/0": [0, 1, 2, 3]})]
    assert started(policies.get("fifo").decide(view_of(spec(), queue, running))) == []
    assert started(policies.get("fifo", backfill=True).decide(view_of(spec(), queue, running))) == ["two"]


def test_a_job_that_waited_too_long_stops_the_others() -> None:
    queue = [waiting("six", 6, submitted_s=0.0), waiting("two", 2, submitted_s=90.0)]
    running = [runs(waiting("r", 4), {"a/0": [0, 1, 2, 3]})]
    policy = policies.get("fifo", backfill=True, max_wait_s=100.0)
    early = view_of(spec(), queue, running, now_s=99.0)
    assert started(policy.decide(early)) == ["two"]
    assert policy.next_pass_s(early) == 100.0
    decisions = policy.decide(view_of(spec(), queue, running, now_s=100.0))
    assert started(decisions) == []
    assert (held(decisions)["two"].cause, held(decisions)["two"].blocked_by) == (HoldCause.AGED_JOB, "six")
    assert held(decisions)["six"].cause is HoldCause.FREE_GPUS


def test_names_and_settings_are_checked_and_the_nearest_is_named() -> None:
    assert {"fifo", "sjf", "srtf", "qssf", "tiresias", "lucid", "lucid:no_packing"} <= set(policies.names())
    for name in policies.names():
        assert policies.get(name).name == name
    with pytest.raises(InputError, match="did you mean 'tiresias'"):
        policies.get("tiresia")
    with pytest.raises(InputError, match="did you mean 'lucid:no_packing'"):
        policies.get("lucid:nopacking")
    with pytest.raises(InputError, match="did you mean 'max_overtakes'"):
        policies.get("fifo", max_overtake=3)
    with pytest.raises(InputError, match="at least 0"):
        policies.get("fifo", max_overtakes=-1)
