"""Small replays with times worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from lucid_pipelines import policies
from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.domain.trace import ClusterSpec, TraceJob, TraceState
from lucid_pipelines.simulation import ReplayOptions, prepare, replay
from lucid_pipelines.simulation.estimators import GivenPredictions
from lucid_pipelines.simulation.record import AttemptEnd, Replay
from tests.support_simulation.cases import one_vc, packing_options, trace_job


class Constant:
    """Both jobs of any pair run at these speeds."""

    def __init__(self, first: float, second: float) -> None:
        self._speeds = (first, second)

    def speeds(self, first: TraceJob, second: TraceJob) -> tuple[float, float]:
        return self._speeds


class Scores:
    def score(self, job: TraceJob) -> int | None:
        return 0


def run(
    name: str, jobs: list[TraceJob], cluster: ClusterSpec, options: ReplayOptions | None = None, **more: object
) -> Replay:
    return replay(prepare(jobs, cluster), policies.get(name, **more), options or ReplayOptions())


def ends(result: Replay) -> dict[str, float]:
    return dict(zip([job.job_id for job in result.input.jobs], result.end_s.tolist(), strict=True))


def test_gpus_freed_at_t_are_given_at_t_and_a_job_submitted_at_t_can_start_at_t() -> None:
    jobs = [trace_job("x", 0, 10, 8), trace_job("y", 10, 5, 8), trace_job("z", 3, 5, 8)]
    result = run("fifo", jobs, one_vc())
    assert [job.job_id for job in result.input.jobs] == ["x", "z", "y"]
    assert result.start_s.tolist() == [0, 10, 15]
    assert result.end_s.tolist() == [10, 15, 20]
    assert result.queue_s.tolist() == [0, 7, 5]


def test_a_job_of_no_length_ends_at_once() -> None:
    result = run("fifo", [trace_job("x", 5, 0.0, 8), trace_job("y", 5, 2.5, 8)], one_vc())
    assert result.end_s.tolist() == [5.0, 7.5]


def test_srtf_preempts_and_pays_for_it() -> None:
    jobs = [trace_job("long", 0, 1_000, 8), trace_job("short", 100, 50, 8)]
    result = run("srtf", jobs, one_vc(), ReplayOptions(end_lag_s=0.0))
    assert result.end_s.tolist() == [1_000 + 50 + 40, 150]
    assert result.queue_s.tolist() == [50, 0]
    assert result.lost_gpu_s == {"preemption": 40.0 * 8}
    assert result.attempt_end.tolist() == [AttemptEnd.PREEMPTED, AttemptEnd.DONE, AttemptEnd.DONE]
    wide = [trace_job("long", 0, 1_000, 16), trace_job("short", 100, 50, 8)]
    assert run("srtf", wide, one_vc(2), ReplayOptions(end_lag_s=0.0)).end_s[0] == 1_000 + 50 + 60


def test_tiresias_only_acts_every_minute() -> None:
    result = run("tiresias", [trace_job("x", 1, 100), trace_job("y", 61, 1)], one_vc())
    assert result.start_s.tolist() == [60, 120]


def test_packed_jobs_slow_each_other_until_one_leaves() -> None:
    shared = {"gpu_util_pct": 50.0, "memory_peak_mib": 1_000.0}
    jobs = [trace_job("old", 0, 100, 8, **shared), trace_job("new", 20, 40, 8, **shared)]
    options = ReplayOptions(
        pair_speeds=Constant(0.5, 0.8), scorer=Scores(), estimator=GivenPredictions({"old": 500.0, "new": 40.0}),
        profiles_known=True,
    )  # fmt: skip
    result = run("lucid:no_profiler", jobs, one_vc(), options)
    # new does 40 s of work at 0.5: 20 to 100. old did 20 s before and 64 s meanwhile, 16 s are left.
    assert result.end_s.tolist() == [116, 100]
    assert result.queue_s.tolist() == [0, 0]
    assert (result.pair_start_s.tolist(), result.pair_end_s.tolist()) == ([20.0], [100.0])


def test_a_slow_pair_is_split_when_watched_and_the_later_job_starts_over() -> None:
    shared = {"gpu_util_pct": 50.0, "memory_peak_mib": 1_000.0}
    jobs = [trace_job("old", 0, 1_000, 8, **shared), trace_job("new", 0, 500, 8, **shared)]
    options = ReplayOptions(
        pair_speeds=Constant(0.5, 0.5), scorer=Scores(), estimator=GivenPredictions({"old": 600.0, "new": 900.0}),
        profiles_known=True, unstable_below_frac=0.8, watch_s=100.0,
    )  # fmt: skip
    result = run("lucid:no_profiler", jobs, one_vc(), options)
    assert result.attempt_end[0] == AttemptEnd.UNPACKED
    assert result.end_s.tolist() == [1_050, 1_550]
    assert result.lost_gpu_s == {"failed_packing": 100.0 * 8}


def test_packing_without_pair_speeds_is_refused() -> None:
    shared = {"gpu_util_pct": 50.0, "memory_peak_mib": 1_000.0}
    jobs = [trace_job("old", 0, 1_000, 8, **shared), trace_job("new", 0, 500, 8, **shared)]
    options = ReplayOptions(
        scorer=Scores(), estimator=GivenPredictions({"old": 600.0, "new": 900.0}), profiles_known=True
    )
    with pytest.raises(InputError, match="pair_speeds"):
        run("lucid:no_profiler", jobs, one_vc(), options)


def test_the_profiler_ends_short_jobs_and_costs_the_others_their_first_run() -> None:
    jobs = [trace_job("short", 0, 50), trace_job("long", 0, 1_000)]
    result = run("lucid", jobs, one_vc(4), packing_options(), profiler_nodes=1)
    assert ends(result) == {"short": 50, "long": 200 + 1_000}
    assert result.attempt_in_profiler.tolist() == [True, True, False]
    assert result.lost_gpu_s == {"profiling": 200.0}
    assert result.queue_s.tolist() == [0, 0]


def test_a_burst_narrows_who_is_profiled() -> None:
    """As in the live profiler: while many wait for it, larger jobs go past it and are sampled where they run."""
    jobs = [trace_job(f"j{i}", i, 300, 8, user=f"u{i}") for i in range(7)] + [
        trace_job("late", 10, 300, 2, user="v"),
        trace_job("small", 10, 300, 1, user="w"),
    ]
    chosen = {"profiler_nodes": 1, "max_borrowed_nodes": 0, "borrow_above_jobs": 4, "profile_window_s": 50.0}
    # One is profiled, five wait when the seventh large one comes, and the one with two GPUs: both go past the profiler.
    for limit, expected in ((None, 9), (1, 7)):
        options = ReplayOptions(pair_speeds=Constant(0.9, 0.9), scorer=Scores(), reuse_profiles=False)
        result = run("lucid", jobs, one_vc(8), options, busy_max_gpus=limit, busy_window_s=50.0, **chosen)
        assert int(result.attempt_in_profiler.sum()) == expected, limit


def test_a_job_that_starts_slowly_is_profiled_for_longer() -> None:
    jobs = [trace_job("slow", 0, 1_000, 1), trace_job("quick", 0, 1_000, 1, user="v")]
    options = ReplayOptions(
        pair_speeds=Constant(0.9, 0.9), scorer=Scores(), long_cold_start={"slow"}, reuse_profiles=False
    )
    result = run("lucid", jobs, one_vc(8), options, profile_window_s=100.0, cold_start_window_s=400.0, profiler_nodes=1)
    assert ends(result) == {"slow": 1_400.0, "quick": 1_100.0}
    assert result.lost_gpu_s == {"profiling": 500.0}


def test_without_a_node_to_spare_nobody_is_profiled_and_it_is_counted() -> None:
    result = run("lucid", [trace_job("x", 0, 50)], one_vc(1), packing_options())
    assert not result.attempt_in_profiler.any()
    assert result.fallbacks["no_profiler_nodes"] == 1


def test_the_profiler_takes_no_node_that_a_job_needs() -> None:
    jobs = [trace_job("x", 0, 50), trace_job("all", 0, 50, 32)]
    result = run("lucid", jobs, one_vc(4), packing_options(), profiler_nodes=1)
    assert not result.attempt_in_profiler.any()
    assert not np.isnan(result.end_s).any()


def test_a_cancelled_job_that_never_started_gives_up_or_runs_until_then() -> None:
    cancelled = trace_job("c", 10, 0, 8, state=TraceState.CANCELLED, end_s=60.0)
    result = run("fifo", [trace_job("x", 0, 100, 8), cancelled], one_vc())
    assert np.isnan(result.start_s[1])
    assert (result.end_s[1], result.queue_s[1]) == (60.0, 50.0)
    result = run("fifo", [trace_job("x", 0, 30, 8), cancelled], one_vc())
    assert (result.start_s[1], result.end_s[1]) == (30.0, 60.0)


def test_a_waiting_job_becomes_due_by_the_clock_alone() -> None:
    jobs = [
        trace_job("a", 0, 1_000, 4),
        trace_job("wide", 1, 10, 8),
        *[trace_job(f"s{i}", 2 + 100 * i, 100, 4) for i in range(20)],
    ]
    unbounded = run("fifo", jobs, one_vc(), backfill=True)
    bounded = run("fifo", jobs, one_vc(), backfill=True, max_wait_s=150.0)
    assert bounded.start_s[1] == 1_000
    assert unbounded.start_s[1] > 1_000


def test_the_order_of_rows_with_equal_times_changes_nothing() -> None:
    jobs = [trace_job(f"j{i}", float(i // 10), 1 + i % 11, 1 + i % 8) for i in range(200)]
    assert ends(run("fifo", jobs, one_vc())) == ends(run("fifo", jobs[::-1], one_vc()))


def test_equal_inputs_give_equal_results() -> None:
    jobs = [trace_job(f"j{i}", i % 7, 1 + i % 11, 1 + i % 8) for i in range(200)]
    first, second = (run("lucid", jobs, one_vc(4), packing_options()) for _ in range(2))
    assert first.end_s.tolist() == second.end_s.tolist()
