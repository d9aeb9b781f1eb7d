"""One channel to a node: its agent, asked one question after the other, or a command that is run once."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import paramiko

_BLOCK = 1 << 18
_ANSWER = b"LUCID-ANSWER\n"
_MOST_LINE_BYTES = 64 << 20
_STDERR_CHARS = 600


class DeadSessionError(Exception):
    """The session cannot be used any more; nothing is known of what was asked in it."""


class AgentSession:
    """A running agent (``node_agent.py``). Not for several threads at once."""

    def __init__(self, channel: paramiko.Channel, command: str) -> None:
        self._channel = channel
        self._buffer = b""
        try:
            channel.exec_command(command)
        except (paramiko.SSHException, OSError, EOFError) as error:
            raise DeadSessionError(f"the connection broke: {error or type(error).__name__}") from error

    def ask(self, head: bytes, payload: bytes | Path, deadline: float) -> tuple[dict[str, Any], bytes]:
        """Send a request and read its answer; whatever a login script prints before it is passed over."""
        try:
            _send(self._channel, head, payload, deadline)
            while self._line(deadline) != _ANSWER:
                pass
            answer = json.loads(self._line(deadline))
            return answer, self._exactly(int(answer["payload_bytes"]), deadline)
        except TimeoutError as error:
            self._channel.close()
            raise DeadSessionError("it gave no answer in time") from error
        except (paramiko.SSHException, OSError, EOFError) as error:
            self._channel.close()
            raise DeadSessionError(f"the connection broke: {error or type(error).__name__}") from error
        except (ValueError, KeyError, TypeError) as error:
            self._channel.close()
            raise DeadSessionError(f"its answer cannot be understood: {error}") from error

    def _line(self, deadline: float) -> bytes:
        while b"\n" not in self._buffer:
            self._more(deadline)
            if len(self._buffer) > _MOST_LINE_BYTES:
                raise ValueError(f"a line of more than {_MOST_LINE_BYTES} bytes")
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line + b"\n"

    def _exactly(self, size: int, deadline: float) -> bytes:
        parts, left = [self._buffer[:size]], size - len(self._buffer)
        self._buffer = self._buffer[size:]
        while left > 0:
            self._channel.settimeout(_left(deadline))
            block = self._channel.recv(min(left, _BLOCK))
            if not block:
                raise EOFError("the answer was cut off")
            parts.append(block)
            left -= len(block)
        return b"".join(parts)

    def _more(self, deadline: float) -> None:
        self._channel.settimeout(_left(deadline))
        block = self._channel.recv(_BLOCK)
        if not block:
            self._channel.settimeout(1.0)
            try:
                said = told(self._channel.recv_stderr(_BLOCK))
            except OSError:
                said = "it said nothing"
            raise EOFError(f"its agent ended: {said}")
        self._buffer += block


def run_once(channel: paramiko.Channel, command: str, payload: bytes, deadline: float) -> tuple[bytes, bytes, int]:
    """Run a command with ``payload`` as its input: output, error output, exit status."""
    try:
        with channel:
            channel.exec_command(command)
            try:
                _send(channel, b"", payload, deadline)
                channel.shutdown_write()
            except TimeoutError:
                raise
            except OSError:
                pass  # it ended without reading everything: what it says is worth more than the broken pipe
            return _receive(channel, deadline)
    except TimeoutError as error:
        raise DeadSessionError("it gave no answer in time") from error
    except (paramiko.SSHException, OSError, EOFError) as error:
        raise DeadSessionError(f"the connection broke: {error or type(error).__name__}") from error


def told(text: bytes) -> str:
    """What a program said, in one line of bounded length."""
    return " ".join(text.decode("utf-8", "replace").split())[-_STDERR_CHARS:] or "it said nothing"


def _send(channel: paramiko.Channel, head: bytes, payload: bytes | Path, deadline: float) -> None:
    channel.settimeout(_left(deadline))
    channel.sendall(head)
    if isinstance(payload, Path):
        with payload.open("rb") as file:
            while block := file.read(_BLOCK):
                channel.settimeout(_left(deadline))
                channel.sendall(block)
    elif payload:
        channel.sendall(payload)


def _receive(channel: paramiko.Channel, deadline: float) -> tuple[bytes, bytes, int]:
    out, err = bytearray(), bytearray()
    while True:
        channel.settimeout(_left(deadline))
        block = channel.recv(_BLOCK)
        while channel.recv_stderr_ready():
            err += channel.recv_stderr(_BLOCK)
        if not block:
            break
        out += block
    channel.settimeout(_left(deadline))
    while block := channel.recv_stderr(_BLOCK):
        err += block
    if not channel.status_event.wait(_left(deadline)):
        raise TimeoutError
    return bytes(out), bytes(err), channel.exit_status


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
