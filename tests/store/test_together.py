"""Many writes as one transaction: all of them or none, and one that fails takes nothing else with it."""

from __future__ import annotations

import pytest

from lucid_pipelines.domain.cluster import Placement
from lucid_pipelines.domain.errors import ExternalError, InputError, StateError
from lucid_pipelines.domain.states import JobState
from lucid_pipelines.store import Store
from tests.support_store.jobs import NOW, queued, running, submitted


def test_a_write_that_fails_undoes_itself_alone(store: Store) -> None:
    taken = running(store)
    late, early = queued(store), queued(store)
    change = store.change_counter()

    def work() -> list[str]:
        told: list[str] = []
        for job, gpu in ((late, 0), (early, 1)):
            try:
                store.attempts.place(job.job_id, Placement.of({"n1": [gpu]}), who="s", now=NOW)
            except StateError as error:
                told.append(str(error))
        with pytest.raises(InputError, match="finite"):
            store.jobs.annotate(late.job_id, who="s", why="w", now=NOW, evidence={"value": float("nan")})
        assert [a.job_id for a in store.attempts.of_job(early.job_id)] == [early.job_id], "it sees what it has written"
        return told

    (refused,) = store.together(work)
    assert taken.attempt_id in refused
    assert (store.jobs.get(late.job_id), store.attempts.of_job(late.job_id)) == (late, [])
    assert store.jobs.get(early.job_id).state is JobState.RUNNING
    assert [event.why for event in store.events.of_job(late.job_id)][-1] == "test", "no event of what was undone"
    assert store.change_counter() == change + 1


def test_nothing_is_kept_when_the_work_breaks(store: Store) -> None:
    job = queued(store)

    def work() -> None:
        store.attempts.place(job.job_id, Placement.of({"n1": [0]}), who="s", now=NOW)
        store.counters.add("seen", now=NOW)
        raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        store.together(work)
    assert (store.jobs.get(job.job_id), store.counters.all()) == (job, {})
    assert store.queue.view().slots == ()
    submitted(store)  # the thread's next write is one of its own


def test_a_part_of_many_is_undone_as_a_whole(store: Store) -> None:
    one, two = queued(store), queued(store)

    def both() -> None:
        store.attempts.place(two.job_id, Placement.of({"n1": [1]}), who="s", now=NOW)
        raise StateError("the second half of it is refused")

    def work() -> None:
        store.attempts.place(one.job_id, Placement.of({"n1": [0]}), who="s", now=NOW)
        with pytest.raises(StateError, match="second half"):
            store.together(both)

    store.together(work)
    assert store.jobs.get(one.job_id).state is JobState.RUNNING
    assert store.jobs.get(two.job_id) == two and store.attempts.of_job(two.job_id) == []


def test_what_is_one_is_undone_as_a_whole_and_what_is_beside_it_stays(store: Store) -> None:
    taken, one, two = running(store), queued(store), queued(store)

    def both() -> None:
        store.attempts.place(one.job_id, Placement.of({"n1": [1]}), who="s", now=NOW)
        store.attempts.place(two.job_id, Placement.of({"n1": [0]}), who="s", now=NOW)

    def work() -> None:
        store.jobs.annotate(one.job_id, who="s", why="beside it", now=NOW)
        with pytest.raises(StateError, match=taken.attempt_id):
            store.as_one(both)
        store.attempts.place(two.job_id, Placement.of({"n1": [2]}), who="s", now=NOW)

    store.together(work)
    assert store.attempts.of_job(one.job_id) == []
    assert [event.why for event in store.events.of_job(one.job_id)][-1] == "beside it"
    assert {slot.gpu_index for slot in store.queue.view().slots} == {0, 2}
    assert store.jobs.get(two.job_id).state is JobState.RUNNING


def test_a_database_that_fails_is_never_taken_for_a_refusal(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The transaction may be lost by then: to go on with the next write would keep a part of it."""
    job = queued(store)

    def work() -> None:
        store.attempts.place(job.job_id, Placement.of({"n1": [0]}), who="s", now=NOW)
        with pytest.raises(ExternalError):
            store._database.write(lambda tx: tx.connection.exec_driver_sql("SELECT * FROM no_such_table"))

    with pytest.raises(ExternalError, match="no_such_table"):
        store.together(work)
    assert store.jobs.get(job.job_id) == job


def test_held_counts_are_written_once_at_the_end(store: Store) -> None:
    with store.counters.held():
        store.counters.add("a", 2, now=NOW)
        store.counters.add_many({"a": 1, "b": 1}, now=NOW)
        with store.counters.held():
            store.counters.add("b", now=NOW)
        assert store.counters.all() == {}
    assert store.counters.all() == {"a": 3, "b": 2}
    with pytest.raises(RuntimeError), store.counters.held():
        store.counters.add("a", now=NOW)
        raise RuntimeError("the work failed; the count stands")
    assert store.counters.all() == {"a": 4, "b": 2}


def test_held_counts_go_along_with_a_transaction(store: Store) -> None:
    with store.counters.held():
        store.counters.add("a", now=NOW)
        with pytest.raises(RuntimeError):
            store.together(lambda: (store.counters.write_held(), _fail()))
        assert store.counters.all() == {}
        store.together(store.counters.write_held)
        store.counters.drop_held()
        assert store.counters.all() == {"a": 1}
        store.counters.add("b", now=NOW)
    assert store.counters.all() == {"a": 1, "b": 1}


def _fail() -> None:
    raise RuntimeError("the work failed; the count stands")
