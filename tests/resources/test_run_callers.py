"""What speaks to the run server: hostile, slow and silent callers, none of which may hold up a launch."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lucid_pipelines.domain.errors import ExternalError
from lucid_pipelines.resources.run_callers import Callers, has_hung_up, reply
from lucid_pipelines.resources.run_protocol import (
    MAX_MESSAGE_BYTES,
    NobodyListensError,
    ask,
    find_worker,
    parse_message,
    worker_identity,
)


class Server:
    """The run server's loop without Dagster: it answers every line with what it understood."""

    def __init__(self, path: Path) -> None:
        self.path, self.stopping = path, False
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen(64)
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        with Callers(self._listener) as callers:
            while not self.stopping:
                for connection, line in callers.wait(0.05):
                    try:
                        reply(connection, {"worker": parse_message(line).get("run_id", "none")})
                    except ExternalError as error:
                        reply(connection, {"error": str(error)})
                    callers.drop(connection)

    def stop(self) -> None:
        self.stopping = True
        self._thread.join(10)
        assert not self._thread.is_alive()

    def connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(10)
        deadline = time.monotonic() + 10
        while True:
            try:
                connection.connect(str(self.path))
                return connection
            except BlockingIOError:  # its backlog is full for a moment
                assert time.monotonic() < deadline
                time.sleep(0.005)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path / "run.sock")
    yield made
    made.stop()


def launches(server: Server) -> bool:
    return ask(server.path, {"run_id": "r1"}, 5.0) == {"worker": "r1"}


@pytest.mark.parametrize(
    "garbage",
    [
        b"\n",
        b"not json\n",
        b"[]\n",
        b"\xff\xfe\x00\n",
        b"{}{}\n",
        b"{}\n{}\n",
        b"[" * 200_000 + b"\n",
        b'{"a":' * 100_000 + b"\n",
        b"9" * 10_000 + b"\n",
        os.urandom(5000).replace(b"\n", b"") + b"\n",
    ],
)
def test_garbage_is_answered_and_survived(server: Server, garbage: bytes) -> None:
    with server.connect() as caller:
        caller.sendall(garbage)
        assert b'"error"' in caller.recv(65536)
    assert launches(server)


def test_a_line_without_end_is_cut_off(server: Server) -> None:
    with server.connect() as caller, contextlib.suppress(OSError):  # it is cut off while it speaks
        caller.sendall(b"x" * (MAX_MESSAGE_BYTES + 100_000))
    assert launches(server)


def test_silent_and_slow_callers_hold_up_nobody(server: Server) -> None:
    silent = [server.connect() for _ in range(40)]
    slow = server.connect()
    slow.sendall(b'{"run_id"')
    begin = time.monotonic()
    assert launches(server)
    assert time.monotonic() - begin < 2.0
    slow.sendall(b': "slow"}\n')
    assert b"slow" in slow.recv(1000)
    for connection in (*silent, slow):
        connection.close()


def test_more_callers_than_it_takes_at_once_wait_their_turn(server: Server) -> None:
    silent = [server.connect() for _ in range(180)]
    assert ask(server.path, {"run_id": "r1"}, 14.0) == {"worker": "r1"}, "the silent ones are dropped in time"
    for connection in silent:
        connection.close()


def test_thousands_of_callers_that_hang_up(server: Server) -> None:
    for _ in range(2000):
        server.connect().close()
    assert launches(server)


def test_a_caller_that_gave_up_is_noticed() -> None:
    mine, theirs = socket.socketpair()
    with mine:
        assert not has_hung_up(mine)
        theirs.sendall(b"{}\n")
        theirs.close()
        mine.recv(100)
        assert has_hung_up(mine), "its run must not be started a second time"


def test_nobody_listens(tmp_path: Path) -> None:
    with pytest.raises(NobodyListensError, match="does not listen"):
        ask(tmp_path / "nothing.sock", {"run_id": "r"}, 1.0)


def test_a_process_is_found_by_its_identity_only() -> None:
    identity = worker_identity(os.getpid())
    found = find_worker(identity)
    assert found is not None and found.pid == os.getpid()
    assert find_worker(f"{os.getpid()}:1.00") is None, "a reused pid is somebody else"
    for unusable in ("", "x", "12", "-1:0.00", "9" * 30 + ":1.00"):
        assert find_worker(unusable) is None
