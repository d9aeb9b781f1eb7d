"""The loop is killed while it profiles, packs, splits and lends: a fresh one reaches the same end."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from lucid_pipelines.control.system import System
from lucid_pipelines.domain.states import JobState
from lucid_pipelines.store import PairVerdict, Store
from tests.support_control.live_days import Session
from tests.support_control.pretend import KilledError, OwnClock, Tripwire, Watched
from tests.support_control.scripted import ScriptedCluster, ScriptedJob

POINTS = int(os.environ.get("LUCID_KILL_POINTS", "4"))
NODES = (("n1", 1, "train"), ("i1", 1, "idle"), ("i2", 1, "idle"), ("p1", 1, "profiler"))
SECTIONS: dict[str, object] = {
    "profiling": {
        "window_s": 8.0,
        "busy_window_s": 8.0,
        "max_gpus": 1,
        "borrow_above_jobs": 1,
        "return_below_jobs": 1,
    },
    "packing": {"min_remaining_s": 5.0, "watch_after_s": 6.0, "cool_down_s": 20.0},
}
BAD = dict.fromkeys(("first", "second", "fourth"), 0.3)
JOBS = [
    ScriptedJob("first", work_s=60.0, beside=BAD),
    ScriptedJob("second", work_s=30.0, beside=BAD),
    ScriptedJob("third", work_s=4.0),
    ScriptedJob("fourth", work_s=25.0, beside=BAD),
]


class World:
    """A database file and a cluster that outlive every control plane."""

    def __init__(self, home: Path, template: Path) -> None:
        home.mkdir(parents=True)
        shutil.copy(template, home / "state.db")
        self.home, self.clock = home, OwnClock()
        self.cluster = ScriptedCluster(self.clock, NODES, JOBS)
        self.ids: dict[str, str] = {}

    def drive(self, wire: Tripwire) -> bool:
        """A control plane to the end of all jobs and a little further; ``False`` = killed by the wire."""
        with Store.open(self.home / "state.db", migrate=False, durable=False) as store:
            session = Session.open(self.home, store, NODES, JOBS, **SECTIONS)
            session.clock, session.cluster, session.ids = self.clock, self.cluster, self.ids
            bare = System.of(session.system.settings, store, self.cluster, self.clock)
            session.system = bare
            if not self.ids:
                session.submit(*[job.name for job in JOBS])
            session.system = System(
                bare.settings, Watched(store, wire), Watched(self.cluster, wire), bare.policy, self.clock
            )  # type: ignore[arg-type]
            try:
                session.run_until(session.have_ended, most=600)
                for _ in range(4):
                    session.run_pass()
            except KilledError:
                return False
            return True

    def assert_true_end(self) -> None:
        assert self.cluster.clashes == [] and set(self.cluster.launches.values()) == {1}
        with Store.open(self.home / "state.db", migrate=False, durable=False) as store:
            assert store.queue.view().slots == () and store.attempts.active() == [] and store.loans.out() == []
            for name, job_id in self.ids.items():
                assert store.jobs.get(job_id).state is JobState.COMPLETED, name
                kinds = [event.kind.value for event in store.events.of_job(job_id)]
                assert kinds.count("placed") == kinds.count("ended") == len(store.attempts.of_job(job_id)), (
                    name,
                    kinds,
                )
            assert all(pair.ended_at is not None for pair in store.pairs.find())
            rows = store.history.rows()
            assert len(rows) == len({row.attempt_id for row in rows})


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "state.db"
    Store.open(path, durable=False).close()
    return path


def test_a_session_without_interruptions_does_all_of_it(tmp_path: Path, template: Path) -> None:
    world = World(tmp_path / "home", template)
    assert world.drive(Tripwire(None, after=False, error=KilledError))
    world.assert_true_end()
    with Store.open(world.home / "state.db", migrate=False, durable=False) as store:
        assert [pair.verdict for pair in store.pairs.find()].count(PairVerdict.SPLIT) >= 1
        assert store.loans.past()


@pytest.mark.slow
def test_killed_at_any_call_a_fresh_loop_reaches_the_same_end(tmp_path: Path, template: Path) -> None:
    wire = Tripwire(None, after=False, error=KilledError)
    World(tmp_path / "count", template).drive(wire)
    telling = ("place", "go_on", "request_stop", "record_end", "lend", "give_back", "judge", "propose", "executed")
    calls = [n for n, name in enumerate(wire.calls, start=1) if name.rpartition(".")[2] in (*telling, "launch", "stop")]
    chance = random.Random(7)
    for number in chance.sample(calls, min(POINTS, len(calls))):
        for after in (False, True):
            world = World(tmp_path / f"{number}-{after}", template)
            tripwire = Tripwire(number, after=after, error=KilledError)
            if not world.drive(tripwire):
                world.clock.sleep(200.0)
                assert world.drive(Tripwire(None, after=False, error=KilledError))
            world.assert_true_end()
