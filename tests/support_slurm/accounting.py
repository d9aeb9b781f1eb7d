"""Slurm's accounting for a cluster of our own: slurmdbd in front of a MariaDB, on loopback, in the cluster's folder."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.support_slurm.ports import free_ports

_PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
_PROGRAMS = ("slurmdbd", "mariadbd", "mariadb-install-db", "mariadb")
_CONF = """\
AuthType=auth/munge
AuthInfo=socket={root}/munge/munge.socket
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={port}
SlurmUser=root
LogFile={root}/log/slurmdbd.log
PidFile={root}/state/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={storage_port}
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm_acct_db
"""


class Accounting:
    """Both daemons. ``lines`` goes into slurm.conf; the cluster's munged must run before ``start``."""

    def __init__(self, root: Path) -> None:
        require_accounting()
        self.root, self.folder = root, root / "mariadb"
        self.folder.mkdir()
        self._port, self._storage_port = free_ports(1), free_ports(1)
        self._database: subprocess.Popen[bytes] | None = None
        conf = root / "conf" / "slurmdbd.conf"
        conf.write_text(_CONF.format(root=root, port=self._port, storage_port=self._storage_port))
        conf.chmod(0o600)

    @property
    def lines(self) -> str:
        return (
            "AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageHost=localhost\n"
            f"AccountingStoragePort={self._port}\n"
            f"AccountingStoragePass={self.root}/munge/munge.socket\nJobAcctGatherFrequency=30\n"
        )

    def start(self, environ: dict[str, str]) -> None:
        """The database, slurmdbd, and the cluster's name in it."""
        data = self.folder / "data"
        words = [f"--datadir={data}", "--auth-root-authentication-method=normal", "--skip-test-db"]
        user = ["--user=root"] if os.geteuid() == 0 else []
        _run("mariadb-install-db", "--no-defaults", *words, *user)
        socket = self.folder / "socket"
        self._database = subprocess.Popen(
            [
                _found("mariadbd"), "--no-defaults", f"--datadir={data}", f"--socket={socket}", *user,
                "--bind-address=127.0.0.1", f"--port={self._storage_port}", "--innodb-buffer-pool-size=32M",
                f"--pid-file={self.folder}/pid", f"--log-error={self.root}/log/mariadb.log",
            ],
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        grant = (
            "CREATE USER slurm@'127.0.0.1' IDENTIFIED BY 'slurm'; CREATE USER slurm@localhost IDENTIFIED BY 'slurm'; "
            "GRANT ALL ON slurm_acct_db.* TO slurm@'127.0.0.1'; GRANT ALL ON slurm_acct_db.* TO slurm@localhost;"
        )
        self._until(lambda: _works("mariadb", "--no-defaults", f"--socket={socket}", "-e", grant), "the database")
        self.start_daemon(environ)
        add = ("sacctmgr", "-i", "add", "cluster", "testbed")
        self._until(lambda: _works(*add, env=environ), "slurmdbd")

    def start_daemon(self, environ: dict[str, str]) -> None:
        subprocess.run([_found("slurmdbd")], env=environ, check=True, stdin=subprocess.DEVNULL, timeout=20)

    def stop_daemon(self) -> None:
        _end(self.root / "state" / "slurmdbd.pid")

    def close(self) -> None:
        self.stop_daemon()
        if self._database is not None:
            self._database.send_signal(signal.SIGTERM)
            self._database.wait(20.0)

    def _until(self, works: object, what: str) -> None:
        deadline = time.monotonic() + 30.0
        while not works():  # pyright: ignore[reportCallIssue]
            log = self.root / "log" / "slurmdbd.log"
            said = log.read_text()[-1000:] if log.exists() else ""
            assert time.monotonic() < deadline, f"{what} does not start: {said}"
            time.sleep(0.1)


def require_accounting() -> None:
    """Skip where slurmdbd and a MariaDB cannot run."""
    missing = [name for name in _PROGRAMS if shutil.which(name, path=_PATH) is None]
    if missing:
        pytest.skip(f"needs Slurm's accounting; install slurmdbd slurm-wlm-mysql-plugin mariadb-server: {missing}")


def _found(name: str) -> str:
    return shutil.which(name, path=_PATH) or name


def _run(name: str, *words: str) -> None:
    done = subprocess.run([_found(name), *words], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, f"{name}: {done.stderr[-500:]}"


def _works(name: str, *words: str, env: dict[str, str] | None = None) -> bool:
    done = subprocess.run(
        [_found(name), *words], env=env, capture_output=True, check=False, timeout=20, stdin=subprocess.DEVNULL
    )
    return done.returncode == 0


def _end(pid_file: Path) -> None:
    try:
        pid = int(pid_file.read_text())
        os.kill(pid, signal.SIGTERM)
    except (OSError, ValueError):
        return
    deadline = time.monotonic() + 10.0
    while Path(f"/proc/{pid}/exe").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
