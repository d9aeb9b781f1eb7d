"""The profiling pool in the running control plane: who goes there, for how long, what a move costs, who lends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lucid_pipelines.cli.doctor import Level, profiling_finding
from lucid_pipelines.control.pool import owned_nodes
from lucid_pipelines.domain.states import JobState
from lucid_pipelines.store import ActionState, Store
from tests.support_control.live_days import Session
from tests.support_control.scripted import ScriptedJob

POOL = (("n1", 2, "train"), ("n2", 2, "train"), ("p1", 2, "profiler"))
SHORT = {"window_s": 10.0, "busy_window_s": 6.0, "max_gpus": 2}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "state.db", durable=False) as opened:
        yield opened


def test_short_jobs_end_in_the_pool_and_the_others_begin_again_with_a_profile(store: Store, tmp_path: Path) -> None:
    jobs = [ScriptedJob("short", work_s=5.0), ScriptedJob("long", work_s=30.0), ScriptedJob("huge", gpus=4)]
    session = Session.open(tmp_path, store, POOL, jobs, profiling=SHORT)
    session.submit("short", "long", "huge")
    session.run_until(session.have_ended)
    attempts = {name: store.attempts.of_job(session.ids[name]) for name in session.ids}
    assert [(a.profiling, a.placement.node_names) for a in attempts["short"]] == [(True, ("p1",))]
    assert [a.profiling for a in attempts["long"]] == [True, False]
    assert attempts["long"][1].placement.node_names != ("p1",), "it moved to its own virtual cluster"
    assert [a.profiling for a in attempts["huge"]] == [False], "larger than Nprof: sampled while it runs"
    profile = session.job("huge").profile
    assert profile is not None and profile.gpu_util_pct == 30.0
    assert session.jct_s("long") > 40.0, "the first ten seconds were done twice"


def test_a_job_goes_on_where_it_was_profiled_if_the_site_wants_that(store: Store, tmp_path: Path) -> None:
    jobs = [ScriptedJob("a", work_s=30.0), ScriptedJob("b", work_s=30.0)]
    session = Session.open(tmp_path, store, POOL, jobs, profiling={**SHORT, "move": "continue"})
    session.submit("a", "b")
    session.run_until(session.have_ended)
    numbers = sorted(session.job(name).attempt_count for name in session.ids)
    assert numbers == [1, 2], "half of the pool is given away, the other job moves"
    stayed = next(name for name in session.ids if session.job(name).attempt_count == 1)
    moved = next(name for name in session.ids if session.job(name).attempt_count == 2)
    assert session.jct_s(stayed) < 33.0 < 40.0 < session.jct_s(moved), "what a restart costs: the window"
    profile = session.job(stayed).profile
    assert profile is not None and profile.memory_peak_mib == 4_000.0


def test_a_job_whose_command_has_run_before_skips_the_pool(store: Store, tmp_path: Path) -> None:
    session = Session.open(tmp_path, store, POOL, [ScriptedJob("again", work_s=15.0)], profiling=SHORT)
    for _ in range(2):
        session.submit("again")
        session.run_until(lambda: session.job("again").state.is_terminal)
    job = session.job("again")
    assert job.attempt_count == 1 and job.profile is not None
    assert "profile" in str(store.events.of_job(job.job_id))


def test_a_pool_that_is_gone_strands_nobody(store: Store, tmp_path: Path) -> None:
    session = Session.open(tmp_path, store, POOL, [ScriptedJob("a", work_s=5.0)], profiling=SHORT)
    session.submit("a")
    session.take_in()
    assert session.job("a").state is JobState.PROFILE_QUEUED
    session.cluster.nodes = POOL[:2]
    session.run_until(lambda: session.job("a").state.is_terminal, most=15)
    assert session.job("a").state is JobState.COMPLETED


@pytest.mark.parametrize("mode", ["live", "approve", "shadow"])
def test_a_node_is_lent_at_a_burst_and_given_back(store: Store, tmp_path: Path, mode: str) -> None:
    nodes = (("n1", 2, "train"), ("i1", 2, "idle"), ("i2", 2, "idle"), ("p1", 2, "profiler"))
    jobs = [ScriptedJob(f"j{i:02d}", work_s=4.0) for i in range(14)] + [ScriptedJob("late", vc="idle", work_s=3.0)]
    lending = {"borrow_above_jobs": 4, "return_below_jobs": 2}
    session = Session.open(tmp_path, store, nodes, jobs, profiling={**SHORT, **lending}, modes={"lend": mode})
    session.submit(*[job.name for job in jobs[:-1]])
    session.run_pass()
    session.run_pass()
    if mode == "approve":
        (action,) = store.actions.find(kind="lend")
        assert store.loans.out() == []
        store.actions.decide(action.action_id, approve=True, person="grace", now=session.clock.now())
        session.run_pass()
    loans = store.loans.out()
    assert [(loan.node, loan.to_vc) for loan in loans] == ([] if mode == "shadow" else [("i2", "profiler")])
    session.run_until(session.have_ended)
    used = {a.placement.node_names[0] for name in session.ids for a in store.attempts.of_job(session.ids[name])}
    assert used == ({"p1"} if mode == "shadow" else {"p1", "i2"})
    if mode == "approve":
        session.run_pass()
        for action in store.actions.find(kind="lend", states=[ActionState.PROPOSED]):
            store.actions.decide(action.action_id, approve=True, person="grace", now=session.clock.now())
    for _ in range(3):
        session.run_pass()
    assert store.loans.out() == [], "given back when the queue has ebbed"
    if mode != "shadow":
        assert [loan.node for loan in store.loans.past()] == ["i2"]
    assert session.cluster.clashes == [] and set(session.cluster.launches.values()) == {1}


@pytest.mark.parametrize(("wanted", "expected"), [(0, []), (1, ["n2"]), (50, ["n1", "n2"])])
def test_a_pool_takes_what_can_be_spared_and_the_doctor_tells_when_that_is_less(
    store: Store, tmp_path: Path, wanted: int, expected: list[str]
) -> None:
    """The largest node stays with its virtual cluster: a job that needs it would never start."""
    nodes = (("n1", 2, "train"), ("n2", 2, "train"), ("n3", 4, "train"))
    jobs = [ScriptedJob("small", work_s=20.0), ScriptedJob("large", gpus=4, work_s=20.0)]
    session = Session.open(tmp_path, store, nodes, jobs, profiling={"nodes": wanted, "window_s": 5.0})
    system = session.system
    owned = owned_nodes(system, session.cluster.inventory().nodes)
    assert [node.name for node in owned if node.vc == "profiler"] == expected
    found = profiling_finding(system, session.cluster.inventory())
    assert (found.level is Level.PROBLEM) == (wanted == 50), found.text
    session.submit("small", "large")
    session.run_until(session.have_ended, most=80)
    assert {session.job(name).state for name in session.ids} == {JobState.COMPLETED}
