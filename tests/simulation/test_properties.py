"""What must hold in every replay, whatever the trace, the cluster and the policy."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from lucid_pipelines import policies
from lucid_pipelines.domain.decision import Decision, Hold, LendNodes
from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.domain.trace import ClusterSpec, NodeGroup, TraceJob
from lucid_pipelines.domain.view import ClusterView
from lucid_pipelines.policies import Policy
from lucid_pipelines.simulation import ReplayInput, ReplayOptions, prepare, replay, summarise
from lucid_pipelines.simulation.estimators import HistoryEstimator
from lucid_pipelines.simulation.interference import FittedPairs
from lucid_pipelines.simulation.record import AttemptEnd
from lucid_pipelines.simulation.scoring import FittedScorer
from lucid_pipelines.simulation.summary import used_gpu_s
from tests.support_simulation.cases import CLUSTERS, traces

NAMES = [name for name in policies.names() if name != "lucid:artifact"]
PLAIN = [n for n in NAMES if not ((p := policies.get(n)).preempts or p.packs or p.profiling)]
"""Policies that neither preempt nor pack nor profile."""
NEVER_PREEMPT = [n for n in NAMES if not policies.get(n).preempts]
SETTINGS = settings(max_examples=8, suppress_health_check=[HealthCheck.too_slow])


def given_input(jobs: list[TraceJob], cluster: ClusterSpec) -> ReplayInput:
    try:
        return prepare(jobs, cluster)
    except InputError:
        assume(False)
        raise


def options() -> ReplayOptions:
    return ReplayOptions(
        pair_speeds=FittedPairs(), scorer=FittedScorer(), estimator=HistoryEstimator(), unstable_below_frac=0.7
    )


@pytest.mark.parametrize("name", NAMES)
@SETTINGS
@given(traces(), CLUSTERS)
def test_gpu_time_is_conserved_and_no_gpu_is_given_twice(name: str, jobs: list[TraceJob], cluster: ClusterSpec) -> None:
    found = given_input(jobs, cluster)
    result = replay(found, policies.get(name), options())
    assert not np.isnan(result.end_s).any(), "every job that fits ends some day"
    assert (result.queue_s >= -1e-6).all()
    assert np.allclose(result.queue_s + result.held_s, result.jct_s), "JCT = queue time + run time"
    held = (result.attempt_end_s - result.attempt_start_s) * result.attempt_gpus
    overlap = (result.pair_end_s - result.pair_start_s) * result.gpus[result.pair_first]
    used = used_gpu_s(result)
    assert np.isclose(used, held.sum() - overlap.sum()), "GPU-seconds given = used + shared"
    assert used <= found.gpus * summarise(result).makespan_s + 1e-6, "used + idle = all there is"
    assert (result.used_gpus <= found.gpus).all()
    assert (result.used_gpus >= 0).all()
    assert result.used_gpus[-1] == 0
    done = result.attempt_job[result.attempt_end == AttemptEnd.DONE]
    ran = np.bincount(done, minlength=len(jobs))[: len(found.jobs)]
    assert (ran <= 1).all(), "a job ends once"


@pytest.mark.parametrize("name", PLAIN)
@SETTINGS
@given(traces(), CLUSTERS)
def test_policies_that_do_not_preempt_never_stop_a_job(name: str, jobs: list[TraceJob], cluster: ClusterSpec) -> None:
    found = given_input(jobs, cluster)
    result = replay(found, policies.get(name), options())
    started = ~np.isnan(result.start_s)
    assert (result.attempt_count[started] == 1).all()
    normal = started & np.array([job.duration_s > 0 for job in found.jobs])
    durations = np.array([job.duration_s for job in found.jobs])
    assert np.allclose((result.end_s - result.start_s)[normal], durations[normal])


@SETTINGS
@given(traces(), CLUSTERS)
def test_packed_lucid_only_stops_jobs_whose_pair_was_unstable(jobs: list[TraceJob], cluster: ClusterSpec) -> None:
    result = replay(given_input(jobs, cluster), policies.get("lucid"), replace(options(), unstable_below_frac=None))
    assert set(result.attempt_end.tolist()) <= {AttemptEnd.DONE, AttemptEnd.PROFILED}


@pytest.mark.parametrize("name", [name for name in NAMES if policies.get(name).needs_news])
@SETTINGS
@given(traces(), CLUSTERS)
def test_a_policy_that_needs_news_decides_the_same_if_it_is_asked_at_every_event(
    name: str, jobs: list[TraceJob], cluster: ClusterSpec
) -> None:
    found = given_input(jobs, cluster)
    seldom = replay(found, policies.get(name), options())
    asked = policies.get(name)
    asked.needs_news = False
    often = replay(found, asked, options())
    assert seldom.passes <= often.passes
    for column in ("attempt_job", "attempt_start_s", "attempt_end_s", "end_s", "queue_s"):
        assert np.array_equal(getattr(seldom, column), getattr(often, column), equal_nan=True), column


class FreshEveryTime:
    """Asks a new policy at every pass and checks that the kept one decides the same."""

    def __init__(self, kept: Policy, name: str, more: dict[str, object]) -> None:
        self._kept, self._name, self._more = kept, name, more
        self.name, self.preempts, self.ages = kept.name, kept.preempts, kept.ages
        self.packs, self.predicts, self.profiling = kept.packs, kept.predicts, kept.profiling
        self.round_s, self.knows_profiles, self.resizes = kept.round_s, kept.knows_profiles, kept.resizes
        self.needs_news = False  # to be asked at every event, which shows that a policy that needs news need not be
        self.fallbacks: Counter[str] = Counter()

    def decide(self, view: ClusterView) -> list[Decision]:
        kept = self._kept.decide(view)
        fresh = policies.get(self._name, **self._more).decide(view)
        if not self.preempts or self._kept.next_pass_s(view) is None:
            assert actions(view, kept) == actions(view, fresh), f"at {view.now_s}"
        return kept

    def next_pass_s(self, view: ClusterView) -> float | None:
        return self._kept.next_pass_s(view)


def actions(view: ClusterView, decisions: list[Decision]) -> list[Decision]:
    """What is done, virtual cluster by virtual cluster: they do not touch one another."""
    vc_of = {job_id: name for name, vc in view.vcs.items() for job_id in (*vc.queued, *vc.running)}
    done = [d._replace(reasons=()) for d in decisions if not isinstance(d, Hold)]
    return sorted(done, key=lambda d: "" if isinstance(d, LendNodes) else vc_of[d.job_id])


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("fifo", {}),
        ("fifo", {"backfill": True, "max_overtakes": 2}),
        ("sjf", {}),
        ("qssf", {"max_overtakes": 3}),
        ("lucid", {}),
        ("lucid", {"share_first": True, "max_overtakes": 4}),
        ("lucid:naive_packing", {}),
        ("lucid", {"at_most_two": False, "capacity": 4, "same_gpus": False}),
        ("srtf", {}),
        ("horus", {}),
        ("horus", {"max_jobs_per_gpu": 3, "max_util_frac": 2.0, "backfill": True}),
    ],
)
@settings(max_examples=8, suppress_health_check=[HealthCheck.too_slow])
@given(jobs=traces(25), cluster=CLUSTERS)
def test_what_a_policy_saw_before_changes_nothing(
    name: str, more: dict[str, object], jobs: list[TraceJob], cluster: ClusterSpec
) -> None:
    policy = FreshEveryTime(policies.get(name, **more), name, more)
    replay(given_input(jobs, cluster), policy, options())


@SETTINGS
@given(traces(), CLUSTERS)
def test_fifo_is_work_conserving_at_its_head(jobs: list[TraceJob], cluster: ClusterSpec) -> None:
    """Jobs of a virtual cluster start in order, and the head never waits while its GPUs would fit one node's size."""
    found = given_input(jobs, cluster)
    result = replay(found, policies.get("fifo"), options())
    starts: dict[str, list[float]] = defaultdict(list)
    for job, start_s in zip(found.jobs, result.start_s, strict=True):
        if not np.isnan(start_s):
            starts[job.vc].append(float(start_s))
    for its in starts.values():
        assert its == sorted(its)
    events = {job.submit_s for job in found.jobs} | set(result.end_s.tolist())
    for start_s in result.start_s[~np.isnan(result.start_s)]:
        assert float(start_s) in events, "a job starts when it arrives or when GPUs become free, not later"


