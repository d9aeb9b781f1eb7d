"""Nodes that a job is kept off (R-19): alone, under every policy, and in a replay."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lucid_pipelines import policies
from lucid_pipelines.domain.decision import HoldCause, Start
from lucid_pipelines.domain.free_gpus import FreeGpus
from lucid_pipelines.domain.job import Profile
from lucid_pipelines.domain.view import QueuedJob
from lucid_pipelines.placement import find_place, find_slots, gives_way, has_place
from lucid_pipelines.simulation import ReplayOptions, prepare, replay
from tests.support_policies.views import BUSY, held, packed, runs, spec, started, view_of, waiting
from tests.support_simulation.cases import one_vc, packing_options, trace_job

REPLAYED = [name for name in policies.names() if name != "lucid:artifact"]
EVERY = [name for name in REPLAYED if name.partition(":")[0] not in ("pollux", "sia")]


def free_of(nodes: int = 2) -> FreeGpus:
    return FreeGpus.of_nodes(spec(nodes).nodes())


def test_a_list_keeps_a_job_off_and_gives_way_only_when_it_leaves_no_place() -> None:
    free = free_of()
    assert find_place(free, waiting("x", 2, avoid_nodes=("a/0",))) == ((1, 0b11),)
    everywhere = waiting("x", 2, avoid_nodes=("a/0", "a/1"))
    assert find_place(free, everywhere) == ((0, 0b11),)
    assert gives_way(free, everywhere)
    strict = everywhere._replace(must_avoid=True)
    assert find_place(free, strict) is None
    assert not has_place(free, strict)
    free.take(((1, 0xFF),))
    assert find_place(free, waiting("x", 2, avoid_nodes=("a/0",))) is None, "a place may come: it waits"
    assert find_place(free, waiting("x", 2, avoid_nodes=("gone",))) == ((0, 0b11),)


@settings(max_examples=60)
@given(
    st.lists(st.integers(0, 255), min_size=1, max_size=5), st.sets(st.integers(0, 5)), st.integers(1, 24), st.booleans()
)
def test_no_choice_lies_on_an_avoided_node(used: list[int], avoid: set[int], gpus: int, strict: bool) -> None:
    free = free_of(len(used))
    free.take(tuple((i, mask) for i, mask in enumerate(used) if mask))
    job = waiting("x", gpus, avoid_nodes=tuple(f"a/{i}" for i in sorted(avoid)), must_avoid=strict)
    slots = find_place(free, job)
    if slots is None:
        assert avoid or find_slots(free, gpus) is None
    elif not gives_way(free, job):
        assert avoid.isdisjoint(position for position, _ in slots)
    if strict:
        assert not gives_way(free, job)


@pytest.mark.parametrize("name", EVERY)
def test_every_policy_keeps_off(name: str) -> None:
    queue = [waiting("x", 1, 50.0, avoid_nodes=("a/0",), true_remaining_s=50.0)]
    policy = policies.get(name)
    decisions = policy.decide(view_of(spec(2), queue))
    (start,) = [d for d in decisions if isinstance(d, Start)]
    assert start.placement.node_names == ("a/1",)
    assert any(reason.rule == "avoid_nodes" for reason in start.reasons)
    assert not policy.fallbacks["avoid_list_gave_way"]
    assert started(policy.decide(view_of(spec(1), queue))) == ["x"]
    assert policy.fallbacks["avoid_list_gave_way"] == 1, "it gave way, and that is counted"
    strict = [queue[0]._replace(must_avoid=True)]
    decisions = policies.get(name).decide(view_of(spec(1), strict))
    assert held(decisions)["x"].cause is HoldCause.AVOIDED_NODES


def test_it_waits_for_another_node_and_says_so() -> None:
    running = [runs(waiting("r", 8), {"a/1": list(range(8))})]
    queue = [waiting("x", 1, avoid_nodes=("a/0",)), waiting("y", 1)]
    decisions = policies.get("fifo", backfill=True).decide(view_of(spec(2), queue, running))
    assert started(decisions) == ["y"], "who avoids nothing is not held up by one that does"
    assert held(decisions)["x"].cause is HoldCause.AVOIDED_NODES


def light(job_id: str, **more: object) -> QueuedJob:
    return waiting(job_id, 8, 100.0, 0, **more)._replace(profile=Profile(20.0, 10.0, 1_000.0))


@pytest.mark.parametrize(("name", "more"), [("lucid", {}), ("lucid", {"share_first": True}), ("horus", {})])
def test_nobody_joins_a_partner_on_an_avoided_node(name: str, more: dict[str, object]) -> None:
    running = [runs(light("r", attained_s=0.0), {"a/0": list(range(8))})]
    busy = [*running, runs(waiting("full", 8, never_pack=True), {"a/1": list(range(8))})]
    queue = [light("x", avoid_nodes=("a/0",)), light("y")]
    decisions = policies.get(name, backfill=True, **more).decide(view_of(spec(2), queue, busy, forecast=BUSY))
    assert packed(decisions) == {"y": "r"}


@pytest.mark.parametrize("name", ["fifo", "tiresias", "lucid:no_profiler"])
def test_a_replay_keeps_off(name: str) -> None:
    jobs = [trace_job("long", 0, 100, 8), trace_job("x", 1, 10)]
    options = packing_options(avoid_nodes={"x": ("a/1",), "long": ("a/1",)}, end_lag_s=0.0)
    assert replay(prepare(jobs, one_vc(2)), policies.get(name), options).start_s[1] >= 100.0
    policy = policies.get(name)
    alone = replay(prepare(jobs[1:], one_vc(1)), policy, ReplayOptions(avoid_nodes={"x": ("a/0",)}))
    assert alone.start_s[0] <= 60.0
    assert alone.fallbacks["avoid_list_gave_way"] == 1
