"""Placement: GPUs, attempt, intent and event together or not at all; no exclusive GPU twice."""

from __future__ import annotations

import pytest
from sqlalchemy import insert
from sqlalchemy.exc import IntegrityError

from lucid_pipelines.domain.cluster import NodeShare, Placement
from lucid_pipelines.domain.errors import InputError, NotFoundError, StateError
from lucid_pipelines.domain.job import Estimate
from lucid_pipelines.domain.states import AttemptState, JobState, Outcome
from lucid_pipelines.store import EventKind, IntentKind, SlotUse, Store
from lucid_pipelines.store.tables import gpu_slots
from tests.support_store.jobs import NOW, at, exit_record, queued, running, submitted
from tests.support_store.processes import together

_BY = {"who": "scheduler", "now": NOW}


def test_a_placement_writes_everything_at_once(store: Store) -> None:
    job = queued(store, gpus=3, grace_s=7.0)
    placement = Placement.of({"n2": [1, 0], "n1": [3]})
    estimate = Estimate(100.0, "user_mean", 50.0, 200.0, 0.9, ("j-0",), 3)
    attempt = store.attempts.place(
        job.job_id,
        placement,
        who="scheduler",
        now=at(5),
        why="first in line",
        reasons={"policy": "fifo", "position": 1},
        estimate=estimate,
        expected_version=job.version,
    )
    assert attempt == store.attempts.get(f"{job.job_id}-a1")
    assert (attempt.number, attempt.state, attempt.placement) == (1, AttemptState.PLACED, placement)
    assert (attempt.placed_at, attempt.started_at, attempt.profiling) == (at(5), None, False)
    after = store.jobs.get(job.job_id)
    assert (after.state, after.attempt_count, after.estimate) == (JobState.RUNNING, 1, estimate)
    assert after.version > job.version
    assert [row.estimate for row in store.estimates.of_job(job.job_id)] == [estimate]
    intent = store.intents.get(f"launch:{attempt.attempt_id}")
    assert (intent.kind, intent.job_id, intent.attempt_id) == (IntentKind.LAUNCH, job.job_id, attempt.attempt_id)
    assert Placement.from_json(intent.payload["placement"]) == placement
    event = store.events.of_job(job.job_id)[-1]
    assert (event.kind, event.to_state, event.why) == (EventKind.PLACED, JobState.RUNNING, "first in line")
    assert event.evidence["reasons"] == {"policy": "fifo", "position": 1}
    held = {(slot.node, slot.gpu_index, slot.slot) for slot in store.queue.view().slots}
    assert held == {(node, gpu, slot) for node, gpu in (("n2", 0), ("n2", 1), ("n1", 3)) for slot in (0, 1)}


def test_a_profiling_placement_is_its_own_arrow(store: Store) -> None:
    job = queued(store, to=JobState.PROFILE_QUEUED)
    with pytest.raises(StateError, match="only a queued job"):
        store.attempts.place(job.job_id, Placement.of({"p1": [0]}), **_BY)
    attempt = store.attempts.place(job.job_id, Placement.of({"p1": [0]}), profiling=True, **_BY)
    assert attempt.profiling
    assert store.jobs.get(job.job_id).state is JobState.PROFILING
    moved = store.jobs.transition(
        job.job_id, [JobState.PROFILING], JobState.RUNNING, who="s", why="goes on in place", now=at(1)
    )
    assert moved.state is JobState.RUNNING


def test_a_taken_gpu_is_refused_and_nothing_is_left_behind(store: Store) -> None:
    holder = running(store, node="n1", gpus=(1, 2))
    job = queued(store, gpus=3)
    before = store.change_counter(), store.events.last_id(), store.queue.view()
    with pytest.raises(StateError, match=rf"in use: n1\[1\] by {holder.attempt_id}"):
        store.attempts.place(job.job_id, Placement.of({"n1": [0, 1], "n2": [0]}), **_BY)
    assert (store.change_counter(), store.events.last_id(), store.queue.view()) == before
    assert store.attempts.of_job(job.job_id) == []
    store.attempts.place(job.job_id, Placement.of({"n1": [0], "n2": [1, 0]}), **_BY)


