"""The names that people schedule, alert on and script against: a rename shows in review."""

from __future__ import annotations

from itertools import pairwise

import pytest
from dagster import AssetKey, DefaultScheduleStatus, DefaultSensorStatus

from lucid_pipelines.definitions import defs
from lucid_pipelines.sensors.launchpad import DecideConfig, SubmitConfig


@pytest.fixture(scope="module")
def repository():
    return defs.get_repository_def()


def test_assets(repository) -> None:
    keys = {key.to_user_string() for key in repository.assets_defs_by_key}
    assert {"job_history", "training_metrics", "cluster_throughput", "weekly_reliability"} <= keys
    assert {"duration_features", "duration_candidate", "duration_evaluation", "duration_model"} <= keys
    assert {"throughput_candidate", "throughput_evaluation", "throughput_model"} <= keys
    assert {"packing_evaluation", "packing_model", "tuner_sweep", "tuned_settings"} <= keys
    assert {"packing_evaluation", "packing_model"} <= keys
    assert {"replay_trace", "replay"} <= keys
    assert "scheduling_decisions" in keys
    assert {"semantic_index", "advice_quality"} <= keys


def test_models_come_from_history(repository) -> None:
    graph = repository.asset_graph
    path = ["job_history", "duration_features", "duration_candidate", "duration_evaluation", "duration_model"]
    path += ["tuner_sweep", "tuned_settings"]
    for above, below in pairwise(path):
        assert AssetKey(above) in graph.get(AssetKey(below)).parent_keys
    checks = {key.to_user_string() for key in graph.asset_check_keys}
    assert {
        "job_history:job_history_contract",
        "cluster_throughput:cluster_throughput_contract",
        "duration_evaluation:promotion_gate",
        "throughput_evaluation:promotion_gate",
        "packing_evaluation:promotion_gate",
        "duration_model:drift",
        "throughput_model:drift",
    } <= checks


def test_jobs(repository) -> None:
    names = {job.name for job in repository.get_all_jobs()}
    assert {
        "submission_job",
        "scheduling_job",
        "failure_handling_job",
        "submit_training_job",
        "decide_action_job",
        "maintenance_job",
        "job_history_job",
        "training_metrics_job",
        "semantic_index_job",
        "advice_quality_job",
        "notification_job",
        "weekly_reliability_job",
        "model_updates_job",
        "weekly_model_updates_job",
        "tuner_job",
        "replay_trace_job",
        "replay_job",
    } <= names


def test_sensors_run_by_default(repository) -> None:
    sensors = {sensor.name: sensor for sensor in repository.sensor_defs}
    assert {"submission_sensor", "scheduling_sensor", "exit_sensor", "metrics_sensor", "notice_sensor"} <= set(sensors)
    assert all(sensor.default_status is DefaultSensorStatus.RUNNING for sensor in sensors.values())
    # Dagster's loop sleeps five seconds: an interval of one ticks on every turn of it, five would skip some.
    assert sensors["submission_sensor"].minimum_interval_seconds == 1
    assert sensors["scheduling_sensor"].minimum_interval_seconds == 10


def test_everything_that_people_start_or_look_at_says_what_it_does(repository) -> None:
    named = [*repository.sensor_defs, *repository.schedule_defs]
    named += [job for job in repository.get_all_jobs() if not job.name.startswith("__")]
    assert [thing.name for thing in named if not thing.description] == []
    graph = repository.asset_graph
    assert [key.to_user_string() for key in graph.get_all_asset_keys() if not graph.get(key).description] == []
    fields = SubmitConfig.model_fields | DecideConfig.model_fields
    assert [name for name, field in fields.items() if not field.description] == []


def test_schedules_are_in_utc(repository) -> None:
    schedules = {schedule.name: schedule for schedule in repository.schedule_defs}
    assert schedules["job_history_job_schedule"].cron_schedule == "10 0 * * *"
    assert schedules["weekly_reliability_job_schedule"].cron_schedule == "20 0 * * 1"
    assert schedules["maintenance_job_schedule"].cron_schedule == "17 * * * *"
    assert schedules["advice_quality_job_schedule"].cron_schedule == "25 0 * * *"
    assert schedules["model_updates_schedule"].cron_schedule == "40 0 * * *"
    assert schedules["weekly_model_updates_schedule"].cron_schedule == "20 1 * * 1"
    assert schedules["tuner_job_schedule"].cron_schedule == "0 3 * * 0"
    for schedule in schedules.values():
        assert (schedule.execution_timezone or "UTC") == "UTC"
        assert schedule.default_status is DefaultScheduleStatus.RUNNING
