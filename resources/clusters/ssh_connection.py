"""One kept connection to one node, and calls of the node's agent over it.

Host keys are verified against files that the site keeps; an unknown or changed one is refused. Every call has
a time limit. A node that could not be reached is left alone for a while, so that a pass over many nodes does
not wait for each dead one again and again.
"""

from __future__ import annotations

import json
import logging
import os
import shlex
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import paramiko

from lucid_pipelines.domain.errors import (
    ExternalError,
    InputError,
    LucidError,
    NotFoundError,
    StateError,
    UnreachableError,
)
from lucid_pipelines.resources.clusters.agent_bundle import BOOTSTRAP, agent_bundle
from lucid_pipelines.resources.clusters.ssh_session import AgentSession, DeadSessionError, run_once, told

AT_ONCE_PER_NODE = 6  # sshd allows 10 sessions a connection unless told otherwise
FIRST_PAUSE_S, LONGEST_PAUSE_S = 2.0, 30.0
_KINDS: dict[str, type[LucidError]] = {
    "InputError": InputError,
    "NotFoundError": NotFoundError,
    "StateError": StateError,
    "ExternalError": ExternalError,
}
logging.getLogger("paramiko").setLevel(logging.CRITICAL)  # every fault of a connection is raised, with our words
_abandoned: list[object] = []
"""Connections of a parent process: to close them would close the parent's."""


@dataclass(frozen=True, slots=True)
class SshOptions:
    """How nodes are reached.

    Attributes:
        key_file: private key; ``None`` = the agent's keys and the usual files.
        known_hosts: files with the nodes' host keys, in OpenSSH's format.
        root: our folder on every node; ``~`` is the user's home there.
        python: the interpreter on the nodes, 3.9 or newer.
    """

    user: str | None = None
    key_file: Path | None = None
    known_hosts: tuple[Path, ...] = (Path("~/.ssh/known_hosts"), Path("/etc/ssh/ssh_known_hosts"))
    root: str = "~/.lucid-node"
    python: str = "python3"
    connect_timeout_s: float = 10.0
    call_timeout_s: float = 60.0
    keepalive_s: float = 15.0


