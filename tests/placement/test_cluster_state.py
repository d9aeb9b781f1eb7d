"""The state behind a view keeps GPUs, queues and partners consistent."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lucid_pipelines.domain.cluster import NodeCondition, Placement
from lucid_pipelines.domain.errors import InputError, NotFoundError, StateError
from lucid_pipelines.domain.trace import ClusterSpec
from lucid_pipelines.domain.view import ChangeKind, QueuedJob, RunningJob
from lucid_pipelines.placement import ClusterState

SPEC = ClusterSpec.uniform({"a": 2, "b": 1}, gpus_per_node=4)


def job(job_id: str, gpus: int = 1, vc: str = "a", submitted_s: float = 0.0, sequence: int = 0) -> QueuedJob:
    return QueuedJob(job_id, vc, gpus, submitted_s, sequence)


def running(state: ClusterState, waiting: QueuedJob, gpus_by_node: dict[str, list[int]]) -> RunningJob:
    placement = Placement.of(gpus_by_node)
    return RunningJob(waiting, placement, state.layout(waiting.vc).slots(placement), 0.0, 0.0)


def started(state: ClusterState, job_id: str, gpus_by_node: dict[str, list[int]], **more: object) -> RunningJob:
    waiting = job(job_id, sum(map(len, gpus_by_node.values())), **more)  # type: ignore[arg-type]
    state.enqueue(waiting)
    its = running(state, waiting, gpus_by_node)
    state.start(its)
    return its


def free_of(state: ClusterState, vc: str) -> int:
    return state.view(0.0).vcs[vc].free.free_gpus


def test_starting_takes_gpus_and_releasing_gives_them_back() -> None:
    state = ClusterState(SPEC.nodes())
    started(state, "x", {"a/0": [0, 1]})
    assert (free_of(state, "a"), free_of(state, "b"), state.used_gpus) == (6, 4, 2)
    second = job("y", 2)
    state.enqueue(second)
    with pytest.raises(StateError, match="only free GPUs"):
        state.start(running(state, second, {"a/0": [1, 2]}))
    assert state.waiting_count == 1, "a refused start leaves the job where it was"
    state.release("x")
    assert (free_of(state, "a"), state.used_gpus) == (8, 0)


def test_packed_gpus_are_free_only_when_both_have_left() -> None:
    for first_to_leave, last in (("x", "y"), ("y", "x")):
        state = ClusterState(SPEC.nodes())
        its = started(state, "x", {"a/0": [0, 1]})
        waiting = job("y", 2)
        state.enqueue(waiting)
        state.pack(its._replace(job=waiting), "x")
        view = state.view(0.0).vcs["a"]
        assert (view.running["x"].partners, view.running["y"].partners) == (("y",), ("x",))
        assert (view.free.free_gpus, state.used_gpus) == (6, 2)
        state.release(first_to_leave)
        assert view.running[last].partners == ()
        assert (view.free.free_gpus, state.used_gpus) == (6, 2)
        state.release(last)
        assert (view.free.free_gpus, state.used_gpus) == (8, 0)


def test_packing_needs_the_partners_own_gpus() -> None:
    state = ClusterState(SPEC.nodes())
    started(state, "x", {"a/0": [0, 1]})
    waiting = job("y", 2)
    state.enqueue(waiting)
    for wrong, partner in (({"a/0": [1, 2]}, "x"), ({"a/1": [0, 1]}, "x"), ({"a/0": [0, 1]}, "nobody")):
        with pytest.raises(StateError, match="partner"):
            state.pack(running(state, waiting, wrong), partner)


def test_a_job_is_there_once() -> None:
    state = ClusterState(SPEC.nodes())
    state.enqueue(job("x"))
    with pytest.raises(StateError, match="queued once"):
        state.enqueue(job("x"))
    with pytest.raises(InputError, match="at least 1 GPU"):
        state.enqueue(job("z", 0))
    with pytest.raises(NotFoundError, match="did you mean 'x"):
        state.withdraw("xx")
    state.withdraw("x")
    with pytest.raises(NotFoundError):
        state.release("x")


def test_nodes_that_are_not_ready_take_no_part_and_names_are_unique() -> None:
    first, *rest = SPEC.nodes()
    state = ClusterState([replace(first, condition=NodeCondition.DRAINED), *rest])
    assert free_of(state, "a") == 4
    with pytest.raises(InputError, match="a name of its own"):
        ClusterState([first, first])


def test_a_state_from_lists_knows_what_runs_even_on_nodes_that_are_gone() -> None:
    nodes = SPEC.nodes()
    here, gone = job("x", 2), job("y", 1)
    state = ClusterState.of(
        nodes,
        queued=[job("q")],
        running=[
            RunningJob(here, Placement.of({"a/1": [2, 3]}), (), 0.0, 0.0),
            RunningJob(gone, Placement.of({"lost": [0]}), (), 0.0, 0.0),
        ],
        unusable_gpus={"a/0": [0], "a/1": [3], "elsewhere": [1]},
    )
    view = state.view(5.0)
    assert view.vcs["a"].free.free_gpus == 5
    assert set(view.vcs["a"].running) == {"x", "y"}
    assert state.used_gpus == 1, "of the usable ones"


def test_a_job_of_an_unknown_vc_waits_in_an_empty_one() -> None:
    state = ClusterState.of(SPEC.nodes(), queued=[job("q", vc="zz")])
    assert state.view(0.0).vcs["zz"].free.layout.names == ()


def test_changes_tell_what_happened_and_run_out() -> None:
    state = ClusterState(SPEC.nodes())
    before = state.view(0.0)
    started(state, "x", {"a/0": [0]})
    view = state.view(0.0)
    kinds = [kind for kind, *_ in view.changes_since(before.revision) or ()]
    assert kinds == [ChangeKind.QUEUED, ChangeKind.STARTED]
    assert view.changes_since(view.revision) == []
    assert view.changes_since(view.revision + 1) is None
    for i in range(9_000):
        state.enqueue(job(f"q{i}"))
    assert state.view(0.0).changes_since(before.revision) is None, "too long ago"


def test_only_idle_nodes_move_and_placements_stay_right() -> None:
    state = ClusterState(SPEC.nodes())
    started(state, "x", {"a/1": [1, 2]})
    with pytest.raises(StateError, match="only idle nodes"):
        state.move_nodes("a", "b", ["a/1"])
    state.move_nodes("a", "b", ["a/0"])
    view = state.view(0.0)
    assert view.vcs["a"].free.layout.names == ("a/1",)
    assert view.vcs["b"].free.layout.names == ("b/0", "a/0")
    assert (free_of(state, "a"), free_of(state, "b")) == (2, 8)
    assert view.vcs["a"].running["x"].slots == ((0, 0b110),)
    state.release("x")
    assert free_of(state, "a") == 4
    state.move_nodes("b", "a", ["a/0"])
    assert (free_of(state, "a"), free_of(state, "b")) == (8, 4)


def test_later_starts_count_as_overtaking_the_oldest_waiting_job() -> None:
    state = ClusterState(SPEC.nodes())
    state.enqueue(job("old", submitted_s=1.0, sequence=0))
    state.enqueue(job("mid", submitted_s=2.0, sequence=1))
    started(state, "new", {"a/0": [0]}, submitted_s=3.0, sequence=2)
    arrivals = state.view(0.0).vcs["a"].arrivals
    assert (arrivals.overtaken_count(1.0, 0), arrivals.overtaken_count(2.0, 1)) == (1, 1)
    state.withdraw("old")
    started(state, "newer", {"a/0": [1]}, submitted_s=4.0, sequence=3)
    assert arrivals.overtaken_count(2.0, 1) == 2
    state.withdraw("mid")
    assert list(arrivals.oldest()) == []
