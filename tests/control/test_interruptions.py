"""Every prefix of calls to the database and the cluster, then a crash: a fresh control plane reaches the same end."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from lucid_pipelines.control.exits import claim_exits, handle_exit
from lucid_pipelines.control.intake import claim_batch, take_in
from lucid_pipelines.control.recovering import carry_out_due
from lucid_pipelines.control.scheduling import run_pass
from lucid_pipelines.control.system import System
from lucid_pipelines.domain.errors import ExternalError
from lucid_pipelines.domain.job import JobSpec
from lucid_pipelines.domain.states import JobState
from lucid_pipelines.settings import Settings
from lucid_pipelines.store import ActionState, Store
from tests.support_control.pretend import KilledError, OwnClock, PretendCluster, Tripwire, Watched
from tests.support_control.worlds import make_settings

LIVE = {"modes": {"restart": "live", "isolate": "live"}, "recovery": {"backoff_base_s": 0.0}}
ENDS = {
    "ok": JobState.COMPLETED,
    "fail": JobState.FAILED,
    "hold": JobState.CANCELLED,
    "vanish": JobState.COMPLETED,
    "refuse": JobState.FAILED,
}
_ROUNDS = 60


@dataclass
class Stage:
    """One small world: a database file and a cluster, which both outlive every control plane."""

    settings: Settings
    clock: OwnClock
    cluster: PretendCluster
    ids: dict[str, str]

    def system(self, store: Store, wire: Tripwire) -> System:
        bare = System.of(self.settings, store, self.cluster, self.clock)
        return System(self.settings, Watched(store, wire), Watched(self.cluster, wire), bare.policy, self.clock)  # type: ignore[arg-type]


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
    with Store.open(home / "state.db", durable=False) as store:
        ids = {
            word: store.jobs.submit(JobSpec(word, "ada", "vision", 2, (word,)), clock.now())[0].job_id for word in ENDS
        }
    return Stage(settings, clock, PretendCluster(clock), ids)


def one_round(stage: Stage, system: System) -> bool:
    """What sensors, jobs and one user do in turn. Returns whether everything has ended."""
    stage.clock.sleep(1.0)
    for claim in claim_batch(system, "intake"):
        take_in(system, claim)
    run_pass(system, "window")
    for claim in claim_exits(system, "exits"):
        handle_exit(system, claim)
    carry_out_due(system)
    held = system.store.jobs.get(stage.ids["hold"])
    if held.state is JobState.RUNNING and held.started_at is not None:
        system.store.jobs.request_cancel(held.job_id, who="ada", now=stage.clock.now())
    for action in system.store.actions.find(states=[ActionState.PROPOSED], target=stage.ids["vanish"]):
        system.store.actions.decide(action.action_id, approve=True, person="ada", now=stage.clock.now())
    states = {word: system.store.jobs.get(job_id).state for word, job_id in stage.ids.items()}
    return states == ENDS and system.store.exits.pending()[0] == 0 and system.store.intents.open_count() == 0


def drive(stage: Stage, wire: Tripwire) -> bool:
    """A control plane from its start to its end: done, or killed by the wire (``False``)."""
    with Store.open(stage.settings.home / "state.db", migrate=False, durable=False) as store:
        system = stage.system(store, wire)
        try:
            for _ in range(_ROUNDS):
                try:
                    if one_round(stage, system):
                        return True
                except ExternalError:  # the run or tick fails; a later one finds what it had claimed
                    stage.clock.sleep(200.0)
        except KilledError:
            return False
        raise AssertionError(f"not ended: { {word: store.jobs.get(i).state for word, i in stage.ids.items()} }")


def assert_true_end(stage: Stage) -> None:
    assert stage.cluster.clashes == [], "no GPU is ever given to two attempts"
    assert max(stage.cluster.launches.values()) == 1, "no attempt is started twice"
    with Store.open(stage.settings.home / "state.db", migrate=False, durable=False) as store:
        assert store.queue.view().slots == ()
        assert store.attempts.active() == []
        for word, job_id in stage.ids.items():
            kinds = [event.kind.value for event in store.events.of_job(job_id)]
            attempts = store.attempts.of_job(job_id)
            wanted = 2 if word == "vanish" else 1
            assert len(attempts) == wanted, f"{word}: {kinds}"
            assert kinds.count("ended") == wanted, f"{word} ends once an attempt: {kinds}"
            assert kinds.count("placed") == wanted
            started = [attempt for attempt in stage.cluster.launches if attempt.startswith(job_id)]
            assert len(started) == (0 if word == "refuse" else wanted)
        rows = store.history.rows()
        assert len(rows) == len({row.attempt_id for row in rows}) == 6


def count_calls(home: Path, template: Path) -> list[str]:
    stage = set_up(home, template)
    wire = Tripwire(None, after=False, error=KilledError)
    assert drive(stage, wire)
    assert_true_end(stage)
    return wire.calls


def outage() -> ExternalError:
    return ExternalError("no answer")


def interrupt_at(home: Path, template: Path, n: int, *, after: bool, error: Callable[[], BaseException]) -> None:
    stage = set_up(home, template)
    wire = Tripwire(n, after=after, error=error)
    if not drive(stage, wire):
        stage.clock.sleep(200.0)  # claims of the dead run out
        assert drive(stage, Tripwire(None, after=False, error=KilledError))
    assert_true_end(stage)
    shutil.rmtree(home)


def sweep(folder: Path, template: Path, stride: int, error: Callable[[], BaseException]) -> None:
    calls = count_calls(folder / "count", template)
    broken: list[str] = []
    for n in range(1, len(calls) + 1, stride):
        for after in (False, True):
            try:
                interrupt_at(folder / f"{n}-{after}", template, n, after=after, error=error)
            except Exception as found:  # noqa: BLE001 all that break are told, not only the first
                moment = "after" if after else "before"
                broken.append(f"{moment} call {n} ({calls[n - 1]}): {type(found).__name__}: {found}")
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize("error", [KilledError, outage])
def test_some_prefixes(tmp_path: Path, empty_database: Path, error: Callable[[], BaseException]) -> None:
    sweep(tmp_path, empty_database, 53, error)


@pytest.mark.slow
@pytest.mark.parametrize("error", [KilledError, outage])
def test_more_prefixes(tmp_path: Path, empty_database: Path, error: Callable[[], BaseException]) -> None:
    """``LUCID_TEST_STRIDE=1`` takes every single one."""
    sweep(tmp_path, empty_database, int(os.environ.get("LUCID_TEST_STRIDE", "7")), error)
