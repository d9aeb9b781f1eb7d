"""How fast the tracker is: the classifying pass, the end of a very large log, and one pass over many jobs.

Run: ``python benchmarks/tracker.py [--lines 400000] [--jobs 500] [--gigabytes 10] [--rounds 5] [--json]``

Times are CPU seconds of one core (the claims are about one core), but for the large log, whose claim is about
waiting. The logs are made up here; what a job writes between two passes is 20 lines a second for 30 seconds.
"""

# ruff: noqa: E501  a log line is best read whole

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.ranges import Claim, mean_of, report
from lucid_pipelines.control.following import Follower
from lucid_pipelines.control.system import System
from lucid_pipelines.domain.cluster import Inventory, Placement
from lucid_pipelines.domain.job import Attempt, Job, JobSpec
from lucid_pipelines.domain.states import AttemptState, JobState
from lucid_pipelines.logs import FileSource
from lucid_pipelines.ports import Capabilities, Cluster, LogChunk
from lucid_pipelines.resources.clusters.logs import read_chunk
from lucid_pipelines.settings import Settings
from lucid_pipelines.store import ActiveAttempt, Store
from lucid_pipelines.tracker.classes import LineClassifier
from lucid_pipelines.tracker.fields import RecordParser
from lucid_pipelines.tracker.follow import FollowState, follow
from lucid_pipelines.tracker.tracking import track_file
from tests.support_control.pretend import OwnClock

