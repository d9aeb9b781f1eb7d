"""A crash at every stage of handling a failure: diagnosis, isolation, restart, resume check, notices. Nothing twice."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lucid_pipelines.control.exits import claim_exits, handle_exit
from lucid_pipelines.control.following import Follower
from lucid_pipelines.control.intake import claim_batch, take_in
from lucid_pipelines.control.notices import deliver
from lucid_pipelines.control.recovering import carry_out_due
from lucid_pipelines.control.restart_scores import score_restarts
from lucid_pipelines.control.resuming import check_resumes
from lucid_pipelines.control.scheduling import run_pass
from lucid_pipelines.control.system import System
from lucid_pipelines.domain.job import JobSpec
from lucid_pipelines.domain.states import JobState
from lucid_pipelines.ports import Notice, Notifier
from lucid_pipelines.settings import Settings
from lucid_pipelines.store import ActionState, Store
from tests.support_control.pretend import KilledError, OwnClock, Tripwire, Watched
from tests.support_control.talking import ECC, TalkingCluster, steps
from tests.support_control.worlds import make_settings

LIVE = {"modes": {"restart": "live", "isolate": "live"}, "recovery": {"backoff_base_s": 0.0}}
_ROUNDS = 40


@dataclass
class Ear:
    """A receiver outlives every control plane."""

    keys: list[str] = field(default_factory=list)

    def send(self, notice: Notice, timeout_s: float) -> None:
        self.keys.append(notice.key)


@dataclass
class Stage:
    settings: Settings
    clock: OwnClock
    cluster: TalkingCluster
    job_id: str
    ear: Ear

    def system(self, store: Store, wire: Tripwire) -> System:
        notifiers: Mapping[str, Notifier] = {"webhook": self.ear}
        bare = System.of(self.settings, store, self.cluster, self.clock, notifiers=notifiers)
        watched = (Watched(store, wire), Watched(self.cluster, wire))
        return System(self.settings, *watched, bare.policy, self.clock, notifiers=notifiers)  # type: ignore[arg-type]

    def let_jobs_write(self) -> None:
        """The first attempt meets an ECC error after some steps, the second goes on and ends."""
        for attempt_id, attempt in self.cluster.attempts.items():
            number = attempt.request.attempt_number
            if attempt_id not in self.cluster.logs:
                text = steps(1, 60) + ECC if number == 1 else steps(1, 20)
                self.cluster.logs[attempt_id] = bytearray(text.encode())
            elif number == 1:
                self.cluster.failing.add(attempt_id)
            elif attempt.polls > 4:
                self.cluster.ending.add(attempt_id)


@pytest.fixture(scope="module")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "state.db"
    Store.open(path, durable=False).close()
    return path


def set_up(home: Path, template: Path) -> Stage:
    settings = make_settings(home, **LIVE)
    home.mkdir(parents=True)
    shutil.copy(template, home / "state.db")
    clock = OwnClock()
    cluster = TalkingCluster(clock, broken_nodes={"node-1"})
    with Store.open(home / "state.db", durable=False) as store:
        job, _ = store.jobs.submit(JobSpec("ecc", "ada", "vision", 1, ("hold",)), clock.now())
    return Stage(settings, clock, cluster, job.job_id, Ear())


def one_round(stage: Stage, system: System, follower: Follower) -> bool:
    stage.clock.sleep(5.0)
    stage.let_jobs_write()
    for claim in claim_batch(system, "intake"):
        take_in(system, claim)
    run_pass(system, "window")
    active = system.store.queue.view().active
    follower.look(system, active)
    check_resumes(system, active)
    for claim in claim_exits(system, "exits"):
        handle_exit(system, claim)
    carry_out_due(system)
    score_restarts(system)
    deliver(system, "notices")
    is_over = system.store.jobs.get(stage.job_id).state is JobState.COMPLETED
    return is_over and not system.store.notices.find(done=False) and not system.store.intents.open_count()


def drive(stage: Stage, wire: Tripwire) -> bool:
    with Store.open(stage.settings.home / "state.db", migrate=False, durable=False) as store:
        system, follower = stage.system(store, wire), Follower()
        try:
            for _ in range(_ROUNDS):
                if one_round(stage, system, follower):
                    return True
        except KilledError:
            return False
        raise AssertionError(f"not ended: {store.jobs.get(stage.job_id)}")


def assert_nothing_twice(stage: Stage) -> None:
    assert max(stage.cluster.launches.values()) == 1 and len(stage.cluster.launches) == 2
    with Store.open(stage.settings.home / "state.db", migrate=False, durable=False) as store:
        actions = store.actions.find()
        assert sorted(action.kind for action in actions) == ["isolate", "restart"]
        assert {action.state for action in actions} == {ActionState.EXECUTED}
        (reason,) = store.nodes.isolated()
        assert reason.node == "node-1"
        events = store.events.of_job(stage.job_id)
        told = [event for event in events if event.who == "failure_handler" and event.kind.value == "note"]
        assert len(told) == 1, [event.why for event in told]
        assert store.jobs.get(stage.job_id).restart_count == 1
        for attempt in store.attempts.of_job(stage.job_id):
            losses = [p.step for p in store.metrics.points(attempt.attempt_id, "loss")]
            assert len(losses) == len(set(losses)), "no value twice"
        (restart,) = [action for action in actions if action.kind == "restart"]
        assert restart.score is not None and restart.score["good"] is True
    assert {key.partition(":")[0] for key in stage.ear.keys} == {"failure", "isolation"}
    # At least once: a process that died between sending and noting it sends again, under the same key.
    assert len(stage.ear.keys) <= len(set(stage.ear.keys)) + 1


def sweep(folder: Path, template: Path, stride: int, first: int = 1) -> None:
    stage = set_up(folder / "count", template)
    wire = Tripwire(None, after=False, error=KilledError)
    assert drive(stage, wire)
    assert_nothing_twice(stage)
    broken: list[str] = []
    for n in range(first, len(wire.calls) + 1, stride):
        for after in (False, True):
            home = folder / f"{n}-{after}"
            stage = set_up(home, template)
            try:
                if not drive(stage, Tripwire(n, after=after, error=KilledError)):
                    stage.clock.sleep(400.0)  # claims of the dead run out
                    assert drive(stage, Tripwire(None, after=False, error=KilledError))
                assert_nothing_twice(stage)
            except Exception as found:  # noqa: BLE001 all that break are told, not only the first
                broken.append(f"{'after' if after else 'before'} call {n} ({wire.calls[n - 1]}): {found!r}"[:400])
            shutil.rmtree(home)
    assert not broken, "\n".join(broken)


def test_some_stages(tmp_path: Path, empty_database: Path) -> None:
    sweep(tmp_path, empty_database, 61, first=20)


@pytest.mark.slow
def test_more_stages(tmp_path: Path, empty_database: Path) -> None:
    """``LUCID_TEST_STRIDE=1`` takes every single call."""
    sweep(tmp_path, empty_database, int(os.environ.get("LUCID_TEST_STRIDE", "11")))
