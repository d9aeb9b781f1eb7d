"""Start the service's processes in their order, start again what dies, and stop all of them together.

``python -m lucid_pipelines.service.supervisor`` with ``LUCID_HOME`` set. One per home folder, by a lock that the
kernel drops when the process dies. Training jobs are not its children: they outlive it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import IO

import psutil

from lucid_pipelines.domain.errors import ExternalError, LucidError
from lucid_pipelines.service.dagster_home import RunFiles, run_files, write_dagster_home
from lucid_pipelines.service.processes import ProcessSpec, process_specs, service_environment
from lucid_pipelines.service.status import (
    ProcessStatus,
    ServiceStatus,
    hold_lock,
    now_text,
    tail,
    write_status,
)
from lucid_pipelines.settings import Settings, load_settings

_SOCKET_PATIENCE_S = 120.0
_STOP_PATIENCE_S = 12.0
_STRAY_PATIENCE_S = 5.0
_POLL_S = 0.5
_LOCK_PATIENCE_S = 1.0
_STABLE_S = 60.0
_BACKOFF_S = (0.5, 2.0, 5.0, 15.0, 30.0)
_MAX_LOG_BYTES = 20 * 1024 * 1024
_PR_SET_PDEATHSIG = 1


@dataclass
class _Child:
    spec: ProcessSpec
    process: subprocess.Popen[bytes]
    started: float
    restarts: int = 0
    last_exit: str | None = None
    due: float | None = None
    """When it is to be started again; ``None`` while it runs."""


class Supervisor:
    """Owns the service's processes for as long as it lives."""

    def __init__(self, settings: Settings, files: RunFiles) -> None:
        self._settings = settings
        self._files = files
        self._env = service_environment(settings)
        self._url = f"http://{settings.dagster.host}:{settings.dagster.port}"
        self._started_at = now_text()
        self._children: dict[str, _Child] = {}
        self._stopping = False
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._stop_soon)

    def run(self) -> int:
        """Start everything and stay until asked to stop. Returns the exit status."""
        workspace = write_dagster_home(self._settings)
        specs = process_specs(self._settings, self._files, workspace)
        self._report("starting")
        try:
            self._init_storage()
            for stage in (1, 2):
                self._start_stage([spec for spec in specs if spec.stage == stage])
            if not self._stopping:
                self._report("running")
            while not self._stopping:
                if self._revive():
                    self._report("running")
                time.sleep(_POLL_S)
        except LucidError as error:
            self._report("failed", str(error))
            self._stop_all()
            return error.exit_code
        self._report("stopping")
        self._stop_all()
        self._files.status.unlink(missing_ok=True)
        return 0

    def _stop_soon(self, number: int, frame: object) -> None:
        del number, frame
        self._stopping = True

    def _start_stage(self, specs: list[ProcessSpec]) -> None:
        for spec in specs:
            self._children[spec.name] = _Child(spec, self._spawn(spec), time.monotonic())
        self._report("starting")
        for spec in specs:
            if spec.socket is not None:
                self._await_socket(spec, spec.socket)

    def _init_storage(self) -> None:
        """Create or migrate Dagster's tables, alone, before anything opens them; once per Dagster version."""
        done = self._settings.dagster_home / "storage-version"
        wanted = f"{version('dagster')} {self._settings.dagster.storage_url or 'sqlite'}"
        if done.is_file() and done.read_text(encoding="utf-8") == wanted:
            return
        command = [sys.executable, "-m", "lucid_pipelines.resources.init_storage"]
        if subprocess.run(command, env=self._env, check=False).returncode != 0:
            end = tail(self._files.log("supervisor"))
            raise ExternalError(f"Dagster's tables cannot be created; the log ends so:\n{end}")
        done.write_text(wanted, encoding="utf-8")

    def _spawn(self, spec: ProcessSpec) -> subprocess.Popen[bytes]:
        log_path = self._files.log(spec.name)
        _rotate(log_path)
        with log_path.open("ab") as log:
            return subprocess.Popen(
                spec.arguments,
                env=self._env,
                cwd=self._settings.home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_die_with_parent,  # noqa: PLW1509 the supervisor has one thread
            )

    def _await_socket(self, spec: ProcessSpec, path: Path) -> None:
        deadline = time.monotonic() + _SOCKET_PATIENCE_S
        while not self._stopping:
            if self._children[spec.name].process.poll() is not None:
                end = tail(self._files.log(spec.name))
                raise ExternalError(f"{spec.name} ended while starting; its log ends so:\n{end}")
            if _answers(path):
                return
            if time.monotonic() > deadline:
                raise ExternalError(f"{spec.name} does not answer after {_SOCKET_PATIENCE_S:.0f} s on {path}")
            time.sleep(0.1)

    def _revive(self) -> bool:
        """Start again what has died, with growing pauses. Returns whether anything changed."""
        changed = False
        now = time.monotonic()
        for child in self._children.values():
            code = child.process.poll()
            if code is None:
                continue
            if child.due is None:
                if now - child.started > _STABLE_S:
                    child.restarts = 0
                child.last_exit = f"{now_text()}: {_how(code)}"
                child.due = now + _BACKOFF_S[min(child.restarts, len(_BACKOFF_S) - 1)]
                print(f"{child.spec.name} ended ({_how(code)}); it is started again", flush=True)
                changed = True
            elif now >= child.due:
                child.process = self._spawn(child.spec)
                child.started, child.due = now, None
                child.restarts += 1
                changed = True
        return changed

    def _stop_all(self) -> None:
        # The run server goes first: it interrupts the runs, which give their leases back.
        order = ["run-server", "daemon", "webserver", "code-server"]
        children = sorted(self._children.values(), key=lambda child: order.index(child.spec.name))
        for child in children:
            _signal_group(child.process, signal.SIGTERM, group=child.spec.name != "run-server")
        deadline = time.monotonic() + _STOP_PATIENCE_S
        for child in children:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.process.wait(max(0.0, deadline - time.monotonic()))
        for child in children:
            _signal_group(child.process, signal.SIGKILL, group=True)
            child.process.wait()
        _end_stray_runs(self._settings.home)

    def _report(self, phase: str, detail: str | None = None) -> None:
        processes = {
            name: ProcessStatus(child.process.pid, child.restarts, child.last_exit)
            for name, child in self._children.items()
        }
        modes = {name: mode.value for name, mode in self._settings.modes}
        status = ServiceStatus(os.getpid(), phase, self._url, self._started_at, detail, processes, modes)
        write_status(self._files, status)


