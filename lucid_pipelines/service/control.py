"""Bring the service up and down from the command line, and know when it is ready."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psutil

from lucid_pipelines.domain.errors import ExternalError, InputError, StateError
from lucid_pipelines.service.dagster_home import RunFiles, run_files
from lucid_pipelines.service.status import ServiceStatus, is_running, read_status, tail
from lucid_pipelines.settings import Settings

_READY_PATIENCE_S = 180.0
_DOWN_PATIENCE_S = 40.0
_NEEDED_FREE_BYTES = 300 * 1024 * 1024
_SENSORS_QUERY = """
{ workspaceOrError { ... on Workspace { locationEntries { locationOrLoadError { ... on RepositoryLocation {
  repositories { sensors { name sensorState { status ticks(limit: 3) { status error { message } } } } } } } } } } }
"""


@dataclass(frozen=True, slots=True)
class UpResult:
    """The running service; ``already`` when it had been up before."""

    url: str
    pid: int
    already: bool
    ready_s: float


def bring_up(settings: Settings, tell: Callable[[str], None] = lambda text: None) -> UpResult:
    """Start the service in the background and return when the UI answers and the sensors tick.

    Args:
        tell: told what is being waited for.

    Raises:
        InputError: the port is taken.
        ExternalError: the disk is full, or a process does not come up; the end of its log is shown.
    """
    begin = time.monotonic()
    try:
        files = run_files(settings)
        if is_running(files):
            return _already_up(files, begin, settings, tell)
        _check_disk(settings)
        _check_port(settings)
        supervisor = _spawn_supervisor(settings, files)
    except OSError as error:
        raise _disk_error(settings, error) from error
    try:
        _await_ready(settings, files, supervisor, tell)
    except BaseException:
        tell("stopping what was started")
        take_down(settings)
        raise
    return UpResult(url(settings), supervisor.pid, already=False, ready_s=time.monotonic() - begin)


def take_down(settings: Settings) -> bool:
    """Stop the service. Returns whether there was one. Training jobs go on.

    Raises:
        ExternalError: it does not stop.
    """
    files = run_files(settings)
    if not is_running(files):
        files.status.unlink(missing_ok=True)
        return False
    status = _await_status(files)
    if status is None:
        raise ExternalError(f"a supervisor holds {files.lock} and says nothing; end it by hand: fuser {files.lock}")
    with contextlib.suppress(ProcessLookupError):
        os.kill(status.pid, signal.SIGTERM)
    deadline = time.monotonic() + _DOWN_PATIENCE_S
    while is_running(files):
        if time.monotonic() > deadline:
            raise ExternalError(f"the service does not stop; end its supervisor by hand: kill -9 {status.pid}")
        time.sleep(0.1)
    with contextlib.suppress(psutil.NoSuchProcess, psutil.TimeoutExpired):
        psutil.Process(status.pid).wait(timeout=5.0)
    return True


def url(settings: Settings) -> str:
    """Where the UI is."""
    return f"http://{settings.dagster.host}:{settings.dagster.port}"


@dataclass(frozen=True, slots=True)
class SensorTicks:
    """Whether a sensor has finished a tick, and the error of its newest finished one."""

    has_ticked: bool
    error: str | None


def sensor_ticks(base_url: str) -> dict[str, SensorTicks] | None:
    """What each running sensor's newest ticks say; ``None`` while the UI at ``base_url`` does not answer."""
    request = urllib.request.Request(
        f"{base_url}/graphql",
        data=json.dumps({"query": _SENSORS_QUERY}).encode(),
        headers={"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            entries = json.load(answer)["data"]["workspaceOrError"]["locationEntries"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    found: dict[str, SensorTicks] = {}
    for entry in entries:
        for repository in (entry["locationOrLoadError"] or {}).get("repositories", []):
            for sensor in repository["sensors"]:
                state = sensor["sensorState"]
                if state["status"] == "RUNNING":
                    found[sensor["name"]] = _judge_ticks(state["ticks"])
    return found


def _judge_ticks(ticks: Sequence[Mapping[str, Any]]) -> SensorTicks:
    finished = [tick for tick in ticks if tick["status"] != "STARTED"]
    if not finished:
        return SensorTicks(has_ticked=False, error=None)
    error = finished[0]["error"]
    return SensorTicks(finished[0]["status"] in ("SKIPPED", "SUCCESS"), error["message"] if error else None)


def _already_up(files: RunFiles, begin: float, settings: Settings, tell: Callable[[str], None]) -> UpResult:
    status = _await_status(files)
    if status is None or status.phase == "stopping":
        raise StateError("the service is just being stopped; run `lucid up` again in a moment")
    if status.url != url(settings):
        tell(f"the service of this home folder is up already at {status.url}")
    return UpResult(status.url, status.pid, already=True, ready_s=time.monotonic() - begin)


def _await_status(files: RunFiles) -> ServiceStatus | None:
    for _ in range(50):
        status = read_status(files)
        if status is not None and psutil.pid_exists(status.pid):
            return status
        time.sleep(0.1)
    return None


def _spawn_supervisor(settings: Settings, files: RunFiles) -> subprocess.Popen[bytes]:
    files.status.unlink(missing_ok=True)
    env = dict(os.environ, LUCID_HOME=str(settings.home))
    env["LUCID__DAGSTER__PORT"] = str(settings.dagster.port)
    with files.log("supervisor").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "lucid_pipelines.service.supervisor"],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _await_ready(
    settings: Settings, files: RunFiles, supervisor: subprocess.Popen[bytes], tell: Callable[[str], None]
) -> None:
    deadline = time.monotonic() + _READY_PATIENCE_S
    told = ""
    while True:
        status = read_status(files)
        if supervisor.poll() is not None or (status is not None and status.phase == "failed"):
            detail = (status.detail if status else None) or tail(files.log("supervisor"))
            raise ExternalError(f"the service could not be started: {detail}")
        waiting_for = _missing(settings, status)
        if waiting_for is None:
            return
        if waiting_for != told:
            told = waiting_for
            tell(f"waiting for {waiting_for}")
        if time.monotonic() > deadline:
            raise ExternalError(f"no answer after {_READY_PATIENCE_S:.0f} s from {waiting_for}; logs: {files.folder}")
        time.sleep(0.3)


def _missing(settings: Settings, status: ServiceStatus | None) -> str | None:
    """What is not ready yet, in words; ``None`` when everything is."""
    if status is None or status.phase != "running":
        return "the code server and the database"
    ticks = sensor_ticks(status.url)
    if ticks is None:
        return "the web server"
    if not ticks:
        return "the code location"
    for name, tick in ticks.items():
        if tick.error is not None:
            raise ExternalError(f"{name} fails: {tick.error.strip()}")
    silent = sorted(name for name, tick in ticks.items() if not tick.has_ticked)
    return f"the first tick of {', '.join(silent)}" if silent else None


def _check_disk(settings: Settings) -> None:
    settings.home.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(settings.home).free
    if free < _NEEDED_FREE_BYTES:
        needed_mib, free_mib = _NEEDED_FREE_BYTES >> 20, free >> 20
        raise ExternalError(
            f"the disk is full: {needed_mib} MiB are needed, {free_mib} MiB are free; free some below {settings.home}"
        )


def _disk_error(settings: Settings, error: OSError) -> ExternalError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return ExternalError(f"the disk is full; free some space below {settings.home}: {error}")
    return ExternalError(f"the home folder cannot be used; set LUCID_HOME to another: {error}")


def _check_port(settings: Settings) -> None:
    host, port = settings.dagster.host, settings.dagster.port
    if _is_free(host, port):
        return
    suggestion = next((other for other in range(port + 1, port + 50) if _is_free(host, other)), None)
    hint = f"; free it, or take another: LUCID__DAGSTER__PORT={suggestion} make up, or lucid up --port {suggestion}"
    raise InputError(f"the port {port} is taken by {_user_of(port)}{hint if suggestion else '; free it'}")


def _is_free(host: str, port: int) -> bool:
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError:
        return False
    return True


def _user_of(port: int) -> str:
    try:
        for connection in psutil.net_connections("tcp"):
            if connection.laddr and connection.laddr.port == port and connection.status == psutil.CONN_LISTEN:
                if connection.pid is None:
                    break
                return f"{psutil.Process(connection.pid).name()} (process {connection.pid})"
    except (psutil.AccessDenied, psutil.NoSuchProcess):
        pass
    return "another process"
