"""The duration model in service answers for waiting jobs; what it cannot answer is counted and the ladder does."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lucid_pipelines.control.estimating import Durations, models_root, refresh_estimates
from lucid_pipelines.control.intake import claim_batch, take_in
from lucid_pipelines.control.system import System
from lucid_pipelines.domain.job import Estimate, Job
from lucid_pipelines.domain.states import JobState
from lucid_pipelines.models.artefacts import ModelKind, Registry
from lucid_pipelines.models.duration import DurationModel, DurationPredictor
from lucid_pipelines.models.duration.remembering import Memory, remember
from lucid_pipelines.models.duration.training import train_duration
from tests.support_control.pretend import OwnClock
from tests.support_models.live import FAST, open_system, waiting
from tests.support_models.worlds import START, habits, run

ROWS = habits(500)
NOW = START + timedelta(days=9)
OLD = [row for row in ROWS if row.ended_at <= NOW]


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return train_duration(ROWS, START + timedelta(days=8), FAST)


@pytest.fixture(scope="module")
def other(document: dict[str, Any]) -> dict[str, Any]:
    return train_duration(ROWS, START + timedelta(days=7), FAST)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[tuple[System, OwnClock]]:
    client, system, clock = open_system(tmp_path / "home", NOW)
    with client:
        system.store.history.add(OLD)
        yield system, clock


def put_in_service(system: System, document: dict[str, Any]) -> Registry:
    registry = Registry(models_root(system.settings))
    registry.promote(ModelKind.DURATION, registry.keep(document), who="test", why="test", now=system.clock.now())
    return registry


def ask(system: System, *jobs: Job) -> list[Estimate]:
    return system.durations.estimate(system.store, system.settings, jobs, system.clock.now())


def test_until_a_model_is_promoted_the_ladder_answers(world: tuple[System, OwnClock]) -> None:
    system, _ = world
    (estimate,) = ask(system, waiting(system, user="user1", name="eval_bert"))
    assert (estimate.basis, estimate.model_version) == ("user_gpus_mean", None)
    assert not system.store.counters.all("estimates_without_model")


def test_the_model_in_service_answers_from_what_has_ended(
    world: tuple[System, OwnClock], document: dict[str, Any]
) -> None:
    system, clock = world
    put_in_service(system, document)
    job = waiting(system, user="user1", name="eval_bert_9")
    (estimate,) = ask(system, job)
    assert (estimate.basis, estimate.model_version) == ("model", document["version"])
    assert estimate.low_s is not None and estimate.high_s is not None and estimate.duration_s is not None
    assert estimate.low_s <= estimate.duration_s <= estimate.high_s
    assert estimate.evidence_job_ids

    # What ends while it serves is told to it: the same answer as from a predictor that reads all of history.
    news = [run(10_000 + i, at_h=24 * 9 + i, run_s=40_000.0, user="user1", name="eval_bert", gpus=1) for i in range(12)]
    clock.moment = NOW + timedelta(days=3)
    system.store.history.add(news)
    (later,) = ask(system, job)
    fresh = DurationPredictor.from_rows(DurationModel.from_document(document), [*OLD, *news], clock.now())
    (wanted,) = fresh.estimate_many([_queued(job)], clock.now().timestamp())
    assert wanted is not None and later.duration_s == pytest.approx(wanted.duration_s)
    assert later.duration_s > estimate.duration_s


def test_what_is_written_down_is_what_is_remembered(
    document: dict[str, Any], tmp_path: Path, world: tuple[System, OwnClock]
) -> None:
    model = DurationModel.from_document(document)
    whole, half = Memory(DurationPredictor(model)), Memory(DurationPredictor(model))
    whole.tell(OLD, NOW)
    middle = START + timedelta(days=5)
    half.tell([row for row in OLD if row.ended_at <= middle], middle)
    path = tmp_path / "history.json"
    half.write(path)
    again = remember(model, path)
    assert again.since == middle - timedelta(hours=1)
    again.tell([row for row in OLD if row.ended_at >= again.since], NOW)
    assert again.predictor.index.to_json() == whole.predictor.index.to_json()

    # A row that is written down late is told; one that was told is not told twice.
    late = run(1, attempt_id="late", at_h=24 * 9 - 0.5, run_s=60.0, user="late")
    assert again.tell([late], NOW) == 1 and again.tell([late], NOW) == 0

    for text in ("", "{}", json.dumps({"format": "lucid-duration-memory/1", "version": model.version}), "[1]"):
        path.write_text(text)
        assert remember(model, path).since is None, "a damaged file is no file"


def test_a_promotion_or_rollback_is_followed_at_once(
    world: tuple[System, OwnClock], document: dict[str, Any], other: dict[str, Any]
) -> None:
    system, _ = world
    registry = put_in_service(system, other)
    job = waiting(system, user="user1", name="eval_bert")
    assert ask(system, job)[0].model_version == other["version"]
    put_in_service(system, document)
    assert ask(system, job)[0].model_version == document["version"]
    registry.rollback(ModelKind.DURATION, who="test", why="test")
    assert ask(system, job)[0].model_version == other["version"]


def test_a_damaged_model_is_refused_counted_and_left(
    world: tuple[System, OwnClock], document: dict[str, Any], other: dict[str, Any]
) -> None:
    system, _ = world
    registry = put_in_service(system, other)
    put_in_service(system, document)
    path = registry.root / "duration" / f"{document['version']}.json"
    damaged = json.loads(path.read_text())
    damaged["model"]["additive"]["intercept"] += 1.0
    path.write_text(json.dumps(damaged))
    jobs = [waiting(system, user="user1", name="eval_bert"), waiting(system, user="user2", name="debug")]
    assert {estimate.basis for estimate in ask(system, *jobs)} <= {"user_gpus_mean", "user_mean"}
    assert system.store.counters.all("estimates_without_model") == {"estimates_without_model_refused": 2}
    assert refresh_estimates(system.store, system.settings, system.durations, system.clock.now()) == 0
    registry.rollback(ModelKind.DURATION, who="test", why="it is damaged")
    assert ask(system, jobs[0])[0].model_version == other["version"]
    with (registry.root / "duration" / "changes.jsonl").open("a") as file:
        file.write("rubbish\n")
    assert ask(system, jobs[0])[0].model_version is None, "who knows what is in service?"
    assert refresh_estimates(system.store, system.settings, system.durations, system.clock.now()) == 0


def test_a_broken_predictor_never_keeps_a_job_out(
    world: tuple[System, OwnClock], document: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    system, _ = world
    put_in_service(system, document)
    monkeypatch.setattr(DurationPredictor, "estimate_many", lambda self, jobs, now_s=None: 1 / 0)
    waiting(system, user="user1", name="eval_bert")
    assert [take_in(system, claim) for claim in claim_batch(system, "w")] == ["queued"]
    assert system.store.counters.all("estimates_without_model") == {"estimates_without_model_failed": 1}


def test_after_a_pause_a_model_is_tried_again(
    world: tuple[System, OwnClock], document: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    system, clock = world
    put_in_service(system, document)
    job = waiting(system, user="user1", name="eval_bert")
    with monkeypatch.context() as broken:
        broken.setattr(type(system.store.queue), "view", lambda self: 1 / 0)  # after half of history was told
        assert ask(system, job)[0].model_version is None
    assert ask(system, job)[0].model_version is None, "not at once: a database that is down is not asked every second"
    assert system.durations.version(system.settings, clock.now()) is None
    clock.sleep(61)
    assert system.durations.version(system.settings, clock.now()) == document["version"]
    answer = ask(system, job)
    assert answer[0].model_version == document["version"]
    assert ask(replace(system, durations=Durations()), job) == answer, "nothing of history was told twice"


def test_waiting_jobs_are_asked_about_once_per_version(
    world: tuple[System, OwnClock], document: dict[str, Any], other: dict[str, Any]
) -> None:
    system, _ = world
    advised = Estimate(77.0, "advised")
    for name in ("one", "two", "advised"):
        waiting(system, user="user1", name=name)
    for claim in claim_batch(system, "w"):
        take_in(system, claim)
        if claim.item.spec.name == "advised":
            system.store.estimates.record({claim.item.job_id: advised}, now=system.clock.now())

    def refresh() -> int:
        return refresh_estimates(system.store, system.settings, system.durations, system.clock.now())

    assert refresh() == 0, "no model is in service"
    put_in_service(system, other)
    assert (refresh(), refresh()) == (2, 0)
    put_in_service(system, document)
    assert (refresh(), refresh()) == (2, 0)
    jobs = {job.spec.name: job for job in system.store.jobs.find(states=[JobState.QUEUED])}
    assert jobs["advised"].estimate == advised, "evidence about this very job is better than its user's habits"
    assert jobs["one"].estimate is not None and jobs["one"].estimate.model_version == document["version"]
    assert [row.estimate.model_version for row in system.store.estimates.of_job(jobs["one"].job_id)] == [
        None, other["version"], document["version"],
    ]  # fmt: skip


def test_a_process_that_starts_reads_only_what_it_does_not_remember(
    world: tuple[System, OwnClock], document: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    system, clock = world
    put_in_service(system, document)
    assert system.durations.prepare(system.store, system.settings, clock.now()) == document["version"]
    asked: list[object] = []
    rows = type(system.store.history).rows
    monkeypatch.setattr(
        type(system.store.history), "rows", lambda self, **k: asked.append(k["since"]) or rows(self, **k)
    )
    young = replace(system, durations=Durations())
    job = waiting(system, user="user1", name="eval_bert")
    assert ask(young, job) == ask(system, job)
    assert asked == [NOW - timedelta(hours=1)]


def test_nothing_that_training_needs_is_imported() -> None:
    code = (
        "import sys, lucid_pipelines.control.estimating, lucid_pipelines.definitions\n"
        "print([m for m in ('interpret', 'sklearn', 'matplotlib', 'optuna', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def _queued(job: Job) -> Any:
    from lucid_pipelines.control.estimating import _queued as as_policy_sees

    return as_policy_sees(job)
