"""kill -9 of a writer at any statement: reopened, the store shows all of an operation or nothing of it."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import event

from lucid_pipelines.domain.cluster import Placement
from lucid_pipelines.domain.job import Estimate
from lucid_pipelines.domain.states import JobState, Outcome
from lucid_pipelines.store import IntentKind, Store
from tests.support_store.jobs import NOW, at, exit_record, make_spec, queued, running

_FORK = multiprocessing.get_context("fork")
_MOST_STATEMENTS = 60


@dataclass(frozen=True)
class Operation:
    """Something that takes several statements: how to prepare for it, and how to do it."""

    prepare: Callable[[Store], Any]
    do: Callable[[Store, Any], object]


def _two_to_pair(store: Store) -> tuple[str, str]:
    return running(store, gpus=(0, 1)).job_id, queued(store, gpus=2).job_id


OPERATIONS = {
    "submit_many": Operation(
        prepare=lambda store: None,
        do=lambda store, _: store.jobs.submit_many([make_spec(idempotency_key=f"k{n}") for n in range(3)], at(1)),
    ),
    "transition": Operation(
        prepare=lambda store: queued(store).job_id,
        do=lambda store, job: store.jobs.transition(
            job, [JobState.QUEUED], JobState.PROFILE_QUEUED, who="w", why="y", now=at(1)
        ),
    ),
    "place": Operation(
        prepare=lambda store: queued(store, gpus=2).job_id,
        do=lambda store, job: store.attempts.place(
            job, Placement.of({"n1": [0, 1]}), who="s", now=at(1), estimate=Estimate(5.0, "user_mean")
        ),
    ),
    "pack": Operation(
        prepare=_two_to_pair,
        do=lambda store, jobs: store.attempts.place(
            jobs[1], Placement.of({"n1": [0, 1]}), partner_job_id=jobs[0], who="s", now=at(1)
        ),
    ),
    "end_and_requeue": Operation(
        prepare=lambda store: running(store).attempt_id,
        do=lambda store, attempt: store.attempts.record_end(
            attempt, exit_record(), Outcome.FAILED_INFRASTRUCTURE, who="p", now=at(60), requeue=True
        ),
    ),
    "cancel": Operation(
        prepare=lambda store: running(store).job_id,
        do=lambda store, job: store.jobs.request_cancel(job, who="ada", now=at(1)),
    ),
    "claim": Operation(
        prepare=lambda store: [store.intents.add(f"k{n}", IntentKind.FENCE, {}, now=NOW) for n in range(3)],
        do=lambda store, _: store.intents.claim(worker="w", now=at(1), limit=3, ttl_s=10),
    ),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_killed_writer_leaves_all_or_nothing(store_url: str, name: str) -> None:
    _kill_at_every(8, store_url, OPERATIONS[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_writer_killed_at_any_statement_leaves_all_or_nothing(store_url: str, name: str) -> None:
    _kill_at_every(1, store_url, OPERATIONS[name])


def _kill_at_every(stride: int, store_url: str, operation: Operation) -> None:
    with Store.open(store_url) as store:
        subject = operation.prepare(store)
        before = _everything(store)
    deaths = 0
    for statement in range(2, _MOST_STATEMENTS, stride):
        if _run(store_url, operation, subject, die_before=statement) == 0:
            break
        deaths += 1
        with Store.open(store_url) as store:
            assert _everything(store) == before, f"killed before statement {statement}"
    assert deaths >= 1
    with Store.open(store_url) as store:
        assert _everything(store) != before


def test_a_writer_killed_right_after_its_commit_has_done_it(store_url: str) -> None:
    with Store.open(store_url) as store:
        attempt = running(store)
    operation = OPERATIONS["end_and_requeue"]
    assert _run(store_url, operation, attempt.attempt_id, die_before=None) == -signal.SIGKILL
    with Store.open(store_url) as store:
        assert store.jobs.get(attempt.job_id).state is JobState.QUEUED
        again = store.attempts.record_end(attempt.attempt_id, None, Outcome.LOST, who="other", now=at(90))
        assert not again.changed
        assert store.jobs.get(attempt.job_id).attempt_count == 1


def _run(url: str, operation: Operation, subject: Any, die_before: int | None) -> int:
    """Do the operation in a process that dies before its n-th statement, or (``None``) after its commit."""
    process = _FORK.Process(target=_do_and_die, args=(url, operation, subject, die_before), daemon=True)
    process.start()
    process.join(timeout=60)
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode


def _do_and_die(url: str, operation: Operation, subject: Any, die_before: int | None) -> None:
    store = Store.open(url)
    seen = 0

    def count(*_: object) -> None:
        nonlocal seen
        seen += 1
        if seen == die_before:
            os.kill(os.getpid(), signal.SIGKILL)

    event.listen(store._database._engine, "before_cursor_execute", count)
    operation.do(store, subject)
    if die_before is None:
        os.kill(os.getpid(), signal.SIGKILL)


def _everything(store: Store) -> tuple[object, ...]:
    jobs = store.jobs.find(limit=None)
    attempts = [attempt for job in jobs for attempt in store.attempts.of_job(job.job_id)]
    return (
        jobs,
        attempts,
        store.queue.view(),
        store.events.after(0),
        store.intents.find(),
        store.history.rows(),
        store.exits.pending(),
        [store.estimates.of_job(job.job_id) for job in jobs],
        store.change_counter(),
    )
