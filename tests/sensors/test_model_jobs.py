"""The scheduled training of models, run in this process."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from dagster import DagsterInstance, build_schedule_context

from lucid_pipelines.client import Client
from lucid_pipelines.control import tuned
from lucid_pipelines.control.estimating import models_root
from lucid_pipelines.definitions import defs
from lucid_pipelines.models.artefacts import ModelKind, Registry
from lucid_pipelines.resources.lucid import LucidResource
from lucid_pipelines.sensors.model_updates import model_updates_schedule, weekly_model_updates_schedule
from tests.support_models.worlds import START, habits

LAST_DAY = START + timedelta(days=8)
"""A Tuesday."""


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    monkeypatch.setenv("LUCID_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LUCID__CLUSTER__GPUS", "virtual")
    with Client(tmp_path / "home") as opened:
        yield opened


@pytest.fixture
def instance() -> Iterator[DagsterInstance]:
    with DagsterInstance.ephemeral() as ephemeral:
        yield ephemeral


def tick(schedule, instance: DagsterInstance, moment):
    context = build_schedule_context(
        instance=instance,
        scheduled_execution_time=moment,
        repository_def=defs.get_repository_def(),
        resources={"lucid": LucidResource()},
    )
    return schedule.evaluate_tick(context)


def test_the_schedules_ask_for_the_day_that_ended(client: Client, instance: DagsterInstance) -> None:
    (daily,) = tick(model_updates_schedule, instance, LAST_DAY).run_requests
    assert (daily.partition_key, daily.run_key) == ("2026-03-09", "model-updates-2026-03-09")
    assert daily.run_config["ops"]["duration_features"]["config"] == {"window_days": 1.0}
    (weekly,) = tick(weekly_model_updates_schedule, instance, START + timedelta(days=7, hours=1)).run_requests
    assert weekly.partition_key == "2026-03-08"
    assert weekly.run_config["ops"]["throughput_evaluation"]["config"] == {"window_days": 7.0}

    store, now = client.system.store, client.system.clock.now()
    action = tuned.propose(store, {"retrain_every_days": 7.0}, policy="lucid", why="test", now=now)
    tuned.apply(store, action.action_id, person="ada", now=now)
    assert "7 days" in tick(model_updates_schedule, instance, LAST_DAY).skip_message


def test_a_fresh_cluster_trains_nothing_and_says_so(client: Client, instance: DagsterInstance) -> None:
    job = defs.resolve_job_def("weekly_model_updates_job")
    result = job.execute_in_process(instance=instance, partition_key="2026-03-08")
    assert result.success
    (made,) = result.asset_materializations_for_node("duration_model")
    assert made.metadata["status"].value == "nothing to do"
    assert "needs at least 20 usable runs" in made.metadata["reason"].value
    gates = {e.asset_key.to_user_string(): e for e in result.get_asset_check_evaluations()}
    assert not gates["duration_evaluation"].passed and gates["cluster_throughput"].passed
    assert gates["duration_evaluation"].severity.value == "WARN", "a run with nothing to promote is no failure"


@pytest.mark.slow
def test_a_day_of_history_puts_a_model_in_service(client: Client, instance: DagsterInstance) -> None:
    client.system.store.history.add(habits(400))
    job = defs.resolve_job_def("model_updates_job")
    result = job.execute_in_process(instance=instance, partition_key="2026-03-09")
    assert result.success
    version = Registry(models_root(client.settings)).in_service(ModelKind.DURATION)
    (made,) = result.asset_materializations_for_node("duration_model")
    assert version is not None and made.metadata["in_service"].value == version
    (judged,) = result.asset_materializations_for_node("duration_evaluation")
    assert "data:image/svg+xml;base64," in judged.metadata["explanation"].value
    assert "| candidate |" in judged.metadata["comparison"].value
    checks = {(e.asset_key.to_user_string(), e.check_name): e for e in result.get_asset_check_evaluations()}
    assert checks["duration_evaluation", "promotion_gate"].passed
    assert ("duration_model", "drift") in checks
