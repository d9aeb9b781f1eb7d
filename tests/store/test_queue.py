"""The scheduler's view: complete, consistent, and read anew only where something changed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import event, update

from lucid_pipelines.domain.cluster import Placement
from lucid_pipelines.domain.states import JobState, Mode, Outcome
from lucid_pipelines.store import IntentKind, Store, tables
from lucid_pipelines.store.changing import change_job, lock_job
from lucid_pipelines.store.database import Transaction
from tests.support_store.jobs import NOW, at, exit_record, queued, running, submitted


def test_the_view_shows_what_waits_and_what_runs(store: Store) -> None:
    submitted(store)
    late, early = queued(store, at(9)), queued(store, at(3), to=JobState.PROFILE_QUEUED)
    second, first = running(store, at(8), gpus=(1,)), running(store, at(2), gpus=(0,))
    reason, _ = store.nodes.isolate("n7", owner="ops", reason="fan", now=NOW)
    view = store.queue.view()
    assert [job.job_id for job in view.waiting] == [early.job_id, late.job_id]
    assert [entry.attempt for entry in view.active] == [first, second]
    assert [entry.job for entry in view.active] == [store.jobs.get(a.job_id) for a in (first, second)]
    assert {(slot.gpu_index, slot.attempt_id) for slot in view.slots} == {(0, first.attempt_id), (1, second.attempt_id)}
    assert view.isolated == (reason,)
    assert view.change == store.change_counter()


def test_every_kind_of_change_shows_up(store: Store) -> None:
    """A second store (another process, as it were) makes the changes; the first one's view must follow."""
    with Store.open(store._database.url.render_as_string(hide_password=False), durable=False) as other:
        job = queued(other)
        assert [j.job_id for j in store.queue.view().waiting] == [job.job_id]
        other.jobs.annotate(job.job_id, who="w", why="y", now=NOW, never_pack=True)
        assert store.queue.view().waiting[0].never_pack
        attempt = other.attempts.place(job.job_id, Placement.of({"n1": [0]}), who="s", now=NOW)
        assert store.queue.view().active[0].attempt == attempt
        other.attempts.set_log_path(attempt.attempt_id, "log", now=NOW)
        assert store.queue.view().active[0].attempt.log_path == "log"
        other.attempts.record_started(attempt.attempt_id, at(1), who="p", now=at(1))
        assert store.queue.view().active[0].attempt.started_at == at(1)
        other.attempts.request_stop(attempt.attempt_id, reason="r", requeue=True, who="s", now=at(2))
        assert store.queue.view().active[0].attempt.stop_reason == "r"
        other.attempts.record_end(attempt.attempt_id, None, Outcome.EVICTED, who="p", now=at(3), requeue=True)
        view = store.queue.view()
        assert (view.active, view.slots, [j.job_id for j in view.waiting]) == ((), (), [job.job_id])
        again = other.attempts.place(job.job_id, Placement.of({"n1": [1]}), who="s", now=at(4))
        assert store.queue.view().active[0].attempt == again
        other.jobs.request_cancel(job.job_id, who="ada", now=at(5))
        assert store.queue.view().active[0].job.cancel_requested_at == at(5)
        other.attempts.record_end(again.attempt_id, exit_record(), Outcome.CANCELLED, who="p", now=at(6))
        assert store.queue.view().active == ()
        other.nodes.isolate("n1", owner="o", reason="r", now=at(7))
        assert len(store.queue.view().isolated) == 1
    with Store.open(store._database.url.render_as_string(hide_password=False)) as fresh:
        assert fresh.queue.view() == store.queue.view()


