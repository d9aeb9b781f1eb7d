"""kill -9 at random moments: every submitted job ends exactly once in a true state, no GPU is given twice.

Each round submits short jobs through the real command line and kills one process of the control plane. The jobs
tell for themselves how often they ran: each appends a line to a file of its own.
"""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from lucid_pipelines.client import Client
from lucid_pipelines.domain.job import Attempt, Job
from lucid_pipelines.domain.states import JobState
from lucid_pipelines.service.control import bring_up, take_down
from lucid_pipelines.service.dagster_home import run_files
from lucid_pipelines.service.status import read_status
from lucid_pipelines.settings import Settings
from tests.support_service import processes_of, throw_away_service

ROUNDS = int(os.environ.get("LUCID_CHAOS_ROUNDS", "5"))
SEED = int(os.environ.get("LUCID_CHAOS_SEED", "20260101"))
PATIENCE_S = 20.0
"""A scheduling run is there only while there is work."""
LUCID = [str(Path(sys.executable).parent / "lucid")]
SCRIPT = """\
import os, sys, time
with open(sys.argv[1], "a") as ledger:
    ledger.write(f"{os.environ['LUCID_ATTEMPT_ID']} {time.time()}\\n")
time.sleep(float(sys.argv[2]))
sys.exit(int(sys.argv[3]))
"""
TARGETS = ("daemon", "code-server", "run-server", "scheduling run", "parent of a wrapper", "submitting command")

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1800), pytest.mark.service]


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    with throw_away_service(tmp_path / "home") as chosen:
        yield chosen


def test_random_kills(settings: Settings, tmp_path: Path) -> None:
    source, ledgers = tmp_path / "source", tmp_path / "ledgers"
    source.mkdir()
    ledgers.mkdir()
    (source / "job.py").write_text(SCRIPT)
    chance = random.Random(SEED)
    bring_up(settings)
    submitted: dict[str, tuple[Path, int]] = {}
    killed: dict[str, int] = dict.fromkeys(TARGETS, 0)

    for number in range(ROUNDS):
        target = chance.choice(TARGETS)
        for copy in range(chance.choice((1, 1, 2))):
            ledger, code = ledgers / f"{number}-{copy}", chance.choice((0, 0, 0, 3))
            submitted[f"chaos-{number}-{copy}"] = (ledger, code)
            command = _submit(source, ledger, code, f"chaos-{number}-{copy}")
            if target == "submitting command" and copy == 0:
                time.sleep(chance.uniform(0.0, 1.2))
                killed[target] += _kill(psutil.Process(command.pid)) if command.poll() is None else 0
                command.wait()
                # What a person does whose shell died: the same command again. The key makes it the same job.
                command = _submit(source, ledger, code, f"chaos-{number}-{copy}")
            assert command.wait(60) == 0
        time.sleep(chance.uniform(0.0, 1.5))
        killed[target] += strike(settings, target, chance)

    with Client(settings=settings) as client:
        by_name = {job.spec.name: job for job in client.jobs(limit=None)}
        assert set(by_name) == set(submitted), "nothing lost, nothing twice"
        jobs = client.wait([job.job_id for job in by_name.values()], timeout_s=240)
        attempts = {job.job_id: client.attempts(job.job_id) for job in jobs}
        for job in jobs:
            ledger, code = submitted[job.spec.name]
            _ended_once_and_truly(client, job, attempts[job.job_id], ledger, code)
        _no_gpu_was_shared([attempt for found in attempts.values() for attempt in found])
    assert all(killed[target] for target in TARGETS) or ROUNDS < 50, killed
    take_down(settings)
    assert processes_of(settings.home) == [], "no process is left behind"


def _submit(source: Path, ledger: Path, code: int, name: str) -> subprocess.Popen[bytes]:
    by_name = random.Random(name)  # drawn by name, so that a repeated submission asks for the same
    gpus, vc = by_name.choice((1, 1, 2, 4)), by_name.choice(("vision", "nlp"))
    seconds = by_name.uniform(0.2, 1.5)
    return subprocess.Popen(
        [
            *(*LUCID, "submit", "--name", name, "--idempotency-key", name, "--gpus", str(gpus), "--vc", vc),
            *("--source", str(source), "--", sys.executable, "job.py", str(ledger), f"{seconds:.2f}", str(code)),
        ],
        stdout=subprocess.DEVNULL,
    )


def strike(settings: Settings, target: str, chance: random.Random) -> int:
    """Kill one process of this kind, as soon as there is one. Returns how many were."""
    deadline = time.monotonic() + PATIENCE_S
    while target != "submitting command":
        victims = _victims(settings, target)
        if victims:
            return _kill(chance.choice(victims))
        if time.monotonic() > deadline:
            break
        time.sleep(0.1)
    return 0


def _victims(settings: Settings, target: str) -> list[psutil.Process]:
    status = read_status(run_files(settings))
    if status is None:
        return []
    if target in status.processes:
        return _existing(status.processes[target].pid)
    runs = _children(status.processes["run-server"].pid)
    if target == "scheduling run":
        return runs
    wrappers = [p for p in processes_of(settings.home) if any(part.endswith("spec.json") for part in _command(p))]
    parents = [parent for wrapper in wrappers if (parent := _parent(wrapper)) is not None and parent.pid > 1]
    ours = [parent for parent in parents if str(settings.home) in " ".join(_command(parent)) or parent in runs]
    return ours or runs  # a wrapper is detached: what launched it is the scheduling run


def _ended_once_and_truly(client: Client, job: Job, attempts: list[Attempt], ledger: Path, code: int) -> None:
    assert job.state in (JobState.COMPLETED if code == 0 else JobState.FAILED, JobState.LOST), (job, attempts)
    starts = ledger.read_text().split("\n")[:-1] if ledger.exists() else []
    assert len(starts) == len(set(starts)), f"{job.job_id}: an attempt ran twice"
    if job.state is not JobState.LOST:
        assert len(starts) == len(attempts) == 1, f"{job.job_id} ran {len(starts)} times in {len(attempts)} attempts"
        assert job.exit_code == code
    ends = [event for event in client.system.store.events.of_job(job.job_id) if event.to_state.is_terminal]
    assert len({event.to_state for event in ends}) == 1, "it ended once"


def _no_gpu_was_shared(attempts: list[Attempt]) -> None:
    spans: dict[tuple[str, int], list[tuple[float, float, str]]] = {}
    for attempt in attempts:
        if attempt.started_at is None or attempt.ended_at is None:
            continue
        span = (attempt.started_at.timestamp(), attempt.ended_at.timestamp(), attempt.attempt_id)
        for share in attempt.placement.shares:
            for index in share.gpu_indices:
                spans.setdefault((share.node, index), []).append(span)
    for gpu, held in spans.items():
        held.sort()
        for (_, end, first), (begin, _, second) in itertools.pairwise(held):
            assert begin >= end - 0.05, f"{gpu} was given to {first} and {second} at once"


def _kill(process: psutil.Process) -> int:
    try:
        process.kill()
    except psutil.NoSuchProcess:
        return 0
    return 1


def _existing(pid: int) -> list[psutil.Process]:
    try:
        return [psutil.Process(pid)]
    except psutil.NoSuchProcess:
        return []


def _children(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children()
    except psutil.NoSuchProcess:
        return []


def _parent(process: psutil.Process) -> psutil.Process | None:
    try:
        return process.parent()
    except psutil.NoSuchProcess:
        return None


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return []
