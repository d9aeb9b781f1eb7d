"""A whole control plane in a temporary folder: real store, real local cluster, no Dagster."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from lucid_pipelines.client import Client
from lucid_pipelines.control.exits import claim_exits, handle_exit
from lucid_pipelines.control.intake import claim_batch, take_in
from lucid_pipelines.control.recovering import carry_out_due
from lucid_pipelines.control.scheduling import run_pass
from lucid_pipelines.control.system import System
from lucid_pipelines.domain.job import Job
from lucid_pipelines.settings import Settings, load_settings

TWO_NODES = [
    {"name": "node-1", "gpus": 4, "vc": "vision"},
    {"name": "node-2", "gpus": 4, "vc": "nlp"},
]


def make_settings(home: Path, **sections: object) -> Settings:
    """Settings of a throw-away home with two nodes of four virtual GPUs."""
    values = {
        "home": home,
        "cluster": {"gpus": "virtual", "nodes": TWO_NODES, "sample_interval_s": 1.0},
        **sections,
    }
    return Settings.model_validate({**load_settings(home, environ={}).model_dump(), **values})


def make_client(home: Path, **sections: object) -> Client:
    return Client(settings=make_settings(home, **sections))


def take_in_all(system: System, worker: str = "intake") -> list[str]:
    """What the submission job does, without Dagster. Returns what became of each."""
    return [take_in(system, claim).value for claim in claim_batch(system, worker)]


def drive(
    client: Client, is_done: Callable[[list[Job]], bool], ids: Sequence[str], timeout_s: float = 30.0
) -> list[Job]:
    """What the sensors and jobs do together, without Dagster, until ``is_done``."""
    system = client.system
    deadline = time.monotonic() + timeout_s
    while True:
        take_in_all(system)
        run_pass(system, "driver")
        for claim in claim_exits(system, "driver"):
            handle_exit(system, claim)
        carry_out_due(system)
        by_id = {job.job_id: job for job in client.jobs(ids=list(ids), limit=None)}
        jobs = [by_id[job_id] for job_id in ids]
        if is_done(jobs):
            return jobs
        if time.monotonic() > deadline:
            raise AssertionError(f"not done after {timeout_s} s: {[(job.spec.name, job.state.value) for job in jobs]}")
        time.sleep(0.05)


def all_ended(jobs: list[Job]) -> bool:
    return all(job.state.is_terminal for job in jobs)