class _State:
    """The connection of one process; a forked child makes its own."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.lock = threading.Lock()
        self.slots = threading.BoundedSemaphore(AT_ONCE_PER_NODE)
        self.client: paramiko.SSHClient | None = None
        self.idle: list[AgentSession] = []
        self.agent: str | None = None
        self.blocked_until = 0.0
        self.pause_s = FIRST_PAUSE_S
        self.fault: UnreachableError | None = None


class NodeConnection:
    """Calls of one node's agent.

    Every method raises ``UnreachableError`` when the node does not answer, and what the agent raised otherwise.
    """

    def __init__(self, node: str, host: str, port: int, user: str | None, options: SshOptions) -> None:
        self.node = node
        self._host, self._port = host, port
        self._user = user or options.user
        self._options = options
        self._state = _State()

    def call(
        self, op: str, keys: Mapping[str, Any], payload: bytes | Path = b"", timeout_s: float | None = None
    ) -> tuple[dict[str, Any], bytes]:
        """Run one operation of ``node_agent`` there. A connection that proves to be dead is replaced once."""
        limit_s = self._options.call_timeout_s if timeout_s is None else timeout_s
        size = payload.stat().st_size if isinstance(payload, Path) else len(payload)
        request = {**keys, "op": op, "root": self._options.root, "payload_bytes": size}
        head = json.dumps(request).encode() + b"\n"
        state = self._mine()
        with state.slots:
            for is_last in (False, True):
                client, agent, is_new = self._connected(state)
                try:
                    session = state.idle.pop() if state.idle else self._open(client, agent)
                    answer, data = session.ask(head, payload, time.monotonic() + limit_s)
                except DeadSessionError as error:
                    self._drop(state, client)  # with it the agent is brought again, should it have been removed
                    if is_last or is_new:
                        raise self._unreachable(str(error)) from error
                    continue
                with state.lock:
                    if state.client is client:
                        state.idle.append(session)
                return self._checked(answer), data
        raise AssertionError("unreachable: the second turn returns or raises")

    @property
    def fault(self) -> UnreachableError | None:
        """Why the last call did not reach the node; ``None`` when it did."""
        return self._state.fault

    def close(self) -> None:
        """End the connection; the next call makes a new one."""
        state = self._mine()
        with state.lock:
            if state.client is not None:
                state.client.close()
                state.client = None
                state.idle.clear()

    def _mine(self) -> _State:
        if self._state.pid != os.getpid():
            _abandoned.append(self._state)
            self._state = _State()
        return self._state

    def _connected(self, state: _State) -> tuple[paramiko.SSHClient, str, bool]:
        """The connection, the agent's path there, and whether both were made by this call."""
        with state.lock:
            transport = state.client.get_transport() if state.client is not None else None
            if state.client is not None and state.agent and transport is not None and transport.is_active():
                return state.client, state.agent, False
            if state.fault is not None and time.monotonic() < state.blocked_until:
                raise state.fault
            if state.client is not None:
                state.client.close()
                state.client = None
                state.idle.clear()
            try:
                client = self._connect()
                try:
                    state.agent = self._bring_agent(client)
                except BaseException:
                    client.close()
                    raise
            except UnreachableError as error:
                state.fault = error
                state.blocked_until = time.monotonic() + state.pause_s
                state.pause_s = min(LONGEST_PAUSE_S, 2 * state.pause_s)
                raise
            state.client, state.fault, state.pause_s = client, None, FIRST_PAUSE_S
            return client, state.agent, True

    def _drop(self, state: _State, client: paramiko.SSHClient) -> None:
        with state.lock:
            if state.client is client:
                state.client = None
                state.idle.clear()
        client.close()

    def _connect(self) -> paramiko.SSHClient:
        options = self._options
        client = paramiko.SSHClient()
        for path in options.known_hosts:
            with suppress(FileNotFoundError):
                try:
                    client.load_host_keys(str(path.expanduser()))
                except (OSError, paramiko.SSHException) as error:
                    if isinstance(error, FileNotFoundError):
                        raise
                    raise UnreachableError(f"the file of host keys cannot be read: {path}: {error}") from error
        client.set_missing_host_key_policy(_Refuse())
        key = options.key_file
        try:
            client.connect(
                self._host,
                self._port,
                username=self._user,
                key_filename=str(key.expanduser()) if key else None,
                look_for_keys=key is None,
                allow_agent=key is None,
                timeout=options.connect_timeout_s,
                banner_timeout=options.connect_timeout_s,
                auth_timeout=options.connect_timeout_s,
                channel_timeout=options.connect_timeout_s,
            )
        except _UnknownKeyError as error:
            client.close()
            raise self._unreachable(
                f"its host key is not known ({error.fingerprint}): compare the fingerprint with the node's own "
                f"(ssh-keygen -lf /etc/ssh/ssh_host_*.pub there), then add it to {self._key_files()}"
            ) from error
        except paramiko.BadHostKeyException as error:
            client.close()
            raise self._unreachable(
                f"its host key has CHANGED to {_fingerprint(error.key)}: somebody may stand between, or it was "
                f"installed anew. Ask its administrator; then remove the old key (ssh-keygen -R "
                f"'{self._named()}') from {self._key_files()} and add the new one"
            ) from error
        except paramiko.AuthenticationException as error:
            client.close()
            who = f"user {self._user!r}" if self._user else "the user"
            how = f"the key {key}" if key else "the agent's keys and the usual key files"
            raise self._unreachable(
                f"it does not let {who} in with {how}: add the public key to authorized_keys there, "
                f"or mend cluster.ssh.user and cluster.ssh.key_file: {error}"
            ) from error
        except (paramiko.SSHException, OSError, EOFError, ValueError) as error:
            client.close()
            is_late = isinstance(error, TimeoutError)
            said = f"no answer within {options.connect_timeout_s:g} s" if is_late else str(error)
            raise self._unreachable(said or type(error).__name__) from error
        transport = client.get_transport()
        if transport is not None:
            transport.set_keepalive(max(1, int(options.keepalive_s)))
        return client

    def _bring_agent(self, client: paramiko.SSHClient) -> str:
        options, bundle = self._options, agent_bundle()
        words = [options.python, "-I", "-S", "-c", BOOTSTRAP, options.root, bundle.digest]
        deadline = time.monotonic() + options.call_timeout_s
        try:
            out, err, status = run_once(self._channel(client), shlex.join(words), bundle.data, deadline)
        except DeadSessionError as error:
            raise self._unreachable(str(error)) from error
        place = out.rpartition(b"\nLUCID-AGENT ")[2].strip()
        if status == 0 and place:
            return place.decode("utf-8", "surrogateescape")
        said = told(err or out)
        if "LUCID-OLD-PYTHON" in said:
            version = said.partition("LUCID-OLD-PYTHON")[2].split()[0]
            raise self._unreachable(
                f"{options.python} there is Python {version}; 3.9 or newer is needed (cluster.ssh.python names another)"
            )
        if status in (126, 127):
            raise self._unreachable(
                f"{options.python!r} cannot be run there: install Python 3.9 or newer, or set cluster.ssh.python "
                f"to its full path (a login without a terminal may have a shorter PATH): {said}"
            )
        raise self._unreachable(f"its folder {options.root} cannot be used (exit status {status}): {said}")

    def _open(self, client: paramiko.SSHClient, agent: str) -> AgentSession:
        command = f"{shlex.quote(self._options.python)} -I -S -X utf8 {shlex.quote(agent)}"
        return AgentSession(self._channel(client), command)

    def _channel(self, client: paramiko.SSHClient) -> paramiko.Channel:
        transport = client.get_transport()
        if transport is None:
            raise DeadSessionError("the connection is closed")
        try:
            return transport.open_session(timeout=self._options.connect_timeout_s)
        except (paramiko.SSHException, OSError, EOFError) as error:
            raise DeadSessionError(f"it opens no session: {error or type(error).__name__}") from error

    def _checked(self, answer: dict[str, Any]) -> dict[str, Any]:
        fault = answer.get("error")
        if fault is not None:
            raise _KINDS.get(fault["kind"], ExternalError)(f"node {self.node}: {fault['text']}")
        return answer

    def _unreachable(self, why: str) -> UnreachableError:
        return UnreachableError(f"node {self.node} ({self._named()}) cannot be reached: {why}")

    def _named(self) -> str:
        return self._host if self._port == 22 else f"[{self._host}]:{self._port}"

    def _key_files(self) -> str:
        return str(self._options.known_hosts[0]) if self._options.known_hosts else "cluster.ssh.known_hosts"


class _UnknownKeyError(paramiko.SSHException):
    def __init__(self, fingerprint: str) -> None:
        super().__init__(f"unknown host key {fingerprint}")
        self.fingerprint = fingerprint


class _Refuse(paramiko.MissingHostKeyPolicy):
    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:
        raise _UnknownKeyError(_fingerprint(key))


def _fingerprint(key: paramiko.PKey) -> str:
    return f"{key.get_name()} {key.fingerprint}"
