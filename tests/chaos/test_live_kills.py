"""kill -9 while jobs are profiled and share GPUs: every job ends once, no attempt runs twice, only pairs share."""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lucid_pipelines.client import Client
from lucid_pipelines.domain.job import Attempt
from lucid_pipelines.domain.states import JobState
from lucid_pipelines.service.control import bring_up, take_down
from lucid_pipelines.settings import Settings
from tests.chaos.test_kills import SCRIPT, TARGETS, strike
from tests.support_service import processes_of, throw_away_service

ROUNDS = int(os.environ.get("LUCID_CHAOS_LIVE_ROUNDS", "1"))
SEED = int(os.environ.get("LUCID_CHAOS_SEED", "20260101"))
PER_ROUND = 6
NODES = "[{name: n1, gpus: 2, vc: vision}, {name: n2, gpus: 2, vc: nlp}, {name: n3, gpus: 2, vc: profiler}]"
SETTINGS = {
    "LUCID__CLUSTER__NODES": NODES,
    "LUCID__CLUSTER__WARMUP_S": "0.5",
    "LUCID__CLUSTER__SAMPLE_INTERVAL_S": "0.5",
    "LUCID__PROFILING__WINDOW_S": "4",
    "LUCID__PROFILING__BUSY_WINDOW_S": "3",
    "LUCID__PACKING__MIN_REMAINING_S": "1",
    "LUCID__PACKING__WATCH_AFTER_S": "2",
    "LUCID__MODES__PACK": "live",
    "LUCID__MODES__UNPACK": "live",
    "LUCID__MODES__LEND": "live",
}
LOAD = {"gpu_util_pct": 20.0, "memory_util_pct": 10.0, "memory_used_mib": 2_000.0}

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1800), pytest.mark.service]


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    with throw_away_service(tmp_path / "home", **SETTINGS) as chosen:
        yield chosen


def test_random_kills_while_jobs_are_profiled_and_packed(settings: Settings, tmp_path: Path) -> None:
    source, ledgers = tmp_path / "source", tmp_path / "ledgers"
    source.mkdir()
    ledgers.mkdir()
    (source / "job.py").write_text(SCRIPT)
    chance = random.Random(SEED)
    bring_up(settings)
    codes: dict[str, int] = {}
    with Client(settings=settings) as client:
        for number in range(ROUNDS):
            for copy in range(PER_ROUND):
                name, code = f"live-{number}-{copy}", chance.choice((0, 0, 0, 3))
                seconds = f"{chance.uniform(1.0, 12.0):.2f}"
                command = [sys.executable, "-S", "job.py", str(ledgers / name), seconds, str(code)]
                vc = chance.choice(("vision", "nlp"))
                job = client.submit(command, source_dir=source, name=name, vc=vc, user="ada", declared_load=LOAD).job
                codes[job.job_id] = code
            time.sleep(chance.uniform(1.0, 5.0))
            strike(settings, chance.choice([target for target in TARGETS if target != "submitting command"]), chance)
        jobs = client.wait(list(codes), timeout_s=600)
        attempts = {job.job_id: client.attempts(job.job_id) for job in jobs}
        for job in jobs:
            wanted = JobState.COMPLETED if codes[job.job_id] == 0 else JobState.FAILED
            assert job.state in (wanted, JobState.LOST), (job, attempts[job.job_id])
            lines = (ledgers / job.spec.name).read_text().split("\n")[:-1]
            ran = [line.split()[0] for line in lines]
            assert len(ran) == len(set(ran)), f"{job.job_id}: an attempt ran twice"
            assert set(ran) <= {attempt.attempt_id for attempt in attempts[job.job_id]}
            final = [attempt for attempt in attempts[job.job_id] if attempt.outcome is not None]
            assert len(final) == len(attempts[job.job_id]), "every attempt ended"
        pairs = client.system.store.pairs.find()
        together = {frozenset((pair.first_attempt_id, pair.later_attempt_id)) for pair in pairs}
        everything = [attempt for found in attempts.values() for attempt in found]
        assert_only_pairs_share(everything, together)
        assert any(attempt.profiling for attempt in everything)
        assert all(pair.ended_at is not None for pair in pairs)
        print(f"{len(jobs)} jobs, {len(everything)} attempts, {len(pairs)} pairs")
    take_down(settings)
    assert processes_of(settings.home) == [], "no process is left behind"


def assert_only_pairs_share(attempts: list[Attempt], together: set[frozenset[str]]) -> None:
    """No two attempts held a GPU at the same time but those that were a pair."""
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
        for number, (_, end, first) in enumerate(held):
            for begin, _, second in held[number + 1 :]:
                if begin < end - 0.05:
                    assert frozenset((first, second)) in together, f"{gpu} was given to {first} and {second} at once"
