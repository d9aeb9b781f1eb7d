"""A cluster in memory whose jobs write logs, and a control plane around it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lucid_pipelines.control.exits import claim_exits, handle_exit
from lucid_pipelines.control.following import Follower, Look
from lucid_pipelines.control.recovering import carry_out_due
from lucid_pipelines.control.scheduling import run_pass
from lucid_pipelines.control.system import System
from lucid_pipelines.domain.errors import ExternalError, NotFoundError
from lucid_pipelines.domain.job import Attempt, Job, JobSpec
from lucid_pipelines.ports import CheckResult, LanguageModel, LogChunk
from lucid_pipelines.store import Store, Tracked
from tests.support_control.pretend import OwnClock, PretendCluster
from tests.support_control.worlds import make_settings, take_in_all


@dataclass
class TalkingCluster(PretendCluster):
    """``PretendCluster`` with logs by attempt id.

    Attributes:
        is_away: makes every reading fail.
        failing, ending: attempts that end with code 1, or 0, at the next poll.
        broken_nodes: nodes whose tests fail.
    """

    logs: dict[str, bytearray] = field(default_factory=dict)
    is_away: bool = False
    failing: set[str] = field(default_factory=set)
    ending: set[str] = field(default_factory=set)
    broken_nodes: set[str] = field(default_factory=set)
    checked: list[tuple[str, str]] = field(default_factory=list)

    def check(self, node: str, test: str) -> CheckResult:
        self.checked.append((node, test))
        passed = node not in self.broken_nodes
        return CheckResult(node, test, passed, "fine" if passed else "declared to fail", self.clock.now())

    def _let_it_end(self, attempt: Any) -> None:
        attempt_id = attempt.request.attempt_id
        if attempt.exit is None and attempt_id in self.failing | self.ending:
            attempt.exit = self._record(int(attempt_id in self.failing), None, "exited", attempt.started_at)
        super()._let_it_end(attempt)

    def read_log(self, attempt_id: str, offset: int, max_bytes: int) -> LogChunk:
        if self.is_away:
            raise ExternalError("away")
        if attempt_id not in self.attempts:
            raise NotFoundError(f"no such attempt: {attempt_id}")
        data = bytes(self.logs.get(attempt_id, b""))
        begin = offset if offset <= len(data) else 0
        found = data[begin : begin + max_bytes]
        return LogChunk(found, begin, begin + len(found), len(data), restarted=begin != offset)


class TalkingWorld:
    """Store, cluster and follower; jobs named ``hold`` run until they are stopped."""

    def __init__(
        self,
        home: Path,
        *,
        model: LanguageModel | None = None,
        nodes: tuple[tuple[str, int, str], ...] = (("node-1", 4, "vision"), ("node-2", 4, "nlp")),
        **sections: object,
    ) -> None:
        self.clock = OwnClock()
        self.cluster = TalkingCluster(self.clock, nodes)
        home.mkdir(parents=True)
        self.store = Store.open(home / "state.db", durable=False)
        settings = make_settings(home, **sections)
        self.system = System.of(settings, self.store, self.cluster, self.clock, model)
        self.follower = Follower()

    def start(self, **fields: Any) -> Attempt:
        """Submit a job that runs until it is stopped, and start it."""
        values = {"name": "talker", "user": "ada", "vc": "vision", "gpus": 1, "command": ("hold",), **fields}
        job, _ = self.store.jobs.submit(JobSpec(**values), self.clock.now())
        take_in_all(self.system)
        for _ in range(3):
            self.clock.sleep(1.0)
            run_pass(self.system, "window")
        (attempt,) = self.store.attempts.of_job(job.job_id)
        assert attempt.started_at is not None, "the job runs"
        return attempt

    def job(self, attempt: Attempt) -> Job:
        return self.store.jobs.get(attempt.job_id)

    def rounds(self, count: int, step_s: float = 1.0) -> None:
        """What sensors and jobs do together, again and again."""
        for _ in range(count):
            self.clock.sleep(step_s)
            run_pass(self.system, "window")
            for claim in claim_exits(self.system, "exits"):
                handle_exit(self.system, claim)
            carry_out_due(self.system)

    def attempts(self, attempt: Attempt) -> list[Attempt]:
        return self.store.attempts.of_job(attempt.job_id)

    def write(self, attempt: Attempt, text: str) -> None:
        self.cluster.logs.setdefault(attempt.attempt_id, bytearray()).extend(text.encode())

    def look(self, wait_s: float = 30.0) -> list[Look]:
        """Let time pass, then look at every running job."""
        self.clock.sleep(wait_s)
        return self.follower.look(self.system, self.store.queue.view().active)

    def tracked(self, attempt: Attempt) -> Tracked:
        return self.store.tracking.find([attempt.attempt_id])[attempt.attempt_id]

    def with_model(self, model: LanguageModel | None) -> None:
        self.system = replace(self.system, language_model=model)


def steps(first: int, count: int, step_s: float = 0.5, total: int = 100_000) -> str:
    """Lines of training progress."""
    return "".join(
        f"step {i}/{total} loss {4 - i / total:.4f} {step_s:.3f} s/step\n" for i in range(first, first + count)
    )


ECC = (
    "Traceback (most recent call last):\n"
    '  File "/job/train.py", line 12, in main\n'
    "    loss.backward()\n"
    "RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
)
