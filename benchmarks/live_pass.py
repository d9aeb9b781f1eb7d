"""How long one pass of the running control plane takes with a long queue, the state database included.

``python benchmarks/live_pass.py [--passes 300] [--only SQLite|PostgreSQL] [--postgres URL] [--steps] [--json]``

1,000 GPUs (125 nodes of 8, five virtual clusters) are full, half of the jobs share their GPUs, and 2,048 jobs wait.
Before every pass (not timed, and through a store of its own, as another process would) one running job ends, one is
submitted, and what the pass before placed is reported running. Timed, by the wall clock, is what the loop does then:
read the queue from the database, follow the change, ask the policy, and write down what it decides. 20 passes go
before the measured ones. The loop's memory is taken for long-lived, as in a scheduling window.

Both databases write durably: SQLite as ``Store.open`` sets it up (WAL, ``synchronous=FULL``), PostgreSQL on a server
of its own with PostgreSQL's defaults (``fsync``, ``synchronous_commit`` and ``full_page_writes`` on), through a Unix
socket on the same machine; ``--postgres`` takes another server. So a slow disk is part of the claim. Where others use
the machine, the second line tells the wall clock's time without the waits for a core. ``--steps`` also tells which
part takes how much processor time.

The cluster is one in memory, whose readings are made beforehand: polling processes, reading GPUs and starting jobs is
not the decision's affair.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from datetime import datetime, timedelta
from pathlib import Path

from sqlalchemy import bindparam, create_engine, make_url, update

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.ranges import Claim, quantile, report
from benchmarks.steps import Steps
from lucid_pipelines.control import packing, scheduling
from lucid_pipelines.control.garbage import long_lived
from lucid_pipelines.control.live_state import LiveState
from lucid_pipelines.control.scheduling import decide
from lucid_pipelines.control.system import System
from lucid_pipelines.domain.cluster import Gpu, GpuSample, Inventory, Node
from lucid_pipelines.domain.job import Estimate, ExitRecord, JobSpec, Profile
from lucid_pipelines.domain.states import Outcome
from lucid_pipelines.policies.lucid import Lucid
from lucid_pipelines.ports import Capabilities, Observation, Sight
from lucid_pipelines.store import Store, tables
from lucid_pipelines.store.actions import Actions
from lucid_pipelines.store.attempts import Attempts
from lucid_pipelines.store.codec import estimate_to_json, profile_to_json
from lucid_pipelines.store.database import Database, Transaction
from lucid_pipelines.store.queue import Queue
from tests.support_control.pretend import OwnClock, PretendCluster
from tests.support_control.worlds import make_settings
from tests.support_pg.server import durable_server

NODES, GPUS, VCS, WAITING = 125, 8, 5, 2_048
MEMORY_MIB = 81_920.0
STEPS = (
    (Queue, "view", "read the queue"),
    (scheduling, "look_at_gpus", "look at free GPUs"),
    (scheduling, "look_at_running", "look at what runs"),
    (scheduling, "watch_pairs", "watch pairs"),
    (scheduling, "gather", "gather facts"),
    (scheduling, "restraint", "modes, cool-downs"),
    (LiveState, "follow", "follow the change"),
    (Lucid, "decide", "ask the policy"),
    (scheduling, "_record", "record for replays"),
    (packing, "look", "ask the nodes"),
    (Attempts, "place", "write placements"),
    (Actions, "propose", "write the audit"),
    (Actions, "executed", "write the audit"),
    (Database, "together", "commit"),
    (scheduling, "_decide", "the rest"),
)


class MemoryCluster(PretendCluster):
    """A thousand GPUs; whatever was placed runs."""

    def __init__(self, clock: OwnClock) -> None:
        super().__init__(clock)
        self._nodes = tuple(
            Node(
                f"n{i:03d}", tuple(Gpu(g, None, "X", MEMORY_MIB, is_virtual=True) for g in range(GPUS)), f"vc{i % VCS}"
            )
            for i in range(NODES)
        )
        self._samples = [
            GpuSample(node.name, gpu.index, clock.now(), "declared", 50.0, 20.0, 10_000.0)
            for node in self._nodes
            for gpu in node.gpus
        ]

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(can_pack=True, can_isolate=True, can_check=True, can_adopt=False)

    def inventory(self) -> Inventory:
        return Inventory(self._nodes, self.clock.now())

    def poll(self, attempt_ids: Sequence[str]) -> Mapping[str, Observation]:
        now = self.clock.now()
        return {name: Observation(name, Sight.RUNNING, now, "benchmark", now) for name in attempt_ids}

    def sample(self) -> Sequence[GpuSample]:
        return self._samples


def main() -> int:
    """Run the benchmark; exit status 1 when a claim does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passes", type=int, default=300)
    parser.add_argument("--postgres", help="URL of an empty database.")
    parser.add_argument("--only", choices=("SQLite", "PostgreSQL"), help="One database only.")
    parser.add_argument("--steps", action="store_true", help="Also tell the share of each step.")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    claims: list[Claim] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, url in _databases(options.postgres, options.only):
            steps = Steps()
            with steps.wrapped(STEPS if options.steps else ()):
                claims += _measure(name, url, Path(folder) / name, options.passes, steps)
    return report(claims, as_json=options.json)


def _databases(postgres: str | None, only: str | None) -> Iterator[tuple[str, str | None]]:
    if only != "PostgreSQL":
        yield "SQLite", None
    if only == "SQLite":
        return
    yield "PostgreSQL", postgres or durable_server().create_database()


