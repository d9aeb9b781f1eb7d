"""The profiler: smallest first, window, borrowing and giving back."""

from __future__ import annotations

import pytest

from lucid_pipelines import policies
from lucid_pipelines.domain.cluster import Node
from lucid_pipelines.domain.decision import Continue, LendNodes, Stage, Start, Stop, StopCause
from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.domain.trace import ClusterSpec
from lucid_pipelines.domain.view import Forecast, QueuedJob, RunningJob
from lucid_pipelines.placement import ClusterState
from lucid_pipelines.policies.lucid import Lucid
from tests.support_policies.views import runs, started, stopped, view_of, waiting

SPEC = ClusterSpec.uniform({"a": 3, "profiler": 1})


def to_profile(job_id: str, gpus: int = 1, **more: object) -> QueuedJob:
    return waiting(job_id, gpus, vc="profiler", **more)  # type: ignore[arg-type]


def test_small_jobs_go_first_and_the_first_that_does_not_fit_stops_the_scan() -> None:
    queue = [to_profile("eight", 8), to_profile("two", 2), to_profile("one", 1)]
    decisions = policies.get("lucid").decide(view_of(SPEC, queue))
    assert started(decisions) == ["one", "two"]
    assert {d.stage for d in decisions if isinstance(d, Start)} == {Stage.PROFILE}
    assert started(policies.get("lucid", space_aware=False).decide(view_of(SPEC, queue))) == ["eight"]


def test_a_job_leaves_when_its_window_is_over_and_its_gpus_are_used_at_once() -> None:
    running = [runs(to_profile("old", 8), {"profiler/0": list(range(8))}, 0.0, stage=Stage.PROFILE)]
    policy = policies.get("lucid", profile_window_s=200.0)
    view = view_of(SPEC, [to_profile("next", 8)], running, 199.0)
    assert (started(policy.decide(view)), policy.next_pass_s(view)) == ([], 200.0)
    decisions = policy.decide(view_of(SPEC, [to_profile("next", 8)], running, 200.0))
    (stop,) = [d for d in decisions if isinstance(d, Stop)]
    assert (stop.job_id, stop.cause, stop.requeue) == ("old", StopCause.PROFILED, True)
    assert started(decisions) == ["next"]


def test_a_long_queue_shortens_the_window_unless_the_profiler_is_static() -> None:
    running = [runs(to_profile("old", 8), {"profiler/0": list(range(8))}, 0.0, stage=Stage.PROFILE)]
    queue = [to_profile(f"q{i}", 8) for i in range(11)]
    alone = policies.get("lucid", max_borrowed_nodes=0)
    assert stopped(alone.decide(view_of(SPEC, queue, running, 100.0))) == ["old"]
    assert stopped(policies.get("lucid:static_profiler").decide(view_of(SPEC, queue, running, 100.0))) == []


def lends(policy_name: str, queue: list[QueuedJob], state: ClusterState, forecast: Forecast | None) -> list[LendNodes]:
    for job in queue:
        state.enqueue(job)
    decisions = policies.get(policy_name).decide(state.view(0.0, forecast=forecast))
    return [d for d in decisions if isinstance(d, LendNodes)]


def borrowed() -> ClusterState:
    state = ClusterState(SPEC.nodes())
    state.move_nodes("a", "profiler", ["a/2"])
    return state


QUIET = Forecast([0.0, 600.0], [1.0, 1.0], [10.0, 10.0])
RUSH = Forecast([0.0, 600.0], [99.0, 99.0], [99.0, 99.0])


def test_a_long_queue_borrows_an_idle_node_of_a_vc_that_needs_none() -> None:
    queue = [to_profile(f"q{i}") for i in range(11)]
    (lend,) = lends("lucid", queue, ClusterState(SPEC.nodes()), None)
    assert (lend.from_vc, lend.to_vc, lend.nodes) == ("a", "profiler", ("a/2",))
    assert lends("lucid", [*queue, waiting("w")], ClusterState(SPEC.nodes()), None) == [], "a has a queue of its own"
    assert lends("lucid", queue, borrowed(), None) == [], "one at a time"
    assert lends("lucid:static_profiler", queue, ClusterState(SPEC.nodes()), None) == []
    assert lends("lucid", queue[:10], ClusterState(SPEC.nodes()), None) == []


