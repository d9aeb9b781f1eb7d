"""Attempts that a cluster's own scheduler has not started yet: waited for, placed anew, never taken for failures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lucid_pipelines.client import Client
from lucid_pipelines.control.scheduling import run_pass
from lucid_pipelines.control.system import System
from lucid_pipelines.domain.job import JobState
from lucid_pipelines.ports import Observation, Sight
from tests.support_control.pretend import OwnClock, PretendCluster
from tests.support_control.worlds import take_in_all

LONG_S = 3600.0
"""Longer than an attempt may be kept waiting."""


@dataclass
class Slow(PretendCluster):
    """Its scheduler has not started anything yet: what it says of every attempt that has not ended."""

    said: Observation | None = None

    def poll(self, attempt_ids: Sequence[str]) -> Mapping[str, Observation]:
        seen = super().poll(attempt_ids)
        if self.said is None:
            return seen
        now = self.clock.now()
        return {
            one: replace(self.said, attempt_id=one, as_of=now) if seen[one].sight is Sight.RUNNING else seen[one]
            for one in attempt_ids
        }


def placed(client: Client, source: Path, said: Observation) -> tuple[System, Slow, str]:
    """A job whose attempt was launched, and of which the cluster says this from now on."""
    clock = OwnClock()
    cluster = Slow(clock, said=said)
    system = System.of(client.settings, client.system.store, cluster, clock)
    client.submit(["hold"], source_dir=source, gpus=1, vc="vision", name="slow")
    take_in_all(system)
    run_pass(system, "test")
    (attempt,) = cluster.attempts.values()
    return system, cluster, attempt.request.job_id


def test_a_node_that_takes_long_to_wake_is_waited_for(client: Client, source: Path) -> None:
    waking = Observation("", Sight.QUEUED, OwnClock().now(), "test", detail="its node wakes", is_let_in=True)
    system, cluster, job_id = placed(client, source, waking)
    for _ in range(3):
        cluster.clock.sleep(LONG_S)
        run_pass(system, "test")
    assert len(cluster.attempts) == 1
    assert system.store.counters.all().get("attempts_not_let_in", 0) == 0
    cluster.said = None
    run_pass(system, "test")
    assert system.store.jobs.get(job_id).state is JobState.RUNNING
    assert len(cluster.attempts) == 1


def test_one_that_is_kept_waiting_is_placed_anew(client: Client, source: Path) -> None:
    waiting = Observation("", Sight.QUEUED, OwnClock().now(), "test", detail="no resources")
    system, cluster, job_id = placed(client, source, waiting)
    cluster.clock.sleep(LONG_S)
    for _ in range(2):
        run_pass(system, "test")
    assert len(cluster.attempts) == 2
    assert system.store.counters.all()["attempts_not_let_in"] == 1
    assert system.store.jobs.get(job_id).restart_count == 0


def test_one_whose_node_never_came_up_is_placed_anew_and_is_no_failure(client: Client, source: Path) -> None:
    lost = Observation("", Sight.VANISHED, OwnClock().now(), "test", detail="lost its node", never_ran=True)
    system, cluster, job_id = placed(client, source, lost)
    run_pass(system, "test")
    cluster.said = None
    run_pass(system, "test")
    assert len(cluster.attempts) == 2
    job = system.store.jobs.get(job_id)
    assert (job.state, job.restart_count) == (JobState.RUNNING, 0)
    first = next(one for one in system.store.attempts.of_job(job_id) if one.number == 1)
    assert (str(first.outcome), str(first.cause)) == ("evicted", "infrastructure")
