"""The processes that make up the running service, and how each is started."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lucid_pipelines.service.dagster_home import MODULE_NAME, RunFiles
from lucid_pipelines.settings import Settings


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """One process of the service.

    Attributes:
        stage: 1 starts first; stage 2 waits until Dagster's tables exist and the sockets answer.
        socket: the Unix socket that shows that it is up, if it has one.
    """

    name: str
    arguments: tuple[str, ...]
    stage: int
    socket: Path | None = None


def process_specs(settings: Settings, files: RunFiles, workspace: Path) -> tuple[ProcessSpec, ...]:
    """Every process of the service, in the order of starting."""
    python = sys.executable
    programs = Path(python).parent  # the console scripts of this very environment
    code_socket = files.code_server_socket
    specs = [
        ProcessSpec(
            "code-server",
            (
                str(programs / "dagster"),
                "api",
                "grpc",
                "-m",
                MODULE_NAME,
                "--socket",
                str(code_socket),
                "--log-level",
                "warning",
            ),
            stage=1,
            socket=code_socket,
        )
    ]
    if settings.dagster.warm_runs:
        run_socket = files.run_server_socket
        arguments = (python, "-m", "lucid_pipelines.resources.run_server", str(run_socket))
        specs.append(ProcessSpec("run-server", arguments, stage=1, socket=run_socket))
    web = settings.dagster
    specs += [
        ProcessSpec(
            "daemon", (str(programs / "dagster-daemon"), "run", "-w", str(workspace), "--log-level", "warning"), stage=2
        ),
        ProcessSpec(
            "webserver",
            (
                *(str(programs / "dagster-webserver"), "-w", str(workspace)),
                *("-h", web.host, "-p", str(web.port), "--log-level", "warning"),
            ),
            stage=2,
        ),
    ]
    return tuple(specs)


def service_environment(settings: Settings, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of every process: the home folder and Dagster's, in UTC, without telemetry."""
    env = dict(os.environ if environ is None else environ)
    env.update(
        LUCID_HOME=str(settings.home),
        DAGSTER_HOME=str(settings.dagster_home),
        TZ="UTC",
        PYTHONUNBUFFERED="1",
        DO_NOT_TRACK="1",
    )
    return env
