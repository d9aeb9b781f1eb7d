"""What sealing code costs: many small files, and a large tree.

``python benchmarks/snapshots.py [--files 10000] [--mib 1024] [--repeats 3] [--json]``

Sealed, sealed again unchanged, and unpacked: 10,000 small files, then ten large files of random bytes. Times are CPU
seconds of one process, which each run has for itself, so that its peak memory is its own. Files younger than two
seconds are read again on purpose, so the benchmark waits for them to age.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.ranges import Claim, mean_of, report

_RUN = """
import json, resource, sys, time
from pathlib import Path
from lucid_pipelines.snapshots import SnapshotLimits, materialise, seal
source, store, target = (Path(argument) for argument in sys.argv[1:4])
limits = SnapshotLimits(max_file_bytes=1 << 40, max_total_bytes=1 << 40)
rss_mib = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
start_mib, times = rss_mib(), []
def timed(action):
    begin = time.process_time()
    result = action()
    times.append(time.process_time() - begin)
    return result
first = timed(lambda: seal(source, store, limits=limits))
second = timed(lambda: seal(source, store, limits=limits))
timed(lambda: materialise(first.digest, store, target))
print(json.dumps({"cpu_s": times, "grown_mib": rss_mib() - start_mib, "stored_again_bytes": second.new_bytes}))
"""
AGE_S = 2.1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    claims: list[Claim] = []
    with tempfile.TemporaryDirectory() as folder:
        small, large = Path(folder) / "small", Path(folder) / "large"
        for number in range(options.files):
            path = small / f"pkg{number % 100}" / f"m{number}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"value = {number}\n" * 100, encoding="utf-8")
        large.mkdir()
        for number in range(10):
            with (large / f"{number}.bin").open("wb") as stream:
                for _ in range(options.mib // 10):
                    stream.write(os.urandom(1 << 20))
        time.sleep(AGE_S)
        for name, tree in ((f"{options.files:,} files", small), (f"{options.mib:,} MiB in ten files", large)):
            claims += _measure(name, tree, options.repeats)
    return report(claims, as_json=options.json)


def _measure(name: str, tree: Path, repeats: int) -> list[Claim]:
    runs: list[dict[str, object]] = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as place:
            done = subprocess.run(
                [sys.executable, "-c", _RUN, str(tree), f"{place}/store", f"{place}/out"],
                capture_output=True,
                text=True,
                check=True,
            )
        runs.append(json.loads(done.stdout))
    seal_s, again_s, unpack_s = zip(*(run["cpu_s"] for run in runs), strict=True)  # pyright: ignore[reportArgumentType]
    return [
        mean_of(f"{name}: seal (CPU-s)", seal_s, at_most=15.0, why="a person waits for it"),
        mean_of(f"{name}: seal again, unchanged (CPU-s)", again_s, at_most=3.0, why="every further submission"),
        mean_of(f"{name}: unpack (CPU-s)", unpack_s, at_most=15.0, why="before a job starts"),
        mean_of(f"{name}: memory grown (MiB)", [float(str(run["grown_mib"])) for run in runs], at_most=64.0),
        mean_of(f"{name}: stored again (bytes)", [float(str(run["stored_again_bytes"])) for run in runs], at_most=0.0),
    ]


if __name__ == "__main__":
    sys.exit(main())
