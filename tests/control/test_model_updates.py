"""The Update Engine on a control plane's own history: every day's model from that day's knowledge only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from lucid_pipelines.control.estimating import models_root
from lucid_pipelines.control.system import System
from lucid_pipelines.control.update_steps import CANDIDATE, OUTCOME, Asked, Outcome, day_folder
from lucid_pipelines.domain.errors import StateError
from lucid_pipelines.models.artefacts import ModelKind, Registry
from lucid_pipelines.models.duration.training import DurationSettings, train_duration
from tests.support_control.pretend import OwnClock
from tests.support_models.live import add_submissions, engine, open_system
from tests.support_models.worlds import QUICK, START, habits, run, seasons

ROWS = habits(600)
FAST = DurationSettings(fit=QUICK, min_category_rows=30)
DAY_8 = Asked(START + timedelta(days=8))
DAY_9 = Asked(START + timedelta(days=9))
D, T, P = ModelKind.DURATION, ModelKind.THROUGHPUT, ModelKind.PACKING


@pytest.fixture
def world(tmp_path: Path) -> Iterator[tuple[System, OwnClock]]:
    client, system, clock = open_system(tmp_path / "home", START + timedelta(days=11))
    with client:
        yield system, clock


def day(system: System, asked: Asked) -> Outcome:
    """The duration chain of one day."""
    updates = engine(system)
    for step in (updates.duration_features, updates.duration_candidate, updates.duration_evaluation):
        step(asked)
    return updates.promote(D, asked)


def test_a_day_is_trained_judged_and_promoted_and_the_next_must_beat_it(world: tuple[System, OwnClock]) -> None:
    system, _ = world
    system.store.history.add(ROWS)
    first = day(system, DAY_8)
    registry = Registry(models_root(system.settings))
    assert first.done and first.promote and registry.in_service(D) == first.version
    assert "beats" in first.reason and "no model" in first.reason
    assert engine(system).promote(D, DAY_8).version == first.version
    assert day(system, DAY_8).version == first.version and len(registry.history(D)) == 1, "once more changes nothing"

    second = day(system, DAY_9)
    outcome = engine(system).outcome(D, DAY_9)
    assert outcome is not None and outcome.facts["in_service_version"] == first.version
    assert registry.in_service(D) == (outcome.version if outcome.promote else first.version)
    assert second.reason and outcome.version in registry.versions(D), "what is not promoted is kept"

    changes = registry.history(D)
    if outcome.promote:
        registry.rollback(D, who="test", why="test")
        assert registry.in_service(D) == first.version
        assert "was in service before" in engine(system).promote(D, DAY_9).reason, "the engine undoes no rollback"
        assert len(registry.history(D)) == len(changes) + 1


def test_a_person_who_was_quicker_is_not_overruled(
    world: tuple[System, OwnClock], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody promotes between the engine's last look and its own promotion."""
    system, _ = world
    system.store.history.add(ROWS)
    registry = Registry(models_root(system.settings))
    updates = engine(system)
    for step in (updates.duration_features, updates.duration_candidate, updates.duration_evaluation):
        step(DAY_8)
    by_hand = registry.keep(train_duration(ROWS, DAY_8.begin - timedelta(days=2), FAST, source="by hand"))
    registry.promote(D, by_hand, who="ada", why="I know better")
    monkeypatch.setattr(updates, "in_service", lambda kind: None)
    outcome = updates.promote(D, DAY_8)
    assert not outcome.done and f"but {by_hand} is in service now" in outcome.reason
    assert registry.in_service(D) == by_hand


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", "\0", "[" * 99_999])
def test_a_damaged_step_says_which_file_to_remove(world: tuple[System, OwnClock], content: str) -> None:
    system, _ = world
    system.store.history.add(ROWS)
    updates = engine(system)
    updates.duration_features(DAY_8)
    folder = day_folder(updates.registry.root, D, DAY_8)
    (folder / OUTCOME).write_text(content)
    with pytest.raises(StateError, match="is damaged; remove it and materialise the day again"):
        updates.outcome(D, DAY_8)
    (folder / CANDIDATE).write_text(content)
    with pytest.raises(StateError):
        updates.duration_evaluation(DAY_8)


def test_a_past_day_is_trained_as_it_was(world: tuple[System, OwnClock], tmp_path: Path) -> None:
    """Everything that ended later is poisoned: the model, its verdict and its reason stay the same."""
    system, _ = world
    system.store.history.add(ROWS)
    plain = day(system, DAY_8)
    poisoned = [
        replace(row, duration_s=9e6, user="mallory", name="poison", gpus=64) if row.ended_at >= DAY_8.as_of else row
        for row in ROWS
    ]
    assert poisoned != ROWS
    client, other, _ = open_system(tmp_path / "other", START + timedelta(days=11))
    with client:
        other.store.history.add(poisoned)
        again = day(other, DAY_8)
        mine, theirs = (
            Registry(models_root(s.settings)).read(D, o.version) for s, o in ((system, plain), (other, again))
        )
    assert mine["model"] == theirs["model"]
    assert mine["metrics"]["evaluation"] == theirs["metrics"]["evaluation"]
    assert (plain.promote, plain.reason) == (again.promote, again.reason)


def test_an_older_day_does_not_replace_a_newer_model(world: tuple[System, OwnClock]) -> None:
    system, _ = world
    system.store.history.add(ROWS)
    newer = day(system, DAY_9)
    assert newer.promote
    older = day(system, DAY_8)
    assert not older.done and Registry(models_root(system.settings)).in_service(D) == newer.version
    updates = engine(system)
    outcome = updates.outcome(D, DAY_8)
    assert outcome is not None and ("newer" in older.reason or not outcome.promote)
    assert "favours" in " ".join(outcome.facts["notes"])


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([], "needs at least 20 usable runs"),
        (habits(600)[:10], "needs at least 20 usable runs"),
        ([replace(row, duration_s=None) for row in ROWS[:50]], "no_duration"),
        ([replace(row, ended_at=row.submitted_at - timedelta(1), started_at=None) for row in ROWS[:50]], "bad_times"),
    ],
    ids=["fresh", "ten rows", "no durations", "ended before they began"],
)  # fmt: skip
def test_too_little_history_is_stated_by_every_step(world: tuple[System, OwnClock], rows: list, reason: str) -> None:
    system, _ = world
    system.store.history.add(rows)
    updates = engine(system)
    said = [
        step(DAY_8) for step in (updates.duration_features, updates.duration_candidate, updates.duration_evaluation)
    ]
    said.append(updates.promote(D, DAY_8))
    assert {outcome.done for outcome in said} == {False}
    assert all(reason in outcome.reason for outcome in said)
    assert isinstance(updates.drift(D, DAY_8), str)
    said = [updates.throughput_candidate(DAY_8), updates.throughput_evaluation(DAY_8), updates.promote(T, DAY_8)]
    assert all("nothing was submitted" in outcome.reason for outcome in said)
    said = [updates.packing_evaluation(DAY_8), updates.promote(P, DAY_8)]
    assert all("the shipped serves" in outcome.reason for outcome in said)


