"""Bad telemetry: nothing is packed on what is not known, nothing is started on a GPU in use, nothing breaks."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from lucid_pipelines.control.live_metrics import collect
from lucid_pipelines.control.picture import take_picture
from lucid_pipelines.domain.cluster import Gpu, GpuSample, Inventory, Node
from lucid_pipelines.domain.errors import ExternalError
from lucid_pipelines.domain.job import Profile
from lucid_pipelines.domain.states import JobState
from lucid_pipelines.store import ActionState, Store
from tests.control.test_live_pairs import QUICK, pair_of, until_known
from tests.support_control.live_days import Session
from tests.support_control.scripted import MEMORY_MIB, ScriptedJob


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "state.db", durable=False) as opened:
        yield opened


def lost(samples: Sequence[GpuSample]) -> list[GpuSample]:
    return [replace(sample, gpu_util_pct=None, memory_used_mib=None) for sample in samples]


def missing(samples: Sequence[GpuSample]) -> list[GpuSample]:
    return []


def swapped(samples: Sequence[GpuSample]) -> list[GpuSample]:
    """The number now belongs to a GPU on which nothing runs."""
    return [replace(sample, memory_used_mib=10.0, uuid="GPU-other") for sample in samples]


def away(samples: Sequence[GpuSample]) -> list[GpuSample]:
    raise ExternalError("NVML did not answer within 10 s")


@pytest.mark.parametrize("spoil", [lost, missing, away])
def test_no_pair_is_formed_on_a_gpu_that_cannot_be_read(
    store: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    spoil: Callable[[Sequence[GpuSample]], list[GpuSample]],
) -> None:
    session = pair_of(store, tmp_path)
    session.cluster.jobs["long"] = replace(session.cluster.jobs["long"], work_s=300.0)
    until_known(session)
    job_id = session.ids["short"]
    true_sample = session.cluster.sample
    monkeypatch.setattr(session.cluster, "sample", lambda: spoil(true_sample()))
    for _ in range(8):
        session.run_pass()
    assert session.job("short").state is JobState.QUEUED and store.pairs.find() == []
    (action,) = store.actions.find(kind="pack")
    assert action.state is ActionState.FAILED and action.result, "a clear state, with its reason"
    assert any("not packed" in event.why for event in store.events.of_job(job_id))


@pytest.mark.parametrize("seed", [1, 2])
def test_readings_that_cannot_be_stop_nobody(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Not a number, below 0, over 100 %, absurdly large: unknown, to the pass, the metrics and the display alike."""
    rng = random.Random(seed)
    jobs = [ScriptedJob(f"j{number}", work_s=rng.uniform(20.0, 60.0)) for number in range(5)]
    pool = {"window_s": 10.0, "busy_window_s": 10.0}
    nodes = (("n1", 2, "train"), ("p1", 1, "profiler"))
    session = Session.open(tmp_path, store, nodes, jobs, packing=QUICK, profiling=pool)
    true_sample, true_profile = session.cluster.sample, session.cluster.profile
    odd = (math.nan, math.inf, -math.inf, -5.0, 250.0, 1e30, None)

    def sample() -> list[GpuSample]:
        return [
            replace(one, gpu_util_pct=rng.choice(odd), memory_util_pct=rng.choice(odd), memory_used_mib=rng.choice(odd))
            for one in true_sample()
        ]

    def profile(attempt_id: str, since: datetime | None = None) -> Profile | None:
        seen = true_profile(attempt_id, since)
        return seen and replace(seen, gpu_util_pct=rng.choice(odd), memory_peak_mib=rng.choice(odd))

    monkeypatch.setattr(session.cluster, "sample", sample)
    monkeypatch.setattr(session.cluster, "profile", profile)
    session.submit(*[job.name for job in jobs])
    for _ in range(200):
        session.run_pass()
        if len(session.reports) % 10 == 0:
            collect(session.system)
            take_picture(session.system)
        if session.have_ended():
            break
    assert {session.job(name).state for name in session.ids} == {JobState.COMPLETED}
    counts = store.counters.all()
    assert not {"policy_failures", "decisions_broken", "observations_failed"} & counts.keys(), counts
    for latest in store.metrics.latest_gpu_samples():
        assert latest.sample.gpu_util_pct is None or 0.0 <= latest.sample.gpu_util_pct <= 100.0


def test_a_partner_that_is_not_there_is_noticed(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = pair_of(store, tmp_path)
    session.cluster.jobs["long"] = replace(session.cluster.jobs["long"], work_s=300.0)
    session.submit("short")
    session.run_until(lambda: session.job("short").profile is not None)
    store.jobs.request_cancel(session.ids["short"], who="ada", now=session.clock.now())
    session.submit("long")
    session.run_until(lambda: session.job("long").state is JobState.RUNNING)
    for _ in range(70):
        session.run_pass()
    true_sample = session.cluster.sample
    monkeypatch.setattr(session.cluster, "sample", lambda: swapped(true_sample()))
    session.submit("short")
    for _ in range(6):
        session.run_pass()
    (action,) = store.actions.find(kind="pack")
    assert action.state is ActionState.FAILED and "not there" in str(action.result)


def test_nothing_is_started_on_a_real_gpu_that_somebody_else_uses(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session.open(tmp_path, store, (("n1", 2, "train"),), [ScriptedJob("a", work_s=5.0), ScriptedJob("b")])
    cluster, clock = session.cluster, session.clock
    gpus = tuple(Gpu(index, f"GPU-{index}", "H200", MEMORY_MIB) for index in range(2))
    monkeypatch.setattr(cluster, "inventory", lambda: Inventory((Node("n1", gpus, "train"),), clock.now()))
    in_use = {0: 5_000.0, 1: 10.0}

    def sample() -> list[GpuSample]:
        return [GpuSample("n1", i, clock.now(), "nvml", 0.0, 0.0, mib, f"GPU-{i}", 0) for i, mib in in_use.items()]

    monkeypatch.setattr(cluster, "sample", sample)
    session.submit("a", "b")
    session.run_pass()
    session.run_pass()
    running = [name for name in ("a", "b") if session.job(name).state is JobState.RUNNING]
    assert len(running) == 1, "looked at before the first placement"
    (attempt,) = store.attempts.of_job(session.ids[running[0]])
    assert attempt.placement.shares[0].gpu_indices == (1,)
    assert store.counters.all()["gpus_found_dirty"] == 1
    in_use[0] = 10.0
    session.run_until(lambda: all(session.job(name).state is not JobState.QUEUED for name in ("a", "b")), most=5)


def test_a_driver_that_goes_away_mid_run_starts_and_stops_nothing(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = pair_of(store, tmp_path)
    until_known(session)
    session.run_until(lambda: session.job("short").state is JobState.RUNNING, most=5)

    def gone(*arguments: object) -> list[GpuSample]:
        raise ExternalError("NVML cannot be used")

    monkeypatch.setattr(session.cluster, "sample", gone)
    monkeypatch.setattr(session.cluster, "profile", gone)
    for _ in range(30):
        session.run_pass()
    assert session.job("short").state is JobState.RUNNING, "cannot observe is no reason to split (R-1)"
    assert store.counters.all()["profiles_unreadable"] > 0
