"""A running service in a temporary home, for the tests that need Dagster's own processes."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from dagster import DagsterInstance, RunsFilter

from lucid_pipelines.resources.run_protocol import COLD_TAG
from lucid_pipelines.service.control import take_down
from lucid_pipelines.settings import Settings, load_settings


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def service_settings(home: Path, **environ: str) -> Settings:
    """Settings of a throw-away service. The same values go into the environment of its processes."""
    overrides = {
        "LUCID__DAGSTER__PORT": str(free_port()),
        "LUCID__CLUSTER__GPUS": "virtual",
        **environ,
    }
    os.environ.update(overrides)
    return load_settings(home, environ={**os.environ, **overrides})


@contextmanager
def throw_away_service(home: Path, **environ: str) -> Iterator[Settings]:
    """Settings of a service that the test brings up itself; at the end it is stopped, and our environment as it was."""
    before = dict(os.environ)
    os.environ["LUCID_HOME"] = str(home)
    chosen = service_settings(home, **environ)
    try:
        yield chosen
    finally:
        take_down(chosen)
        os.environ.clear()
        os.environ.update(before)


def processes_of(home: Path) -> list[psutil.Process]:
    """Every process whose environment or command line names this home folder."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        if process.pid == os.getpid():
            continue
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                continue
            named = process.environ().get("LUCID_HOME") == str(home)
            if named or any(str(home) in part for part in process.cmdline()):
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def cold_runs(settings: Settings) -> list[str]:
    """Runs that could not be forked from the warm process and had to start a Python of their own."""
    with DagsterInstance.from_config(str(settings.dagster_home)) as instance:
        records = instance.get_run_records(RunsFilter(tags={COLD_TAG: "true"}))
    return [record.dagster_run.run_id for record in records]