def test_a_job_is_placed_once(store: Store) -> None:
    job = queued(store)
    store.attempts.place(job.job_id, Placement.of({"n1": [0]}), **_BY)
    with pytest.raises(StateError, match="is running"):
        store.attempts.place(job.job_id, Placement.of({"n1": [1]}), **_BY)
    waiting = queued(store)
    with pytest.raises(StateError, match="expected version 99"):
        store.attempts.place(waiting.job_id, Placement.of({"n1": [1]}), expected_version=99, **_BY)
    with pytest.raises(StateError, match="is submitted"):
        store.attempts.place(submitted(store).job_id, Placement.of({"n1": [1]}), **_BY)
    with pytest.raises(NotFoundError):
        store.attempts.place("j-000000000000", Placement.of({"n1": [1]}), **_BY)


@pytest.mark.parametrize(
    "placement",
    [
        Placement(()),
        Placement((NodeShare("n1", (0,)), NodeShare("n1", (0,)))),
        Placement((NodeShare("n1", (-1,)),)),
        Placement((NodeShare("n1", (2**40,)),)),
        Placement((NodeShare("n\x001", (0,)),)),
        Placement((NodeShare("n" * 300, (0,)),)),
    ],
)
def test_placements_that_make_no_sense_are_refused(store: Store, placement: Placement) -> None:
    job = queued(store)
    with pytest.raises(InputError):
        store.attempts.place(job.job_id, placement, **_BY)
    assert store.jobs.get(job.job_id) == job


def test_the_database_itself_refuses_a_gpu_half_twice(store: Store) -> None:
    attempt = running(store)
    row = {"node": "n1", "gpu_index": 0, "slot": 0, "attempt_id": attempt.attempt_id}
    with pytest.raises(IntegrityError), store._database._engine.begin() as connection:
        connection.execute(insert(gpu_slots).values(row))
    with pytest.raises(IntegrityError), store._database._engine.begin() as connection:
        connection.execute(insert(gpu_slots).values(row | {"gpu_index": 7, "slot": 2}))


# ---- packing ------------------------------------------------------------------------------------------


def test_a_pair_shares_gpus_half_and_half(store: Store) -> None:
    first = running(store, gpus=(0, 1))
    second_job = queued(store, gpus=2)
    second = store.attempts.place(
        second_job.job_id, first.placement, partner_job_id=first.job_id, reasons={"rule": "affine"}, **_BY
    )
    assert second.partner_job_id == first.job_id
    assert store.attempts.get(first.attempt_id).partner_job_id == second_job.job_id
    view = store.queue.view()
    assert set(view.slots) == {
        SlotUse("n1", gpu, slot, attempt_id)
        for gpu in (0, 1)
        for slot, attempt_id in ((0, first.attempt_id), (1, second.attempt_id))
    }
    partners = {entry.attempt.attempt_id: entry.partner_attempt_ids for entry in view.active}
    assert partners == {first.attempt_id: (second.attempt_id,), second.attempt_id: (first.attempt_id,)}
    paired = store.events.of_job(first.job_id)[-1]
    assert (paired.kind, paired.evidence["partner_job_id"]) == (EventKind.PAIRED, second_job.job_id)


def test_two_jobs_at_most_share_a_gpu(store: Store) -> None:
    first = running(store)
    second, third = queued(store), queued(store)
    store.attempts.place(second.job_id, first.placement, partner_job_id=first.job_id, **_BY)
    for partner in (first.job_id, second.job_id):
        with pytest.raises(StateError, match="in use"):
            store.attempts.place(third.job_id, first.placement, partner_job_id=partner, **_BY)
    with pytest.raises(StateError, match="in use"):
        store.attempts.place(third.job_id, first.placement, **_BY)


def test_a_half_that_fell_free_can_be_shared_again_but_not_taken_whole(store: Store) -> None:
    first = running(store)
    second_job, third_job = queued(store), queued(store)
    second = store.attempts.place(second_job.job_id, first.placement, partner_job_id=first.job_id, **_BY)
    store.attempts.record_end(first.attempt_id, exit_record(), Outcome.COMPLETED, who="p", now=at(60))
    assert store.queue.view().slots == (SlotUse("n1", 0, 1, second.attempt_id),)
    with pytest.raises(StateError, match=f"in use.*{second.attempt_id}"):
        store.attempts.place(third_job.job_id, first.placement, **_BY)
    third = store.attempts.place(third_job.job_id, first.placement, partner_job_id=second_job.job_id, **_BY)
    assert store.queue.view().slots == (
        SlotUse("n1", 0, 0, third.attempt_id),
        SlotUse("n1", 0, 1, second.attempt_id),
    )


