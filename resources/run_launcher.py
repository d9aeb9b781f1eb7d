"""A run launcher that forks runs from a warm process (docs/decisions/0001-warm-run-launcher.md).

A run of the default launcher starts a new Python, which imports Dagster and this project: four to five
CPU-seconds. The warm process has both loaded, so that a forked run costs a fraction of one.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from dagster import DagsterRun, DefaultRunLauncher, StringSource
from dagster._core.launcher.base import CheckRunHealthResult, LaunchRunContext, WorkerStatus
from dagster._grpc.types import ExecuteRunArgs
from dagster._serdes import ConfigurableClassData

from lucid_pipelines.domain.errors import ExternalError
from lucid_pipelines.resources.run_protocol import WORKER_TAG, ask, find_worker

_TIMEOUT_S = 15.0


class WarmRunLauncher(DefaultRunLauncher):
    """Hands runs to the run server; falls back to Dagster's own launcher, visibly, when it does not answer."""

    def __init__(self, socket: str, inst_data: ConfigurableClassData | None = None) -> None:
        self._socket = Path(socket)
        super().__init__(inst_data=inst_data)

    @classmethod
    def config_type(cls) -> Any:
        return {"socket": StringSource}

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData, config_value: Mapping[str, Any]) -> Self:
        return cls(socket=config_value["socket"], inst_data=inst_data)

    def launch_run(self, context: LaunchRunContext) -> None:
        """Start the run in a fork of the warm process. Raises what the default launcher raises."""
        run = context.dagster_run
        origin = context.job_code_origin
        if origin is None:
            super().launch_run(context)
            return
        arguments = ExecuteRunArgs(
            job_origin=origin, run_id=run.run_id, instance_ref=self._instance.get_ref()
        ).get_command_args()
        # The executable itself ("dagster", or "python -m dagster") is already running in the warm process.
        command = list(arguments[arguments.index("api") :])
        try:
            answer = ask(self._socket, {"run_id": run.run_id, "command": command}, _TIMEOUT_S)
            worker = answer.get("worker")
            if not isinstance(worker, str):
                raise ExternalError(str(answer.get("error", "the run server gave no worker")))
        except ExternalError as error:
            self._instance.report_engine_event(
                f"Fallback to the default run launcher: {error}", run, cls=self.__class__
            )
            self._instance.add_run_tags(run.run_id, {"lucid/launcher_fallback": "true"})
            super().launch_run(context)
            return
        self._instance.add_run_tags(run.run_id, {WORKER_TAG: worker})
        self._run_ids.add(run.run_id)

    def terminate(self, run_id: str) -> bool:
        """Interrupt the run's process. Returns whether there was one to interrupt."""
        run = self._instance.get_run_by_id(run_id)
        if run is None or run.is_finished:
            return False
        if WORKER_TAG not in run.tags:
            return super().terminate(run_id)
        self._instance.report_run_canceling(run)
        process = find_worker(run.tags[WORKER_TAG])
        if process is None:
            return False
        process.send_signal(signal.SIGINT)
        return True

    @property
    def supports_check_run_worker_health(self) -> bool:
        return True

    def check_run_worker_health(self, run: DagsterRun) -> CheckRunHealthResult:
        """Whether the run's process is alive; unknown for runs that the default launcher started."""
        identity = run.tags.get(WORKER_TAG)
        if identity is None:
            return CheckRunHealthResult(WorkerStatus.UNKNOWN, "started by the default launcher")
        if find_worker(identity) is None:
            return CheckRunHealthResult(WorkerStatus.NOT_FOUND, f"process {identity} has ended")
        return CheckRunHealthResult(WorkerStatus.RUNNING, run_worker_id=identity)
