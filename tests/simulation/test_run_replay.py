"""The front door: inputs, estimates, forecasts, reports."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.domain.trace import ClusterSpec, TraceState
from lucid_pipelines.domain.view import QueuedJob
from lucid_pipelines.simulation import prepare, run_replay, text_table
from lucid_pipelines.simulation.estimators import HistoryEstimator
from lucid_pipelines.simulation.forecasting import forecast_from_past
from tests.support_simulation.cases import one_vc, trace_job

JOBS = [
    trace_job(
        f"j{i}", 60.0 * i, 30.0 + 40.0 * (i % 30), 1 + i % 4, gpu_util_pct=40.0, memory_util_pct=9.0,
        memory_peak_mib=4_000.0,
    )
    for i in range(300)
]  # fmt: skip


def test_a_report_has_every_policy_in_every_file(tmp_path: Path) -> None:
    names = ["fifo", "tiresias", "lucid"]
    report = run_replay(JOBS, one_vc(4), names, tmp_path, title="Trial & error")
    lines = [json.loads(line) for line in report.files["summary"].read_text().splitlines()]
    assert [line["policy"] for line in lines] == names
    assert {"jobs", "avg_jct_s", "avg_queue_s", "p999_queue_s", "makespan_s", "wall_s"} <= set(lines[0])
    jobs = pq.read_table(report.files["jobs"]).to_pandas()
    assert jobs.groupby("policy", observed=True).size().to_dict() == dict.fromkeys(names, 300)
    for summary in report.summaries:
        its = jobs[jobs.policy == summary.policy]
        assert its.jct_s.mean() == pytest.approx(summary.avg_jct_s)
        assert its.queue_s.quantile(0.999) == pytest.approx(summary.p999_queue_s)
    attempts = pq.read_table(report.files["attempts"]).to_pandas()
    assert (attempts.end_s >= attempts.start_s).all()
    page = report.files["report"].read_text()
    assert page.count("<svg") == 3
    assert "Trial &amp; error" in page
    assert "http" not in page.replace("http://www.w3.org", "").replace("http://purl.org", "").replace(
        "http://creativecommons.org", ""
    ).replace("https://matplotlib.org", "").replace("http-equiv", ""), "nothing is loaded from elsewhere"
    assert text_table(report.summaries).count("\n") == 3


def test_what_cannot_be_replayed_is_set_aside_and_counted() -> None:
    wrong = [
        trace_job("half", 0, 10, 0.5),
        trace_job("none", 0, 10, 0),
        trace_job("negative", 0, -1.0),
        trace_job("nowhere", 0, 1, vc="b"),
        trace_job("huge", 0, 1, 64),
        trace_job("typed", 0, 1, gpu_type="other"),
        trace_job("endless", 0, float("inf")),
        trace_job("fine", 0, 1),
        trace_job("fine", 5, 1),
    ]
    found = prepare(wrong, one_vc())
    assert [job.job_id for job in found.jobs] == ["fine"]
    assert found.quarantine_counts == {
        "fractional_gpus": 1,
        "no_gpu": 1,
        "negative_duration": 1,
        "unknown_vc": 1,
        "does_not_fit_its_vc": 2,
        "time_not_finite": 1,
        "duplicate_job_id": 1,
    }
    with pytest.raises(InputError, match="at least one job"):
        prepare(wrong[:3], one_vc())


def test_unknown_policies_and_settings_are_refused_before_anything_runs() -> None:
    with pytest.raises(InputError, match="did you mean 'fifo'"):
        run_replay(JOBS, one_vc(), ["fifo", "fifoo"])
    with pytest.raises(InputError, match="did you mean 'backfill'"):
        run_replay(JOBS, one_vc(), ["fifo"], settings={"fifo": {"backfil": True}})


def test_given_predictions_decide_the_order() -> None:
    jobs = [trace_job("run", 0, 100, 8), trace_job("a", 1, 10, 8), trace_job("b", 2, 10, 8)]
    by_name = run_replay(jobs, one_vc(), ["qssf"], predictions={"run": 1, "a": 50, "b": 5}).replays[0]
    assert by_name.start_s.tolist() == [0, 110, 100]
    partly = run_replay(jobs, one_vc(), ["qssf"], predictions={"run": 1, "b": 9_000.0}).summaries[0]
    assert partly.fallbacks["no_estimate"] == 1


def queued(name: str, user: str = "u", gpus: int = 1) -> QueuedJob:
    return QueuedJob("q", "a", gpus, 0.0, user=user, name=name)


def test_the_history_estimator_climbs_down_its_ladder_and_knows_only_the_past() -> None:
    estimator = HistoryEstimator()
    assert estimator.estimate(queued("train_1")) is None
    estimator.observe(trace_job("x", 0, 100.0, name="train_7"), 100.0)
    estimator.observe(trace_job("y", 0, 300.0, name="other", gpus=2), 300.0)
    estimator.observe(trace_job("z", 0, 0.0, name="train_7", state=TraceState.CANCELLED), 0.0)
    answers = [
        estimator.estimate(queued(*args))  # type: ignore[arg-type]
        for args in [("train_1",), ("new",), ("new", "u", 4), ("new", "v", 2), ("new", "v", 8)]
    ]
    assert [(a.basis, a.duration_s) for a in answers if a] == [
        ("user_name_gpus", 100.0),
        ("user_gpus", 100.0),
        ("user", 200.0),
        ("gpus", 300.0),
        ("all", 200.0),
    ]
    first = run_replay(JOBS, one_vc(4), ["qssf"]).summaries[0]
    assert first.fallbacks["no_estimate"] >= 1, "the first job of a trace cannot be foretold"


def test_the_forecast_is_made_of_the_past_only() -> None:
    day = [trace_job(f"a{i}", 600.0 * i, 1) for i in range(150)]
    rush = [trace_job(f"r{i}", 600.0 * 150, 1) for i in range(500)]
    calm, busy = forecast_from_past([*day, trace_job("end", 600.0 * 290, 1)]), forecast_from_past([*day, *rush])
    seen = 156
    assert calm.jobs[:seen] == busy.jobs[:seen], "the rush is not known before it has happened"
    assert calm.mean_jobs_ahead(600.0 * 20) == pytest.approx(1.0)
    later = forecast_from_past([*day, *rush, trace_job("end", 600.0 * 300, 1)])
    assert later.jobs[150 + 144] > 200


def test_utilisation_and_losses_add_up() -> None:
    jobs = [trace_job("x", 0, 100, 4, gpu_util_pct=50.0, memory_peak_mib=8_000.0)]
    (summary,) = run_replay(jobs, one_vc(), ["fifo"]).summaries
    assert summary.gpu_allocated_frac == pytest.approx(0.5)
    assert summary.gpu_util_frac == pytest.approx(0.25)
    assert summary.memory_used_mib == pytest.approx(4_000.0)
    assert summary.profile_known_frac == 1.0
    (unknown,) = run_replay([trace_job("x", 0, 100, 4)], one_vc(), ["fifo"]).summaries
    assert (unknown.gpu_util_frac, unknown.memory_used_mib, unknown.profile_known_frac) == (None, None, 0.0)
    assert summary.by_size["above_8_gpus"].avg_jct_s is None
    assert summary.by_vc["a"].jobs == 1


def test_cluster_files_are_read_and_checked() -> None:
    text = """
    virtual_clusters:
      small: {nodes: 1, gpus_per_node: 4, gpu_type: V100, gpu_memory_mib: 16384}
      mixed:
        - {nodes: 1, gpus_per_node: 8}
        - {nodes: 2, gpus_per_node: 4, gpu_type: A100}
    """
    spec = ClusterSpec.from_yaml(text)
    assert (spec.gpus, spec.gpus_of("mixed")) == (20, 16)
    assert [node.name for node in spec.nodes()] == ["small/0", "mixed/0", "mixed/1", "mixed/2"]
    for wrong, says in [
        ("virtual_cluster: {}", "did you mean 'virtual_clusters'"),
        ("virtual_clusters: {a: {nodes: 1, gpu_per_node: 8}}", "did you mean 'gpus_per_node'"),
        ("virtual_clusters: {a: {nodes: 1}}", "needs the key 'gpus_per_node'"),
        ("virtual_clusters: {a: {nodes: 0, gpus_per_node: 8}}", "at least 1"),
        ("virtual_clusters: {a: {nodes: 1, gpus_per_node: 8, gpu_memory_mib: -1}}", "above 0"),
        ("virtual_clusters: {}", "at least one virtual cluster"),
        ("virtual_clusters: {a: []}", "at least one group"),
        ("[1, 2", "must be YAML"),
        ("just text", "must be a table"),
    ]:
        with pytest.raises(InputError, match=says):
            ClusterSpec.from_yaml(wrong)
