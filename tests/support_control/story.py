"""The demonstration's story in short, for every kind of cluster: more jobs than GPUs, a crash, a cancellation, and a
GPU that fails, is diagnosed and isolated, while its job goes on elsewhere from its checkpoint."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lucid_pipelines.client import Client
from lucid_pipelines.control.requests import parse_request
from lucid_pipelines.domain.job import Attempt, Estimate, Job
from lucid_pipelines.domain.states import Cause, JobState, Outcome
from tests.support_control.worlds import drive, take_in_all
from tests.support_layout.staged import ROOT

LIVE = {
    "modes": {"restart": "live", "isolate": "live"},
    "recovery": {"backoff_base_s": 0.0, "isolation_quota_frac": 1.0},
}
BAD_NODE = ("nvidia-smi", "dcgmi-diag-2")
"""Diagnosis tests that the first node is declared to fail."""


PAIRS = {
    "modes": {"pack": "live", "unpack": "live"},
    "packing": {"min_remaining_s": 1.0, "watch_after_s": 5.0, "off_below_jobs": 0.0, "apathetic_below_jobs": 0.0},
}
LIGHT = {"gpu_util_pct": 20.0, "memory_util_pct": 10.0, "memory_used_mib": 2000.0}


@dataclass
class Story:
    """What was submitted, and how long each phase took in seconds."""

    jobs: dict[str, str] = field(default_factory=dict)
    phases_s: dict[str, float] = field(default_factory=dict)


def tell_story(client: Client, folder: Path, python: str, *, vc: str, timeout_s: float = 120.0) -> Story:
    """Run it to its end by the control loop itself, and check every end. ``python`` runs the jobs, where they run."""
    examples = Path(shutil.copytree(ROOT / "examples", folder / "examples"))
    one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    story = Story()

    def submit(name: str, example: str, *arguments: str, gpus: int = 1) -> None:
        command = [python, "train.py", *arguments]
        job = client.submit(command, source_dir=examples / example, vc=vc, gpus=gpus, env=one_thread, name=name).job
        story.jobs[name] = job.job_id

    begin = time.monotonic()
    submit("ecc", "ecc", "--epochs", "4", "--seconds", "3")
    submit("cancel", "cancel-me", "--seconds", "600")
    submit("crash", "crash", "--evaluate-every", "1", "--seconds", "1")
    for number in range(4):
        submit(f"sweep-{number}", "sweep", "--hidden", "4", "--seconds", "1", gpus=2)
    story.phases_s["submitted"] = time.monotonic() - begin
    ids = list(story.jobs.values())

    drive(client, lambda jobs: any(j.state is JobState.RUNNING for j in jobs), ids, timeout_s)
    story.phases_s["first_runs"] = time.monotonic() - begin
    cancelled = story.jobs["cancel"]

    def cancel_when_it_runs(jobs: Sequence[Job]) -> bool:
        job = next(j for j in jobs if j.job_id == cancelled)
        if job.state is JobState.RUNNING and job.started_at is not None and job.cancel_requested_at is None:
            client.cancel(cancelled, who=job.spec.user)
        return all(_settled(j) for j in jobs) and client.system.store.exits.pending() == (0, None)

    drive(client, cancel_when_it_runs, ids, timeout_s)
    story.phases_s["all_ended"] = time.monotonic() - begin
    _check(client, story)
    return story


def _settled(job: Job) -> bool:
    if job.spec.name == "ecc":
        return job.state is JobState.COMPLETED
    return job.state.is_terminal


def _check(client: Client, story: Story) -> None:
    ended = {name: client.job(job_id) for name, job_id in story.jobs.items()}
    assert (ended["cancel"].state, ended["cancel"].outcome) == (JobState.CANCELLED, Outcome.CANCELLED)
    assert (ended["crash"].state, ended["crash"].cause) == (JobState.FAILED, Cause.USER)
    assert ended["crash"].detail and "Error" in ended["crash"].detail, "the root error itself, from its log"
    sweeps = [job for name, job in ended.items() if name.startswith("sweep")]
    assert [job.state for job in sweeps] == [JobState.COMPLETED] * len(sweeps)
    assert all(len(client.attempts(job.job_id)) == 1 for job in (*sweeps, ended["cancel"], ended["crash"]))
    first, second = client.attempts(ended["ecc"].job_id)
    # The GPU is what was isolated: another one of the same node is other hardware, too.
    assert _gpus(first).isdisjoint(_gpus(second))
    (isolated,) = client.system.store.nodes.isolated()
    assert isolated.node == first.placement.shares[0].node
    log = client.read_log(second.attempt_id, 0).data.decode()
    assert "resum" in log.lower(), "it went on from its checkpoint on the other node"
    page = client.settings.jobs / first.job_id / "attempts" / "1" / "failure.md"
    assert "ECC" in page.read_text()


def tell_of_a_pair(client: Client, *, vc: str, timeout_s: float = 90.0) -> None:
    """On a cluster of one GPU: two light jobs whose needs are known are pinned to it together, and both run."""
    script = 'echo "gpu $CUDA_VISIBLE_DEVICES"; i=0; while :; do i=$((i+1)); echo "step $i loss 0.5"; sleep 0.5; done'

    def submit(name: str) -> str:
        options = {"vc": vc, "gpus": 1, "name": name, "user": "amber", "declared_load": LIGHT}
        request = parse_request({"command": ["sh", "-c", script], **options})
        job_id = client.submit_requests([request])[0].job.job_id
        take_in_all(client.system)
        told = Estimate(120.0, "told")  # what past jobs would say; a pair needs to know how long both go on
        client.system.store.jobs.annotate(job_id, who="test", why="told", now=client.system.clock.now(), estimate=told)
        return job_id

    def end(*ids: str) -> None:
        for job_id in ids:
            client.cancel(job_id, who="amber")
        drive(client, lambda jobs: all(job.state.is_terminal for job in jobs), ids, timeout_s)

    first = submit("short")
    drive(client, lambda jobs: jobs[0].profile is not None, [first], timeout_s)
    end(first)
    pair = [submit("long")]
    drive(client, lambda jobs: jobs[0].profile is not None, pair, timeout_s)
    pair.append(submit("short"))
    drive(client, lambda jobs: all(job.started_at is not None for job in jobs), pair, timeout_s)
    (record,) = client.system.store.pairs.open()
    attempts = [client.attempts(job_id)[-1] for job_id in pair]
    assert attempts[0].placement == attempts[1].placement and record.pair_id
    logs = [client.read_log(attempt.attempt_id, 0).data.splitlines()[0] for attempt in attempts]
    assert logs == [b"gpu 0", b"gpu 0"], "pinned to the same GPU where they run"
    end(*pair)


def _gpus(attempt: Attempt) -> set[tuple[str, int]]:
    return {(share.node, gpu) for share in attempt.placement.shares for gpu in share.gpu_indices}
