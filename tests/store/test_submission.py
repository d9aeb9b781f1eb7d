"""Jobs come in: once per key, in order, many at a time, and never with text that a database cannot keep."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lucid_pipelines.domain.errors import InputError, StateError
from lucid_pipelines.domain.states import JobState
from lucid_pipelines.store import EventKind, Store
from tests.support_store.jobs import NOW, at, make_spec
from tests.support_store.processes import together


def test_a_submitted_job_reads_back_as_it_was_given(store: Store) -> None:
    spec = make_spec(
        name='it\'s "quoted"\n\t新しい 🚀 \\ %s {}',
        env=(("A", "1"), ("B", "x=y")),
        labels=(("team", "vision"), ("team", "again")),
        amp=True,
        never_restart=True,
        long_cold_start=True,
        grace_s=0.1,
        workdir="sub/dir",
        source_dir="some/where",
        snapshot_digest="sha256:abc",
        idempotency_key="k" * 255,
    )
    job, created = store.jobs.submit(spec, NOW)
    assert created
    assert job.spec == spec
    assert job.labels == spec.labels
    assert (job.state, job.version, job.submitted_at, job.state_at) == (JobState.SUBMITTED, 1, NOW, NOW)
    assert store.jobs.get(job.job_id) == job
    [event] = store.events.of_job(job.job_id)
    assert (event.kind, event.from_state, event.to_state, event.who) == (
        EventKind.SUBMITTED,
        None,
        JobState.SUBMITTED,
        "ada",
    )


def test_the_same_key_is_the_same_job(store: Store) -> None:
    spec = make_spec(idempotency_key="k")
    first, created = store.jobs.submit(spec, NOW)
    again, created_again = store.jobs.submit(spec, at(5))
    assert (created, created_again) == (True, False)
    assert again == first
    other, created_other = store.jobs.submit(replace(spec, user="bob"), NOW)
    assert created_other
    assert other.job_id != first.job_id
    assert len(store.events.after(0)) == 2


def test_a_key_with_another_spec_is_refused_and_says_what_differs(store: Store) -> None:
    first, _ = store.jobs.submit(make_spec(idempotency_key="k", gpus=1), NOW)
    with pytest.raises(StateError, match=rf"{first.job_id}.*differs in name, gpus;.*'k'"):
        store.jobs.submit(make_spec(idempotency_key="k", gpus=2, name="other"), NOW)
    assert store.jobs.counts()[JobState.SUBMITTED] == 1


def test_a_snapshot_sealed_meanwhile_is_no_difference(store: Store) -> None:
    spec = make_spec(idempotency_key="k")
    job, _ = store.jobs.submit(spec, NOW)
    store.jobs.transition(
        job.job_id,
        [JobState.SUBMITTED],
        JobState.SNAPSHOTTED,
        who="intake",
        why="sealed",
        now=NOW,
        snapshot_digest="sha256:1",
    )
    again, created = store.jobs.submit(spec, NOW)
    assert not created
    assert again.spec.snapshot_digest == "sha256:1"
    with pytest.raises(StateError, match="differs in snapshot_digest"):
        store.jobs.submit(replace(spec, snapshot_digest="sha256:2"), NOW)


def test_a_batch_keeps_its_order_and_its_repeats(store: Store) -> None:
    specs = [
        make_spec(name=f"job-{number}", idempotency_key=f"k{number % 7}" if number < 7 else None)
        for number in range(40)
    ]
    specs.insert(20, specs[3])
    pairs = store.jobs.submit_many(specs, NOW)
    assert [job.spec for job, _ in pairs] == specs
    assert [created for _, created in pairs] == [position != 20 for position in range(41)]
    assert pairs[20][0] == pairs[3][0]
    claimed = store.jobs.claim([JobState.SUBMITTED], worker="w", now=NOW, limit=100, ttl_s=9)
    assert [claim.item.spec.name for claim in claimed] == [f"job-{number}" for number in range(40)]


def test_a_batch_is_taken_whole_or_not_at_all(store: Store) -> None:
    store.jobs.submit(make_spec(idempotency_key="k"), NOW)
    with pytest.raises(StateError):
        store.jobs.submit_many([make_spec(), make_spec(idempotency_key="k", gpus=3)], NOW)
    with pytest.raises(InputError):
        store.jobs.submit_many([make_spec(), make_spec(gpus=0)], NOW)
    assert len(store.jobs.find()) == 1
    assert len(store.events.after(0)) == 1


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"name": "a\x00b"}, "NUL"),
        ({"user": "a\x00b"}, "NUL"),
        ({"command": ("python", "-c", "print('\x00')")}, "NUL"),
        ({"env": (("A", "\x00"),)}, "NUL"),
        ({"labels": (("a\x00", "b"),)}, "NUL"),
        ({"name": "caf\udce9"}, "valid Unicode"),
        ({"command": ("\udcff",)}, "valid Unicode"),
        ({"name": ""}, "needs a name"),
        ({"vc": " \n"}, "needs a vc"),
        ({"user": "u" * 256}, "at most 255"),
        ({"name": "🚀" * 256}, "at most 255"),
        ({"idempotency_key": ""}, "1 to 255"),
        ({"idempotency_key": "k" * 256}, "1 to 255"),
        ({"gpus": 0}, "1 to 1000000 GPUs; got 0"),
        ({"gpus": -3}, "got -3"),
        ({"gpus": 2**40}, "GPUs"),
        ({"command": ()}, "needs a command"),
        ({"command": ("x" * (1 << 20), "y")}, "put it into a file"),
        ({"grace_s": float("nan")}, "finite"),
    ],
)
def test_specs_that_no_database_can_keep_are_refused_alike(
    store: Store, changes: dict[str, object], expected: str
) -> None:
    before = store.change_counter()
    with pytest.raises(InputError, match=expected):
        store.jobs.submit(make_spec(**changes), NOW)
    assert store.jobs.find() == []
    assert store.change_counter() == before


def test_names_at_the_limit_are_kept(store: Store) -> None:
    spec = make_spec(name="🚀" * 255, user="ü" * 255, vc="東" * 255, idempotency_key="🔑" * 255)
    job, _ = store.jobs.submit(spec, NOW)
    assert store.jobs.find(name=spec.name, user=spec.user, vc=spec.vc) == [job]


def test_times_without_a_zone_are_refused(store: Store) -> None:
    with pytest.raises(InputError, match="timezone"):
        store.jobs.submit(make_spec(), NOW.replace(tzinfo=None))


_clean_text = st.text(
    st.characters(exclude_characters="\x00", exclude_categories=("Cs",)), min_size=1, max_size=60
).filter(lambda text: text.strip() != "")


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=_clean_text, word=_clean_text, key=_clean_text)
def test_any_clean_text_comes_back_unchanged(store: Store, name: str, word: str, key: str) -> None:
    spec = make_spec(name=name, command=(word, ""), env=((word, name),), labels=((key, word),))
    job, _ = store.jobs.submit(spec, NOW)
    assert store.jobs.get(job.job_id).spec == spec
    assert job.job_id in {found.job_id for found in store.jobs.find(name=name, limit=None)}


def test_rival_processes_with_the_same_keys_make_each_job_once(store_url: str) -> None:
    answers = together(4, _submit_batch, store_url)
    for answer in answers:
        assert [job_id for job_id, _ in answer] == [job_id for job_id, _ in answers[0]]
    made = [created for answer in answers for _, created in answer]
    assert sum(made) == 30
    with Store.open(store_url) as store:
        assert store.jobs.counts()[JobState.SUBMITTED] == 30


def _submit_batch(number: int, url: str) -> list[tuple[str, bool]]:
    keys = [f"k{index}" for index in range(30)]
    forward = number % 2 == 0  # rivals meet the keys in opposite orders
    order = keys if forward else keys[::-1]
    with Store.open(url) as store:
        pairs = [
            store.jobs.submit_many([make_spec(idempotency_key=key) for key in order[i : i + 10]], NOW)
            for i in (0, 10, 20)
        ]
    by_key = {job.spec.idempotency_key: (job.job_id, created) for batch in pairs for job, created in batch}
    return [by_key[key] for key in keys]


def test_ids_are_short_sortable_and_never_twice(store: Store) -> None:
    ids = [job.job_id for job, _ in store.jobs.submit_many([make_spec() for _ in range(300)], NOW)]
    ids += [job.job_id for job, _ in store.jobs.submit_many([make_spec() for _ in range(50)], at(1))]
    assert len(set(ids)) == 350
    assert ids == sorted(ids)
    assert all(len(job_id) == 14 and job_id.startswith("j-") for job_id in ids)