def test_the_change_counter_moves_with_what_a_loop_wants_to_see(store: Store) -> None:
    seen = [store.change_counter()]

    def moved() -> bool:
        seen.append(store.change_counter())
        return seen[-1] > seen[-2]

    job = submitted(store, idempotency_key="k")
    assert moved()
    submitted(store, idempotency_key="k")  # nothing new
    assert not moved()
    [claim] = store.jobs.claim([JobState.SUBMITTED], worker="w", now=NOW, limit=1, ttl_s=10)
    assert not moved()
    store.jobs.release(claim)
    assert not moved()
    store.jobs.request_cancel(job.job_id, who="ada", now=NOW)
    assert moved()
    store.jobs.request_cancel(job.job_id, who="ada", now=NOW)
    assert not moved()
    store.intents.add("k", IntentKind.FENCE, {}, now=NOW)
    assert moved()
    [intent] = store.intents.claim(worker="w", now=NOW, limit=1, ttl_s=10)
    assert not moved()
    store.intents.complete(intent, now=NOW)
    assert moved()
    attempt = running(store)
    assert moved()
    store.attempts.record_end(attempt.attempt_id, exit_record(code=1), Outcome.FAILED_USER, who="p", now=at(60))
    assert moved()
    [exit_] = store.exits.claim(worker="w", now=at(61), limit=1, ttl_s=10)
    store.exits.complete(exit_, now=at(62))
    assert moved()
    action, _ = store.actions.propose("restart", "j-1", Mode.APPROVE, {}, why="w", now=NOW)
    assert moved()
    store.actions.decide(action.action_id, approve=True, person="ada", now=NOW)
    assert moved()


def test_an_unchanged_queue_costs_one_tiny_query(store: Store) -> None:
    for number in range(20):
        queued(store, at(number))
    view = store.queue.view()
    with _statements(store) as statements:
        assert store.queue.view() is view
        assert len(statements) == 1
        statements.clear()
        assert store.change_counter() == view.change
        assert len(statements) == 1
        store.jobs.annotate(view.waiting[3].job_id, who="w", why="y", now=NOW)
        statements.clear()
        fresh = store.queue.view()
        assert len(statements) <= 6
    assert fresh is not view
    assert [a is b for a, b in zip(view.waiting, fresh.waiting, strict=True)].count(False) == 1


@contextmanager
def _statements(store: Store) -> Iterator[list[str]]:
    """What is sent to the database meanwhile, without the BEGINs."""
    sent: list[str] = []

    def record(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if not statement.startswith("BEGIN"):
            sent.append(statement)

    engine = store._database._engine
    event.listen(engine, "before_cursor_execute", record)
    try:
        yield sent
    finally:
        event.remove(engine, "before_cursor_execute", record)


def test_what_no_event_tells_of_is_found_all_the_same(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job changed by hand, or rows that came from a backup: the loop must not go by what it remembers."""
    first, second = queued(store), queued(store, at(1))
    assert len(store.queue.view().waiting) == 2
    by_hand = update(tables.jobs).where(tables.jobs.c.job_id == first.job_id)

    def write(**values: object) -> None:
        def work(tx: Transaction) -> None:
            tx.execute(by_hand.values(values))
            tx.touch()

        store._database.write(work)

    write(state=JobState.COMPLETED.value, version=first.version + 1)
    assert [job.job_id for job in store.queue.view().waiting] == [second.job_id], "the sum shows it"
    write(state=JobState.QUEUED.value, never_pack=True, version=first.version + 2)
    assert store.queue.view().waiting[0].never_pack
    write(never_pack=False, version=first.version + 3)
    assert store.queue.view().waiting[0].never_pack, "nothing shows it yet"
    monkeypatch.setattr("lucid_pipelines.store.queue._COMPARE_EVERY_S", 0.0)
    write(version=first.version + 4)
    assert not store.queue.view().waiting[0].never_pack


def test_a_change_without_an_event_is_a_defect(store: Store) -> None:
    job = queued(store)
    with pytest.raises(AssertionError, match="changed without an event"):
        store._database.write(lambda tx: change_job(tx, lock_job(tx, job.job_id), {}))
    assert store.jobs.get(job.job_id) == job


def test_a_burst_of_changes_is_followed_at_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lucid_pipelines.store.queue._MANY", 20)
    assert store.queue.view().waiting == ()
    for number in range(20):
        queued(store, at(number))
    assert len(store.queue.view().waiting) == 20
