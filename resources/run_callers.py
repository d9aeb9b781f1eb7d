"""The run server's callers: many at once without a thread, none of which can hold up another."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from lucid_pipelines.resources.run_protocol import MAX_MESSAGE_BYTES

_PATIENCE_S = 5.0
"""A caller that has not said its one line by then is dropped: it writes that at once or never."""
_MOST_AT_ONCE = 128
_REPLY_TIMEOUT_S = 1.0
_CHUNK = 65536


@dataclass
class _Caller:
    deadline: float
    said: bytearray = field(default_factory=bytearray)


class Callers:
    """Connections whose line is not complete yet. ``listener`` is closed with them in a fork."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._open: dict[socket.socket, _Caller] = {}
        listener.setblocking(False)

    def wait(self, timeout_s: float) -> list[tuple[socket.socket, bytes]]:
        """Callers that have said a whole line by now, or none of them after ``timeout_s``.

        Answer each with ``reply`` and then ``drop`` it.
        """
        self._drop_late()
        watched = [*self._open, *([self._listener] if len(self._open) < _MOST_AT_ONCE else [])]
        readable, _, _ = select.select(watched, [], [], timeout_s)
        if self._listener in readable:
            self._accept()
        complete = [(connection, self._read(connection)) for connection in readable if connection in self._open]
        return [(connection, line) for connection, line in complete if line is not None]

    def drop(self, connection: socket.socket) -> None:
        """Close the connection."""
        if self._open.pop(connection, None) is not None:
            connection.close()

    def close_all(self) -> None:
        """Close everything, the listener too."""
        for connection in list(self._open):
            self.drop(connection)
        self._listener.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close_all()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # nobody is left, or no descriptor is free: they stay in the backlog
            while len(self._open) < _MOST_AT_ONCE:
                connection, _ = self._listener.accept()
                connection.setblocking(False)
                self._open[connection] = _Caller(time.monotonic() + _PATIENCE_S)

    def _read(self, connection: socket.socket) -> bytes | None:
        caller = self._open[connection]
        try:
            chunk = connection.recv(_CHUNK)
        except BlockingIOError:
            return None
        except OSError:
            chunk = b""
        if not chunk:
            self.drop(connection)
            return None
        caller.said += chunk
        if len(caller.said) > MAX_MESSAGE_BYTES:
            reply(connection, {"error": f"a message to the run server has at most {MAX_MESSAGE_BYTES} bytes"})
            self.drop(connection)
            return None
        return bytes(caller.said) if caller.said.endswith(b"\n") else None

    def _drop_late(self) -> None:
        now = time.monotonic()
        for connection in [connection for connection, caller in self._open.items() if caller.deadline < now]:
            self.drop(connection)


def reply(connection: socket.socket, message: Mapping[str, object]) -> None:
    """Answer in one JSON line. A caller that has given up meanwhile falls back by itself."""
    with contextlib.suppress(OSError):
        connection.settimeout(_REPLY_TIMEOUT_S)
        connection.sendall(json.dumps(message).encode() + b"\n")


def has_hung_up(connection: socket.socket) -> bool:
    """Whether the caller has closed its end."""
    try:
        return connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
