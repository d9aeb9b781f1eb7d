"""A world that can be interrupted: a cluster in memory, a clock that tests own, and a proxy that counts every call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from lucid_pipelines.domain.cluster import Gpu, GpuSample, Inventory, Node
from lucid_pipelines.domain.errors import InputError, NotFoundError
from lucid_pipelines.domain.job import ExitRecord
from lucid_pipelines.ports import (
    Capabilities,
    CheckResult,
    LaunchRequest,
    LaunchResult,
    LogChunk,
    Observation,
    Sight,
)

RUNS_FOR_POLLS = 2
Gpus = set[tuple[str, int]]


class OwnClock:
    """Time that passes only when a test says so."""

    def __init__(self, start: datetime = datetime(2026, 1, 5, tzinfo=UTC)) -> None:
        self.moment = start

    def now(self) -> datetime:
        return self.moment

    def sleep(self, duration_s: float) -> None:
        self.moment += timedelta(seconds=duration_s)


@dataclass
class _Attempt:
    request: LaunchRequest
    started_at: datetime
    polls: int = 0
    stopping: bool = False
    vanished: bool = False
    exit: ExitRecord | None = None

    @property
    def gpus(self) -> Gpus:
        return {(share.node, index) for share in self.request.placement.shares for index in share.gpu_indices}


@dataclass
class PretendCluster:
    """Keeps the port's promises and notes what no cluster should ever see.

    What a job does is the first word of its command: ``ok`` and ``fail`` end by themselves, ``hold`` runs until it
    is stopped, ``vanish`` loses its wrapper in its first attempt, ``refuse`` cannot be launched.
    """

    clock: OwnClock
    nodes: tuple[tuple[str, int, str], ...] = (("node-1", 4, "vision"), ("node-2", 4, "nlp"))
    attempts: dict[str, _Attempt] = field(default_factory=dict)
    ended_unstarted: dict[str, ExitRecord] = field(default_factory=dict)
    launches: dict[str, int] = field(default_factory=dict)
    """How often each attempt's command was really started."""
    clashes: list[str] = field(default_factory=list)
    """Two attempts alive on one GPU."""

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(can_pack=False, can_isolate=True, can_check=True, can_adopt=False)

    def inventory(self) -> Inventory:
        nodes = tuple(
            Node(name, tuple(Gpu(index, is_virtual=True) for index in range(count)), vc, observed_at=self.clock.now())
            for name, count, vc in self.nodes
        )
        return Inventory(nodes, self.clock.now())

    def launch(self, request: LaunchRequest) -> LaunchResult:
        attempt_id = request.attempt_id
        if request.command[0] == "refuse":
            raise InputError(f"this can never be launched: {attempt_id}")
        if attempt_id in self.attempts or attempt_id in self.ended_unstarted:
            return LaunchResult(attempt_id, f"pretend:{attempt_id}", already=True)
        new = _Attempt(request, self.clock.now())
        for other_id, other in self.attempts.items():
            if other.exit is None and other.gpus & new.gpus:
                self.clashes.append(f"{attempt_id} beside {other_id}")
        self.attempts[attempt_id] = new
        self.launches[attempt_id] = self.launches.get(attempt_id, 0) + 1
        return LaunchResult(attempt_id, f"pretend:{attempt_id}", already=False)

    def poll(self, attempt_ids: Sequence[str]) -> Mapping[str, Observation]:
        return {attempt_id: self._observe(attempt_id) for attempt_id in attempt_ids}

    def stop(self, attempt_id: str, grace_s: float, reason: str) -> None:
        del grace_s, reason
        if attempt_id in self.attempts:
            self.attempts[attempt_id].stopping = True
        else:
            self.ended_unstarted.setdefault(attempt_id, self._record(None, None, "stopped"))

    def fence(self, attempt_id: str) -> int:
        if attempt_id not in self.attempts:
            self.ended_unstarted.setdefault(attempt_id, self._record(None, None, "fenced"))
            return 0
        attempt = self.attempts[attempt_id]
        was_alive = attempt.exit is None
        if was_alive:
            attempt.exit = self._record(None, None, "fenced")
        return int(was_alive)

    def read_log(self, attempt_id: str, offset: int, max_bytes: int) -> LogChunk:
        del max_bytes
        if attempt_id not in self.attempts:
            raise NotFoundError(f"no such attempt: {attempt_id}")
        return LogChunk(b"", offset, offset, 0)

    def sample(self) -> Sequence[GpuSample]:
        return []

    def check(self, node: str, test: str) -> CheckResult:
        return CheckResult(node, test, True, "fine", self.clock.now())

    def fetch_checkpoints(self, attempt_id: str, target: Path) -> None:
        pass

    def isolate(self, node: str, gpu_indices: Sequence[int], owner: str, reason: str) -> None:
        del node, gpu_indices, owner, reason

    def restore(self, node: str, gpu_indices: Sequence[int], owner: str) -> None:
        del node, gpu_indices, owner

    def _observe(self, attempt_id: str) -> Observation:
        now = self.clock.now()
        if attempt_id in self.ended_unstarted:
            return Observation(attempt_id, Sight.EXITED, now, "pretend", exit=self.ended_unstarted[attempt_id])
        attempt = self.attempts.get(attempt_id)
        if attempt is None:
            return Observation(attempt_id, Sight.NOT_STARTED, now, "pretend")
        attempt.polls += 1
        self._let_it_end(attempt)
        if attempt.exit is not None:
            return Observation(attempt_id, Sight.EXITED, now, "pretend", attempt.started_at, attempt.exit)
        sight = Sight.VANISHED if attempt.vanished else Sight.RUNNING
        return Observation(attempt_id, sight, now, "pretend", attempt.started_at)

    def _let_it_end(self, attempt: _Attempt) -> None:
        if attempt.exit is not None:
            return
        word = attempt.request.command[0]
        if attempt.stopping:
            attempt.exit = self._record(None, 15, "stopped", attempt.started_at)
        elif attempt.polls >= RUNS_FOR_POLLS and word == "fail":
            attempt.exit = self._record(3, None, "exited", attempt.started_at)
        elif attempt.polls >= RUNS_FOR_POLLS and word == "vanish" and attempt.request.attempt_number == 1:
            attempt.vanished = True
        elif attempt.polls >= RUNS_FOR_POLLS and word in ("ok", "vanish"):
            attempt.exit = self._record(0, None, "exited", attempt.started_at)

    def _record(
        self, exit_code: int | None, signal: int | None, reason: str, started_at: datetime | None = None
    ) -> ExitRecord:
        return ExitRecord(exit_code, signal, reason, started_at, self.clock.now())


