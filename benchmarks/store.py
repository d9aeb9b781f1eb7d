"""How fast the state store is, on SQLite and (with LUCID_BENCH_PG_URL) on PostgreSQL.

Run: ``python benchmarks/store.py [--jobs 50000] [--history 1000000] [--rounds 20] [--json]``

Each line is one range spec: what is measured, mean, spread and median over the rounds, and a bound with its
reason. A bound holds when the median keeps it; the exit code is 1 when one does not.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from lucid_pipelines.domain.cluster import Placement
from lucid_pipelines.domain.history import HistoryRow
from lucid_pipelines.domain.job import ExitRecord, JobSpec
from lucid_pipelines.domain.states import JobState, Outcome
from lucid_pipelines.store import Store

_START = datetime(2026, 1, 1, tzinfo=UTC)
_QUEUED = 2048
_NODES, _GPUS_PER_NODE, _GPUS_PER_JOB = 125, 8, 4


@dataclass(frozen=True)
class Spec:
    """One claim: ``name`` took this long, and its median may be ``bound_ms`` because of ``reason``."""

    database: str
    name: str
    rounds: int
    mean_ms: float
    stdev_ms: float
    median_ms: float
    p99_ms: float
    bound_ms: float
    reason: str

    @property
    def holds(self) -> bool:
        return self.median_ms <= self.bound_ms


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=50_000)
    parser.add_argument("--history", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    specs: list[Spec] = []
    with tempfile.TemporaryDirectory() as folder:
        places = {"sqlite": str(Path(folder) / "state.db")}
        if os.environ.get("LUCID_BENCH_PG_URL"):
            places["postgres"] = os.environ["LUCID_BENCH_PG_URL"]
        for name, where in places.items():
            with Store.open(where) as store:
                specs += list(_measure(name, store, options.jobs, options.history, options.rounds))
    if options.json:
        sys.stdout.write(json.dumps([asdict(spec) for spec in specs], indent=1) + "\n")
    return 0 if all(spec.holds for spec in specs) else 1


def _line(spec: Spec) -> str:
    measured = f"{spec.mean_ms:9.2f} ms ± {spec.stdev_ms:7.2f}  median {spec.median_ms:8.2f}  p99 {spec.p99_ms:8.2f}"
    verdict = f"bound {spec.bound_ms:5.0f} {'ok' if spec.holds else 'BROKEN'} ({spec.reason})"
    return f"{spec.database:9}{spec.name:50}{measured}  {verdict}\n"


def _measure(database: str, store: Store, jobs: int, history: int, rounds: int) -> Iterator[Spec]:
    def spec(name: str, work: Callable[[], object], bound_ms: float, reason: str, count: int = rounds) -> Spec:
        times = []
        for _ in range(count):
            begun = time.perf_counter()
            work()
            times.append((time.perf_counter() - begun) * 1000)
        times.sort()
        found = Spec(
            database,
            name,
            count,
            statistics.fmean(times),
            statistics.stdev(times) if count > 1 else 0.0,
            statistics.median(times),
            times[min(count - 1, int(count * 0.99))],
            bound_ms,
            reason,
        )
        sys.stderr.write(_line(found))
        return found

    chance = random.Random(7)
    second = iter(range(10**9))

    def now() -> datetime:
        return _START + timedelta(seconds=next(second))

    def batch(count: int) -> list[JobSpec]:
        return [
            JobSpec(
                name=f"train-{chance.randrange(300)}",
                user=f"user-{chance.randrange(40)}",
                vc=f"vc-{chance.randrange(4)}",
                gpus=chance.choice([1, 1, 1, 2, 4, 8]),
                command=("python", "train.py", "--lr", "0.1"),
                env=(("OMP_NUM_THREADS", "4"),),
            )
            for _ in range(count)
        ]

    batches = max(1, jobs // 1000)
    yield spec(
        "submit 1,000 jobs in one call", lambda: store.jobs.submit_many(batch(1000), now()), 3000, "one sweep", batches
    )
    yield spec("submit one job, durable", lambda: store.jobs.submit(batch(1)[0], now()), 100, "a person waits")
    slots = [(f"node-{node:03}", first) for node in range(_NODES) for first in range(0, _GPUS_PER_NODE, _GPUS_PER_JOB)]
    ids = [job.job_id for job in store.jobs.find(limit=_QUEUED + len(slots))]
    relaxed = Store.open(store._database.url.render_as_string(hide_password=False), durable=False)
    for job_id in ids:
        for before, after in (
            (JobState.SUBMITTED, JobState.SNAPSHOTTED),
            (JobState.SNAPSHOTTED, JobState.ADVISED),
            (JobState.ADVISED, JobState.QUEUED),
        ):
            relaxed.jobs.transition(job_id, [before], after, who="bench", why="", now=now())
    free, running = iter(slots), []

    def place() -> None:
        node, first = next(free)
        placement = Placement.of({node: range(first, first + _GPUS_PER_JOB)})
        attempt = store.attempts.place(ids.pop(), placement, who="bench", now=now())
        running.append(attempt.attempt_id)

    yield spec("place one job, durable", place, 100, "a pass places a few", len(slots))
    yield spec("change counter", store.change_counter, 5, "asked every second")

    def one_change() -> None:
        store.jobs.annotate(ids[chance.randrange(len(ids))], who="bench", why="", now=now())
        store.queue.view()

    def one_start() -> None:
        store.attempts.set_log_path(running[chance.randrange(len(running))], "logs/x")
        store.queue.view()

    busy = len(slots) * _GPUS_PER_JOB
    yield spec(f"first view, {_QUEUED} queued, {busy:,} GPUs busy", relaxed.queue.view, 1500, "once a process", 1)
    relaxed.close()
    store.queue.view()
    yield spec("view after one change (and the change)", one_change, 120, "each pass")
    yield spec("view after a change of what runs (and the change)", one_start, 150, "each pass that starts one")
    yield spec("view, nothing changed", store.queue.view, 5, "each idle pass")

    def end() -> None:
        ended = now()
        record = ExitRecord(0, None, "exited", ended - timedelta(seconds=60), ended)
        store.attempts.record_end(running.pop(), record, Outcome.COMPLETED, who="bench", now=ended)

    yield spec("record one end, durable", end, 100, "each end")
    yield spec("newest 100 jobs", store.jobs.find, 50, "lucid jobs")
    yield spec("newest 100 jobs of one user", lambda: store.jobs.find(user="user-7"), 50, "lucid jobs --user")
    yield spec("counts by state", store.jobs.counts, 150, "the top line of lucid top")
    yield spec("resolve an id prefix", lambda: store.jobs.resolve(ids[0][:13]), 20, "lucid show")
    yield spec(
        "claim 20 jobs of a backlog",
        lambda: store.jobs.claim([JobState.SUBMITTED], worker="bench", now=now(), limit=20, ttl_s=1e6),
        150,
        "intake",
    )
    _fill_history(store, history, chance)

    def ask() -> None:
        as_of = _START - timedelta(days=chance.randrange(9))
        store.history.duration_stats(f"user-{chance.randrange(40)}", 1, as_of)

    yield spec(f"duration statistics over {history:,} runs", ask, 60, "once per job")


def _fill_history(store: Store, count: int, chance: random.Random) -> None:
    for start in range(0, count, 20_000):
        store.history.add(_past(number, chance) for number in range(start, min(count, start + 20_000)))


def _past(number: int, chance: random.Random) -> HistoryRow:
    ended = _START - timedelta(seconds=chance.randrange(400 * 86400))
    duration = chance.lognormvariate(6, 2)
    return HistoryRow(
        attempt_id=f"past-{number}-a1",
        job_id=f"past-{number}",
        number=1,
        user=f"user-{chance.randrange(40)}",
        vc="vc-0",
        name="train",
        gpus=chance.choice([1, 1, 1, 2, 4, 8]),
        submitted_at=ended - timedelta(seconds=duration + 60),
        started_at=ended - timedelta(seconds=duration),
        ended_at=ended,
        duration_s=duration,
        outcome=Outcome.COMPLETED if chance.random() < 0.7 else Outcome.FAILED_USER,
        cause=None,
        profile=None,
        placement=None,
        packed=False,
        profiling=False,
    )


if __name__ == "__main__":
    sys.exit(main())
