"""What is kept from pass to pass is what a fresh look would see, whatever happened in between and whoever did it."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import pytest

from lucid_pipelines.control.facts import FactMemory, Restraint, gather
from lucid_pipelines.control.system import System
from lucid_pipelines.domain.cluster import Placement
from lucid_pipelines.domain.errors import InputError, StateError
from lucid_pipelines.domain.job import Profile
from lucid_pipelines.domain.states import JobState, Outcome
from lucid_pipelines.store import PairVerdict, Store
from tests.support_control.pretend import OwnClock
from tests.support_control.scripted import ScriptedCluster
from tests.support_control.worlds import make_settings
from tests.support_store.jobs import at, exit_record, queued

T = TypeVar("T")
_OFTEN, _SOMETIMES = ["queue", "place", "end", "pack"], ["queue", "judge", "stop", "requeue", "cancel", "lend"]
_DEEDS = [*_OFTEN, *_OFTEN, *_SOMETIMES, "isolate", "note", "place"]
NODES = [("n1", 4, "vision"), ("n2", 4, "vision"), ("n3", 4, "profiler")]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "state.db", durable=False) as opened:
        yield opened


@pytest.mark.parametrize("seed", range(4))
def test_a_long_random_life(store: Store, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    clock = OwnClock()
    cluster = ScriptedCluster(clock, NODES, [])
    system = System.of(make_settings(tmp_path / "home"), store, cluster, clock)
    memory = FactMemory()
    with Store.open(tmp_path / "state.db", durable=False) as other:  # another process, as it were
        life = _Life(other, rng)
        for step in range(160):
            for _ in range(rng.choice((0, 1, 1, 3))):
                life.go_on(step)
            view = store.queue.view()
            with Store.open(tmp_path / "state.db", durable=False) as fresh:
                assert fresh.queue.view() == view
            restraint = Restraint(
                apart=rng.sample([job.job_id for job in view.waiting], min(2, len(view.waiting)))
                + rng.sample([item.job.job_id for item in view.active], min(2, len(view.active))),
                kept_pairs=[pair.later_attempt_id for pair in view.pairs if rng.random() < 0.3],
            )
            kept = gather(system, cluster.inventory(), view, memory, restraint)
            assert kept == gather(system, cluster.inventory(), view, FactMemory(), restraint)
    assert len(life.done) >= 8 and life.done >= {"place", "pack", "end", "requeue"}


class _Life:
    """Jobs that come and go, pair and part, and nodes that are lent and isolated."""

    def __init__(self, store: Store, rng: random.Random) -> None:
        self.store, self.rng, self.done = store, rng, set[str]()

    def go_on(self, step: int) -> None:
        name = self.rng.choice(_DEEDS)
        try:
            if getattr(self, f"_{name}")(at(step)):
                self.done.add(name)
        except (StateError, InputError):
            pass  # refused: that too must be seen alike

    def _one(self, items: Sequence[T]) -> T | None:
        return self.rng.choice(items) if items else None

    def _queue(self, now: datetime) -> object:
        to = self.rng.choice((JobState.QUEUED, JobState.QUEUED, JobState.PROFILE_QUEUED))
        return queued(self.store, now, to=to, gpus=self.rng.choice((1, 2)))

    def _note(self, now: datetime) -> object:
        job = self._one(self.store.queue.view().waiting)
        profile = Profile(self.rng.uniform(5.0, 60.0), 10.0, 1_000.0, 60.0, 10, "test")
        return job and self.store.jobs.annotate(job.job_id, who="t", why="seen", now=now, profile=profile)

    def _place(self, now: datetime) -> object:
        job = self._one(self.store.queue.view().waiting)
        if job is None:
            return None
        node = "n3" if job.state is JobState.PROFILE_QUEUED else self.rng.choice(("n1", "n2"))
        gpus = self.rng.sample(range(4), job.spec.gpus)
        profiling = job.state is JobState.PROFILE_QUEUED
        attempt = self.store.attempts.place(
            job.job_id, Placement.of({node: gpus}), who="t", now=now, profiling=profiling
        )
        return self.store.attempts.record_started(attempt.attempt_id, now, who="t", now=now)

    def _pack(self, now: datetime) -> object:
        view = self.store.queue.view()
        alone = [item for item in view.active if not item.partner_attempt_ids and not item.attempt.profiling]
        host, job = self._one(alone), self._one([job for job in view.waiting if job.state is JobState.QUEUED])
        return (
            host
            and job
            and self.store.attempts.place(
                job.job_id, host.attempt.placement, who="t", now=now, partner_job_id=host.job.job_id
            )
        )

    def _judge(self, now: datetime) -> object:
        pair = self._one(self.store.queue.view().pairs)
        verdict = self.rng.choice((PairVerdict.KEPT, PairVerdict.SPLIT))
        return pair and self.store.pairs.judge(pair.pair_id, verdict, "told", {}, now=now)

    def _stop(self, now: datetime) -> object:
        item = self._one(self.store.queue.view().active)
        return item and self.store.attempts.request_stop(
            item.attempt.attempt_id, reason="told", requeue=True, who="t", now=now
        )

    def _end(self, now: datetime) -> object:
        item = self._one(self.store.queue.view().active)
        outcome = self.rng.choice((Outcome.COMPLETED, Outcome.FAILED_USER))
        return item and self.store.attempts.record_end(
            item.attempt.attempt_id, exit_record(), outcome, who="t", now=now
        )

    def _requeue(self, now: datetime) -> object:
        failed = self.store.jobs.find(states=[JobState.FAILED])
        job = self._one(failed)
        return job and self.store.jobs.requeue(job.job_id, who="t", why="again", now=now)

    def _cancel(self, now: datetime) -> object:
        view = self.store.queue.view()
        job = self._one([*view.waiting, *(item.job for item in view.active)])
        return job and self.store.jobs.request_cancel(job.job_id, who="ada", now=now)

    def _lend(self, now: datetime) -> object:
        if self.store.loans.out():
            return self.store.loans.give_back("n2", now=now)
        return self.store.loans.lend("n2", "vision", "profiler", now=now)

    def _isolate(self, now: datetime) -> object:
        for reason in self.store.queue.view().isolated:
            return self.store.nodes.lift(reason.reason_id, owner="ops", by="ops", now=now)
        return self.store.nodes.isolate("n1", owner="ops", reason="fan", now=now, gpu_index=self.rng.choice((None, 1)))
