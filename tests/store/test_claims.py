"""Every kind of worker: eligibility and order, unlock after success, stale token, contention."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest

from lucid_pipelines.domain.cluster import Placement
from lucid_pipelines.domain.errors import InputError, StaleLockError, StateError
from lucid_pipelines.domain.states import JobState, Outcome
from lucid_pipelines.store import Claim, IntentKind, Store
from tests.support_store.jobs import NOW, at, exit_record, queued, running, submitted
from tests.support_store.processes import together


@dataclass(frozen=True)
class Worker:
    """One kind of work: how rows are made, claimed, named, completed and renewed."""

    make: Callable[[Store, int], None]
    claim: Callable[[Store, str, datetime, int], list[Claim[Any]]]
    name: Callable[[Claim[Any]], str]
    complete: Callable[[Store, Claim[Any], datetime], object]
    renew: Callable[[Store, Claim[Any], datetime], Claim[Any]]


def _make_exits(store: Store, count: int) -> None:
    for number in range(count):
        attempt = running(store, at(number), gpus=(number,), name=f"w{number}")
        store.attempts.record_end(attempt.attempt_id, exit_record(code=1), Outcome.FAILED_USER, who="p", now=at(number))


WORKERS = {
    "jobs": Worker(
        make=lambda store, count: [submitted(store, at(n), name=f"w{n}") for n in range(count)] and None,
        claim=lambda store, who, now, limit: store.jobs.claim(
            [JobState.SUBMITTED], worker=who, now=now, limit=limit, ttl_s=10
        ),
        name=lambda claim: claim.item.spec.name,
        complete=lambda store, claim, now: store.jobs.transition(
            claim.item.job_id, [JobState.SUBMITTED], JobState.SNAPSHOTTED, who="w", why="done", now=now, claim=claim
        ),
        renew=lambda store, claim, now: store.jobs.renew(claim, ttl_s=10, now=now),
    ),
    "intents": Worker(
        make=lambda store, count: (
            [store.intents.add(f"w{n}", IntentKind.FENCE, {"n": n}, now=at(n)) for n in range(count)] and None
        ),
        claim=lambda store, who, now, limit: store.intents.claim(worker=who, now=now, limit=limit, ttl_s=10),
        name=lambda claim: claim.item.key,
        complete=lambda store, claim, now: store.intents.complete(claim, now=now, result={"by": claim.token}),
        renew=lambda store, claim, now: store.intents.renew(claim, ttl_s=10, now=now),
    ),
    "exits": Worker(
        make=_make_exits,
        claim=lambda store, who, now, limit: store.exits.claim(worker=who, now=now, limit=limit, ttl_s=10),
        name=lambda claim: f"w{claim.row_id - 1}",
        complete=lambda store, claim, now: store.exits.complete(claim, now=now, result={"by": claim.token}),
        renew=lambda store, claim, now: store.exits.renew(claim, ttl_s=10, now=now),
    ),
}


@pytest.fixture(params=WORKERS)
def worker(request: pytest.FixtureRequest) -> Worker:
    return WORKERS[request.param]


def test_the_oldest_come_first_and_nobody_gets_what_is_taken(store: Store, worker: Worker) -> None:
    worker.make(store, 5)
    first = worker.claim(store, "a", at(10), 2)
    second = worker.claim(store, "b", at(10), 10)
    assert [worker.name(claim) for claim in first] == ["w0", "w1"]
    assert [worker.name(claim) for claim in second] == ["w2", "w3", "w4"]
    assert worker.claim(store, "c", at(10), 10) == []
    assert {claim.until for claim in first} == {at(20)}
    assert len({claim.token for claim in first + second}) == 5


def test_what_is_done_is_never_handed_out_again(store: Store, worker: Worker) -> None:
    worker.make(store, 2)
    done, left = worker.claim(store, "a", at(10), 2)
    worker.complete(store, done, at(11))
    [again] = worker.claim(store, "b", at(100), 10)
    assert worker.name(again) == worker.name(left)
    with pytest.raises(StaleLockError):  # a second completion is dropped too
        worker.complete(store, done, at(12))


def test_a_claim_that_ran_out_goes_to_another_and_the_late_result_is_dropped(store: Store, worker: Worker) -> None:
    worker.make(store, 1)
    [lost] = worker.claim(store, "a", at(10), 1)
    assert worker.claim(store, "b", at(19.9), 1) == []
    [taken] = worker.claim(store, "b", at(20), 1)
    assert (taken.tries, worker.name(taken)) == (2, worker.name(lost))
    with pytest.raises(StaleLockError):
        worker.complete(store, lost, at(21))
    with pytest.raises(StaleLockError):
        worker.renew(store, lost, at(21))
    worker.complete(store, taken, at(22))


def test_a_claim_that_ran_out_but_was_not_taken_still_counts(store: Store, worker: Worker) -> None:
    worker.make(store, 1)
    [claim] = worker.claim(store, "a", at(10), 1)
    worker.complete(store, claim, at(60))
    assert worker.claim(store, "b", at(100), 1) == []


def test_a_renewed_claim_lasts_longer(store: Store, worker: Worker) -> None:
    worker.make(store, 1)
    [claim] = worker.claim(store, "a", at(10), 1)
    renewed = worker.renew(store, claim, at(15))
    assert renewed.until == at(25)
    assert worker.claim(store, "b", at(24), 1) == []
    worker.complete(store, renewed, at(24))


def test_rival_processes_share_the_work_without_overlap(store_url: str, worker: Worker) -> None:
    with Store.open(store_url, durable=False) as store:
        worker.make(store, 12)
    kind = next(name for name, known in WORKERS.items() if known is worker)
    done = together(4, _drain, store_url, kind)
    assert sorted(name for names in done for name in names) == sorted(f"w{n}" for n in range(12))


def _drain(number: int, url: str, kind: str) -> list[str]:
    worker, names = WORKERS[kind], []
    with Store.open(url, durable=False) as store:
        while claims := worker.claim(store, f"p{number}", at(100), 3):
            for claim in claims:
                worker.complete(store, claim, at(101))
                names.append(worker.name(claim))
    return names


@pytest.mark.parametrize(("limit", "ttl_s"), [(0, 10), (-1, 10), (1, 0), (1, -5)])
def test_claims_of_nothing_are_refused(store: Store, limit: int, ttl_s: float) -> None:
    with pytest.raises(InputError):
        store.intents.claim(worker="w", now=NOW, limit=limit, ttl_s=ttl_s)


# ---- what only some kinds have ------------------------------------------------------------------------


def test_a_released_job_is_free_at_once_and_unchanged(store: Store) -> None:
    job = submitted(store)
    [claim] = store.jobs.claim([JobState.SUBMITTED], worker="a", now=NOW, limit=1, ttl_s=10)
    store.jobs.release(claim)
    [again] = store.jobs.claim([JobState.SUBMITTED], worker="b", now=NOW, limit=1, ttl_s=10)
    assert again.item == job
    with pytest.raises(StaleLockError):
        store.jobs.release(claim)


def test_a_cancel_voids_the_claim_of_a_worker(store: Store) -> None:
    job = submitted(store)
    [claim] = store.jobs.claim([JobState.SUBMITTED], worker="a", now=NOW, limit=1, ttl_s=10)
    store.jobs.request_cancel(job.job_id, who="ada", now=at(1))
    with pytest.raises(StaleLockError, match="is cancelled"):
        WORKERS["jobs"].complete(store, claim, at(2))
    assert store.jobs.get(job.job_id).state is JobState.CANCELLED


def test_tries_count_until_the_job_moves_on(store: Store) -> None:
    job = submitted(store)
    for tries in (1, 2, 3):
        [claim] = store.jobs.claim([JobState.SUBMITTED], worker="a", now=at(tries * 100), limit=1, ttl_s=10)
        assert claim.tries == tries
    WORKERS["jobs"].complete(store, claim, at(301))
    [claim] = store.jobs.claim([JobState.SNAPSHOTTED], worker="a", now=at(400), limit=1, ttl_s=10)
    assert (claim.item.job_id, claim.tries) == (job.job_id, 1)


def test_an_intent_that_failed_waits_for_its_time(store: Store) -> None:
    store.intents.add("k", IntentKind.STOP, {}, now=NOW)
    [claim] = store.intents.claim(worker="a", now=NOW, limit=1, ttl_s=10)
    store.intents.retry_later(claim, now=at(1), delay_s=30, error="node n1 did not answer")
    assert store.intents.claim(worker="a", now=at(30), limit=1, ttl_s=10) == []
    [again] = store.intents.claim(worker="a", now=at(31), limit=1, ttl_s=10)
    assert (again.item.last_error, again.tries) == ("node n1 did not answer", 2)
    store.intents.complete(again, now=at(32), failed=True, result={"why": "gave up"})
    intent = store.intents.get("k")
    assert (intent.failed, intent.done_at, intent.result) == (True, at(32), {"why": "gave up"})
    assert (intent.claimed_by, intent.claimed_until, store.intents.open_count()) == (None, None, 0)


def test_an_intent_key_exists_once(store: Store) -> None:
    first, created = store.intents.add("k", IntentKind.FENCE, {"n": 1}, now=NOW, attempt_id="a")
    again, created_again = store.intents.add("k", IntentKind.FENCE, {"n": 2}, now=at(1))
    assert (created, created_again) == (True, False)
    assert again == first
    assert store.intents.find(attempt_id="a") == [first]
    assert store.intents.find(done=True) == []


def test_intents_are_claimed_by_kind(store: Store) -> None:
    for kind in (IntentKind.STOP, IntentKind.LAUNCH, IntentKind.FENCE):
        store.intents.add(kind, kind, {}, now=NOW)
    claims = store.intents.claim(worker="a", now=NOW, limit=9, ttl_s=10, kinds=[IntentKind.FENCE, IntentKind.STOP])
    assert [claim.item.kind for claim in claims] == [IntentKind.STOP, IntentKind.FENCE]


def test_normal_and_abnormal_exits_are_two_lines(store: Store) -> None:
    good, bad = running(store, gpus=(0,)), running(store, gpus=(1,))
    store.attempts.record_end(good.attempt_id, exit_record(), Outcome.COMPLETED, who="p", now=at(60))
    store.attempts.record_end(bad.attempt_id, exit_record(code=1), Outcome.FAILED_USER, who="p", now=at(61))
    assert store.exits.pending() == (1, at(61))
    assert store.exits.pending(abnormal=False) == (1, at(60))
    [claim] = store.exits.claim(worker="a", now=at(70), limit=9, ttl_s=10)
    assert claim.item.attempt_id == bad.attempt_id
    store.exits.retry_later(claim, now=at(71), delay_s=5, error="log not there yet")
    assert store.exits.claim(worker="a", now=at(75), limit=9, ttl_s=10) == []
    [claim] = store.exits.claim(worker="a", now=at(76), limit=9, ttl_s=10)
    store.exits.complete(claim, now=at(77), result={"action": "none"})
    assert store.exits.pending() == (0, None)
    assert store.exits.get(bad.attempt_id).result == {"action": "none"}
    [normal] = store.exits.claim(worker="a", now=at(80), limit=9, ttl_s=10, abnormal=False)
    assert normal.item.attempt_id == good.attempt_id


def test_a_claim_does_not_stand_in_the_way_of_placement(store: Store) -> None:
    job = queued(store)
    [claim] = store.jobs.claim([JobState.QUEUED], worker="estimator", now=NOW, limit=1, ttl_s=10)
    store.attempts.place(job.job_id, Placement.of({"n1": [0]}), who="s", now=NOW, expected_version=job.version)
    with pytest.raises(StateError):
        store.jobs.renew(claim, ttl_s=10, now=NOW)