@pytest.mark.parametrize(
    "rows",
    [
        [run(i, at_h=i, run_s=600.0) for i in range(230)],
        [run(i, at_h=i, run_s=60.0 + i % 7, user="one", name="same") for i in range(230)],
        [*(run(i, at_h=i, run_s=60.0 + i % 7) for i in range(230)), run(900, at_h=24 * 400, run_s=9.0)],
    ],
    ids=["constant", "one user", "a run from the future"],
)
def test_poor_history_is_judged_and_hurts_nobody(world: tuple[System, OwnClock], rows: list) -> None:
    system, _ = world
    system.store.history.add(rows)
    outcome = day(system, DAY_8)
    assert not outcome.promote and "kept" in outcome.reason
    assert Registry(models_root(system.settings)).in_service(D) is None


def test_steps_are_made_in_order_and_with_one_window(world: tuple[System, OwnClock]) -> None:
    system, _ = world
    system.store.history.add(ROWS)
    updates = engine(system)
    with pytest.raises(StateError, match="duration_features has not run for this day"):
        updates.duration_candidate(DAY_8)
    with pytest.raises(StateError, match="duration_evaluation has not run"):
        updates.promote(D, DAY_8)
    updates.duration_features(DAY_8)
    with pytest.raises(StateError, match="same window"):
        updates.duration_candidate(replace(DAY_8, window=timedelta(days=2)))
    with pytest.raises(StateError, match="duration_candidate has not run"):
        updates.duration_evaluation(DAY_8)


def test_drift_is_asked_of_the_model_in_service(world: tuple[System, OwnClock]) -> None:
    system, _ = world
    system.store.history.add(ROWS)
    assert day(system, DAY_8).promote
    report = engine(system).drift(D, Asked(START + timedelta(days=10)))
    assert not isinstance(report, str) and report.rows > 30


@pytest.mark.slow
def test_submissions_make_a_throughput_model(world: tuple[System, OwnClock], tmp_path: Path) -> None:
    system, _ = world
    series = seasons(9)
    add_submissions(system.store, series)
    updates = engine(system)
    updates.throughput_candidate(DAY_8)
    judged = updates.throughput_evaluation(DAY_8)
    assert judged.version is not None and judged.facts["rows"] == 144
    assert updates.promote(T, DAY_8).done == bool(judged.promote)
    # The same day without what came later.
    client, other, _ = open_system(tmp_path / "other", START + timedelta(days=11))
    with client:
        add_submissions(other.store, series.before(DAY_8.as_of.timestamp()))
        again = engine(other)
        again.throughput_candidate(DAY_8)
        found = again.throughput_evaluation(DAY_8)
        assert (found.promote, found.reason) == (judged.promote, judged.reason)