def main() -> int:
    """Run the service of ``LUCID_HOME`` until asked to stop."""
    settings = load_settings()
    files = run_files(settings)
    lock = _hold_lock_soon(files)
    if lock is None:
        print("another supervisor runs this home folder", file=sys.stderr)
        return 5
    with lock:
        return Supervisor(settings, files).run()


def _end_stray_runs(home: Path) -> None:
    """End Dagster runs of this home that no server of ours has forked (cold starts): nothing may outlive the service.

    Training jobs are no such runs: they carry neither the command nor the home folder in their environment.
    """
    strays = [process for process in psutil.process_iter() if _is_run_of(process, home)]
    for process in strays:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGINT)
    _, left = psutil.wait_procs(strays, timeout=_STRAY_PATIENCE_S)
    for process in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def _is_run_of(process: psutil.Process, home: Path) -> bool:
    try:
        return "execute_run" in process.cmdline() and process.environ().get("LUCID_HOME") == str(home)
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False


def _hold_lock_soon(files: RunFiles) -> IO[str] | None:
    """Take the lock; somebody who only asks whether the service runs has it for a moment too."""
    deadline = time.monotonic() + _LOCK_PATIENCE_S
    while (lock := hold_lock(files)) is None and time.monotonic() < deadline:
        time.sleep(0.05)
    return lock


def _die_with_parent() -> None:
    """A supervisor that is killed takes the service with it: no process is left behind."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _signal_group(process: subprocess.Popen[bytes], number: int, *, group: bool) -> None:
    with contextlib.suppress(ProcessLookupError):
        if group:
            os.killpg(process.pid, number)
        elif process.poll() is None:
            process.send_signal(number)


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(1.0)
        try:
            connection.connect(str(path))
        except OSError:
            return False
    return True


def _rotate(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        if path.stat().st_size > _MAX_LOG_BYTES:
            path.replace(path.with_suffix(".log.1"))


def _how(code: int) -> str:
    return f"killed by signal {-code}" if code < 0 else f"exit status {code}"


if __name__ == "__main__":
    sys.exit(main())
