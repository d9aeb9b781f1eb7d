"""The advisor in a replay: similar jobs that have ended, never the future."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lucid_pipelines.advisor.replaying import trace_fingerprint
from lucid_pipelines.domain.trace import TraceJob, TraceState
from lucid_pipelines.domain.view import QueuedJob
from lucid_pipelines.resources.replay_advisor import replay_estimator
from lucid_pipelines.simulation import run_replay
from tests.support_simulation.cases import one_vc, trace_job


def coded(number: int, code: str, duration_s: float, **more: object) -> TraceJob:
    facts = {"model": "resnet50", "dataset": "cifar10", "batch_size": 64, "gpu_type": "X", "code_fingerprint": code}
    return trace_job(f"j{number}", 1_000.0 * number, duration_s, **{**facts, **more})  # type: ignore[arg-type]


def queued(job: TraceJob) -> QueuedJob:
    return QueuedJob(job.job_id, job.vc, int(job.gpus), job.submit_s, 0, user=job.user, name=job.name)


def test_the_mean_of_the_three_nearest_predicts_and_crashes_do_not() -> None:
    past = [coded(n, "a", d) for n, d in enumerate((100.0, 200.0, 300.0))]
    crash = coded(4, "a", 2.0, state=TraceState.FAILED)
    new = coded(9, "a", 1.0)
    estimator = replay_estimator("standalone", [*past, crash, new])
    for job in (*past, crash):
        estimator.observe(job, job.submit_s + job.duration_s)
    found = estimator.estimate(queued(new))
    assert found is not None
    assert (found.duration_s, found.basis) == (200.0, "advisor_top_mean")


def test_what_ends_after_a_submission_is_not_seen() -> None:
    past, new = coded(0, "a", 100.0), coded(1, "a", 1.0)
    estimator = replay_estimator("standalone", [past, new])
    estimator.observe(past, new.submit_s + 1.0)
    assert estimator.fallbacks == {}
    found = estimator.estimate(queued(new))
    assert found is None or found.basis != "advisor_top_mean"
    assert estimator.fallbacks == {"advice_no_history": 1}


def test_a_job_of_unknown_kind_is_left_to_the_other_estimator() -> None:
    past, other = coded(0, "a", 100.0), coded(1, "b", 1.0, model="t5-large", dataset="wmt14", batch_size=8)
    estimator = replay_estimator("lucid", [past, other])
    estimator.observe(past, 500.0)
    found = estimator.estimate(queued(other))
    assert found is not None
    assert found.basis == "user_name_gpus"
    assert sum(estimator.fallbacks.values()) == 1


@settings(max_examples=15)
@given(cut=st.integers(5, 38), seed=st.integers(0, 3))
def test_predictions_do_not_depend_on_later_jobs(cut: int, seed: int) -> None:
    jobs = [coded(n, "abc"[(n * (seed + 1)) % 3], 50.0 + 40.0 * ((n * 7 + seed) % 5)) for n in range(40)]
    changed = [*jobs[:cut], *(replace(job, duration_s=9_999.0) for job in jobs[cut:])]
    said = []
    for trace in (jobs, changed):
        estimator = replay_estimator("lucid", trace)
        found = []
        for job in trace[: cut + 1]:
            found.append(estimator.estimate(queued(job)))
            estimator.observe(job, job.submit_s + job.duration_s)
        said.append(found)
    assert said[0] == said[1]


def test_traces_without_code_are_told_apart_by_user_and_size() -> None:
    first, second = trace_job("a", 0, 5, 2, user="u"), trace_job("b", 0, 5, 2, user="v")
    assert trace_fingerprint(first).text == "cpus: 0\ngpus: 2\nowner: u"
    assert trace_fingerprint(first) != trace_fingerprint(second)


def test_a_replay_counts_where_the_advisor_had_no_answer() -> None:
    jobs = [coded(n, "a", 100.0) for n in range(20)]
    report = run_replay(jobs, one_vc(), ["standalone"], estimator_of=replay_estimator)
    (replayed,) = report.replays
    assert replayed.fallbacks["advice_no_history"] == 1
    with pytest.raises(KeyError):
        replayed.fallbacks["advice_history_away"]
