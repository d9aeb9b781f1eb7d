"""What the local cluster costs: starting an attempt, idling beside it, and looking at many.

``python benchmarks/local_cluster.py [--launches 50] [--running 500] [--idle-s 20] [--json]``

Launched to first command is by the wall clock: from the call until the job's own first line of Python's clock. An
idle wrapper is one whose job sleeps. The many running attempts are idle ones, all on this machine; polling them is
timed in CPU seconds. Needs about 10 MiB for each.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.ranges import Claim, mean_of, quantile, report
from lucid_pipelines.ports import Sight
from tests.support_clusters.local_harness import LocalHarness

POLLS = 10


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--launches", type=int, default=50)
    parser.add_argument("--running", type=int, default=500)
    parser.add_argument("--idle-s", type=float, default=20.0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        harness = LocalHarness(Path(folder), sample_interval_s=2.0)
        try:
            claims = [
                *launches(harness, options.launches),
                *idle(harness, options.idle_s),
                *polls(harness, options.running),
            ]
        finally:
            harness.close()
    return report(claims, as_json=options.json)


def launches(harness: LocalHarness, count: int) -> list[Claim]:
    """From the call of ``launch`` to the job's first command."""
    waits_s: list[float] = []
    for _ in range(count):
        request = harness.request("/bin/sh", "-c", "date +%s.%N > ../outputs/began")
        begin = time.time()
        harness.cluster.launch(request)
        while (written := harness.output(request.attempt_id, "began") or b"") == b"":
            time.sleep(0.002)
        waits_s.append(float(written) - begin)
    return [
        mean_of("attempt launched to its first command, mean (s)", waits_s, at_most=0.5),
        Claim("the same, p95 (s)", quantile(waits_s, 0.95), at_most=1.0, samples=count, why="beside submit to start"),
    ]


def idle(harness: LocalHarness, seconds: float) -> list[Claim]:
    """A wrapper whose job sleeps, at the default sampling interval."""
    attempt = harness.start("sleep 1000", declared_load={"gpu_util_pct": 10.0})
    process = psutil.Process(harness.wrapper_pid(attempt))
    before_s = _cpu_ns(process.pid)
    time.sleep(seconds)
    share = (_cpu_ns(process.pid) - before_s) / 1e9 / seconds
    memory_mib = process.memory_full_info().uss / 2**20
    harness.cluster.fence(attempt)
    return [
        Claim("idle wrapper (share of a core)", share, at_most=0.001, why="one for every running job"),
        Claim("idle wrapper, own memory (MiB)", memory_mib, at_most=24.0),
    ]


def polls(harness: LocalHarness, count: int) -> list[Claim]:
    """One look at many running attempts."""
    attempts = [harness.start("sleep 1000") for _ in range(count)]
    spent_s: list[float] = []
    for _ in range(POLLS):
        begin = time.process_time()
        seen = harness.cluster.poll(attempts)
        spent_s.append(time.process_time() - begin)
        assert all(one.sight is Sight.RUNNING for one in seen.values())
    return [mean_of(f"poll of {count} running attempts (CPU-s)", spent_s, at_most=0.25, why="every second or two")]


def _cpu_ns(pid: int) -> int:
    return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[0])


if __name__ == "__main__":
    sys.exit(main())
