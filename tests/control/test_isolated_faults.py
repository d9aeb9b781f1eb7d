"""One thing that breaks (an attempt, an intent, an exit, the policy) must not stop everything else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from lucid_pipelines.control import exits
from lucid_pipelines.control.exits import claim_exits, handle_exit
from lucid_pipelines.control.explaining import explain
from lucid_pipelines.control.recovering import carry_out_due, due_actions
from lucid_pipelines.control.scheduling import WINDOW_LEASE, run_pass, run_window
from lucid_pipelines.control.system import System
from lucid_pipelines.control.window_watch import WatchState, watch_window
from lucid_pipelines.domain.decision import Decision
from lucid_pipelines.domain.errors import ExternalError, InputError, StaleLockError
from lucid_pipelines.domain.job import Job, JobSpec
from lucid_pipelines.domain.states import Cause, JobState, Mode, Outcome
from lucid_pipelines.domain.view import ClusterView
from lucid_pipelines.policies import Policy
from lucid_pipelines.ports import LaunchRequest, LaunchResult, Observation, Sight
from lucid_pipelines.store import ActionState, IntentKind, Store
from tests.support_control.pretend import OwnClock, PretendCluster
from tests.support_control.worlds import make_settings, take_in_all


class Harsh(PretendCluster):
    """A cluster whose calls fail for the jobs that a test names (by the first word of their command)."""

    def __init__(self, clock: OwnClock) -> None:
        super().__init__(clock)
        self.broken: dict[str, BaseException] = {}
        self.unseen = False

    def launch(self, request: LaunchRequest) -> LaunchResult:
        self._fail("launch", request.command[0])
        return super().launch(request)

    def stop(self, attempt_id: str, grace_s: float, reason: str) -> None:
        self._fail("stop", "")
        super().stop(attempt_id, grace_s, reason)

    def fence(self, attempt_id: str) -> int:
        self._fail("fence", "")
        return super().fence(attempt_id)

    def poll(self, attempt_ids: Sequence[str]) -> Mapping[str, Observation]:
        self._fail("poll", "")
        seen = dict(super().poll(attempt_ids))
        if self.unseen:
            return {name: Observation(name, Sight.UNOBSERVED, self.clock.now(), "pretend") for name in seen}
        return seen

    def _fail(self, call: str, word: str) -> None:
        error = self.broken.get(f"{call}:{word}")
        if error is not None:
            raise error


class World:
    def __init__(self, home: Path, **sections: object) -> None:
        self.clock = OwnClock()
        self.cluster = Harsh(self.clock)
        home.mkdir(parents=True)
        self.store = Store.open(home / "state.db", durable=False)
        self.system = System.of(make_settings(home, **sections), self.store, self.cluster, self.clock)

    def submit(self, word: str, **fields: Any) -> Job:
        spec = JobSpec(**{"name": word, "user": "ada", "vc": "vision", "gpus": 1, "command": (word,), **fields})
        job, _ = self.store.jobs.submit(spec, self.clock.now())
        take_in_all(self.system)
        return job

    def rounds(self, count: int, step_s: float = 1.0) -> None:
        for _ in range(count):
            self.clock.sleep(step_s)
            run_pass(self.system, "window")

    def state(self, job: Job) -> JobState:
        return self.store.jobs.get(job.job_id).state


@pytest.fixture
def world(tmp_path: Path):
    made = World(tmp_path / "home")
    yield made
    made.store.close()


@pytest.mark.parametrize("error", [ExternalError("away"), ValueError("a defect"), InputError("no")])
def test_a_launch_that_fails_ends_its_job_and_nobody_elses(world: World, error: Exception) -> None:
    world.cluster.broken["launch:bad"] = error
    bad, good = world.submit("bad"), world.submit("ok")
    world.rounds(12, 5.0)
    assert (world.state(bad), world.state(good)) == (JobState.FAILED, JobState.COMPLETED)
    assert world.store.queue.view().slots == ()


@pytest.mark.parametrize("error", [ExternalError("away"), ValueError("a defect"), InputError("no")])
def test_a_stop_is_repeated_until_it_works(world: World, error: Exception) -> None:
    job = world.submit("hold")
    world.rounds(2)
    world.cluster.broken["stop:"] = error
    world.store.jobs.request_cancel(job.job_id, who="ada", now=world.clock.now())
    world.rounds(20, 30.0)
    assert world.state(job) is JobState.RUNNING, "its processes run, and so it says"
    (intent,) = world.store.intents.find(done=False)
    assert intent.kind is IntentKind.STOP
    del world.cluster.broken["stop:"]
    world.rounds(3, 30.0)
    assert world.state(job) is JobState.CANCELLED


def test_a_launch_whose_attempt_ends_while_it_fails_is_dropped(world: World) -> None:
    """Its intent is void by then: giving it back must not end the window."""

    class EndsMeanwhile(ExternalError):
        pass

    job = world.submit("hold")
    launch = world.cluster.launch

    def launch_and_lose(request: LaunchRequest) -> LaunchResult:
        world.store.attempts.record_end(request.attempt_id, None, Outcome.LOST, who="other", now=world.clock.now())
        raise EndsMeanwhile("no answer")

    world.cluster.launch = launch_and_lose  # type: ignore[method-assign]
    world.rounds(1)
    world.cluster.launch = launch  # type: ignore[method-assign]
    assert world.state(job) is JobState.LOST
    assert world.store.counters.all()["intents_stale"] == 1


def test_one_attempt_that_cannot_be_fenced_hides_no_other(world: World) -> None:
    lost, good = world.submit("vanish"), world.submit("ok")
    world.cluster.broken["fence:"] = ValueError("a defect")
    world.rounds(6)
    assert (world.state(lost), world.state(good)) == (JobState.RUNNING, JobState.COMPLETED)
    world.cluster.broken.clear()
    world.rounds(2)
    assert world.state(lost) is JobState.LOST


def test_what_cannot_be_seen_for_an_hour_changes_nothing(world: World) -> None:
    jobs = [world.submit(word) for word in ("ok", "hold", "vanish", "fail")]
    world.rounds(1)
    world.cluster.unseen = True
    world.rounds(60, 60.0)
    world.cluster.unseen = False
    assert {world.state(job) for job in jobs} == {JobState.RUNNING}
    world.cluster.broken["poll:"] = ExternalError("away")
    with pytest.raises(ExternalError):
        run_pass(world.system, "window")
    world.cluster.broken.clear()
    world.rounds(3)
    wanted = [JobState.COMPLETED, JobState.RUNNING, JobState.LOST, JobState.FAILED]
    assert [world.state(job) for job in jobs] == wanted
    assert set(world.cluster.launches.values()) == {1}


class BrokenPolicy:
    """A policy that answers everything except what matters."""

    def __init__(self, sound: Policy) -> None:
        self._sound = sound

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sound, name)

    def decide(self, view: ClusterView) -> Sequence[Decision]:
        raise ZeroDivisionError("a defect in a policy")


def test_while_the_policy_is_broken_what_runs_is_followed_and_can_be_cancelled(world: World) -> None:
    running, ending = world.submit("hold"), world.submit("ok")
    world.rounds(2)
    broken_policy = BrokenPolicy(world.system.policy)
    broken = System(world.system.settings, world.store, world.cluster, cast("Policy", broken_policy), world.clock)
    waiting = world.submit("ok")
    world.store.jobs.request_cancel(running.job_id, who="ada", now=world.clock.now())
    for _ in range(4):
        world.clock.sleep(1.0)
        report = run_pass(broken, "window")
        assert "ZeroDivisionError" in (report.policy_error or "")
    assert world.state(running) is JobState.CANCELLED
    assert world.state(ending) is JobState.COMPLETED
    assert world.state(waiting) is JobState.QUEUED
    world.rounds(4)
    assert world.state(waiting) is JobState.COMPLETED


def test_a_diagnosis_that_breaks_is_repeated_told_and_given_up(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    bad, other = world.submit("fail"), world.submit("fail")
    world.rounds(4)
    failure_facts: Callable[..., Any] = exits.failure_facts

    def breaks(system: System, job: Job, *args: Any) -> Any:
        if job.job_id == bad.job_id:
            raise RecursionError("a log that nests too deep")
        return failure_facts(system, job, *args)

    monkeypatch.setattr(exits, "failure_facts", breaks)
    handled: list[str] = []
    for _ in range(8):
        handled += [r.job_id for claim in claim_exits(world.system, "w") if (r := handle_exit(world.system, claim))]
        world.clock.sleep(200.0)
    assert handled == [other.job_id]
    assert world.store.exits.pending() == (0, None)
    assert world.store.counters.all()["exits_undiagnosed"] == 1
    assert any("RecursionError" in (event.why or "") for event in world.store.events.of_job(bad.job_id))


def test_a_checkpoint_link_that_leads_nowhere_is_no_checkpoint(world: World) -> None:
    job = world.submit("fail")
    folder = world.system.settings.jobs / job.job_id / "checkpoints"
    folder.mkdir(parents=True)
    (folder / "latest").symlink_to("step_100.npz")
    (folder / "loop").symlink_to("loop")
    world.rounds(4)
    (claim,) = claim_exits(world.system, "w")
    assert handle_exit(world.system, claim) is not None


def test_an_action_that_meets_an_outage_stays_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path / "home")
    job = world.submit("fail")
    world.rounds(4)
    attempt = world.store.attempts.of_job(job.job_id)[-1]
    now = world.clock.now()
    payload = {"attempt_id": attempt.attempt_id}
    for number in range(600):  # what only watches must not push out what acts
        world.store.actions.propose("restart", f"j{number}", Mode.SHADOW, payload, why="w", now=now)
    world.store.actions.propose("restart", job.job_id, Mode.LIVE, payload, why="R1", now=now, key="k")
    for number in range(600):
        world.store.actions.propose("restart", f"k{number}", Mode.SHADOW, payload, why="w", now=now)
    requeue = world.store.jobs.requeue

    def away(*args: object, **options: object) -> None:
        raise ExternalError("the database is locked")

    monkeypatch.setattr(world.store.jobs, "requeue", away)
    (carried,) = carry_out_due(world.system)
    assert not carried.done and len(due_actions(world.system)) == 1
    monkeypatch.setattr(world.store.jobs, "requeue", requeue)
    (carried,) = carry_out_due(world.system)
    assert carried.done and world.state(job) is JobState.QUEUED
    assert world.store.actions.get(carried.action.action_id).state is ActionState.EXECUTED
    world.store.close()


def test_a_standby_that_was_forgotten_ends_quietly(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    leases = world.store.leases
    assert leases.acquire(WINDOW_LEASE, "current", ttl_s=1000, now=world.clock.now())

    def lost(*args: object, **options: object) -> None:
        raise StaleLockError("taken")

    monkeypatch.setattr(leases, "renew", lost)
    assert "stands by" in run_window(world.system, "late").ended_because


def test_a_clock_that_is_set_back_stops_no_window_and_no_watch(world: World) -> None:
    world.submit("hold")
    now_s = world.clock.now().timestamp()
    ahead = WatchState(holder=None, holder_since_s=now_s + 3600, asked_s=now_s + 3600)
    assert watch_window(world.system, ahead).start, "what lies in the future was not a moment ago"

    seen: list[float] = []

    def set_back(report: object) -> None:
        seen.append(world.clock.now().timestamp())
        if len(seen) == 3:
            world.clock.sleep(-3600.0)

    report = run_window(world.system, "window", set_back)
    assert report.ended_because == "no successor came"
    assert len(seen) > 50, "it went on making passes after the clock was set back"
    assert world.store.leases.holder(WINDOW_LEASE, now=world.clock.now()) is None


def test_a_cancelled_job_whose_wrapper_dies_is_cancelled_and_not_lost(world: World) -> None:
    job = world.submit("vanish")
    world.rounds(2)
    world.cluster.broken["stop:"] = ExternalError("away")
    world.store.jobs.request_cancel(job.job_id, who="ada", now=world.clock.now())
    world.rounds(3)
    ended = world.store.jobs.get(job.job_id)
    assert (ended.state, ended.cause) == (JobState.CANCELLED, Cause.USER)
    assert world.store.exits.pending() == (0, None), "nothing is to be repaired"
    assert world.store.queue.view().slots == ()


def test_a_cancelled_job_that_cannot_be_launched_is_cancelled(world: World) -> None:
    world.cluster.broken["launch:ok"] = ExternalError("away")
    job = world.submit("ok")
    world.rounds(1)
    world.store.jobs.request_cancel(job.job_id, who="ada", now=world.clock.now())
    world.rounds(5, 20.0)
    assert world.state(job) is JobState.CANCELLED
    assert world.cluster.launches == {}


def test_a_node_that_is_removed_while_a_job_runs_on_it(world: World) -> None:
    running = world.submit("ok", gpus=4)
    world.rounds(1)
    world.cluster.nodes = (("node-2", 4, "nlp"),)
    waiting, other = world.submit("ok"), world.submit("ok", vc="nlp")
    world.rounds(5)
    assert [world.state(job) for job in (running, waiting, other)] == [
        JobState.COMPLETED,
        JobState.QUEUED,
        JobState.COMPLETED,
    ]
    told = explain(world.system, waiting.job_id)
    assert told.waiting is not None and told.waiting.cause == "unknown_vc"


def test_many_jobs_at_once_all_end_once(world: World) -> None:
    specs = [JobSpec(f"n{i}", "ada", "vision", 1 + i % 4, ("ok",)) for i in range(40)]
    jobs = world.store.jobs.submit_many(specs, world.clock.now())
    for _ in range(5):
        take_in_all(world.system)
    for _ in range(200):
        world.rounds(1)
        if not world.store.queue.view().waiting and not world.store.queue.view().active:
            break
    assert {world.state(job) for job, _ in jobs} == {JobState.COMPLETED}
    assert world.cluster.clashes == [] and set(world.cluster.launches.values()) == {1}
    assert len(world.cluster.launches) == len(jobs)
