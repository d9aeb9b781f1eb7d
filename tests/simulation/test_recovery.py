"""Chains of attempts in a replay, against answers that can be worked out by hand."""

from __future__ import annotations

import random

import pytest

from lucid_pipelines import policies
from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.domain.trace import ClusterSpec, TraceJob, TraceState
from lucid_pipelines.failures.confusion import load_confusion
from lucid_pipelines.failures.vocabulary import Category
from lucid_pipelines.simulation import ReplayInput, ReplayOptions, replay
from lucid_pipelines.simulation.record import Replay
from lucid_pipelines.simulation.recovery import (
    INFRASTRUCTURE,
    USER,
    DrawnFailure,
    FailureAssumptions,
    draw_failures,
    replay_with_failures,
)

CLUSTER = ClusterSpec.uniform({"v": 1}, gpus_per_node=2)
ASSUMED = FailureAssumptions(overhead_s=100.0)


def job(name: str, submit_s: float, duration_s: float, state: TraceState = TraceState.COMPLETED) -> TraceJob:
    return TraceJob(name, "u", "v", name, 1, submit_s, duration_s, state)


def run(given: ReplayInput) -> Replay:
    return replay(given, policies.get("fifo"), ReplayOptions())


def outcome(jobs: list[TraceJob], failures: list[DrawnFailure], *, handled: bool, assumed=ASSUMED):
    return replay_with_failures(jobs, CLUSTER, run, failures, assumed, handled=handled)


def test_a_handled_failure_goes_on_at_once_an_unhandled_one_waits_for_its_user() -> None:
    bad = job("bad", 0.0, 1000.0, TraceState.FAILED)
    jobs = [bad, job("good", 0.0, 500.0)]
    failure = DrawnFailure(bad, INFRASTRUCTURE, left_s=2000.0, lost_s=300.0, reaction_s=4000.0, is_restarted=True)
    without, with_it = (outcome(jobs, [failure], handled=handled) for handled in (False, True))
    assert with_it.failed_jct_mean_s == pytest.approx(1000 + 300 + 2000 + 100)
    assert without.failed_jct_mean_s == pytest.approx(1000 + 4000 + 300 + 2000 + 100)
    assert with_it.jct_mean_s == pytest.approx((3400 + 500) / 2)
    assert with_it.gpu_h == pytest.approx(without.gpu_h)
    assert with_it.unsettled_frac == without.unsettled_frac == 0.0


def test_a_failure_that_the_handler_does_not_see_waits_too_and_users_may_begin_again() -> None:
    bad = job("bad", 0.0, 1000.0, TraceState.FAILED)
    missed = DrawnFailure(bad, INFRASTRUCTURE, 2000.0, 300.0, 4000.0, is_restarted=False)
    found = outcome([bad], [missed], handled=True)
    assert found == outcome([bad], [missed], handled=False)
    scratch = FailureAssumptions(overhead_s=100.0, users_have_checkpoints=False)
    again = outcome([bad], [missed], handled=True, assumed=scratch)
    assert again.failed_jct_mean_s == pytest.approx(1000 + 4000 + 1000 + 2000 + 100)


def test_a_wrong_restart_costs_time_and_ends() -> None:
    bad = job("bad", 0.0, 1000.0, TraceState.FAILED)
    wrong = DrawnFailure(bad, USER, 2000.0, 300.0, 4000.0, is_restarted=True)
    without, with_it = (outcome([bad], [wrong], handled=handled) for handled in (False, True))
    assert (without.jct_mean_s, with_it.jct_mean_s) == (pytest.approx(1000), pytest.approx(1400))
    assert without.failed_jct_mean_s is None, "nothing of infrastructure failed"


def test_draws_are_the_same_for_every_variant_and_follow_the_matrix() -> None:
    jobs = [job(f"j{i}", 0.0, 1000.0, TraceState.FAILED) for i in range(3000)]
    matrix = load_confusion("known")

    def restarts(true_class: str, rng: random.Random) -> bool:
        return matrix.draw(Category(true_class), rng).is_restarted

    first = draw_failures(jobs, ASSUMED, restarts, seed=1)
    never = draw_failures(jobs, ASSUMED, lambda true_class, rng: False, seed=1)
    assert [(f.true_class, f.left_s, f.lost_s) for f in first] == [(f.true_class, f.left_s, f.lost_s) for f in never]
    infra = [f for f in first if f.true_class == INFRASTRUCTURE]
    assert len(infra) == pytest.approx(750, rel=0.1)
    row = matrix.counts["infrastructure"]
    measured = sum(n for (_, restarted), n in row.items() if restarted) / sum(row.values())
    assert sum(f.is_restarted for f in infra) / len(infra) == pytest.approx(measured, abs=0.05)
    assert all(0 <= f.lost_s <= 1000 and f.left_s >= 0 for f in first)
    assert draw_failures([job("ok", 0.0, 5.0)], ASSUMED, restarts, seed=1) == []


def test_assumptions_out_of_range_are_refused() -> None:
    with pytest.raises(InputError):
        FailureAssumptions(infrastructure_frac=0.8, framework_frac=0.3)
    with pytest.raises(InputError):
        FailureAssumptions(earliest_frac=0.0)
