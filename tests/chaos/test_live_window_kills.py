"""kill -9 in the delicate moments: forming a pair, taking one apart, moving on from the pool, lending a node.

The loop is a process with real wrappers, real jobs and a real database file; it dies by SIGKILL at a seeded statement
or call after the moment began, and another process takes over.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from lucid_pipelines.client import Client
from lucid_pipelines.domain.states import JobState
from lucid_pipelines.settings import load_settings
from tests.chaos.test_live_kills import assert_only_pairs_share
from tests.support_control.killed_loop import OPENINGS
from tests.support_control.killed_sessions import assert_loans_and_audit_agree, assert_pairs_and_audit_agree

SEED = int(os.environ.get("LUCID_CHAOS_SEED", "20260101"))
KILLS = int(os.environ.get("LUCID_CHAOS_WINDOW_KILLS", "1"))
"""How often each window is tried."""
LAST_MOMENT = {"form": 90, "split": 90, "judge": 60, "move": 90, "continue": 40, "lend": 40, "return": 40}
"""So many statements, commits and calls after the window opened, at most: its transaction, and what follows from it."""
COOL_DOWN_S = 3.0
SITE: dict[str, Any] = {
    "cluster": {
        "gpus": "virtual",
        "nodes": [
            {"name": "n1", "gpus": 1, "vc": "train"},
            {"name": "i1", "gpus": 1, "vc": "idle"},
            {"name": "i2", "gpus": 1, "vc": "idle"},
            {"name": "p1", "gpus": 1, "vc": "profiler"},
        ],
        "warmup_s": 0.3,
        "sample_interval_s": 0.3,
    },
    "modes": {"pack": "live", "unpack": "live", "lend": "live"},
    "scheduling": {"pass_interval_s": 0.2},
    "profiling": {
        "window_s": 3.0,
        "busy_window_s": 3.0,
        "max_gpus": 1,
        "borrow_above_jobs": 1,
        "return_below_jobs": 1,
    },
    "packing": {"min_remaining_s": 0.5, "watch_after_s": 2.0, "cool_down_s": COOL_DOWN_S},
}
SCRIPT = """\
import json, os, sys, time
begin, attempt = time.time(), os.environ["LUCID_ATTEMPT_ID"]
with open(sys.argv[1], "a") as ledger:
    ledger.write(attempt + "\\n")
load = {"gpu_util_pct": 20.0, "memory_util_pct": 10.0, "memory_used_mib": 2000.0}
target = os.environ["LUCID_GPU_LOAD"]
while (age_s := time.time() - begin) < float(sys.argv[2]):
    # Beside another job it turns out to be far heavier than the profiling pool showed.
    if sys.argv[3] == "heavy" and attempt.endswith("-a2") and age_s > 2:
        load["gpu_util_pct"] = 90.0
    with open(target + ".new", "w") as stream:
        json.dump(load, stream)
    os.replace(target + ".new", target)
    time.sleep(0.1)
"""
JOBS = {"first": ("16", "light"), "second": ("12", "heavy"), **{f"short-{i}": ("1", "light") for i in range(3)}}

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1800)]


@pytest.mark.parametrize(
    # Half a minute each, most of it waiting: one of them here, the others with the long tests.
    "window",
    [pytest.param(window, marks=() if window == "split" else pytest.mark.long) for window in OPENINGS],
)
def test_a_loop_that_dies_in_a_delicate_moment_is_followed_by_one_that_reaches_the_true_end(
    tmp_path: Path, window: str
) -> None:
    chance = random.Random(f"{SEED} {window}")
    for number in range(KILLS):
        home = tmp_path / str(number)
        ids, ledgers = submitted(home, window)
        moment = chance.randrange(LAST_MOMENT[window])
        assert run_loop(home, window, moment) == -signal.SIGKILL, f"{window}, {moment}: it was not killed"
        assert run_loop(home) == 0, f"{window}, {moment}"
        assert_true_end(home, ids, ledgers, f"{window}, {moment}")


def submitted(home: Path, window: str) -> tuple[dict[str, str], Path]:
    """A site, and its jobs, which nobody has looked at yet."""
    source, ledgers = home / "source", home / "ledgers"
    source.mkdir(parents=True)
    ledgers.mkdir()
    (source / "job.py").write_text(SCRIPT)
    site = SITE | {"profiling": SITE["profiling"] | {"move": "continue" if window == "continue" else "restart"}}
    (home / "lucid.yaml").write_text(yaml.safe_dump(site))
    with Client(settings=load_settings(home)) as client:
        ids = {
            name: client.submit(
                [sys.executable, "-S", "job.py", str(ledgers / name), *words],
                source_dir=source,
                name=name,
                vc="train",
                user="ada",
            ).job.job_id
            for name, words in JOBS.items()
        }
    return ids, ledgers


def run_loop(home: Path, window: str = "-", moment: int = 0) -> int:
    """The loop as a process; its exit status, negative for the signal that ended it."""
    words = [sys.executable, "-m", "tests.support_control.killed_loop", str(home), window, str(moment)]
    with (home / "loop.log").open("ab") as log:
        root = Path(__file__).parents[2]
        return subprocess.run(words, cwd=root, stdout=log, stderr=log, timeout=600, check=False).returncode


def assert_true_end(home: Path, ids: dict[str, str], ledgers: Path, where: str) -> None:
    with Client(settings=load_settings(home)) as client:
        store = client.system.store
        everything = [attempt for job_id in ids.values() for attempt in client.attempts(job_id)]
        for name, job_id in ids.items():
            job, attempts = client.job(job_id), client.attempts(job_id)
            assert job.state is JobState.COMPLETED, (where, name, job, attempts)
            ran = (ledgers / name).read_text().split()
            assert len(ran) == len(set(ran)), f"{where}: an attempt of {name} ran twice"
            assert set(ran) <= {attempt.attempt_id for attempt in attempts}
            assert all(attempt.outcome is not None for attempt in attempts)
        assert store.queue.view().slots == () and store.loans.out() == []
        pairs = store.pairs.find()
        assert_only_pairs_share(everything, {frozenset((p.first_attempt_id, p.later_attempt_id)) for p in pairs})
        assert_pairs_and_audit_agree(store, COOL_DOWN_S)
        assert_loans_and_audit_agree(store)
        assert store.loans.past(), "a node was lent, and came back"
        print(f"{where}: {len(everything)} attempts, {len(pairs)} pairs, {[p.verdict.value for p in pairs]}")