def test_a_short_queue_gives_the_node_back_when_things_are_calm_or_its_owner_waits() -> None:
    (back,) = lends("lucid", [], borrowed(), QUIET)
    assert (back.from_vc, back.to_vc, back.nodes) == ("profiler", "a", ("a/2",))
    assert lends("lucid", [], borrowed(), RUSH) == []
    assert len(lends("lucid", [waiting("w")], borrowed(), RUSH)) == 1
    assert lends("lucid", [to_profile(f"q{i}") for i in range(5)], borrowed(), QUIET) == []


def test_a_job_may_go_on_where_it_is_while_enough_of_the_pool_is_left() -> None:
    def in_pool(name: str, first: int, stage: Stage = Stage.PROFILE) -> RunningJob:
        return runs(to_profile(name, 2), {"profiler/0": [first, first + 1]}, 0.0, stage=stage)

    policy = policies.get("lucid", continue_frac=0.5)
    running = [in_pool("a", 0), in_pool("b", 2), in_pool("away", 4, Stage.MAIN)]
    decisions = policy.decide(view_of(SPEC, [], running, 200.0))
    assert [d.job_id for d in decisions if isinstance(d, Continue)] == ["a"], "4 of 8 GPUs are given away, not more"
    assert [d.job_id for d in decisions if isinstance(d, Stop)] == ["b"]
    assert stopped(policies.get("lucid").decide(view_of(SPEC, [], running, 200.0))) == ["a", "b"]


def test_a_job_that_starts_slowly_is_profiled_for_longer() -> None:
    running = [runs(to_profile("cold", 1, long_cold_start=True), {"profiler/0": [0]}, 0.0, stage=Stage.PROFILE)]
    policy = policies.get("lucid")
    view = view_of(SPEC, [], running, 599.0)
    assert (policy.decide(view), policy.next_pass_s(view)) == ([], 600.0)
    assert stopped(policy.decide(view_of(SPEC, [], running, 600.0))) == ["cold"]


def test_a_burst_that_is_foretold_shortens_the_window_and_lowers_the_limit() -> None:
    burst = {"busy_above_jobs": 50.0, "busy_max_gpus": 2}
    running = [runs(to_profile("old", 8), {"profiler/0": list(range(8))}, 0.0, stage=Stage.PROFILE)]
    policy = policies.get("lucid", **burst)
    assert stopped(policy.decide(view_of(SPEC, [], running, 100.0, RUSH))) == ["old"]
    assert stopped(policy.decide(view_of(SPEC, [], running, 100.0, QUIET))) == []
    assert stopped(policies.get("lucid").decide(view_of(SPEC, [], running, 100.0, RUSH))) == []
    rules = policy.profiling
    assert rules is not None
    assert [rules.is_busy(waiting, RUSH, 0.0) for waiting in (0, 20)] == [True, True]
    assert [rules.is_busy(waiting, QUIET, 0.0) for waiting in (0, 20)] == [False, True]
    assert rules.wants(2, busy=True) and not rules.wants(4, busy=True) and rules.wants(4)


def test_a_policy_that_does_not_lend_still_tells_what_would_move() -> None:
    state = ClusterState(SPEC.nodes())
    for i in range(11):
        state.enqueue(to_profile(f"q{i}"))
    policy = policies.get("lucid", lend=False)
    assert isinstance(policy, Lucid)
    assert len(started(policy.decide(state.view(0.0)))) == 8, "nothing waits for the loan"
    assert [decision.nodes for decision in policy.lending(state.view(0.0))] == [("a/2",)]


def test_who_is_profiled() -> None:
    profiling = policies.get("lucid", profile_max_gpus=4).profiling
    assert profiling is not None
    assert profiling.wants(4)
    assert not profiling.wants(5)
    assert policies.get("lucid:no_profiler").profiling is None
    assert policies.get("fifo").profiling is None


def test_impossible_numbers_are_refused() -> None:
    for wrong in ({"profile_window_s": 0.0}, {"busy_window_s": -1.0}, {"profiler_nodes": -1}):
        with pytest.raises(InputError):
            policies.get("lucid", **wrong)


def test_nodes_of_the_profiler_never_run_anything_else() -> None:
    node: Node = SPEC.nodes()[-1]
    assert node.vc == "profiler"
    queue = [waiting(f"w{i}", 8) for i in range(4)]
    assert len(started(policies.get("lucid").decide(view_of(SPEC, queue)))) == 3
