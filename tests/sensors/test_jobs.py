"""The jobs that the sensors fire, run in this process against a real store and cluster."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from dagster import AssetKey, DagsterInstance, DagsterRunStatus, RunRequest, SkipReason, build_sensor_context

from lucid_pipelines.client import Client
from lucid_pipelines.control.requests import parse_request
from lucid_pipelines.definitions import defs
from lucid_pipelines.domain.cluster import NodeShare, Placement
from lucid_pipelines.domain.states import JobState, Mode, Outcome
from lucid_pipelines.sensors.exits import exit_sensor
from lucid_pipelines.sensors.notices import notice_sensor
from lucid_pipelines.sensors.scheduling import scheduling_sensor
from lucid_pipelines.sensors.submission import submission_sensor
from lucid_pipelines.store import ActionState


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    monkeypatch.setenv("LUCID_HOME", str(folder))
    monkeypatch.setenv("LUCID__CLUSTER__GPUS", "virtual")
    monkeypatch.setenv("LUCID__SCHEDULING__IDLE_EXIT_S", "0.4")
    return folder


@pytest.fixture
def client(home: Path) -> Iterator[Client]:
    with Client(home) as opened:
        yield opened


@pytest.fixture(scope="module")
def instance() -> Iterator[DagsterInstance]:
    with DagsterInstance.ephemeral() as ephemeral:
        yield ephemeral


def execute(name: str, instance: DagsterInstance, **options: object) -> object:
    return defs.resolve_job_def(name).execute_in_process(instance=instance, **options)


def tick(sensor, instance: DagsterInstance, cursor: str | None = None):
    context = build_sensor_context(instance=instance, cursor=cursor)
    return sensor.evaluate_tick(context)


def test_a_submission_goes_through_all_jobs(client: Client, instance: DagsterInstance, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    assert tick(submission_sensor, instance).run_requests == []
    assert tick(scheduling_sensor, instance).run_requests == []

    good = client.submit([sys.executable, "-c", "pass"], source_dir=source, vc="nlp", name="good").job
    bad = client.submit([sys.executable, "-c", "raise SystemExit(5)"], source_dir=source, vc="nlp", name="bad").job
    asked = [request.job_name for request in tick(submission_sensor, instance).run_requests]
    assert asked == ["submission_job", "scheduling_job"], "the first window is asked for at once"
    assert len(tick(scheduling_sensor, instance).run_requests) == 1

    result = execute("submission_job", instance)
    assert result.success
    steps = [event.step_key for event in result.all_events if event.is_step_success]
    assert len([step for step in steps if step.startswith("take_in_submission[")]) == 2, "one mapped step per job"
    assert {client.job(job.job_id).state for job in (good, bad)} == {JobState.QUEUED}

    assert execute("scheduling_job", instance).success
    assert client.job(good.job_id).state is JobState.COMPLETED
    assert client.job(bad.job_id).state is JobState.FAILED

    assert len(tick(exit_sensor, instance).run_requests) == 1
    assert execute("failure_handling_job", instance).success
    assert tick(exit_sensor, instance).run_requests == []


def test_a_job_submitted_from_the_launchpad(client: Client, instance: DagsterInstance, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    config = {
        "ops": {
            "submit_training": {
                "config": {
                    "command": [sys.executable, "-c", "pass"],
                    "source_dir": str(source),
                    "user": "ada",
                    "gpus": 2,
                }
            }
        }
    }
    assert execute("submit_training_job", instance, run_config=config).success
    (job,) = client.jobs()
    assert (job.spec.user, job.spec.gpus, job.state) == ("ada", 2, JobState.SUBMITTED)


def test_a_person_decides_about_an_action_from_the_launchpad(client: Client, instance: DagsterInstance) -> None:
    store, now = client.system.store, client.system.clock.now()
    action, _ = store.actions.propose("pack", "j-1", Mode.APPROVE, {}, why="share", now=now, key="pack:1")
    config = {"ops": {"decide_action": {"config": {"action": action.action_id, "approve": True, "person": "grace"}}}}
    result = execute("decide_action_job", instance, run_config=config)
    assert result.success
    decided = store.actions.get(action.action_id)
    assert (decided.state, decided.person) == (ActionState.APPROVED, "grace")


def test_a_window_tells_what_was_decided_as_an_event_of_an_asset(client: Client, instance: DagsterInstance) -> None:
    job = client.submit([sys.executable, "-c", "pass"], source_dir=Path(__file__).parent, vc="nlp").job
    execute("submission_job", instance)
    execute("scheduling_job", instance)
    (record,) = instance.fetch_observations(AssetKey("scheduling_decisions"), limit=1).records
    metadata = record.asset_observation.metadata
    assert metadata["decided_start"].value == 1
    told = metadata["newest"].value
    assert job.job_id in told and "place in the order" in told and "GPU(s) on 1 node(s)" in told


def test_a_batch_is_bounded(client: Client, instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUCID__SUBMISSION__BATCH", "2")
    client.submit_requests([parse_request({"command": ["true"], "name": f"n{i}"}) for i in range(30)])
    assert len(_batches(instance)) == 4, "at most four runs a tick"

    with DagsterInstance.ephemeral() as other:
        for _ in range(2):
            other.create_run_for_job(defs.resolve_job_def("submission_job"), status=DagsterRunStatus.STARTING)
        assert len(_batches(other)) == 2, "two runs are on their way already"
        for _ in range(4):
            other.create_run_for_job(defs.resolve_job_def("submission_job"), status=DagsterRunStatus.STARTING)
        assert _batches(other) == [], "what waits is on its way"


def _batches(instance: DagsterInstance) -> list[RunRequest]:
    requests = tick(submission_sensor, instance).run_requests
    return [request for request in requests if request.job_name == "submission_job"]


def test_history_and_metrics_assets(client: Client, instance: DagsterInstance, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    client.submit([sys.executable, "-c", "pass"], source_dir=source, vc="nlp", user="ada")
    execute("submission_job", instance)
    execute("scheduling_job", instance)
    today = f"{client.system.clock.now():%Y-%m-%d}"

    result = execute("job_history_job", instance, partition_key=today)
    (written,) = result.asset_materializations_for_node("job_history")
    assert written.metadata["attempts"].value == 1
    assert "completed" in written.metadata["outcomes"].value
    (check,) = result.get_asset_check_evaluations()
    assert check.passed

    (row,) = pq.read_table(client.settings.artefacts / "history" / f"{today}.parquet").to_pylist()
    assert (row["user"], row["outcome"], row["gpus"]) == ("ada", "completed", 1)
    assert row["duration_s"] > 0 and row["queue_s"] >= 0

    result = execute("training_metrics_job", instance)
    (gauges,) = result.asset_materializations_for_node("training_metrics")
    assert gauges.metadata["running_jobs"].value == 0
    assert gauges.metadata["gpus"].value == 8

    indexed = execute("semantic_index_job", instance)
    (built,) = indexed.asset_materializations_for_node("semantic_index")
    assert built.metadata["past_jobs"].value == len(client.system.store.advice.learned())
    today = client.system.clock.now().date().isoformat()
    told = execute("advice_quality_job", instance, partition_key=today)
    (report,) = told.asset_materializations_for_node("advice_quality")
    assert report.metadata["advised"].value == client.system.store.advice.count()


def test_old_runs_are_deleted_and_young_ones_kept(client: Client, instance: DagsterInstance) -> None:
    execute("training_metrics_job", instance)
    before = instance.get_runs_count()
    assert execute("maintenance_job", instance).success
    assert instance.get_runs_count() == before + 1, "nothing here is old enough"


def test_an_exit_that_is_put_off_starts_no_run_before_its_time(client: Client, instance: DagsterInstance) -> None:
    store, now = client.system.store, client.system.clock.now()
    job, _ = store.jobs.submit(parse_request({"command": ["true"]}).to_spec(vc="nlp", snapshot_digest=None), now)
    execute("submission_job", instance)
    placement = Placement((NodeShare("node-2", (0,)),))
    attempt = store.attempts.place(job.job_id, placement, who="test", now=now)
    store.attempts.record_end(attempt.attempt_id, None, Outcome.LOST, who="test", now=now)
    assert len(tick(exit_sensor, instance).run_requests) == 1
    (claim,) = store.exits.claim(worker="other", now=now, limit=5, ttl_s=60.0)
    assert tick(exit_sensor, instance).run_requests == [], "another worker has it"
    store.exits.retry_later(claim, now=now, delay_s=60.0, error="away")
    skipped = tick(exit_sensor, instance)
    assert skipped.run_requests == [] and "next try" in skipped.skip_message


def test_a_sensor_says_why_it_skips(client: Client, instance: DagsterInstance) -> None:
    skipped = tick(exit_sensor, instance)
    assert "no abnormal exit" in skipped.skip_message
    assert not isinstance(skipped, RunRequest | SkipReason)


def test_the_week_is_reported_and_notices_have_a_job(client: Client, instance: DagsterInstance) -> None:
    now = client.system.clock.now()
    monday = f"{now - timedelta(days=now.weekday()):%Y-%m-%d}"
    result = execute("weekly_reliability_job", instance, partition_key=monday)
    (report,) = result.asset_materializations_for_node("weekly_reliability")
    assert report.metadata["failures"].value == 0
    assert "| restarts |" in report.metadata["report"].value
    assert execute("notification_job", instance).success
    assert isinstance(tick(notice_sensor, instance).skip_message, str), "no channel is set up"