LINES_A_SECOND, BETWEEN_PASSES_S = 20, 30
_PEAK = """
import sys
from pathlib import Path
from lucid_pipelines.tracker.tracking import track_file
assert track_file(Path(sys.argv[1])).step
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""
"""A program that tracks one log and prints its peak memory in KiB (that of the process before it is not counted)."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=400_000)
    parser.add_argument("--jobs", type=int, default=500)
    parser.add_argument("--gigabytes", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        claims = [
            classifying(options.lines, options.rounds),
            *large_log(Path(folder), options.gigabytes, options.rounds),
            many_jobs(Path(folder), options.jobs, options.rounds),
            live_pass(Path(folder), options.jobs, options.rounds),
        ]
    return report(claims, as_json=options.json)


def classifying(lines: int, rounds: int) -> Claim:
    """Lines of eight kinds, their forms known: what a tracker in service sees."""
    chunk = "\n".join(next(writer) for _ in range(lines // 8) for writer in _writers(1)).encode()
    count = chunk.count(b"\n") + 1
    classifier = LineClassifier()
    classifier.count(chunk)
    rates: list[float] = []
    for _ in range(rounds):
        begin = time.process_time()
        classifier.count(chunk)
        rates.append(count / (time.process_time() - begin))
    return mean_of("classified lines a second", rates, at_least=200_000.0, why="a node's jobs must not outrun it")


def large_log(folder: Path, gigabytes: int, rounds: int) -> list[Claim]:
    """A sparse file with a training log at its end."""
    log = folder / "large.log"
    with log.open("wb") as file:
        file.write(b"start\n")
        os.truncate(log, gigabytes << 30)
        file.seek(gigabytes << 30)
        writers = _writers(2)
        file.write(b"\n" + "\n".join(next(w) for _ in range(3000) for w in writers).encode() + b"\n")
    waits: list[float] = []
    for _ in range(rounds):
        begin = time.perf_counter()
        progress = track_file(log, parser=RecordParser())
        waits.append(time.perf_counter() - begin)
        assert progress.step is not None
    # In a process of its own: this one holds the lines of the other measurements.
    child = subprocess.run([sys.executable, "-c", _PEAK, log], check=True, capture_output=True, text=True)
    peak_mib = int(child.stdout) / 1024
    return [
        mean_of(f"answer for {gigabytes} GB, s", waits, at_most=2.0, why="a person waits for it"),
        Claim("peak memory of a process that tracks it, MiB", peak_mib, at_most=200.0, why="many logs, one host"),
    ]


def many_jobs(folder: Path, jobs: int, rounds: int) -> Claim:
    """One tracking pass over jobs that all wrote since the last one."""
    logs = [(folder / f"job{i}.log", _job_log(i)) for i in range(jobs)]
    parser = RecordParser()
    states: dict[Path, FollowState] = {}
    times: list[float] = []
    for number in range(rounds + 1):
        for path, lines in logs:
            with path.open("ab") as file:
                file.write("\n".join(next(lines) for _ in range(LINES_A_SECOND * BETWEEN_PASSES_S)).encode() + b"\n")
        begin = time.process_time()
        for path, _ in logs:
            look = follow(FileSource(path), states.get(path), parser=parser)
            states[path] = look.state
            assert look.progress.step is not None
        if number:
            times.append(time.process_time() - begin)
    return mean_of(f"one pass over {jobs} jobs, CPU s", times, at_most=5.0, why="the metrics asset runs every 30 s")


def live_pass(folder: Path, jobs: int, rounds: int) -> Claim:
    """The same pass as the running service makes it: cursors and values in the state database, in a new process
    each time (nothing is remembered but the cursor).
    """
    logs = {f"j{i}-a1": (folder / f"live{i}.log", _job_log(i)) for i in range(jobs)}
    now = datetime(2026, 1, 5, tzinfo=UTC)
    placement = Placement.of({"node-1": [0]})
    active = [
        ActiveAttempt(
            Job(f"j{i}", JobSpec("job", "u", "v", 1, ("x",)), JobState.RUNNING, now, now, 1),
            Attempt(f"j{i}-a1", f"j{i}", 1, AttemptState.RUNNING, placement, now, now),
            (),
        )
        for i in range(jobs)
    ]
    times: list[float] = []
    with Store.open(folder / "state.db") as store:
        clock = OwnClock(now)
        settings = Settings.model_validate({"home": folder})
        system = System.of(
            settings, store, cast("Cluster", _Files({name: path for name, (path, _) in logs.items()})), clock
        )
        for number in range(rounds + 1):
            for path, lines in logs.values():
                with path.open("ab") as file:
                    file.write(
                        "\n".join(next(lines) for _ in range(LINES_A_SECOND * BETWEEN_PASSES_S)).encode() + b"\n"
                    )
            clock.moment += timedelta(seconds=BETWEEN_PASSES_S)
            follower = Follower()
            begin = time.process_time()
            looks = follower.look(system, active)
            if number:
                times.append(time.process_time() - begin)
            assert all(look.tracked and look.tracked.progress["step"] for look in looks)
    why = "one materialisation of training_metrics"
    return mean_of(f"one live pass over {jobs} jobs, store included, CPU s", times, at_most=10.0, why=why)


@dataclass(frozen=True)
class _Files:
    """As much of a cluster as a look needs."""

    paths: dict[str, Path]
    capabilities = Capabilities(can_pack=True, can_isolate=False, can_check=False, can_adopt=False)

    def read_log(self, attempt_id: str, offset: int, max_bytes: int) -> LogChunk:
        return read_chunk(self.paths[attempt_id], offset, max_bytes)

    def inventory(self) -> Inventory:
        return Inventory((), datetime.now(UTC))


def _job_log(seed: int) -> Iterator[str]:
    """A job's lines: its own way of reporting, half of the jobs with as much noise again."""
    writers = _writers(seed)
    own = writers[seed % 5]
    noise = writers[5:]
    while True:
        yield next(own)
        if seed % 2:
            yield next(noise[seed % len(noise)])


def _writers(seed: int) -> list[Iterator[str]]:
    return [
        _key_values(seed),
        _dated(seed),
        _bar(seed),
        _json(seed),
        _pipes(seed),
        _nccl(seed),
        _http(seed),
        _gpu(seed),
    ]


def _key_values(seed: int) -> Iterator[str]:
    rng = random.Random(seed)
    step = 0
    while True:
        step += 10
        yield f"step: {step} loss: {9 / (1 + step / 1e4) + rng.random() / 9:.4f} lr: {3e-4:.6f} time: {rng.uniform(0.5, 0.55):.3f}"


def _dated(seed: int) -> Iterator[str]:
    rng = random.Random(seed)
    step, at = 0, 36_000.0
    while True:
        step, at = step + 1, at + rng.uniform(0.9, 1.1)
        clock = f"{int(at) // 3600 % 24:02d}:{int(at) // 60 % 60:02d}:{int(at) % 60:02d},{int(at * 1000) % 1000:03d}"
        yield f"[2025-03-11 {clock}] [INFO] [train.py:120] epoch=0/global_step={step}, loss={5 - step / 1e5:.5f}, samples_per_sec={rng.uniform(60, 64):.3f}"


def _bar(seed: int) -> Iterator[str]:
    rng = random.Random(seed)
    step = 0
    while True:
        step = step % 90_000 + 1
        yield f"Epoch 3: {step // 900:3d}%|####      | {step}/90000 [1:10:00<9:20:00, {rng.uniform(4, 4.4):.2f}it/s, loss={4 - step / 1e5:.3f}]"


def _json(seed: int) -> Iterator[str]:
    rng = random.Random(seed)
    step = 0
    while True:
        step += 5
        yield f'{{"step": {step}, "max_steps": 900000, "loss": {4 - step / 1e6:.4f}, "step_time_s": {rng.uniform(1.1, 1.2):.4f}}}'


def _pipes(seed: int) -> Iterator[str]:
    rng = random.Random(seed)
    step = 0
    while True:
        step += 1
        yield f" iteration {step:8d}/  500000 | elapsed time per iteration (ms): {rng.uniform(900, 950):.1f} | lm loss: {4 - step / 1e6:.6E} | grad norm: 1.213 |"


def _nccl(seed: int) -> Iterator[str]:
    rng = random.Random(seed)
    while True:
        yield f"node7:{rng.randrange(99999)}:{rng.randrange(99999)} [{rng.randrange(8)}] NCCL INFO Channel {rng.randrange(32):02d}/0 : 1[1] -> 2[2] via P2P/IPC"


def _http(seed: int) -> Iterator[str]:
    rng = random.Random(seed)
    while True:
        yield f'2025-03-11 10:00:{rng.randrange(60):02d},{rng.randrange(1000):03d} DEBUG pool "HEAD /models/config.json HTTP/1.1" 200 {rng.randrange(9)}'


def _gpu(seed: int) -> Iterator[str]:
    rng = random.Random(seed)
    while True:
        yield f"gpu{rng.randrange(8)}: util {rng.randrange(100)}% mem {rng.randrange(80000)}MiB temp {rng.randrange(40, 80)}C power {rng.randrange(700)}W"


if __name__ == "__main__":
    sys.exit(main())
