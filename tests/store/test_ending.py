"""The end of an attempt: once, true, and with everything that follows from it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from lucid_pipelines.domain.cluster import Placement
from lucid_pipelines.domain.errors import InputError, NotFoundError
from lucid_pipelines.domain.job import Estimate, Profile
from lucid_pipelines.domain.states import AttemptState, Cause, JobState, Outcome
from lucid_pipelines.store import EventKind, Store
from tests.support_store.jobs import NOW, at, exit_record, queued, running
from tests.support_store.processes import together

_FAILURES = (
    Outcome.FAILED_USER,
    Outcome.FAILED_FRAMEWORK,
    Outcome.FAILED_INFRASTRUCTURE,
    Outcome.FAILED_UNKNOWN,
    Outcome.CONTROL_PLANE_ERROR,
)


def test_an_end_writes_everything_at_once(store: Store) -> None:
    attempt = running(store, gpus=(0, 1))
    profile = Profile(80.0, 40.0, 9000.0, 60.0, 60, "nvml")
    record = exit_record(run_s=90, code=0, profile=profile, declared=(("note", "saved"),))
    result = store.attempts.record_end(
        attempt.attempt_id, record, Outcome.COMPLETED, who="poller", now=at(95), evidence={"poll": 3}, as_of=at(94)
    )
    assert result.changed
    assert result.attempt == store.attempts.get(attempt.attempt_id)
    assert (result.attempt.state, result.attempt.outcome) == (AttemptState.ENDED, Outcome.COMPLETED)
    assert (result.attempt.exit, result.attempt.ended_at) == (record, at(90))
    job = store.jobs.get(attempt.job_id)
    assert result.job == job
    assert (job.state, job.outcome, job.exit_code) == (JobState.COMPLETED, Outcome.COMPLETED, 0)
    assert (job.started_at, job.ended_at, job.ran_s, job.profile) == (NOW, at(90), 90.0, profile)
    view = store.queue.view()
    assert (view.slots, view.active) == ((), ())
    [row] = store.history.rows()
    assert (row.attempt_id, row.user, row.gpus, row.duration_s) == (attempt.attempt_id, "ada", 2, 90.0)
    assert (row.outcome, row.profile, row.placement) == (Outcome.COMPLETED, profile, attempt.placement)
    assert (row.packed, row.profiling, row.ended_at) == (False, False, at(90))
    entry = store.exits.get(attempt.attempt_id)
    assert (entry.abnormal, entry.handled_at, entry.outcome) == (False, None, Outcome.COMPLETED)
    event = store.events.of_job(job.job_id)[-1]
    assert (event.kind, event.to_state, event.as_of) == (EventKind.ENDED, JobState.COMPLETED, at(94))
    assert event.evidence["run_s"] == 90.0


@pytest.mark.parametrize("outcome", _FAILURES)
def test_failures_are_failed_jobs_and_abnormal_exits(store: Store, outcome: Outcome) -> None:
    attempt = running(store)
    result = store.attempts.record_end(
        attempt.attempt_id,
        exit_record(code=1, detail="boom"),
        outcome,
        cause=Cause.USER,
        who="poller",
        now=at(60),
    )
    assert (result.job.state, result.job.outcome, result.job.cause) == (JobState.FAILED, outcome, Cause.USER)
    assert (result.job.exit_code, result.job.detail) == (1, "boom")
    assert store.exits.get(attempt.attempt_id).abnormal
    assert store.history.duration_stats("ada", 1, at(100)).rungs == ()


@pytest.mark.parametrize(
    ("outcome", "state", "abnormal"),
    [
        (Outcome.LOST, JobState.LOST, True),
        (Outcome.CANCELLED, JobState.CANCELLED, False),
        (Outcome.EVICTED, JobState.EVICTED, False),
    ],
)
def test_other_ends_have_their_own_states(store: Store, outcome: Outcome, state: JobState, abnormal: bool) -> None:
    attempt = running(store)
    result = store.attempts.record_end(attempt.attempt_id, None, outcome, who="poller", now=at(60))
    assert (result.job.state, result.job.exit_code, result.attempt.exit) == (state, None, None)
    assert store.exits.get(attempt.attempt_id).abnormal is abnormal
    assert (result.job.ended_at is None) == (state is JobState.EVICTED)


def test_a_second_end_changes_nothing_and_says_so(store: Store) -> None:
    attempt = running(store)
    first = store.attempts.record_end(attempt.attempt_id, exit_record(), Outcome.COMPLETED, who="p", now=at(60))
    before = store.change_counter(), store.events.last_id(), store.history.rows()
    again = store.attempts.record_end(
        attempt.attempt_id, exit_record(code=9), Outcome.LOST, who="q", now=at(70), requeue=True
    )
    assert not again.changed
    assert (again.job, again.attempt) == (first.job, first.attempt)
    assert (store.change_counter(), store.events.last_id(), store.history.rows()) == before
    with pytest.raises(NotFoundError):
        store.attempts.record_end("j-000000000000-a1", None, Outcome.LOST, who="p", now=NOW)
    with pytest.raises(NotFoundError):
        store.attempts.record_end(f"{attempt.job_id}-a2", None, Outcome.LOST, who="p", now=NOW)


def test_an_eviction_goes_back_to_the_queue_with_its_marks(store: Store) -> None:
    attempt = running(store)
    result = store.attempts.record_end(
        attempt.attempt_id,
        exit_record(run_s=30, code=143),
        Outcome.EVICTED,
        who="poller",
        now=at(31),
        requeue=True,
        never_pack=True,
        avoid_nodes=["n1"],
    )
    job = result.job
    assert (job.state, job.never_pack, job.avoid_nodes, job.ran_s) == (JobState.QUEUED, True, ("n1",), 30.0)
    assert (job.started_at, job.outcome, job.queued_at, job.restart_count) == (None, None, at(31), 0)
    states = [(event.from_state, event.to_state) for event in store.events.of_job(job.job_id)[-2:]]
    assert states == [(JobState.RUNNING, JobState.EVICTED), (JobState.EVICTED, JobState.QUEUED)]
    second = store.attempts.place(job.job_id, Placement.of({"n2": [0]}), who="s", now=at(40))
    assert second.number == 2
    store.attempts.record_end(second.attempt_id, exit_record(at(40), 70), Outcome.COMPLETED, who="p", now=at(110))
    assert store.jobs.get(job.job_id).ran_s == 100.0
    assert [row.number for row in store.history.rows()] == [1, 2]


def test_a_failed_job_can_be_put_back_in_the_same_breath(store: Store) -> None:
    attempt = running(store)
    result = store.attempts.record_end(
        attempt.attempt_id,
        exit_record(code=1),
        Outcome.FAILED_INFRASTRUCTURE,
        cause=Cause.INFRASTRUCTURE,
        who="recovery",
        now=at(60),
        requeue=True,
        avoid_nodes=("n1",),
    )
    assert (result.job.state, result.job.restart_count, result.job.avoid_nodes) == (JobState.QUEUED, 1, ("n1",))
    assert store.exits.pending() == (1, at(60))
    with pytest.raises(InputError, match="not put back"):
        other = running(store)
        store.attempts.record_end(other.attempt_id, exit_record(), Outcome.COMPLETED, who="p", now=NOW, requeue=True)


@pytest.mark.parametrize(("requeue", "state"), [(True, JobState.QUEUED), (False, JobState.PROFILE_QUEUED)])
def test_leaving_the_profiling_pool_is_no_eviction(store: Store, requeue: bool, state: JobState) -> None:
    job = queued(store, to=JobState.PROFILE_QUEUED)
    attempt = store.attempts.place(job.job_id, Placement.of({"p1": [0]}), profiling=True, who="s", now=NOW)
    profile = Profile(10.0, 5.0, 700.0, 60.0, 30, "declared")
    result = store.attempts.record_end(
        attempt.attempt_id, None, Outcome.EVICTED, who="p", now=at(60), requeue=requeue, profile=profile
    )
    assert (result.job.state, result.job.profile, result.job.outcome) == (state, profile, None)
    [row] = store.history.rows()
    assert row.profiling


def test_a_job_may_end_within_the_profiling_pool(store: Store) -> None:
    job = queued(store, to=JobState.PROFILE_QUEUED)
    attempt = store.attempts.place(job.job_id, Placement.of({"p1": [0]}), profiling=True, who="s", now=NOW)
    result = store.attempts.record_end(attempt.attempt_id, exit_record(), Outcome.COMPLETED, who="p", now=at(60))
    assert result.job.state is JobState.COMPLETED


def test_the_exit_record_knows_the_times_best(store: Store) -> None:
    job = queued(store)
    attempt = store.attempts.place(job.job_id, Placement.of({"n1": [0]}), who="s", now=NOW)
    record = exit_record(at(2), 10)  # its start was never observed
    result = store.attempts.record_end(attempt.attempt_id, record, Outcome.COMPLETED, who="p", now=at(500))
    assert (result.job.started_at, result.job.ended_at, result.job.ran_s) == (at(2), at(12), 10.0)
    assert result.job.state_at == at(500)


def test_a_clock_that_ran_backward_gives_no_negative_run(store: Store) -> None:
    attempt = running(store, at(100))
    record = exit_record(at(100), run_s=-30)
    result = store.attempts.record_end(attempt.attempt_id, record, Outcome.COMPLETED, who="p", now=at(101))
    assert result.job.ran_s == 0.0
    assert result.attempt.started_at == result.attempt.ended_at == at(70)


def test_an_attempt_that_never_started_has_no_duration(store: Store) -> None:
    job = queued(store)
    attempt = store.attempts.place(job.job_id, Placement.of({"n1": [0]}), who="s", now=NOW)
    store.attempts.record_end(attempt.attempt_id, None, Outcome.LOST, who="p", now=at(60))
    [row] = store.history.rows()
    assert (row.duration_s, row.started_at) == (None, None)


def test_launch_and_stop_are_void_after_the_end_and_late_workers_drop_theirs(store: Store) -> None:
    job = queued(store)
    attempt = store.attempts.place(job.job_id, Placement.of({"n1": [0]}), who="s", now=NOW)
    store.attempts.request_stop(attempt.attempt_id, reason="drain", requeue=True, who="ops", now=NOW)
    store.attempts.record_end(attempt.attempt_id, None, Outcome.LOST, who="p", now=at(60))
    assert store.intents.claim(worker="d", now=at(61), limit=9, ttl_s=10) == []
    results = [intent.result for intent in store.intents.find(attempt_id=attempt.attempt_id)]
    assert results == [{"void": "the attempt has ended"}] * 2


def test_a_completed_run_scores_the_predictions_made_before(store: Store) -> None:
    attempt = running(store)
    store.estimates.record({attempt.job_id: Estimate(50.0, "user_mean", 40.0, 80.0, 0.9)}, now=at(1))
    store.estimates.record({attempt.job_id: Estimate(500.0, "global_mean", 90.0, 900.0)}, now=at(2))
    store.estimates.record({attempt.job_id: Estimate(None, "no_evidence")}, now=at(3))
    store.attempts.record_end(attempt.attempt_id, exit_record(run_s=60), Outcome.COMPLETED, who="p", now=at(61))
    told = [e for e in store.events.of_job(attempt.job_id) if e.kind is EventKind.ESTIMATED]
    assert [event.evidence["basis"] for event in told] == ["user_mean", "global_mean", "no_evidence"]
    rows = store.estimates.of_job(attempt.job_id)
    assert [(row.actual_s, row.within, row.scored_at) for row in rows] == [
        (60.0, True, at(61)),
        (60.0, False, at(61)),
        (60.0, None, at(61)),
    ]
    scores = {score.basis: score for score in store.estimates.scores(since=NOW, until=at(100))}
    assert scores["user_mean"].mean_abs_error_s == 10.0
    assert (scores["user_mean"].coverage_frac, scores["global_mean"].coverage_frac) == (1.0, 0.0)
    assert (scores["no_evidence"].mean_abs_error_s, scores["no_evidence"].coverage_frac) == (None, None)
    assert store.estimates.scores(since=at(62), until=at(100)) == []


def test_a_failed_run_scores_nothing(store: Store) -> None:
    attempt = running(store)
    store.estimates.record({attempt.job_id: Estimate(50.0, "user_mean")}, now=at(1))
    store.attempts.record_end(attempt.attempt_id, exit_record(code=1), Outcome.FAILED_USER, who="p", now=at(61))
    assert [row.scored_at for row in store.estimates.of_job(attempt.job_id)] == [None]


def test_starting_is_noted_once(store: Store) -> None:
    job = queued(store)
    attempt = store.attempts.place(job.job_id, Placement.of({"n1": [0]}), who="s", now=NOW)
    store.attempts.set_log_path(attempt.attempt_id, "logs/x", now=NOW)
    assert store.queue.view().active[0].attempt.log_path == "logs/x"
    assert store.attempts.record_started(attempt.attempt_id, at(3), who="p", now=at(4), as_of=at(4))
    assert not store.attempts.record_started(attempt.attempt_id, at(9), who="p", now=at(10))
    started = store.attempts.get(attempt.attempt_id)
    assert (started.state, started.started_at) == (AttemptState.RUNNING, at(3))
    assert store.jobs.get(job.job_id).started_at == at(3)
    assert store.events.of_job(job.job_id)[-1].kind is EventKind.STARTED


def test_rival_observers_record_an_end_once(store_url: str) -> None:
    with Store.open(store_url, durable=False) as store:
        attempts = [running(store, gpus=(n,)).attempt_id for n in range(8)]
    changed = together(4, _end_all, store_url, attempts)
    assert [sum(flags) for flags in zip(*changed, strict=True)] == [1] * 8
    with Store.open(store_url, durable=False) as store:
        assert len(store.history.rows()) == 8
        assert store.queue.view().slots == ()


def _end_all(number: int, url: str, attempts: list[str]) -> list[bool]:
    with Store.open(url, durable=False) as store:
        outcome = Outcome.COMPLETED if number % 2 else Outcome.LOST
        return [
            store.attempts.record_end(
                attempt_id, exit_record(), outcome, who=f"p{number}", now=NOW + timedelta(seconds=60)
            ).changed
            for attempt_id in attempts
        ]