@SETTINGS
@given(traces(), CLUSTERS, st.integers(0, 6), st.sampled_from(NEVER_PREEMPT), st.booleans())
def test_nobody_is_overtaken_more_often_than_allowed(
    jobs: list[TraceJob], cluster: ClusterSpec, bound: int, name: str, backfill: bool
) -> None:
    """The starvation bound of R-27: at most ``max_overtakes`` later arrivals of a virtual cluster start first."""
    found = given_input(jobs, cluster)
    more = {"profiler_vc": None} if "profiler_vc" in policies.settings_of(name) else {}
    policy = policies.get(name, backfill=backfill, max_overtakes=bound, **more)
    result = replay(found, policy, replace(options(), unstable_below_frac=None))
    order = list(enumerate(zip(found.jobs, result.start_s, result.end_s, strict=True)))
    for i, (job, start_s, end_s) in order:
        until_s = end_s if np.isnan(start_s) else start_s
        passed = [j for j, (other, its_start_s, _) in order if j > i and other.vc == job.vc and its_start_s < until_s]
        assert len(passed) <= bound, f"{job.job_id} was overtaken by {len(passed)}"


@SETTINGS
@given(traces(), st.integers(0, 4), st.sampled_from(["lucid", "lucid:no_packing", "lucid:static_profiler"]))
def test_nobody_is_overtaken_more_often_than_allowed_on_the_way_into_the_profiler(
    jobs: list[TraceJob], bound: int, name: str
) -> None:
    """The profiler has a queue of its own, smallest first, and the same bound holds there."""
    cluster = ClusterSpec({"a": (NodeGroup(8, 8, "X", 24_000.0),), "b": (NodeGroup(4, 8, "X", 24_000.0),)})
    found = given_input(jobs, cluster)
    policy = policies.get(name, backfill=True, max_overtakes=bound)
    result = replay(found, policy, replace(options(), unstable_below_frac=None))
    entered = {
        int(job): start_s
        for job, start_s, in_profiler in zip(
            result.attempt_job, result.attempt_start_s, result.attempt_in_profiler, strict=True
        )
        if in_profiler
    }
    for i, start_s in entered.items():
        passed = [j for j, its_start_s in entered.items() if j > i and its_start_s < start_s]
        assert len(passed) <= bound, f"{found.jobs[i].job_id} was overtaken by {len(passed)}"


@SETTINGS
@given(traces(), CLUSTERS)
def test_no_overtaking_at_all_is_fifo(jobs: list[TraceJob], cluster: ClusterSpec) -> None:
    found = given_input(jobs, cluster)
    strict = replay(found, policies.get("fifo"), options())
    bounded = replay(found, policies.get("sjf", max_overtakes=0, backfill=True), options())
    assert np.array_equal(strict.start_s, bounded.start_s, equal_nan=True)
