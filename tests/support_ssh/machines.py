"""Machines to reach by SSH: real sshd programs of our own, on loopback or each in a network namespace.

Everything lies in one folder: host keys, the client's key, the list of known hosts, each machine's own files. What
was started is stopped again, by its number.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

_CONFIG = """\
Port {port}
ListenAddress {host}
HostKey {folder}/host_key
PidFile {folder}/sshd.pid
AuthorizedKeysFile {root}/client_key.pub
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
Subsystem sftp internal-sftp
UseDNS no
PrintMotd no
MaxStartups 200:30:400
MaxSessions 50
"""
_numbers = itertools.count(1)


@dataclass
class Machine:
    """One of them; ``link`` is this side of its cable, where it has a namespace of its own."""

    name: str
    host: str
    port: int
    folder: Path
    process: subprocess.Popen[bytes] | None = None
    namespace: str | None = None
    link: str | None = None

    @property
    def root(self) -> Path:
        """What the cluster's settings call the root on this machine."""
        return self.folder / "lucid"


class Machines:
    """Some machines below one folder.

    Args:
        apart: give each a network namespace (needs root and iproute2).
    """

    def __init__(self, root: Path, count: int, *, apart: bool = False) -> None:
        sshd = shutil.which("sshd", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
        if sshd is None or shutil.which("ssh-keygen") is None:
            pytest.skip("needs OpenSSH's server; install openssh-server")
        if apart and not can_make_namespaces():
            pytest.skip("needs network namespaces: root with CAP_NET_ADMIN, and iproute2")
        self.root = root
        self._sshd = sshd
        root.mkdir(parents=True, exist_ok=True)
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)
        self.key = root / "client_key"
        self.known_hosts = root / "known_hosts"
        _keygen(self.key)
        self.bridge: str | None = None
        self.machines: list[Machine] = []
        try:
            if apart:
                self._make_bridge()
            for number in range(1, count + 1):
                self.machines.append(self._make(number, apart=apart))
            for machine in self.machines:
                self.start(machine)
        except BaseException:
            self.close()
            raise
        self.trust()

    def __getitem__(self, index: int) -> Machine:
        return self.machines[index]

    def trust(self) -> None:
        """Write the list of known hosts anew from the machines' keys."""
        lines = []
        for machine in self.machines:
            kind, key = (machine.folder / "host_key.pub").read_text().split()[:2]
            name = machine.host if machine.port == 22 else f"[{machine.host}]:{machine.port}"
            lines.append(f"{name} {kind} {key}\n")
        self.known_hosts.write_text("".join(lines))

    def new_host_key(self, machine: Machine) -> None:
        """As after an installation anew."""
        self.stop(machine)
        for name in ("host_key", "host_key.pub"):
            (machine.folder / name).unlink()
        _keygen(machine.folder / "host_key")
        self.start(machine)

    def start(self, machine: Machine) -> None:
        command = [self._sshd, "-D", "-f", str(machine.folder / "sshd_config"), "-E", str(machine.folder / "sshd.log")]
        if machine.namespace is not None:
            command = ["ip", "netns", "exec", machine.namespace, *command]
        machine.process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + 10.0
        while True:
            try:
                socket.create_connection((machine.host, machine.port), timeout=1.0).close()
                return
            except OSError:
                log = machine.folder / "sshd.log"
                said = log.read_text() if log.exists() else ""
                assert time.monotonic() < deadline and machine.process.poll() is None, f"sshd does not start: {said}"
                time.sleep(0.02)

    def stop(self, machine: Machine, *, sessions: bool = True) -> None:
        """End the server; with ``sessions`` those who are logged in lose their connections too."""
        process = machine.process
        if process is None:
            return
        if sessions:
            for pid in _children(process.pid):
                _signal(pid, signal.SIGKILL)
        process.terminate()
        process.wait(10.0)
        machine.process = None

    def cut(self, machine: Machine) -> None:
        """Take the cable out."""
        assert machine.link is not None, "only a machine with a namespace of its own has a cable"
        _ip("link", "set", machine.link, "down")

    def mend(self, machine: Machine) -> None:
        assert machine.link is not None
        _ip("link", "set", machine.link, "up")

    def close(self) -> None:
        for machine in self.machines:
            self.stop(machine)
            if machine.namespace is not None:
                _ip("netns", "del", machine.namespace, check=False)
        if self.bridge is not None:
            _ip("link", "del", self.bridge, check=False)

    def _make(self, number: int, *, apart: bool) -> Machine:
        name = f"machine-{number}"
        folder = self.root / name
        folder.mkdir()
        _keygen(folder / "host_key")
        if apart:
            machine = self._wire(Machine(name, f"{self._net}.{10 + number}", 22, folder), number)
        else:
            machine = Machine(name, "127.0.0.1", _free_port(), folder)
        text = _CONFIG.format(port=machine.port, host=machine.host, folder=folder, root=self.root)
        (folder / "sshd_config").write_text(text)
        return machine

    def _make_bridge(self) -> None:
        tag = f"{os.getpid() % 100000}x{next(_numbers)}"
        self._tag = tag
        self._net = f"10.{200 + os.getpid() % 50}.{os.getpid() // 50 % 250}"
        self.bridge = f"lb{tag}"
        _ip("link", "add", self.bridge, "type", "bridge")
        _ip("addr", "add", f"{self._net}.1/24", "dev", self.bridge)
        _ip("link", "set", self.bridge, "up")

    def _wire(self, machine: Machine, number: int) -> Machine:
        assert self.bridge is not None
        machine.namespace, machine.link = f"ln{self._tag}n{number}", f"lv{self._tag}n{number}"
        _ip("netns", "add", machine.namespace)
        _ip("link", "add", machine.link, "type", "veth", "peer", "name", "eth0", "netns", machine.namespace)
        _ip("link", "set", machine.link, "master", self.bridge, "up")
        _ip("-n", machine.namespace, "addr", "add", f"{machine.host}/24", "dev", "eth0")
        _ip("-n", machine.namespace, "link", "set", "eth0", "up")
        _ip("-n", machine.namespace, "link", "set", "lo", "up")
        return machine


def can_make_namespaces() -> bool:
    """Whether this process may make a network namespace and a bridge; tried, not guessed."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    name = f"lprobe{os.getpid() % 100000}"
    made = subprocess.run(["ip", "link", "add", name, "type", "bridge"], capture_output=True, check=False)
    if made.returncode != 0:
        return False
    subprocess.run(["ip", "link", "del", name], capture_output=True, check=False)
    space = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False)
    subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    return space.returncode == 0


def _keygen(path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", str(path)], check=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _ip(*words: str, check: bool = True) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
