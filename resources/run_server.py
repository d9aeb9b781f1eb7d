"""The warm process: loads Dagster and the definitions once, then forks one child per run.

``python -m lucid_pipelines.resources.run_server SOCKET``. It never starts a thread and never opens the
Dagster instance, so that a fork copies no lock and no connection. It ends by itself when the project's
source files change, and its supervisor starts it anew with the new code.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import NoReturn

from dagster import DagsterInstance, in_process_executor, job, op

from lucid_pipelines.domain.errors import ExternalError, StateError
from lucid_pipelines.resources.advisors import preload
from lucid_pipelines.resources.run_callers import Callers, has_hung_up, reply
from lucid_pipelines.resources.run_protocol import parse_message, worker_identity
from lucid_pipelines.sensors.console import LOGGERS
from lucid_pipelines.service.dagster_home import MODULE_NAME

_POLL_S = 1.0
_INTERRUPT_PATIENCE_S = 8.0
_PR_SET_PDEATHSIG = 1


def serve(socket_path: Path, definitions_module: str = MODULE_NAME) -> None:
    """Load everything, then answer launch requests until SIGTERM or a source change.

    On SIGTERM the runs under way are interrupted and waited for.
    """
    definitions = importlib.import_module(definitions_module)
    definitions.defs.get_repository_def().load_all_definitions()
    # Dagster's command line is imported once here; each child only calls it.
    (dagster_command,) = entry_points(group="console_scripts", name="dagster")
    dagster_main = dagster_command.load()
    preload()
    _warm_up()
    sources = _newest_source()
    stopping = _stop_on_sigterm()
    gc.collect()
    gc.freeze()  # keeps the collector from touching, and so copying, pages that all children share
    runs: set[int] = set()
    with _listen(socket_path) as listener, Callers(listener) as callers:
        print(f"run server ready on {socket_path}", flush=True)
        while not stopping:
            _reap(runs)
            for connection, line in callers.wait(_POLL_S):
                if _newest_source() != sources:
                    reply(connection, {"error": "the source files changed; the run server restarts"})
                    return
                _handle(connection, line, callers, dagster_main, runs)
                callers.drop(connection)
    _interrupt(runs)


@op
def _nothing() -> None:
    """The smallest step there is."""


@job(executor_def=in_process_executor, logger_defs=LOGGERS)
def _warm_up_job() -> None:
    _nothing()


def _warm_up() -> None:
    """Run the smallest job once, so that all that Dagster imports late (two CPU-seconds) is loaded before a fork.

    Raises:
        StateError: a thread stayed behind; a fork could then copy a lock that nobody opens.
    """
    with DagsterInstance.local_temp() as instance:
        _warm_up_job.execute_in_process(instance=instance)
    if threading.active_count() > 1:
        raise StateError(f"the run server must have one thread; it has {threading.enumerate()}")


def _handle(
    connection: socket.socket, line: bytes, callers: Callers, dagster_main: Callable[[], object], runs: set[int]
) -> None:
    try:
        request = parse_message(line)
    except ExternalError as error:
        reply(connection, {"error": str(error)})
        return
    if request.get("ping"):
        reply(connection, {"pid": os.getpid()})
        return
    command = request.get("command")
    if not isinstance(command, list) or command[:2] != ["api", "execute_run"] or len(command) != 3:
        reply(connection, {"error": f"not a run to execute: {command!r}"[:300]})
        return
    if has_hung_up(connection):
        return  # it gave up waiting and has started the run in a process of its own: not a second time
    try:
        pid = os.fork()
    except OSError as error:
        reply(connection, {"error": f"the machine starts no more processes: {error}"})
        return
    if pid == 0:
        callers.close_all()
        _run([str(part) for part in command], dagster_main)
    runs.add(pid)
    reply(connection, {"worker": worker_identity(pid)})


def _run(command: list[str], dagster_main: Callable[[], object]) -> NoReturn:
    """The child's whole life: become one `dagster api execute_run` process."""
    code = 1
    server = os.getppid()
    try:
        os.setsid()
        # A run server that is killed takes its runs with it: the next one could neither stop nor wait for them.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGINT)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if os.getppid() != server:
            raise KeyboardInterrupt
        sys.argv = ["dagster", *command]
        dagster_main()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
    except BaseException:  # noqa: BLE001 the child must end here whatever happens, never in the parent's loop
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _listen(path: Path) -> socket.socket:
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    previous = os.umask(0o177)
    try:
        listener.bind(str(path))
    finally:
        os.umask(previous)
    listener.listen(64)
    return listener


def _reap(runs: set[int]) -> None:
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, _ = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            runs.discard(pid)


def _interrupt(runs: set[int]) -> None:
    """Interrupt what still runs, so that it gives its leases back; kill what does not listen."""
    for signal_number, patience_s in ((signal.SIGINT, _INTERRUPT_PATIENCE_S), (signal.SIGKILL, 1.0)):
        for pid in runs:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal_number)
        deadline = time.monotonic() + patience_s
        while runs and time.monotonic() < deadline:
            _reap(runs)
            time.sleep(0.05)


def _stop_on_sigterm() -> list[int]:
    received: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: received.append(number))
    signal.signal(signal.SIGINT, lambda number, _frame: received.append(number))
    return received


def _newest_source() -> float:
    """The latest modification time among this project's loaded modules."""
    newest = 0.0
    for name, module in list(sys.modules.items()):
        if not name.startswith("lucid_pipelines"):
            continue
        file = getattr(module, "__file__", None)
        if file:
            with contextlib.suppress(OSError):
                newest = max(newest, Path(file).stat().st_mtime)
    return newest


if __name__ == "__main__":
    serve(Path(sys.argv[1]), *sys.argv[2:3])