def _measure(name: str, url: str | None, home: Path, passes: int, steps: Steps) -> list[Claim]:
    rng = random.Random(11)
    clock = OwnClock()
    sections: dict[str, object] = {"modes": {"pack": "live", "unpack": "live", "lend": "live"}}
    if url is not None:
        sections["state"] = {"url": url}
    settings = make_settings(home, **sections)
    home.mkdir(parents=True)
    with Store.open(settings.state_url, durable=False) as store:
        number = _fill(System.of(settings, store, MemoryCluster(clock), clock), clock, rng)
    if url is not None:
        _vacuum(url)
    with Store.open(settings.state_url) as store, Store.open(settings.state_url) as theirs, ExitStack() as stack:
        system = System.of(settings, store, MemoryCluster(clock), clock)
        others = System.of(settings, theirs, MemoryCluster(clock), clock)
        walls_ms: list[float] = []
        cpus_ms: list[float] = []
        own_ms: list[float] = []
        packed = started = 0
        for i in range(passes + 20):
            clock.sleep(1.0)
            _end_one(others, clock, rng)
            number += 1
            _submit(others, clock, rng, 1, number)
            _all_started(others, clock)
            if i == 1:
                stack.enter_context(long_lived())
            waited_begin = _waited_s()
            begin, cpu_begin = time.perf_counter(), time.process_time()
            with steps.round() if i >= 20 else nullcontext():
                applied, _ = decide(system, store.queue.view())
            if i >= 20:
                walls_ms.append(1_000 * (time.perf_counter() - begin))
                cpus_ms.append(1_000 * (time.process_time() - cpu_begin))
                own_ms.append(walls_ms[-1] - 1_000 * (_waited_s() - waited_begin))
                packed, started = packed + applied.packed, started + applied.started
        waiting = len(store.queue.view().waiting)
    for line in steps.told([value / 1_000 for value in cpus_ms]):
        print(f"     {name}: {line}")
    p50, p99 = quantile(walls_ms, 0.50), quantile(walls_ms, 0.99)
    why = f"p50 {p50:.1f} ms; {started} started, {packed} packed, {waiting:,} waiting in the end"
    title = f"{name}: live pass p99 (ms; spread: p99 − median)"
    cpu, own = quantile(cpus_ms, 0.99), quantile(own_ms, 0.99)
    told = f"p50 {quantile(own_ms, 0.5):.1f} ms; load {os.getloadavg()[0]:.1f}"
    return [
        Claim(title, p99, at_most=50.0, spread=p99 - p50, samples=len(walls_ms), why=why),
        Claim(
            f"{name}: the same without its waits for a core, p99 (ms)",
            own,
            spread=own - quantile(own_ms, 0.5),
            samples=len(own_ms),
            why=told,
        ),
        Claim(f"{name}: its processor time, p99 (ms)", cpu, spread=cpu - quantile(cpus_ms, 0.5), samples=len(cpus_ms)),
    ]


def _vacuum(url: str) -> None:
    """What PostgreSQL does by itself within a minute: until it has counted the rows, it plans without knowing them."""
    driver = make_url(url).set(drivername="postgresql+psycopg2")
    with create_engine(driver, isolation_level="AUTOCOMMIT").connect() as connection:
        connection.exec_driver_sql("VACUUM ANALYZE")


def _waited_s() -> float:
    """How long this thread has waited for a core that others used (Linux); the disk and a server are not in it."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


def _fill(system: System, clock: OwnClock, rng: random.Random) -> int:
    """All GPUs taken, as many jobs packed as the rules allow, and ``WAITING`` in the queue."""
    number = 900
    _submit(system, clock, rng, number, number)
    for _ in range(2):
        decide(system, system.store.queue.view())
        _all_started(system, clock)
    while missing := WAITING - len(system.store.queue.view().waiting):
        number += missing
        _submit(system, clock, rng, missing, number)
        while decide(system, system.store.queue.view())[0].packed:
            _all_started(system, clock)
    return number


def _submit(system: System, clock: OwnClock, rng: random.Random, count: int, number: int) -> None:
    """Jobs that wait with estimate and profile; their way through the intake is cut short."""
    specs = [
        JobSpec(
            f"job-{number - i}",
            f"user-{(number - i) % 50}",
            f"vc{rng.randrange(VCS)}",
            rng.choice((1, 1, 1, 2, 4, 8)),
            ("x",),
        )
        for i in range(count)
    ]
    rows = [
        {
            "id": job.job_id,
            "estimate": estimate_to_json(Estimate(rng.lognormvariate(8.0, 1.2), "benchmark")),
            "profile": profile_to_json(
                Profile(rng.uniform(10.0, 95.0), 20.0, rng.uniform(2_000.0, 60_000.0), 60.0, 30, "benchmark")
            ),
        }
        for job, _ in system.store.jobs.submit_many(specs, clock.now())
    ]
    ready = (
        update(tables.jobs)
        .where(tables.jobs.c.job_id == bindparam("id"))
        .values(state="queued", version=2, estimate=bindparam("estimate"), profile=bindparam("profile"))
    )

    def work(tx: Transaction) -> None:
        tx.connection.execute(ready, rows)
        tx.touch()

    system.store._database.write(work)


def _all_started(system: System, clock: OwnClock) -> None:
    for item in system.store.queue.view().active:
        if item.attempt.started_at is None:
            system.store.attempts.record_started(item.attempt.attempt_id, clock.now(), who="benchmark", now=clock.now())


def _end_one(system: System, clock: OwnClock, rng: random.Random) -> None:
    active = system.store.queue.view().active
    item = active[rng.randrange(len(active))]
    ended: datetime = clock.now() - timedelta(milliseconds=1)
    record = ExitRecord(0, None, "exited", item.attempt.started_at, ended)
    system.store.attempts.record_end(
        item.attempt.attempt_id, record, Outcome.COMPLETED, who="benchmark", now=clock.now()
    )


if __name__ == "__main__":
    sys.exit(main())
