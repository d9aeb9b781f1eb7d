"""The loop is killed while it profiles, packs, splits and lends: a fresh one reaches the same end."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from lucid_pipelines.store import PairVerdict, Store
from tests.support_control.killed_sessions import World
from tests.support_control.pretend import KilledError, Tripwire

POINTS = int(os.environ.get("LUCID_KILL_POINTS", "4"))
"""How many of the calls are tried; 0 = every one."""
SEED = int(os.environ.get("LUCID_KILL_SEED", "7"))
WINDOWS = {
    "live": ("pack", "stop", "lend"),
    "approve": ("pack", "stop", "lend"),
    "continue": ("continue",),
}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "state.db"
    Store.open(path, durable=False).close()
    return path


def world_of(home: Path, template: Path, how: str) -> World:
    return World(home, template, move="continue") if how == "continue" else World(home, template, mode=how)


@pytest.mark.parametrize("how", WINDOWS)
def test_a_session_without_interruptions_does_all_of_it(tmp_path: Path, template: Path, how: str) -> None:
    world = world_of(tmp_path / "home", template, how)
    assert world.drive(Tripwire(None, after=False, error=KilledError))
    world.assert_true_end()
    assert {what for what, *_ in world.windows} >= set(WINDOWS[how])
    with Store.open(world.home / "state.db", migrate=False, durable=False) as store:
        assert [pair.verdict for pair in store.pairs.find()].count(PairVerdict.SPLIT) >= 1 or how == "continue"
        assert store.loans.past()


@pytest.mark.slow
@pytest.mark.parametrize(("how", "what"), [(how, what) for how, windows in WINDOWS.items() for what in windows])
def test_killed_at_any_call_of_a_delicate_pass_a_fresh_loop_reaches_the_same_end(
    tmp_path: Path, template: Path, how: str, what: str
) -> None:
    """Forming a pair, taking one apart, moving on from the pool, lending a node and giving it back: each of their
    passes and the one after it, at any call to the database or the cluster, before and after it had its effect."""
    count = world_of(tmp_path / "count", template, how)
    assert count.drive(Tripwire(None, after=False, error=KilledError))
    calls = sorted({n for kind, first, last in count.windows if kind == what for n in range(first, last + 1)})
    chance = random.Random(f"{SEED} {how} {what}")
    points = [(number, after) for number in calls for after in (False, True)]
    for number, after in chance.sample(points, min(POINTS or len(points), len(points))):
        world = world_of(tmp_path / f"{number}-{after}", template, how)
        tripwire = Tripwire(number, after=after, error=KilledError)
        if not world.drive(tripwire):
            world.clock.sleep(chance.choice((0.0, 5.0, 200.0)))
            assert world.drive(Tripwire(None, after=False, error=KilledError)), tripwire.sprung
        try:
            world.assert_true_end()
        except AssertionError as error:
            raise AssertionError(f"killed at call {number} ({tripwire.sprung}), after={after}") from error
