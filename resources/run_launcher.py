"""A run launcher that forks runs from a warm process (docs/decisions/0001-warm-run-launcher.md).

A run of the default launcher starts a new Python, which imports Dagster and this project: four to five
CPU-seconds. The warm process has both loaded, so that a forked run costs a fraction of one.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import psutil
from dagster import DagsterRun, DefaultRunLauncher, StringSource
from dagster._core.launcher.base import CheckRunHealthResult, LaunchRunContext, WorkerStatus
from dagster._grpc.types import ExecuteRunArgs
from dagster._serdes import ConfigurableClassData

from lucid_pipelines.domain.errors import ExternalError, StateError
from lucid_pipelines.resources.run_protocol import (
    COLD_TAG,
    WORKER_TAG,
    NobodyListensError,
    ask,
    find_worker,
    worker_identity,
)

_TIMEOUT_S = 15.0
_POLL_S = 0.2


class WarmRunLauncher(DefaultRunLauncher):
    """Hands runs to the run server; starts a new process, visibly, when that does not answer.

    Attributes:
        patience_s: how long a server that does not listen may take to be there again.
    """

    patience_s = 15.0

    def __init__(self, socket: str, inst_data: ConfigurableClassData | None = None) -> None:
        self._socket = Path(socket)
        self._started: list[subprocess.Popen[bytes]] = []
        super().__init__(inst_data=inst_data)

    @classmethod
    def config_type(cls) -> Any:
        return {"socket": StringSource}

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData, config_value: Mapping[str, Any]) -> Self:
        return cls(socket=config_value["socket"], inst_data=inst_data)

    def launch_run(self, context: LaunchRunContext) -> None:
        """Start the run in a fork of the warm process, or, visibly, in a new one when that does not answer.

        Raises:
            StateError: the run does not say what code it belongs to.
        """
        run = context.dagster_run
        origin = context.job_code_origin
        if origin is None:
            raise StateError(f"the run does not name its code; launch it from the UI or a sensor: {run.run_id}")
        arguments = ExecuteRunArgs(
            job_origin=origin, run_id=run.run_id, instance_ref=self._instance.get_ref()
        ).get_command_args()
        try:
            # The executable itself ("dagster", or "python -m dagster") is already running in the warm process.
            worker = self._fork(run.run_id, list(arguments[arguments.index("api") :]))
        except ExternalError as error:
            self._instance.report_engine_event(f"Started in a new process: {error}", run, cls=self.__class__)
            self._instance.add_run_tags(run.run_id, {COLD_TAG: "true"})
            worker = self._start(arguments)
        self._instance.add_run_tags(run.run_id, {WORKER_TAG: worker})
        self._run_ids.add(run.run_id)

    def _fork(self, run_id: str, command: list[str]) -> str:
        """Ask for the run. A server that died is started again by the supervisor, which is worth waiting for:

        a new process takes as long to import what the server imports, and many of them at once take much longer.
        """
        give_up = time.monotonic() + self.patience_s
        while True:
            try:
                answer = ask(self._socket, {"run_id": run_id, "command": command}, _TIMEOUT_S)
                break
            except NobodyListensError:
                if time.monotonic() >= give_up:
                    raise
                time.sleep(_POLL_S)
        worker = answer.get("worker")
        if not isinstance(worker, str):
            raise ExternalError(str(answer.get("error", "the run server named no worker")))
        return worker

    def _start(self, arguments: Sequence[str]) -> str:
        self._started = [process for process in self._started if process.poll() is None]
        # By this Python, not by name: the folder of the command need not be in the daemon's PATH.
        command = [sys.executable, "-m", "dagster", *arguments[list(arguments).index("api") :]]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
        self._started.append(process)
        return worker_identity(process.pid)

    def terminate(self, run_id: str) -> bool:
        """Interrupt the run's process. Returns whether there was one to interrupt."""
        run = self._instance.get_run_by_id(run_id)
        if run is None or run.is_finished:
            return False
        self._instance.report_run_canceling(run)
        process = find_worker(run.tags.get(WORKER_TAG, ""))
        if process is None:
            return False
        try:
            process.send_signal(signal.SIGINT)
        except psutil.NoSuchProcess:
            return False  # it ended by itself in this very moment
        return True

    @property
    def supports_check_run_worker_health(self) -> bool:
        return True

    def check_run_worker_health(self, run: DagsterRun) -> CheckRunHealthResult:
        """Whether the run's process is alive."""
        identity = run.tags.get(WORKER_TAG)
        if identity is None:
            # Dagster fails a run whose worker it cannot find; this one's launch is just being written down.
            return CheckRunHealthResult(WorkerStatus.RUNNING, "its process is not known yet")
        if find_worker(identity) is None:
            return CheckRunHealthResult(WorkerStatus.NOT_FOUND, f"process {identity} has ended")
        return CheckRunHealthResult(WorkerStatus.RUNNING, run_worker_id=identity)
