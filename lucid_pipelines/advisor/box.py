"""Reading untrusted code in a process of its own, with a memory limit and a hard end (section 10).

The reader bounds itself; this is the second wall: whatever a hostile snapshot does to it, the caller gets
an answer within the time box, or the reason why there is none.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
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


def extract_boxed(root: Path, launch: LaunchDescription, limits: BoxLimits | None = None) -> JobMetadata:
    """Read a job's metadata in a child process.

    Raises:
        InputError: the root is no folder, or the launch description cannot be used.
        ExternalError: the child was killed (time, memory) or did not answer.
    """
    box = limits or BoxLimits()
    request = {
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
    from lucid_pipelines.advisor.extract import extract_metadata  # the caller of the box does not need it

    request = json.loads(sys.stdin.buffer.read())
    limit = int(request["memory_mib"]) * 1024 * 1024
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    # The processor time is bounded too: a child whose parent died must not run on.
    seconds = int(request["wall_s"] + START_ALLOWANCE_S) + 1
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
    sys.stdout.buffer.write(data[:MAX_ANSWER_BYTES] if len(data) <= MAX_ANSWER_BYTES else b"")
    return 0


if __name__ == "__main__":
    sys.exit(main())
