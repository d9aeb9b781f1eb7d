"""One holder at a time, for a limited time, with a hand-over that leaves no gap."""

from __future__ import annotations

import pytest

from lucid_pipelines.domain.errors import InputError, StaleLockError
from lucid_pipelines.store import Store
from tests.support_store.jobs import NOW, at
from tests.support_store.processes import together


def test_a_lease_has_one_holder_until_it_runs_out(store: Store) -> None:
    lease = store.leases.acquire("window", "a", ttl_s=10, now=NOW)
    assert lease is not None
    assert lease.expires_at == at(10)
    assert store.leases.acquire("window", "b", ttl_s=10, now=at(9)) is None
    assert store.leases.acquire("window", "a", ttl_s=10, now=at(9)) is None
    assert store.leases.acquire("other", "b", ttl_s=10, now=at(9)) is not None
    assert store.leases.holder("window", now=at(9)) == "a"
    assert store.leases.holder("window", now=at(10)) is None
    taken = store.leases.acquire("window", "b", ttl_s=10, now=at(10))
    assert taken is not None
    with pytest.raises(StaleLockError):
        store.leases.renew(lease, ttl_s=10, now=at(11))
    assert not store.leases.release(lease)
    assert store.leases.holder("window", now=at(11)) == "b"


def test_a_renewed_lease_lasts_longer(store: Store) -> None:
    lease = store.leases.acquire("window", "a", ttl_s=10, now=NOW)
    assert lease is not None
    renewed = store.leases.renew(lease, ttl_s=10, now=at(8))
    assert renewed.expires_at == at(18)
    assert store.leases.acquire("window", "b", ttl_s=10, now=at(17)) is None
    late = store.leases.renew(renewed, ttl_s=10, now=at(40))  # ran out, but nobody took it
    assert store.leases.acquire("window", "b", ttl_s=10, now=at(41)) is None
    assert store.leases.release(late)
    assert store.leases.acquire("window", "b", ttl_s=10, now=at(41)) is not None


def test_a_hand_over_is_for_the_successor_alone(store: Store) -> None:
    lease = store.leases.acquire("window", "a", ttl_s=10, now=NOW)
    assert lease is not None
    store.leases.hand_over(lease, "b", ttl_s=30, now=at(5))
    with pytest.raises(StaleLockError):
        store.leases.renew(lease, ttl_s=10, now=at(6))
    assert store.leases.acquire("window", "c", ttl_s=10, now=at(20)) is None
    assert store.leases.holder("window", now=at(20)) == "b"
    successor = store.leases.acquire("window", "b", ttl_s=10, now=at(20))
    assert successor is not None
    assert store.leases.acquire("window", "b", ttl_s=10, now=at(21)) is None


def test_a_successor_that_never_comes_does_not_block_for_ever(store: Store) -> None:
    lease = store.leases.acquire("window", "a", ttl_s=10, now=NOW)
    assert lease is not None
    store.leases.hand_over(lease, "dead", ttl_s=30, now=at(5))
    assert store.leases.acquire("window", "c", ttl_s=10, now=at(35)) is not None


def test_of_many_processes_one_gets_it(store_url: str) -> None:
    assert sum(together(6, _try, store_url)) == 1


def _try(number: int, url: str) -> bool:
    with Store.open(url, durable=False) as store:
        return store.leases.acquire("window", f"p{number}", ttl_s=60, now=NOW) is not None


def test_leases_do_not_wake_the_loop_and_must_last(store: Store) -> None:
    before = store.change_counter()
    store.leases.acquire("window", "a", ttl_s=10, now=NOW)
    assert store.change_counter() == before
    with pytest.raises(InputError):
        store.leases.acquire("x", "a", ttl_s=0, now=NOW)
