"""Reading untrusted code in a process of its own, with a memory limit and a hard end (section 10).

The reader bounds itself; this is the second wall: whatever a hostile snapshot does to it, the caller gets
an answer within the time box, or the reason why there is none.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import resource
import select
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lucid_pipelines.advisor.description import ExtractionLimits, LaunchDescription
from lucid_pipelines.advisor.metadata import JobMetadata
from lucid_pipelines.advisor.metadata_json import from_json, to_json
from lucid_pipelines.domain.errors import ExternalError, InputError

START_ALLOWANCE_S = 4.0
MAX_ANSWER_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class BoxLimits:
    """What the boxed reader may use.

    Attributes:
        wall_s: time for reading; the process is killed a little later.
        memory_mib: address space of the process.
    """

    wall_s: float = 15.0
    memory_mib: int = 1_536


def extract_quickly(root: Path, launch: LaunchDescription, limits: BoxLimits | None = None) -> JobMetadata:
    """``extract_boxed``, in a fork of this process where that is safe: nothing has to be loaded again.

    A fork is safe while this process has one thread: then no lock can be held for ever in the child.
    """
    if threading.active_count() > 1 or not hasattr(os, "fork"):
        return extract_boxed(root, launch, limits)
    return extract_forked(root, launch, limits)


def extract_forked(root: Path, launch: LaunchDescription, limits: BoxLimits | None = None) -> JobMetadata:
    """Read a job's metadata in a fork of this process, with the same walls as ``extract_boxed``.

    Raises:
        InputError: the root is no folder, or the launch description cannot be used.
        ExternalError: the child was killed (time, memory) or did not answer.
    """
    from lucid_pipelines.advisor.extract import extract_metadata as read  # loaded before the fork, not after it

    del read
    box = limits or BoxLimits()
    reading, writing = os.pipe()
    try:
        child = os.fork()
    except OSError as error:
        os.close(reading)
        os.close(writing)
        raise ExternalError(f"the machine starts no more processes: {error}") from error
    if child == 0:
        _serve_fork(_request(root, launch, box), writing)
    os.close(writing)
    try:
        answer = _drain(reading, box.wall_s + START_ALLOWANCE_S)
    finally:
        os.close(reading)
        status = _end_fork(child)
    if answer is None:
        raise ExternalError(f"reading the code took longer than its time box: {box.wall_s:g} s")
    return _understood(answer, status)


def _serve_fork(request: dict[str, Any], writing: int) -> None:
    """The child's whole life. It must never return into its parent's work."""
    status = 1
    try:
        os.setsid()
        gc.freeze()
        for name in (signal.SIGTERM, signal.SIGINT):
            signal.signal(name, signal.SIG_DFL)
        os.environ.clear()
        limit = _address_space_bytes() + int(request["memory_mib"]) * 1024 * 1024
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        data = _answer(request)
        with os.fdopen(writing, "wb") as stream:
            stream.write(data)
        status = 0
    except BaseException:  # noqa: BLE001  whatever hostile code leads to ends here
        status = 1
    finally:
        os._exit(status)


def _address_space_bytes() -> int:
    """What this process has mapped already: the limit counts from there."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[0]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def _drain(reading: int, wall_s: float) -> bytes | None:
    """All that the child writes; ``None`` when it is not done in time."""
    deadline = time.monotonic() + wall_s
    pieces: list[bytes] = []
    while True:
        left_s = deadline - time.monotonic()
        if left_s <= 0 or not select.select([reading], [], [], left_s)[0]:
            return None
        piece = os.read(reading, 65_536)
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)
        if sum(len(each) for each in pieces) > MAX_ANSWER_BYTES:
            return b""


def _end_fork(child: int) -> int | None:
    """Kill the child and whatever it started, if it has not ended; its exit status."""
    try:
        ended, status = os.waitpid(child, os.WNOHANG)
        deadline = time.monotonic() + 0.2
        while not ended and time.monotonic() < deadline:
            time.sleep(0.005)
            ended, status = os.waitpid(child, os.WNOHANG)
        if not ended:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
    except ChildProcessError:
        return None
    return os.waitstatus_to_exitcode(status)


def _request(root: Path, launch: LaunchDescription, box: BoxLimits) -> dict[str, Any]:
    return {
        "root": str(root),
        "command": list(launch.command),
        "env": dict(launch.env),
        "workdir": launch.workdir,
        "gpus": launch.gpus,
        "nodes": launch.nodes,
        "entry": launch.entry,
        "wall_s": box.wall_s,
        "memory_mib": box.memory_mib,
    }


def extract_boxed(root: Path, launch: LaunchDescription, limits: BoxLimits | None = None) -> JobMetadata:
    """Read a job's metadata in a child process.

    Raises:
        InputError: the root is no folder, or the launch description cannot be used.
        ExternalError: the child was killed (time, memory) or did not answer.
    """
    box = limits or BoxLimits()
    request = _request(root, launch, box)
    child = subprocess.Popen(
        [sys.executable, "-m", "lucid_pipelines.advisor.box"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env=_environment(),
    )
    try:
        answer, _ = child.communicate(json.dumps(request).encode(), timeout=box.wall_s + START_ALLOWANCE_S)
    except subprocess.TimeoutExpired as error:
        raise ExternalError(f"reading the code took longer than its time box: {box.wall_s:g} s") from error
    finally:
        _end(child)
    return _understood(answer, child.returncode)


def _environment() -> dict[str, str]:
    """Only what Python needs: the snapshot's reader has no use for the caller's variables and secrets."""
    kept = (
        "PATH",
        "PYTHONPATH",
        "PYTHONHOME",
        "VIRTUAL_ENV",
        "LANG",
        "LC_ALL",
        "TMPDIR",
        "LD_LIBRARY_PATH",
        "SYSTEMROOT",
    )
    return {name: os.environ[name] for name in kept if name in os.environ} | {"PYTHONDONTWRITEBYTECODE": "1"}


def _end(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def _understood(answer: bytes, status: int | None) -> JobMetadata:
    try:
        data: Any = json.loads(answer) if answer else None
    except ValueError:
        data = None
    if isinstance(data, dict) and "error" in data:
        raise InputError(str(data["error"]))
    if not isinstance(data, dict):
        raise ExternalError(f"the reader of the code ended without an answer; its status: {status}")
    return from_json(data)


def main() -> int:
    """Read one request from standard input, write one answer to standard output."""
    request = json.loads(sys.stdin.buffer.read())
    limit = int(request["memory_mib"]) * 1024 * 1024
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    sys.stdout.buffer.write(_answer(request))
    return 0


def _answer(request: dict[str, Any]) -> bytes:
    """Read what the request names, and say what was found."""
    from lucid_pipelines.advisor.extract import extract_metadata  # the caller of the box does not need it

    # The processor time is bounded too: a child whose parent died must not run on.
    spent = resource.getrusage(resource.RUSAGE_SELF)
    seconds = int(spent.ru_utime + spent.ru_stime + request["wall_s"] + START_ALLOWANCE_S) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    launch = LaunchDescription(
        tuple(request["command"]),
        dict(request["env"]),
        request["workdir"],
        request["gpus"],
        request["nodes"],
        request["entry"],
    )
    try:
        limits = replace(ExtractionLimits(), wall_s=float(request["wall_s"]))
        answer: dict[str, Any] = to_json(extract_metadata(Path(request["root"]), launch, limits))
    except InputError as error:
        answer = {"error": str(error)}
    data = json.dumps(answer).encode()
    return data if len(data) <= MAX_ANSWER_BYTES else b""


if __name__ == "__main__":
    sys.exit(main())
