"""One window at a time, no gap between two, and an end when nothing is left to do."""

from __future__ import annotations

import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

from lucid_pipelines.client import Client
from lucid_pipelines.control.scheduling import STANDBY_LEASE, WINDOW_LEASE, run_window
from lucid_pipelines.control.system import System
from lucid_pipelines.control.window_watch import WatchState, watch_window
from lucid_pipelines.domain.states import JobState
from tests.support_control.worlds import make_client, make_settings, take_in_all

QUICK = {"window_s": 5.0, "idle_exit_s": 0.5, "pass_interval_s": 0.1}


def test_an_idle_window_ends_and_gives_the_lease_back(tmp_path: Path) -> None:
    with make_client(tmp_path / "home", scheduling=QUICK) as client:
        report = run_window(client.system, "window-1")
        assert report.ended_because == "idle" and report.passes >= 1
        assert client.system.store.leases.holder(WINDOW_LEASE, now=client.system.clock.now()) is None


def test_a_window_runs_jobs_to_their_end(tmp_path: Path) -> None:
    with make_client(tmp_path / "home", scheduling=QUICK) as client:
        source = tmp_path / "source"
        source.mkdir()
        jobs = [client.submit([sys.executable, "-c", "pass"], source_dir=source, vc="nlp").job for _ in range(3)]
        take_in_all(client.system)
        report = run_window(client.system, "window-1")
        assert (report.started, report.ended, report.refused) == (3, 3, 0)
        assert {client.job(job.job_id).state for job in jobs} == {JobState.COMPLETED}


def test_a_successor_takes_over_and_a_third_window_does_not_wait(tmp_path: Path) -> None:
    settings = make_settings(tmp_path / "home", scheduling={**QUICK, "window_s": 1.5, "idle_exit_s": 30.0})
    reports: dict[str, str] = {}

    def window(holder: str) -> None:
        with Client(settings=settings) as client:
            reports[holder] = run_window(client.system, holder).ended_because

    with Client(settings=settings) as client:
        now = client.system.clock.now
        first = threading.Thread(target=window, args=("first",))
        first.start()
        _await(lambda: client.system.store.leases.holder(WINDOW_LEASE, now=now()) == "first")
        # The first window would go on until it is idle; a job that is queued for ever keeps it at work.
        second = threading.Thread(target=window, args=("second",))
        second.start()
        _await(lambda: client.system.store.leases.holder(STANDBY_LEASE, now=now()) == "second")
        window("third")
        assert "stands by" in reports["third"]
        first.join(20)
        assert reports["first"] == "handed over"
        _await(lambda: client.system.store.leases.holder(WINDOW_LEASE, now=now()) == "second")
    second.join(30)
    assert not second.is_alive()


class _LaterClock:
    """A clock that is ahead of the machine's."""

    def __init__(self, ahead_s: float) -> None:
        self.ahead_s = ahead_s

    def now(self):
        from lucid_pipelines.clock import SystemClock

        return SystemClock().now() + timedelta(seconds=self.ahead_s)

    def sleep(self, duration_s: float) -> None:
        self.ahead_s += duration_s


def test_the_watcher_asks_once_and_asks_again_when_nothing_came(tmp_path: Path) -> None:
    with make_client(tmp_path / "home") as client:
        clock = _LaterClock(0.0)
        system = System(client.settings, client.system.store, client.system.cluster, client.system.policy, clock)
        assert not watch_window(system, WatchState()).start, "nothing to do, no window"

        source = tmp_path / "source"
        source.mkdir()
        client.submit([sys.executable, "-c", "pass"], source_dir=source)
        asked = watch_window(system, WatchState())
        assert asked.start
        again = watch_window(system, WatchState.parse(asked.state.to_text()))
        assert not again.start, "the run that was asked for needs time to start"
        clock.sleep(60.0)
        assert watch_window(system, again.state).start, "it never came: ask again"


def test_the_watcher_asks_for_a_successor_before_a_window_is_over(tmp_path: Path) -> None:
    with make_client(tmp_path / "home") as client:
        clock = _LaterClock(0.0)
        system = System(client.settings, client.system.store, client.system.cluster, client.system.policy, clock)
        source = tmp_path / "source"
        source.mkdir()
        client.submit([sys.executable, "-c", "pass"], source_dir=source)
        leases = system.store.leases
        assert leases.acquire(WINDOW_LEASE, "run-1", ttl_s=1000, now=clock.now())
        young = watch_window(system, WatchState())
        assert not young.start
        clock.sleep(client.settings.scheduling.window_s)
        assert watch_window(system, young.state).start
        assert leases.acquire(STANDBY_LEASE, "run-2", ttl_s=1000, now=clock.now())
        assert not watch_window(system, young.state).start, "its successor stands by already"


def test_a_cursor_that_cannot_be_read_is_a_fresh_start() -> None:
    assert WatchState.parse("not json") == WatchState.parse(None) == WatchState.parse('{"foreign": 1}')


def _await(condition, timeout_s: float = 15.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.02)
