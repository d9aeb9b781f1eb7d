"""The service as a person runs it: up, jobs through Dagster's own processes, a killed daemon, down."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lucid_pipelines.client import Client
from lucid_pipelines.domain.errors import ExternalError, InputError
from lucid_pipelines.domain.states import JobState
from lucid_pipelines.service import control
from lucid_pipelines.service.control import bring_up, sensor_ticks, take_down
from lucid_pipelines.service.dagster_home import run_files
from lucid_pipelines.service.demo_user import leave_a_user
from lucid_pipelines.service.status import read_status
from lucid_pipelines.settings import Settings
from tests.support_service import cold_runs, processes_of, service_settings, throw_away_service

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.service]


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    with throw_away_service(tmp_path_factory.mktemp("service") / "home") as chosen:
        yield chosen


@pytest.fixture(scope="module")
def service(settings: Settings) -> control.UpResult:
    return bring_up(settings)


def test_up_returns_when_the_ui_answers_and_the_sensors_tick(service: control.UpResult) -> None:
    assert not service.already
    ticks = sensor_ticks(service.url)
    assert ticks is not None and set(ticks) >= {"submission_sensor", "scheduling_sensor", "exit_sensor"}
    assert all(tick.has_ticked and tick.error is None for tick in ticks.values())


def test_a_second_up_finds_the_first(service: control.UpResult, settings: Settings) -> None:
    again = bring_up(settings)
    assert again.already and (again.url, again.pid) == (service.url, service.pid)


def test_jobs_run_through_sensors_and_warm_runs(service: control.UpResult, settings: Settings, tmp_path: Path) -> None:
    with Client(settings=settings) as client:
        job = client.submit([sys.executable, "-c", "print('trained')"], source_dir=tmp_path, vc="nlp").job
        (ended,) = client.wait([job.job_id], timeout_s=90)
    assert ended.state is JobState.COMPLETED
    assert cold_runs(settings) == [], "every run was forked from the warm process"


def test_a_killed_daemon_is_started_again_and_told(
    service: control.UpResult, settings: Settings, tmp_path: Path
) -> None:
    files = run_files(settings)
    for name in ("daemon", "run-server", "code-server"):
        before = read_status(files)
        assert before is not None
        os.kill(before.processes[name].pid, signal.SIGKILL)
        _await(lambda name=name, before=before: _restarted(settings, name, before.processes[name].pid))
    with Client(settings=settings) as client:
        job = client.submit([sys.executable, "-c", "pass"], source_dir=tmp_path, vc="vision").job
        assert client.wait([job.job_id], timeout_s=120)[0].state is JobState.COMPLETED


def test_a_job_that_nobody_watches_is_given_up_by_its_user(
    service: control.UpResult, settings: Settings, tmp_path: Path
) -> None:
    with Client(settings=settings) as client:
        command = [sys.executable, "-c", "import time; time.sleep(300)"]
        job = client.submit(command, source_dir=tmp_path, vc="vision", labels={"demo": "cancel"}).job
        pid = leave_a_user(client, [job])
        assert pid is not None
        (ended,) = client.wait([job.job_id], timeout_s=90)
        assert ended.state is JobState.CANCELLED
        _, exit_status = os.waitpid(pid, 0)
        assert exit_status == 0
        assert leave_a_user(client, [ended]) is None, "nothing is left to be given up"


def test_a_busy_port_is_named_with_a_free_one(tmp_path: Path) -> None:
    before = dict(os.environ)
    try:
        chosen = service_settings(tmp_path / "home")
        with (
            socket.create_server(("127.0.0.1", chosen.dagster.port)),
            pytest.raises(InputError, match=r"taken by .*LUCID__DAGSTER__PORT=\d+ make up, or lucid up --port \d+"),
        ):
            bring_up(chosen)
        assert processes_of(chosen.home) == []
    finally:
        os.environ.clear()
        os.environ.update(before)


def test_a_full_disk_is_told_before_anything_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = Settings(home=tmp_path / "home")
    monkeypatch.setattr(control, "_NEEDED_FREE_BYTES", 1 << 60)
    with pytest.raises(ExternalError, match="the disk is full"):
        bring_up(chosen)
    assert processes_of(chosen.home) == []


def test_down_leaves_no_process_and_training_goes_on(
    service: control.UpResult, settings: Settings, tmp_path: Path
) -> None:
    with Client(settings=settings) as client:
        job = client.submit(
            [sys.executable, "-c", "import time; time.sleep(300)"], source_dir=tmp_path, vc="vision"
        ).job
        _await(lambda: client.job(job.job_id).started_at is not None)
        # A run that was started cold is nobody's child; this stands for one.
        stray = subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(300)", "api", "execute_run"],
            env={**os.environ, "LUCID_HOME": str(settings.home)},
            start_new_session=True,
        )
        assert take_down(settings)
        assert stray.wait(10) != 0, "no run outlives the service"
        assert not take_down(settings), "a second down has nothing to do"
        left = [process for process in processes_of(settings.home) if job.job_id not in " ".join(process.cmdline())]
        assert left == []
        (attempt,) = client.attempts(job.job_id)
        assert client.system.cluster.fence(attempt.attempt_id) > 0, "the training process had gone on"


def _restarted(settings: Settings, name: str, old_pid: int) -> bool:
    status = read_status(run_files(settings))
    return status is not None and status.processes[name].pid != old_pid and status.processes[name].last_exit is not None


def _await(condition: Callable[[], bool], timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.2)
