"""The few words that the run launcher and the run server exchange: one JSON line each way over a Unix socket."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from pathlib import Path

import psutil

from lucid_pipelines.domain.errors import ExternalError

WORKER_TAG = "lucid/worker"
COLD_TAG = "lucid/cold_start"
MAX_MESSAGE_BYTES = 4 * 1024 * 1024


class NobodyListensError(ExternalError):
    """The run server has no open socket: it is starting, or gone. Nothing was asked of it."""


def ask(socket_path: Path, message: Mapping[str, object], timeout_s: float) -> dict[str, object]:
    """Send one message and return the answer.

    Raises:
        NobodyListensError: nobody listens.
        ExternalError: the answer does not come in time or makes no sense.
    """
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(timeout_s)
            try:
                connection.connect(str(socket_path))
            except (FileNotFoundError, ConnectionRefusedError) as error:
                raise NobodyListensError(f"the run server does not listen: {socket_path}: {error}") from error
            connection.sendall(json.dumps(message).encode() + b"\n")
            answer = read_message(connection)
    except OSError as error:
        raise ExternalError(f"the run server does not answer: {socket_path}: {error}") from error
    if answer is None:
        raise ExternalError(f"the run server closed the connection without an answer: {socket_path}")
    return answer


def read_message(connection: socket.socket) -> dict[str, object] | None:
    """Read one JSON line; ``None`` when the peer closed first."""
    data = bytearray()
    while not data.endswith(b"\n"):
        chunk = connection.recv(65536)
        if not chunk:
            return None
        data += chunk
        if len(data) > MAX_MESSAGE_BYTES:
            raise ExternalError(f"a message to the run server is too long: over {MAX_MESSAGE_BYTES} bytes")
    return parse_message(data)


def parse_message(line: bytes | bytearray) -> dict[str, object]:
    """One JSON line as an object.

    Raises:
        ExternalError: it is something else.
    """
    try:
        message = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ExternalError(f"not a JSON line: {bytes(line[:80])!r}") from error
    if not isinstance(message, dict):
        raise ExternalError(f"not a JSON object: {bytes(line[:80])!r}")
    return message


def worker_identity(pid: int) -> str:
    """A name for a process that a reused pid does not match.

    Raises:
        psutil.NoSuchProcess: it is gone.
    """
    return f"{pid}:{psutil.Process(pid).create_time():.2f}"


def find_worker(identity: str) -> psutil.Process | None:
    """The process with that identity, or ``None`` when it has ended."""
    pid_text, _, created = identity.partition(":")
    try:
        process = psutil.Process(int(pid_text))
        if f"{process.create_time():.2f}" != created or process.status() == psutil.STATUS_ZOMBIE:
            return None
    except (psutil.NoSuchProcess, ValueError):
        return None
    return process
