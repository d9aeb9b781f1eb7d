"""Find jobs: by id, prefix, name, filters, pages and counts."""

from __future__ import annotations

import pytest

from lucid_pipelines.domain.errors import InputError, NotFoundError
from lucid_pipelines.domain.states import JobState
from lucid_pipelines.store import Store
from tests.support_store.jobs import NOW, at, make_spec, queued, submitted


def test_a_job_is_found_by_id_by_unique_prefix_and_by_unique_name(store: Store) -> None:
    job = submitted(store, name="resnet 'x'")
    late = submitted(store, at(86400 * 400), name="bert")
    assert store.jobs.resolve(job.job_id) == job
    assert store.jobs.resolve("resnet 'x'") == job
    prefix = next(late.job_id[:n] for n in range(3, 15) if not job.job_id.startswith(late.job_id[:n]))
    assert store.jobs.resolve(prefix) == late


def test_what_fits_several_jobs_is_refused_with_their_ids(store: Store) -> None:
    first, second = submitted(store), submitted(store, at(1))
    with pytest.raises(InputError, match=rf"2 jobs are named 'resnet'.*{second.job_id}, {first.job_id}"):
        store.jobs.resolve("resnet")
    with pytest.raises(InputError, match="2 ids begin with 'j-1'"):
        store.jobs.resolve(first.job_id[:3])
    for second_no in range(8):
        submitted(store, at(second_no))
    with pytest.raises(InputError, match="more than 5 jobs are named"):
        store.jobs.resolve("resnet")


def test_an_unknown_job_names_the_nearest_one(store: Store) -> None:
    job = submitted(store, name="resnet-cifar")
    with pytest.raises(NotFoundError, match="did you mean 'resnet-cifar'"):
        store.jobs.resolve("resnet-cifr")
    wrong = job.job_id[:-1] + ("0" if job.job_id[-1] != "0" else "1")
    with pytest.raises(NotFoundError, match=f"did you mean '{job.job_id}'"):
        store.jobs.get(wrong)
    for odd in ("", "%", "j-%", "j-_", "'; DROP TABLE jobs; --", "j-" + "z" * 40):
        with pytest.raises(NotFoundError):
            store.jobs.resolve(odd)
    with pytest.raises(InputError, match="NUL"):
        store.jobs.resolve("a\x00")


def test_filters_narrow_and_the_newest_comes_first(store: Store) -> None:
    jobs = [submitted(store, at(n), name=f"n{n % 2}", user=f"u{n % 3}", vc=f"v{n % 2}") for n in range(12)]
    waiting = queued(store, at(20), name="n0", user="u0", vc="v0")
    newest_first = [waiting, *reversed(jobs)]
    assert store.jobs.find() == newest_first
    assert store.jobs.find(limit=3) == newest_first[:3]
    assert store.jobs.find(user="u0", vc="v0") == [j for j in newest_first if (j.spec.user, j.spec.vc) == ("u0", "v0")]
    assert store.jobs.find(name="n1", states=[JobState.SUBMITTED]) == [j for j in newest_first if j.spec.name == "n1"]
    assert store.jobs.find(states=[JobState.QUEUED]) == [waiting]
    assert store.jobs.find(states=[]) == []
    assert store.jobs.find(ids=[jobs[2].job_id, jobs[5].job_id, "j-unknown"]) == [jobs[5], jobs[2]]


def test_pages_together_are_the_whole_list(store: Store) -> None:
    store.jobs.submit_many([make_spec(name=f"n{n}") for n in range(25)], NOW)
    store.jobs.submit_many([make_spec(name=f"m{n}") for n in range(8)], at(1))
    pages, last = [], None
    while page := store.jobs.find(limit=7, before=last):
        pages += page
        last = page[-1]
    assert pages == store.jobs.find(limit=None)
    assert len(pages) == 33


def test_counts_name_every_state(store: Store) -> None:
    submitted(store)
    queued(store, vc="other")
    queued(store)
    counts = store.jobs.counts()
    assert set(counts) == set(JobState)
    assert (counts[JobState.SUBMITTED], counts[JobState.QUEUED], counts[JobState.RUNNING]) == (1, 2, 0)
    assert store.jobs.counts(vc="other")[JobState.QUEUED] == 1
    assert sum(store.jobs.counts(vc="nobody").values()) == 0


def test_events_are_read_by_cursor_without_gaps(store: Store) -> None:
    assert store.events.last_id() == 0
    job = queued(store)
    other = submitted(store)
    seen, cursor = [], 0
    while batch := store.events.after(cursor, limit=2):
        seen += batch
        cursor = batch[-1].event_id
    assert [event.job_id for event in seen] == [job.job_id] * 4 + [other.job_id]
    assert cursor == store.events.last_id()
    assert store.events.of_job(job.job_id) == seen[:4]
    assert store.events.of_job(job.job_id, after_id=seen[1].event_id, limit=1) == [seen[2]]
