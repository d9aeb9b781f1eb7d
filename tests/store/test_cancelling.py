"""Cancel, stop and put back, whoever asks first."""

from __future__ import annotations

import pytest

from lucid_pipelines.domain.errors import NotFoundError, StateError
from lucid_pipelines.domain.states import AttemptState, JobState, Outcome
from lucid_pipelines.store import EventKind, IntentKind, Store
from tests.support_store.jobs import NOW, at, exit_record, queued, running, submitted


def test_a_waiting_job_is_cancelled_at_once(store: Store) -> None:
    for job in (submitted(store), queued(store), queued(store, to=JobState.PROFILE_QUEUED)):
        result = store.jobs.request_cancel(job.job_id, who="ada", now=at(5))
        assert result.changed
        assert (result.job.state, result.job.outcome) == (JobState.CANCELLED, Outcome.CANCELLED)
        assert (result.job.ended_at, result.job.cancel_requested_at) == (at(5), at(5))
        again = store.jobs.request_cancel(job.job_id, who="ada", now=at(6))
        assert not again.changed
        assert again.job == result.job
    assert store.intents.find() == []


def test_a_running_job_is_asked_to_stop_and_cancelled_when_it_has(store: Store) -> None:
    attempt = running(store, grace_s=3.5)
    result = store.jobs.request_cancel(attempt.job_id, who="ada", now=at(5), why="wrong data")
    assert result.changed
    assert (result.job.state, result.job.cancel_requested_at) == (JobState.RUNNING, at(5))
    assert not store.jobs.request_cancel(attempt.job_id, who="bob", now=at(6)).changed
    stopping = store.attempts.get(attempt.attempt_id)
    assert (stopping.state, stopping.stop_requested_at) == (AttemptState.STOPPING, at(5))
    assert (stopping.stop_reason, stopping.stop_requeue) == ("wrong data", False)
    intent = store.intents.get(f"stop:{attempt.attempt_id}")
    assert (intent.kind, intent.payload) == (IntentKind.STOP, {"reason": "wrong data", "grace_s": 3.5})
    assert store.events.of_job(attempt.job_id)[-1].kind is EventKind.CANCEL_REQUESTED
    end = store.attempts.record_end(
        attempt.attempt_id, exit_record(code=143, reason="stopped"), Outcome.CANCELLED, who="p", now=at(60)
    )
    assert end.job.state is JobState.CANCELLED
    assert not store.jobs.request_cancel(attempt.job_id, who="ada", now=at(70)).changed


def test_a_job_that_completed_before_the_stop_came_is_completed(store: Store) -> None:
    attempt = running(store)
    store.jobs.request_cancel(attempt.job_id, who="ada", now=at(5))
    end = store.attempts.record_end(attempt.attempt_id, exit_record(), Outcome.COMPLETED, who="p", now=at(60))
    assert end.job.state is JobState.COMPLETED
    with pytest.raises(StateError, match="is completed"):
        store.jobs.request_cancel(attempt.job_id, who="ada", now=at(70))


def test_the_users_wish_outranks_an_eviction(store: Store) -> None:
    attempt = running(store)
    store.attempts.request_stop(attempt.attempt_id, reason="slow pair", requeue=True, who="tracker", now=at(1))
    assert store.jobs.request_cancel(attempt.job_id, who="ada", now=at(2)).changed
    assert len(store.intents.find(attempt_id=attempt.attempt_id)) == 2  # launch and one stop
    end = store.attempts.record_end(attempt.attempt_id, None, Outcome.EVICTED, who="p", now=at(9), requeue=True)
    assert (end.job.state, end.attempt.outcome) == (JobState.CANCELLED, Outcome.CANCELLED)


def test_a_failure_after_a_cancel_is_a_failure_and_stays_out_of_the_queue(store: Store) -> None:
    attempt = running(store)
    store.jobs.request_cancel(attempt.job_id, who="ada", now=at(2))
    end = store.attempts.record_end(
        attempt.attempt_id, exit_record(code=1), Outcome.FAILED_USER, who="p", now=at(9), requeue=True
    )
    assert end.job.state is JobState.FAILED
    with pytest.raises(StateError, match="asked to cancel"):
        store.jobs.requeue(attempt.job_id, who="recovery", why="try", now=at(10))


def test_a_stop_is_asked_for_once_and_remembers_what_it_means(store: Store) -> None:
    attempt = running(store)
    stopping, first = store.attempts.request_stop(
        attempt.attempt_id,
        reason="slow pair",
        requeue=True,
        never_pack=True,
        who="tracker",
        now=at(1),
        evidence={"ratio": 0.6},
    )
    again, second = store.attempts.request_stop(attempt.attempt_id, reason="other", requeue=False, who="x", now=at(2))
    assert (first, second) == (True, False)
    assert again == stopping == store.attempts.get(attempt.attempt_id)
    assert (stopping.stop_reason, stopping.stop_requeue, stopping.stop_never_pack) == ("slow pair", True, True)
    event = store.events.of_job(attempt.job_id)[-1]
    assert (event.kind, event.why, event.evidence) == (EventKind.STOP_REQUESTED, "slow pair", {"ratio": 0.6})
    store.attempts.record_end(attempt.attempt_id, None, Outcome.EVICTED, who="p", now=at(9), requeue=True)
    _, third = store.attempts.request_stop(attempt.attempt_id, reason="late", requeue=True, who="x", now=at(10))
    assert not third
    with pytest.raises(NotFoundError):
        store.attempts.request_stop("j-000000000000-a1", reason="x", requeue=True, who="x", now=NOW)


def test_recovery_puts_a_job_back_with_the_nodes_to_avoid(store: Store) -> None:
    attempt = running(store)
    store.attempts.record_end(attempt.attempt_id, None, Outcome.LOST, who="p", now=at(9), avoid_nodes=["n1"])
    job = store.jobs.requeue(
        attempt.job_id, who="recovery", why="node lost", now=at(20), avoid_nodes=["n2", "n1"], evidence={"rule": 4}
    )
    assert (job.state, job.avoid_nodes, job.restart_count) == (JobState.QUEUED, ("n1", "n2"), 1)
    event = store.events.of_job(job.job_id)[-1]
    assert (event.kind, event.from_state, event.evidence) == (EventKind.REQUEUED, JobState.LOST, {"rule": 4})
    with pytest.raises(StateError, match="is queued"):
        store.jobs.requeue(job.job_id, who="recovery", why="again", now=at(21))


def test_an_evicted_job_is_put_back_without_counting_a_restart(store: Store) -> None:
    attempt = running(store)
    store.attempts.record_end(attempt.attempt_id, None, Outcome.EVICTED, who="p", now=at(9))
    job = store.jobs.requeue(attempt.job_id, who="ops", why="room again", now=at(20), never_pack=True)
    assert (job.state, job.restart_count, job.never_pack) == (JobState.QUEUED, 0, True)
