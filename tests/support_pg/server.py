"""A throw-away PostgreSQL server for tests, from Debian's binaries or at ``LUCID_TEST_PG_URL``."""

from __future__ import annotations

import atexit
import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import psycopg2
from sqlalchemy.engine import URL, make_url

_SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "shared_buffers": "64MB",
    "max_connections": "200",
    "wal_level": "minimal",
    "max_wal_senders": "0",
}
_DURABLE_SETTINGS = {"listen_addresses": ""}
"""PostgreSQL's own defaults but for the network: what a benchmark measures on."""
_START_TIMEOUT_S = 60.0


class PostgresMissingError(Exception):
    """No server can be had here; the message says why."""


class PostgresServer:
    """Makes and drops databases on one server."""

    def __init__(self, admin_url: URL) -> None:
        self._admin_url = admin_url.set(drivername="postgresql")
        self._numbers = itertools.count(1)
        self._made: set[str] = set()

    def create_database(self, template: str = "template0") -> str:
        """Make a fresh database and return its URL (``postgresql://…``)."""
        name = f"lucid_test_{os.getpid()}_{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template} ENCODING 'UTF8'")
        self._made.add(name)
        return self._admin_url.set(database=name).render_as_string(hide_password=False)

    def drop_database(self, url: str) -> None:
        """Drop a database that this server made, whoever still uses it."""
        name = make_url(url).database or ""
        self.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        self._made.discard(name)

    def drop_all(self) -> None:
        """Leave a server that was lent to the tests as it was."""
        for name in sorted(self._made):
            self.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def execute(self, statement: str) -> None:
        """Run one statement as the administrator, outside a transaction."""
        connection = psycopg2.connect(self._admin_url.render_as_string(hide_password=False))
        try:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(statement)
        finally:
            connection.close()


def server() -> PostgresServer:
    """The server of this test process, started on first use and stopped at exit.

    Raises:
        PostgresMissingError: there is none and none can be started.
    """
    found = _server_or_reason()
    if isinstance(found, str):
        raise PostgresMissingError(found)
    return found


def durable_server() -> PostgresServer:
    """Start a server whose commits survive a power cut, as in production; stopped at exit.

    Raises:
        PostgresMissingError: none can be started.
    """
    return _start(_binaries(), _DURABLE_SETTINGS)


@cache
def _server_or_reason() -> PostgresServer | str:
    try:
        return _lent_or_started()
    except PostgresMissingError as exc:
        return str(exc)  # kept, so that a server that does not start is tried once


def _lent_or_started() -> PostgresServer:
    given = os.environ.get("LUCID_TEST_PG_URL")
    if given:
        lent = PostgresServer(make_url(given))
        atexit.register(lent.drop_all)
        return lent
    return _start(_binaries(), _SETTINGS)


def _binaries() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if not found:
        raise PostgresMissingError("no PostgreSQL: apt-get install postgresql, or set LUCID_TEST_PG_URL")
    return found[-1].parent


def _start(binaries: Path, chosen: Mapping[str, str]) -> PostgresServer:
    folder = Path(tempfile.mkdtemp(prefix="lucid-pg-"))
    as_user = _unprivileged(folder)
    data, log = folder / "data", folder / "log"
    initdb = [*as_user, str(binaries / "initdb"), "-D", str(data), "-U", "lucid", "-A", "trust", "-E", "UTF8"]
    done = subprocess.run([*initdb, "--no-sync", "--locale=C.UTF-8"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        shutil.rmtree(folder, ignore_errors=True)
        raise PostgresMissingError(f"initdb failed: {done.stderr.strip()[-300:]}")
    settings = [part for name, value in chosen.items() for part in ("-c", f"{name}={value}")]
    arguments = ["-D", str(data), "-k", str(folder), *settings]
    with log.open("wb") as output:
        process = subprocess.Popen(
            # the death signal ends the server even when the test process is killed
            ["setpriv", "--pdeathsig=INT", *as_user[1:], str(binaries / "postgres"), *arguments],
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
        )
    atexit.register(_stop, process, folder)
    url = URL.create("postgresql", username="lucid", database="postgres", query={"host": str(folder)})
    _wait(process, url, log)
    return PostgresServer(url)


def _unprivileged(folder: Path) -> list[str]:
    """The command prefix that drops root, which PostgreSQL refuses to run as."""
    if os.geteuid() != 0:
        return ["setpriv"]
    try:
        account = pwd.getpwnam("postgres")
    except KeyError:
        raise PostgresMissingError("PostgreSQL does not run as root and there is no user 'postgres'") from None
    os.chown(folder, account.pw_uid, account.pw_gid)
    return ["setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups"]


def _wait(process: subprocess.Popen[bytes], url: URL, log: Path) -> None:
    deadline = time.monotonic() + _START_TIMEOUT_S
    while True:
        try:
            psycopg2.connect(url.render_as_string(hide_password=False)).close()
            return
        except psycopg2.OperationalError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise PostgresMissingError(f"PostgreSQL did not start: {log.read_text()[-500:]}") from None
            time.sleep(0.05)


def _stop(process: subprocess.Popen[bytes], folder: Path) -> None:
    process.terminate()
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    shutil.rmtree(folder, ignore_errors=True)