class KilledError(BaseException):
    """The process dies here: no handler of the code under test may see it as an error of its own."""


_REPOSITORIES = frozenset(
    [
        "jobs",
        "attempts",
        "events",
        "intents",
        "exits",
        "leases",
        "estimates",
        "metrics",
        "tracking",
        "history",
        "nodes",
        "notices",
        "actions",
        "pairs",
        "loans",
        "counters",
        "meta",
        "queue",
    ]
)


class Watched:
    """Stands before a store or a cluster and tells ``on_call`` before and after every method call."""

    def __init__(self, inner: object, on_call: Callable[[str, bool], None], name: str = "") -> None:
        self._inner, self._on_call, self._name = inner, on_call, name

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name in _REPOSITORIES:
            return Watched(found, self._on_call, f"{name}.")
        if not callable(found):
            return found

        def call(*args: object, **options: object) -> object:
            self._on_call(self._name + name, False)
            answer = found(*args, **options)
            self._on_call(self._name + name, True)
            return answer

        return call


class Tripwire:
    """Raises ``error`` at the n-th call: before it had any effect, or after, so that the caller never learns of it."""

    def __init__(self, n: int | None, *, after: bool, error: Callable[[], BaseException], every: bool = False) -> None:
        self._n, self._after, self._error, self._every = n, after, error, every
        self.calls: list[str] = []
        self.sprung: str | None = None

    def __call__(self, name: str, is_after: bool) -> None:
        if not is_after:
            self.calls.append(name)
        if self._n is not None and len(self.calls) == self._n and is_after == self._after and self.sprung is None:
            self.sprung = name
            raise self._error()
