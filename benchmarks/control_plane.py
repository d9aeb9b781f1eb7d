"""How fast and how cheap the running control plane is.

``python benchmarks/control_plane.py [--jobs 300] [--minutes 10] [--idle-s 120] [--json]``

Starts a service of its own in a temporary folder, measures it while idle, then submits short jobs at a steady
rate and measures from submission to the start of each process. CPU is that of the supervisor, Dagster's services
and every run that they forked; jobs and their wrappers are not counted (a wrapper's start costs about 0.03
CPU-seconds, see its tests).
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.ranges import Claim, mean_of, quantile, report
from lucid_pipelines.client import Client
from lucid_pipelines.domain.states import JobState
from lucid_pipelines.service.control import bring_up, take_down
from lucid_pipelines.service.dagster_home import run_files
from lucid_pipelines.service.status import read_status
from lucid_pipelines.settings import Settings
from tests.support_service import service_settings


def main() -> int:
    """Run the benchmark; exit status 1 when a claim does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=300)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--idle-s", type=float, default=120.0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        settings = service_settings(Path(folder) / "home")
        os.environ["LUCID_HOME"] = str(settings.home)
        ready = bring_up(settings)
        try:
            claims = [Claim("time to ready (s)", ready.ready_s, at_most=90, why="fresh home, tables created")]
            claims.append(_idle(settings, options.idle_s))
            claims += _load(settings, Path(folder), options.jobs, options.minutes)
        finally:
            take_down(settings)
    return report(claims, as_json=options.json)


def _idle(settings: Settings, duration_s: float) -> Claim:
    time.sleep(20)  # the first ticks import what later ones find loaded
    begin_s, begin = cpu_s(settings), time.monotonic()
    time.sleep(duration_s)
    share = (cpu_s(settings) - begin_s) / (time.monotonic() - begin)
    return Claim("idle CPU (cores)", share, at_most=0.05, why="an idle control plane must not be noticed")


def _load(settings: Settings, folder: Path, jobs: int, minutes: float) -> list[Claim]:
    source, ledger = folder / "source", folder / "ledger"
    source.mkdir()
    code = f"import time; open({str(ledger)!r}, 'a').write('x\\n'); time.sleep(1)"
    with Client(settings=settings) as client:
        begin_s, begin = cpu_s(settings), time.monotonic()
        ids: list[str] = []
        for number in range(jobs):
            time.sleep(max(0.0, begin + number * minutes * 60 / jobs - time.monotonic()))
            vc = ("vision", "nlp")[number % 2]
            ids.append(client.submit([sys.executable, "-S", "-c", code], source_dir=source, vc=vc).job.job_id)
        ended = client.wait(ids, timeout_s=300)
        wall_s = time.monotonic() - begin
        used_s = cpu_s(settings) - begin_s
        waits = [(job.started_at - job.submitted_at).total_seconds() for job in ended if job.started_at is not None]
        states = [job.state for job in ended]
    runs = len(ledger.read_text().splitlines())
    return [
        Claim(
            "jobs completed (share)", states.count(JobState.COMPLETED) / jobs, at_least=1, samples=jobs, why="none lost"
        ),
        Claim("times that a job ran (mean)", runs / jobs, at_least=1, at_most=1, samples=jobs, why="none run twice"),
        Claim("submit to start, p50 (s)", quantile(waits, 0.50), at_most=5, samples=len(waits)),
        Claim("submit to start, p95 (s)", quantile(waits, 0.95), at_most=10, samples=len(waits)),
        mean_of("submit to start, mean (s)", waits, at_most=5),
        Claim("submit to start, max (s)", max(waits), samples=len(waits)),
        Claim("CPU under load (cores)", used_s / wall_s, at_most=1, why=f"{used_s:.0f} CPU-seconds in {wall_s:.0f} s"),
    ]


def cpu_s(settings: Settings) -> float:
    """CPU-seconds so far of the service's processes, of the runs under way and of those that ended."""
    status = read_status(run_files(settings))
    assert status is not None, "the service runs"
    total = 0.0
    for pid in [status.pid, *(process.pid for process in status.processes.values())]:
        process = psutil.Process(pid)
        total += sum(process.cpu_times()[:4])  # own, and children that were waited for
        for child in process.children(recursive=True):
            if child.pid not in [other.pid for other in status.processes.values()]:
                total += sum(child.cpu_times()[:4])
    return total


if __name__ == "__main__":
    sys.exit(main())
