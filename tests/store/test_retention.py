"""Old rows go in bounded batches; what is still needed stays."""

from __future__ import annotations

import pytest

from lucid_pipelines.domain.cluster import GpuSample
from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.domain.states import Outcome
from lucid_pipelines.store import IntentKind, MetricPoint, Store
from tests.support_store.jobs import NOW, at, exit_record, queued, running


def test_events_of_jobs_that_still_live_are_kept(store: Store) -> None:
    alive = queued(store)
    ended = running(store)
    store.attempts.record_end(ended.attempt_id, exit_record(), Outcome.COMPLETED, who="p", now=at(60))
    before = len(store.events.of_job(alive.job_id))
    last = store.events.last_id()
    assert store.prune(events_before=at(60))["events"] == 6
    assert store.prune(events_before=at(61))["events"] == 1
    assert store.events.of_job(ended.job_id) == []
    assert len(store.events.of_job(alive.job_id)) == before
    queued(store)
    assert store.events.after(last)[0].event_id > last  # a number is never given twice


def test_done_intents_and_handled_exits_go_open_ones_stay(store: Store) -> None:
    bad, good = running(store, gpus=(0,)), running(store, gpus=(1,))
    store.attempts.record_end(bad.attempt_id, exit_record(code=1), Outcome.FAILED_USER, who="p", now=at(60))
    store.attempts.record_end(good.attempt_id, exit_record(), Outcome.COMPLETED, who="p", now=at(60))
    store.intents.add("open", IntentKind.FENCE, {}, now=NOW)
    deleted = store.prune(intents_before=at(100))
    assert (deleted["intents"], deleted["exits"]) == (2, 1)
    assert [intent.key for intent in store.intents.find()] == ["open"]
    [claim] = store.exits.claim(worker="w", now=at(100), limit=9, ttl_s=10)
    store.exits.complete(claim, now=at(101))
    assert store.prune(intents_before=at(101))["exits"] == 0
    assert store.prune(intents_before=at(102))["exits"] == 1


def test_measurements_go_by_age_in_bounded_batches(store: Store) -> None:
    store.metrics.add_points("a", [MetricPoint("loss", at(n), 1.0) for n in range(100)])
    store.metrics.add_gpu_samples([GpuSample("n1", 0, at(n), "nvml") for n in range(10)], attempt_id="a")
    assert store.prune(metrics_before=at(90), batch_rows=20, max_batches=2) == {
        "gpu_samples": 10,
        "metrics": 40,
        "tracked": 0,
    }
    assert store.prune(metrics_before=at(90), batch_rows=20)["metrics"] == 50
    assert len(store.metrics.points("a")) == 10
    assert len(store.metrics.latest_gpu_samples()) == 1
    assert store.prune() == {}
    with pytest.raises(InputError):
        store.prune(metrics_before=NOW, batch_rows=0)
