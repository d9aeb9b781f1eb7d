"""Samples, metrics, counters and meta: kept, bounded, quiet."""

from __future__ import annotations

import math
from threading import Thread

import pytest

from lucid_pipelines.domain.cluster import GpuSample
from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.store import MetricPoint, Store
from tests.support_store.jobs import NOW, at


def _sample(seconds: float, gpu: int = 0, **changes: object) -> GpuSample:
    fields: dict[str, object] = {"gpu_util_pct": 50.0, "memory_used_mib": 1000.0, "uuid": "GPU-1", "xid_errors": (79,)}
    return GpuSample("n1", gpu, at(seconds), "nvml", **(fields | changes))  # type: ignore[arg-type]


def test_samples_come_back_in_order_with_unknowns_unknown(store: Store) -> None:
    samples = [_sample(0), _sample(1, gpu_util_pct=None, xid_errors=()), _sample(1, gpu=1)]
    store.metrics.add_gpu_samples(samples, attempt_id="j-1-a1")
    store.metrics.add_gpu_samples([_sample(2, gpu=9)])
    store.metrics.add_gpu_samples([])
    assert store.metrics.gpu_samples("j-1-a1") == samples
    assert store.metrics.gpu_samples("j-1-a1", since=at(0.5)) == samples[1:]
    assert store.metrics.gpu_samples("other") == []
    latest = store.metrics.latest_gpu_samples()
    assert [(entry.node, entry.gpu_index) for entry in latest] == [("n1", 0), ("n1", 1), ("n1", 9)]
    assert latest[0].sample == samples[1]


def test_an_older_reading_does_not_replace_the_latest(store: Store) -> None:
    store.metrics.add_gpu_samples([_sample(5)])
    store.metrics.add_gpu_samples([_sample(3, gpu_util_pct=1.0)])
    [latest] = store.metrics.latest_gpu_samples()
    assert latest.sample.sampled_at == at(5)


def test_each_series_keeps_its_newest(store: Store) -> None:
    for start in range(0, 50, 10):
        store.metrics.add_gpu_samples([_sample(start + n) for n in range(10)], attempt_id="a", keep=15)
        store.metrics.add_points(
            "a", [MetricPoint("loss", at(start + n), float(start + n), n) for n in range(10)], keep=12
        )
        store.metrics.add_points("a", [MetricPoint("lr", at(start), 0.1)], keep=12)
    assert [s.sampled_at for s in store.metrics.gpu_samples("a")] == [at(n) for n in range(35, 50)]
    assert [point.value for point in store.metrics.points("a", "loss")] == [float(n) for n in range(38, 50)]
    assert len(store.metrics.points("a", "lr")) == 5
    assert [point.value for point in store.metrics.points("a", "loss", last=2)] == [48.0, 49.0]
    assert len(store.metrics.points("a")) == 17


def test_a_loss_that_is_not_a_number_is_kept_as_such(store: Store) -> None:
    values = [1.5, math.nan, math.inf, -math.inf, None]
    store.metrics.add_points("a", [MetricPoint("loss", NOW, value, 2**40) for value in values])
    back = [point.value for point in store.metrics.points("a")]
    assert back[0] == 1.5
    assert isinstance(back[1], float)
    assert math.isnan(back[1])
    assert back[2:] == [math.inf, -math.inf, None]
    with pytest.raises(InputError):
        store.metrics.add_points("a", [MetricPoint("loss", NOW, 1.0, 2**70)])
    store.metrics.add_gpu_samples([_sample(0, gpu_util_pct=math.nan)])
    [latest] = store.metrics.latest_gpu_samples()
    assert latest.sample.gpu_util_pct is None, "a reading that cannot be is unknown"


def test_measurements_do_not_wake_the_loop(store: Store) -> None:
    before = store.change_counter()
    store.metrics.add_gpu_samples([_sample(0)], attempt_id="a")
    store.metrics.add_points("a", [MetricPoint("loss", NOW, 1.0)])
    store.counters.add("fallback.x", now=NOW)
    store.meta.set("cursor", 1, now=NOW)
    assert store.change_counter() == before


def test_counters_add_up_from_many_threads(store: Store) -> None:
    def count() -> None:
        for _ in range(10):
            store.counters.add_many({"fallback.estimate": 1, "other": 2}, now=NOW)

    threads = [Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.counters.all() == {"fallback.estimate": 40, "other": 80}
    assert store.counters.all("fallback.") == {"fallback.estimate": 40}


def test_meta_keeps_any_json_value(store: Store) -> None:
    assert store.meta.get("x") is None
    assert store.meta.get("x", 5) == 5
    for value in (0, "", [], {"a": [1, None, "é"]}, "text", 2.5, False, None):
        store.meta.set("x", value, now=NOW)
        assert store.meta.get("x", "unset") == value
    assert store.meta.remove("x")
    assert not store.meta.remove("x")
    assert store.meta.get("x", "unset") == "unset"
