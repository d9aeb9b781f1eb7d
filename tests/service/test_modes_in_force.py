"""Whoever looks at the cluster is told of the modes of the running service, not of the shell's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lucid_pipelines.cli.main import app
from lucid_pipelines.domain.states import Mode
from lucid_pipelines.service.dagster_home import run_files
from lucid_pipelines.service.status import ServiceStatus, hold_lock, modes_in_force, write_status
from lucid_pipelines.settings import Settings, load_settings


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("LUCID_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LUCID__CLUSTER__GPUS", "virtual")
    monkeypatch.setenv("COLUMNS", "200")
    return load_settings()


def told(settings: Settings, **modes: str) -> None:
    """What a supervisor writes; somebody must hold its lock for it to count."""
    write_status(run_files(settings), ServiceStatus(1, "running", "http://localhost", "now", modes=modes))


def test_the_service_that_runs_is_believed_and_one_that_does_not_is_not(settings: Settings) -> None:
    told(settings, pack="live", unknown="live")
    assert modes_in_force(settings).pack is Mode.SHADOW, "nobody holds the lock"
    lock = hold_lock(run_files(settings))
    assert lock is not None
    with lock:
        assert modes_in_force(settings).pack is Mode.LIVE and modes_in_force(settings).unpack is Mode.SHADOW
        told(settings, pack="nonsense")
        assert modes_in_force(settings) == settings.modes


def test_top_tells_the_modes_of_the_service_and_where_this_shell_has_others(settings: Settings) -> None:
    told(settings, pack="live")
    lock = hold_lock(run_files(settings))
    assert lock is not None
    with lock:
        shown = CliRunner().invoke(app, ["top", "--once"], catch_exceptions=False).stdout
        as_json = json.loads(CliRunner().invoke(app, ["top", "--json"], catch_exceptions=False).stdout)
    assert "pack live" in shown and "pairs are formed" in shown and "pack shadow, not live" in shown
    assert as_json["modes"]["pack"] == "live" and as_json["modes_of_this_shell_otherwise"] == ["pack shadow, not live"]
