"""A cluster of virtual GPUs on which jobs do a given amount of work, slower beside others: time is the test's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from lucid_pipelines.domain.cluster import Gpu, GpuSample, Inventory, Node
from lucid_pipelines.domain.errors import NotFoundError
from lucid_pipelines.domain.job import ExitRecord, Profile
from lucid_pipelines.ports import (
    Capabilities,
    CheckResult,
    LaunchRequest,
    LaunchResult,
    LogChunk,
    Observation,
    Sight,
)
from tests.support_control.pretend import OwnClock

MEMORY_MIB = 24_576.0
PROFILE_AFTER_S = 4.0


@dataclass(frozen=True)
class ScriptedJob:
    """What a job does, by its name.

    Attributes:
        work_s: its run time alone.
        beside: its speed beside a job, by that job's name, else ``shared``.
        fails: ends with this status.
        step_s: time of a step alone, as its log tells.
    """

    name: str
    submit_s: float = 0.0
    gpus: int = 1
    vc: str = "train"
    user: str = "ada"
    work_s: float = 60.0
    util_pct: float = 30.0
    memory_util_pct: float = 15.0
    memory_mib: float = 4_000.0
    shared: float = 0.95
    beside: Mapping[str, float] = field(default_factory=dict)
    fails: int = 0
    step_s: float = 0.1
    unsteady: bool = False


@dataclass
class _Run:
    request: LaunchRequest
    job: ScriptedJob
    started_at: datetime
    as_of: datetime
    done_s: float = 0.0
    exit: ExitRecord | None = None
    progress: list[tuple[datetime, float]] = field(default_factory=list)

    @property
    def gpus(self) -> set[tuple[str, int]]:
        return {(share.node, index) for share in self.request.placement.shares for index in share.gpu_indices}


class ScriptedCluster:
    """The ``Cluster`` and ``LiveProfiles`` ports; the first word of a command is ``run``, the second the job's name."""

    def __init__(self, clock: OwnClock, nodes: Sequence[tuple[str, int, str]], jobs: Sequence[ScriptedJob]) -> None:
        self.clock = clock
        self.nodes = nodes
        self.jobs = {job.name: job for job in jobs}
        self.runs: dict[str, _Run] = {}
        self.unstarted: dict[str, ExitRecord] = {}
        self.launches: dict[str, int] = {}
        self.clashes: list[str] = []
        """More than two jobs on a GPU, or two that were not told that they share."""
        self.strangers_mib: dict[tuple[str, int], float] = {}
        """Memory that somebody else uses, by GPU."""

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(can_pack=True, can_isolate=True, can_check=True, can_adopt=False)

    def inventory(self) -> Inventory:
        return Inventory(
            tuple(
                Node(name, tuple(Gpu(i, None, "virtual", MEMORY_MIB, is_virtual=True) for i in range(count)), vc)
                for name, count, vc in self.nodes
            ),
            self.clock.now(),
        )

    def launch(self, request: LaunchRequest) -> LaunchResult:
        attempt_id = request.attempt_id
        if attempt_id in self.runs or attempt_id in self.unstarted:
            return LaunchResult(attempt_id, attempt_id, already=True)
        self._advance()
        now = self.clock.now()
        new = _Run(request, self.jobs[request.command[1]], now, now)
        others = [run for run in self.runs.values() if run.exit is None and run.gpus & new.gpus]
        if len(others) > 1 or any(other.gpus != new.gpus for other in others):
            self.clashes.append(f"{attempt_id} beside {[other.request.attempt_id for other in others]}")
        self.runs[attempt_id] = new
        self.launches[attempt_id] = self.launches.get(attempt_id, 0) + 1
        return LaunchResult(attempt_id, attempt_id, already=False)

    def poll(self, attempt_ids: Sequence[str]) -> Mapping[str, Observation]:
        self._advance()
        return {attempt_id: self._observe(attempt_id) for attempt_id in attempt_ids}

    def stop(self, attempt_id: str, grace_s: float, reason: str) -> None:
        del grace_s, reason
        self._advance()
        run = self.runs.get(attempt_id)
        if run is None:
            self.unstarted.setdefault(attempt_id, ExitRecord(None, None, "stopped", None, self.clock.now()))
        elif run.exit is None:
            self._end(run, self.clock.now(), ExitRecord(None, 15, "stopped", run.started_at, self.clock.now()))

    def fence(self, attempt_id: str) -> int:
        run = self.runs.get(attempt_id)
        if run is None:
            self.unstarted.setdefault(attempt_id, ExitRecord(None, None, "fenced", None, self.clock.now()))
            return 0
        if run.exit is None:
            self._end(run, self.clock.now(), ExitRecord(None, 9, "fenced", run.started_at, self.clock.now()))
        return 1

    def read_log(self, attempt_id: str, offset: int, max_bytes: int) -> LogChunk:
        run = self.runs.get(attempt_id)
        if run is None:
            raise NotFoundError(f"no such attempt: {attempt_id}")
        self._advance()
        total = round(run.job.work_s / run.job.step_s)
        lines: list[str] = []
        last = 0
        for at, done_s in run.progress:
            step = min(total, int(done_s / run.job.step_s))
            if step > last:
                lines.append(f"{at:%Y-%m-%d %H:%M:%S} INFO step {step}/{total} loss={2.0 / (1 + step):.4f}\n")
                last = step
        data = "".join(lines).encode()
        chunk = data[offset : offset + max_bytes]
        return LogChunk(chunk, offset, offset + len(chunk), len(data), identity=attempt_id)

    def sample(self) -> Sequence[GpuSample]:
        self._advance()
        return [self._sample(name, index) for name, count, _ in self.nodes for index in range(count)]

    def profile(self, attempt_id: str, since: datetime | None = None) -> Profile | None:
        self._advance()
        run = self.runs.get(attempt_id)
        if run is None:
            raise NotFoundError(f"no such attempt: {attempt_id}")
        return self._profile(run, since)

    def check(self, node: str, test: str) -> CheckResult:
        return CheckResult(node, test, True, "fine", self.clock.now())

    def isolate(self, node: str, gpu_indices: Sequence[int], owner: str, reason: str) -> None:
        del node, gpu_indices, owner, reason

    def restore(self, node: str, gpu_indices: Sequence[int], owner: str) -> None:
        del node, gpu_indices, owner

    def _sample(self, node: str, index: int) -> GpuSample:
        on_it = [run.job for run in self.runs.values() if run.exit is None and (node, index) in run.gpus]
        used = sum(job.memory_mib for job in on_it) + self.strangers_mib.get((node, index), 0.0)
        util = min(100.0, sum(job.util_pct for job in on_it))
        return GpuSample(node, index, self.clock.now(), "declared", util, None, used, None, len(on_it))

    def _profile(self, run: _Run, since: datetime | None) -> Profile | None:
        begin = run.started_at if since is None else max(since, run.started_at)
        seen_s = (run.as_of - begin).total_seconds()
        if seen_s < PROFILE_AFTER_S:
            return Profile(source="declared", window_s=seen_s, unknown_because="too_few")
        job = run.job
        if job.unsteady:
            return Profile(None, None, job.memory_mib, seen_s, int(seen_s), "declared", "unsteady")
        return Profile(job.util_pct, job.memory_util_pct, job.memory_mib, seen_s, int(seen_s), "declared")

    def _observe(self, attempt_id: str) -> Observation:
        now = self.clock.now()
        if attempt_id in self.unstarted:
            return Observation(attempt_id, Sight.EXITED, now, "scripted", exit=self.unstarted[attempt_id])
        run = self.runs.get(attempt_id)
        if run is None:
            return Observation(attempt_id, Sight.NOT_STARTED, now, "scripted")
        if run.exit is not None:
            profile = run.exit.profile
            return Observation(attempt_id, Sight.EXITED, now, "scripted", run.started_at, run.exit, profile)
        return Observation(attempt_id, Sight.RUNNING, now, "scripted", run.started_at)

    def _advance(self) -> None:
        """Let everybody work until now; who is done ends at the very moment at which the work was."""
        now = self.clock.now()
        while True:
            alive = [run for run in self.runs.values() if run.exit is None and run.as_of < now]
            if not alive:
                return
            begin = min(run.as_of for run in alive)
            ends = [
                begin + timedelta(seconds=max(run.job.work_s - run.done_s, 0.0) / self._speed(run)) for run in alive
            ]
            until = min(now, *ends)
            for run in alive:
                run.done_s += (until - run.as_of).total_seconds() * self._speed(run)
                run.progress.append((until, run.done_s))
            for run in alive:
                run.as_of = until
                if run.done_s >= run.job.work_s - 1e-6:
                    self._end(run, until, ExitRecord(run.job.fails, None, "exited", run.started_at, until))
            if until == begin and not any(run.exit is not None for run in alive):
                return

    def _speed(self, run: _Run) -> float:
        speed = 1.0
        for other in self.runs.values():
            if other is not run and other.exit is None and other.gpus & run.gpus:
                speed *= run.job.beside.get(other.job.name, run.job.shared)
        return speed

    def _end(self, run: _Run, at: datetime, record: ExitRecord) -> None:
        run.as_of = at
        profile = self._profile(run, None)
        run.exit = ExitRecord(
            record.exit_code, record.signal, record.reason, record.started_at, record.ended_at, profile=profile
        )
