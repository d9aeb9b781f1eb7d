"""Scripted sessions of the control loop: submissions at their times, pass after pass, on the test's own clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lucid_pipelines.control.exits import claim_exits, handle_exit
from lucid_pipelines.control.intake import INTAKE_STATES, claim_batch, take_in
from lucid_pipelines.control.recovering import carry_out_due
from lucid_pipelines.control.scheduling import PassReport, run_pass
from lucid_pipelines.control.system import System
from lucid_pipelines.domain.job import Estimate, Job, JobSpec
from lucid_pipelines.settings import Settings
from lucid_pipelines.store import Store
from tests.support_control.pretend import OwnClock
from tests.support_control.scripted import ScriptedCluster, ScriptedJob
from tests.support_control.worlds import make_settings

LIVE_MODES = {"pack": "live", "unpack": "live", "lend": "live"}


@dataclass
class Session:
    """One control plane over a scripted cluster."""

    system: System
    cluster: ScriptedCluster
    clock: OwnClock
    reports: list[PassReport] = field(default_factory=list)
    ids: dict[str, str] = field(default_factory=dict)
    has_new: bool = True

    @classmethod
    def open(
        cls,
        home: Path,
        store: Store,
        nodes: Sequence[tuple[str, int, str]],
        jobs: Sequence[ScriptedJob],
        **sections: object,
    ) -> Session:
        clock = OwnClock()
        cluster = ScriptedCluster(clock, nodes, jobs)
        return cls(System.of(settings_of(home, nodes, **sections), store, cluster, clock), cluster, clock)

    def restarted(self) -> None:
        """Another process takes over: what the loop remembered is gone."""
        old = self.system
        self.system = System.of(old.settings, old.store, self.cluster, self.clock)

    def submit(self, *names: str) -> list[str]:
        self.has_new = True
        for name in names:
            scripted = self.cluster.jobs[name]
            spec = JobSpec(name, scripted.user, scripted.vc, scripted.gpus, ("run", name))
            self.ids[name] = self.system.store.jobs.submit(spec, self.clock.now())[0].job_id
        return [self.ids[name] for name in names]

    def take_in(self) -> None:
        """What the submission job does; the scripted time is the estimate."""
        for claim in claim_batch(self.system, "intake"):
            take_in(self.system, claim)
            work_s = self.cluster.jobs[claim.item.spec.name].work_s
            self.system.store.jobs.annotate(
                claim.item.job_id, who="test", why="told", now=self.clock.now(), estimate=Estimate(work_s, "scripted")
            )
        counts = self.system.store.jobs.counts()
        self.has_new = any(counts[state] for state in INTAKE_STATES)

    def run_pass(self, after_s: float = 1.0) -> PassReport:
        self.clock.sleep(after_s)
        if self.has_new:
            self.take_in()
        report = run_pass(self.system, "loop")
        assert report.policy_error is None, report.policy_error
        self.reports.append(report)
        if report.observed.ended:
            for claim in claim_exits(self.system, "loop"):
                handle_exit(self.system, claim)
            carry_out_due(self.system)
        return report

    def run_until(self, is_done: Callable[[], bool], most: int = 2_000, after_s: float = 1.0) -> None:
        for _ in range(most):
            if is_done():
                return
            self.run_pass(after_s)
        raise AssertionError({name: self.job(name).state.value for name in self.ids})

    def play(self, every_s: float = 1.0, most: int = 2_000) -> None:
        """Submit every job at its time and go on until all have ended."""
        begin = self.clock.now()
        todo = sorted(self.cluster.jobs.values(), key=lambda job: (job.submit_s, job.name))
        for _ in range(most):
            passed_s = (self.clock.now() - begin).total_seconds()
            while todo and todo[0].submit_s <= passed_s:
                self.submit(todo.pop(0).name)
            if not todo and self.have_ended():
                return
            self.run_pass(every_s)
        raise AssertionError({name: self.job(name).state.value for name in self.ids})

    def have_ended(self) -> bool:
        """Whether every job that was submitted has."""
        counts = self.system.store.jobs.counts()
        return not any(count and not state.is_terminal for state, count in counts.items())

    def finish(self) -> None:
        """Go on in steps of four seconds until all have ended."""
        self.run_until(self.have_ended, after_s=4.0)

    def job(self, name: str) -> Job:
        return self.system.store.jobs.get(self.ids[name])

    def jct_s(self, name: str) -> float:
        job = self.job(name)
        assert job.ended_at is not None
        return (job.ended_at - job.submitted_at).total_seconds()


def settings_of(home: Path, nodes: Sequence[tuple[str, int, str]], **sections: object) -> Settings:
    declared = [{"name": name, "gpus": gpus, "vc": vc} for name, gpus, vc in nodes]
    cluster = {"gpus": "virtual", "nodes": declared, "sample_interval_s": 1.0}
    chosen: dict[str, object] = {"cluster": cluster, "modes": LIVE_MODES}
    for name, values in sections.items():
        chosen[name] = {**chosen.get(name, {}), **values} if isinstance(values, dict) else values  # type: ignore[dict-item]
    return make_settings(home, **chosen)