def test_who_must_not_share_is_not_packed(store: Store) -> None:
    host, job = running(store), queued(store)
    with pytest.raises(InputError, match="its own partner"):
        store.attempts.place(job.job_id, host.placement, partner_job_id=job.job_id, **_BY)
    with pytest.raises(StateError, match=r"does not hold every GPU.*n1\[1\]"):
        store.attempts.place(job.job_id, Placement.of({"n1": [0, 1]}), partner_job_id=host.job_id, **_BY)
    with pytest.raises(StateError, match="holds no GPU; it is queued"):
        store.attempts.place(job.job_id, host.placement, partner_job_id=queued(store).job_id, **_BY)
    store.jobs.annotate(job.job_id, who="w", why="unstable", now=NOW, never_pack=True)
    with pytest.raises(StateError, match="never_pack"):
        store.attempts.place(job.job_id, host.placement, partner_job_id=host.job_id, **_BY)
    other = queued(store)
    store.attempts.request_stop(host.attempt_id, reason="drain", requeue=True, who="ops", now=NOW)
    with pytest.raises(StateError, match="being stopped"):
        store.attempts.place(other.job_id, host.placement, partner_job_id=host.job_id, **_BY)
    loner = running(store, gpus=(5,))
    store.jobs.annotate(loner.job_id, who="w", why="unstable", now=NOW, never_pack=True)
    with pytest.raises(StateError, match="partner must not share"):
        store.attempts.place(other.job_id, loner.placement, partner_job_id=loner.job_id, **_BY)


# ---- isolation and contention -------------------------------------------------------------------------


def test_isolated_gpus_are_not_given_away(store: Store) -> None:
    gpu, _ = store.nodes.isolate("n1", gpu_index=2, owner="lucid", reason="ECC", now=NOW)
    node, _ = store.nodes.isolate("n2", owner="ops", reason="fan", now=NOW)
    job = queued(store)
    with pytest.raises(StateError, match=r"isolated \(ECC, by lucid\): n1\[2\]"):
        store.attempts.place(job.job_id, Placement.of({"n1": [2]}), **_BY)
    with pytest.raises(StateError, match=r"isolated \(fan, by ops\): n2"):
        store.attempts.place(job.job_id, Placement.of({"n2": [0]}), **_BY)
    store.nodes.lift(gpu.reason_id, owner="lucid", by="ada", now=at(1))
    store.attempts.place(job.job_id, Placement.of({"n1": [2]}), **_BY)
    store.nodes.lift(node.reason_id, owner="ops", by="bob", now=at(1))


def test_rival_schedulers_never_give_a_gpu_twice(store_url: str) -> None:
    with Store.open(store_url, durable=False) as store:
        jobs = [queued(store, at(n)).job_id for n in range(16)]
    wins = together(4, _grab, store_url, jobs)
    with Store.open(store_url, durable=False) as store:
        active = store.attempts.active()
        slots = store.queue.view().slots
    assert sum(wins) == len(active) == 8
    assert len({(a.placement.shares[0].node, a.placement.shares[0].gpu_indices) for a in active}) == 8
    assert len(slots) == 16


def _grab(number: int, url: str, jobs: list[str]) -> int:
    wins = 0
    with Store.open(url, durable=False) as store:
        for turn, job_id in enumerate(jobs):
            try:
                gpu = (turn * 3 + number) % 8
                store.attempts.place(job_id, Placement.of({"n1": [gpu]}), **_BY)
                wins += 1
            except StateError:
                continue
    return wins


def test_rival_packers_of_a_ring_of_partners_do_not_lock_one_another_for_ever(store_url: str) -> None:
    with Store.open(store_url, durable=False) as store:
        hosts = [running(store, gpus=(n,)).job_id for n in range(6)]
        guests = [queued(store).job_id for _ in range(6)]
    wins = together(3, _pack_all, store_url, hosts, guests)
    assert sum(wins) == 6
    with Store.open(store_url, durable=False) as store:
        assert len(store.queue.view().slots) == 12


def _pack_all(number: int, url: str, hosts: list[str], guests: list[str]) -> int:
    wins = 0
    with Store.open(url, durable=False) as store:
        order = list(zip(hosts, guests, strict=True))
        for host, guest in order if number % 2 else order[::-1]:
            try:
                placement = store.attempts.of_job(host)[0].placement
                store.attempts.place(guest, placement, partner_job_id=host, **_BY)
                wins += 1
            except StateError:
                continue
    return wins
