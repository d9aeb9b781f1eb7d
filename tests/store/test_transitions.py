"""Compare-and-set: one arrow, one event, one version; everything else is refused and changes nothing."""

from __future__ import annotations

from threading import Thread

import pytest

from lucid_pipelines.domain.errors import InputError, StateError
from lucid_pipelines.domain.job import Estimate, Profile
from lucid_pipelines.domain.states import Cause, JobState, Outcome
from lucid_pipelines.store import EventKind, Store
from tests.support_store.jobs import NOW, at, queued, running, submitted

_BY = {"who": "intake", "why": "because", "now": NOW}


def test_a_transition_changes_state_version_and_story_together(store: Store) -> None:
    job = submitted(store)
    before = store.change_counter()
    moved = store.jobs.transition(
        job.job_id,
        [JobState.SUBMITTED, JobState.ADVISED],
        JobState.SNAPSHOTTED,
        who="intake",
        why="sealed",
        now=at(3),
        evidence={"files": 3, "at": at(2)},
        as_of=at(2),
        snapshot_digest="sha256:1",
        estimate=Estimate(5.0, "user_mean", 1.0, 9.0, 0.9, ("j-1",), 4, "v1"),
        profile=Profile(50.0, None, 900.0, 30.0, 12, "nvml"),
        labels=(("a", "b"),),
        avoid_nodes=("n9",),
        never_pack=True,
    )
    assert moved == store.jobs.get(job.job_id)
    assert (moved.state, moved.state_at, moved.version) == (JobState.SNAPSHOTTED, at(3), job.version + 1)
    assert moved.spec.snapshot_digest == "sha256:1"
    assert moved.estimate == Estimate(5.0, "user_mean", 1.0, 9.0, 0.9, ("j-1",), 4, "v1")
    assert moved.profile == Profile(50.0, None, 900.0, 30.0, 12, "nvml")
    assert (moved.labels, moved.avoid_nodes, moved.never_pack) == ((("a", "b"),), ("n9",), True)
    event = store.events.of_job(job.job_id)[-1]
    assert (event.kind, event.from_state, event.to_state) == (
        EventKind.STATE,
        JobState.SUBMITTED,
        JobState.SNAPSHOTTED,
    )
    assert (event.at, event.as_of, event.who, event.why) == (at(3), at(2), "intake", "sealed")
    assert event.evidence == {"files": 3, "at": "2026-03-01T12:00:02+00:00"}
    assert store.change_counter() > before


def test_the_wrong_state_or_version_is_named_and_nothing_changes(store: Store) -> None:
    job = queued(store)
    before = store.change_counter(), store.events.last_id()
    with pytest.raises(StateError, match=f"to be advised or submitted; {job.job_id} is queued"):
        store.jobs.transition(job.job_id, [JobState.SUBMITTED, JobState.ADVISED], JobState.SNAPSHOTTED, **_BY)
    with pytest.raises(StateError, match=f"expected version 1.*has {job.version}"):
        store.jobs.transition(job.job_id, [JobState.QUEUED], JobState.PROFILE_QUEUED, expected_version=1, **_BY)
    with pytest.raises(StateError, match="can become"):
        store.jobs.transition(job.job_id, [JobState.QUEUED], JobState.ADVISED, **_BY)
    assert store.jobs.get(job.job_id) == job
    assert (store.change_counter(), store.events.last_id()) == before


def test_there_is_no_way_around_placement_and_end(store: Store) -> None:
    waiting, attempt = queued(store), running(store)
    with pytest.raises(StateError, match=r"attempts\.place"):
        store.jobs.transition(waiting.job_id, [JobState.QUEUED], JobState.RUNNING, **_BY)
    for target in (JobState.QUEUED, JobState.COMPLETED, JobState.FAILED):
        with pytest.raises(StateError, match=r"attempts\.record_end"):
            store.jobs.transition(attempt.job_id, [JobState.RUNNING], target, **_BY)


def test_a_failure_before_the_run_says_whose_fault_it_is(store: Store) -> None:
    job = submitted(store)
    with pytest.raises(InputError, match="needs an outcome"):
        store.jobs.transition(job.job_id, [JobState.SUBMITTED], JobState.FAILED, **_BY)
    failed = store.jobs.transition(
        job.job_id,
        [JobState.SUBMITTED],
        JobState.FAILED,
        who="intake",
        why="no such folder",
        now=at(9),
        outcome=Outcome.FAILED_USER,
        cause=Cause.USER,
        detail="no such folder: x",
    )
    assert (failed.outcome, failed.cause, failed.ended_at) == (Outcome.FAILED_USER, Cause.USER, at(9))
    back = store.jobs.requeue(job.job_id, who="ops", why="mended", now=at(20))
    assert (back.state, back.outcome, back.ended_at, back.detail) == (JobState.QUEUED, None, None, None)
    assert (back.restart_count, back.queued_at) == (1, at(20))


def test_a_note_leaves_the_state_alone(store: Store) -> None:
    job = queued(store)
    noted = store.jobs.annotate(job.job_id, who="advisor", why="found a twin", now=at(1), detail="like j-1")
    assert (noted.state, noted.state_at, noted.version) == (job.state, job.state_at, job.version + 1)
    assert noted.detail == "like j-1"
    event = store.events.of_job(job.job_id)[-1]
    assert (event.kind, event.from_state, event.to_state) == (EventKind.NOTE, JobState.QUEUED, JobState.QUEUED)


def test_of_many_rivals_one_wins(store: Store) -> None:
    job = submitted(store)
    outcomes: list[object] = []

    def rival(name: str) -> None:
        try:
            store.jobs.transition(job.job_id, [JobState.SUBMITTED], JobState.SNAPSHOTTED, who=name, why="", now=NOW)
            outcomes.append(name)
        except StateError as exc:
            outcomes.append(exc)

    threads = [Thread(target=rival, args=(f"r{n}",)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    winners = [outcome for outcome in outcomes if isinstance(outcome, str)]
    assert len(winners) == 1
    assert len(outcomes) == 6
    assert [event.who for event in store.events.of_job(job.job_id)] == ["ada", winners[0]]


@pytest.mark.parametrize("evidence", ["a\x00b", {"a": ["\x00"]}, {"x\x00": 1}, {"v": float("inf")}, "\ud800", object()])
def test_evidence_that_cannot_be_kept_is_refused_alike(store: Store, evidence: object) -> None:
    job = submitted(store)
    with pytest.raises(InputError):
        store.jobs.transition(
            job.job_id, [JobState.SUBMITTED], JobState.SNAPSHOTTED, who="w", why="", now=NOW, evidence=evidence
        )
    assert store.jobs.get(job.job_id) == job


def test_evidence_comes_back_as_it_went_in(store: Store) -> None:
    job = submitted(store)
    evidence = {"emoji": "🚀", "quote": "'\"\\", "n": [1, -2.5, 1e300, 2**53, True, None], "deep": {"a": {"b": ()}}}
    store.jobs.annotate(job.job_id, who="w", why="y", now=NOW, evidence=evidence)
    assert store.events.of_job(job.job_id)[-1].evidence == evidence | {"deep": {"a": {"b": []}}}
