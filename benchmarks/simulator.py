"""How fast replays are, against a loop over every second and in absolute numbers.

``python benchmarks/simulator.py [--repeats 5] [--jobs 100000] [--data DIR] [--json]``

* Against ticks: the same 2,000 generated jobs under fifo and tiresias, by the replay and by a plain loop over every
  second as published simulators have it (written for this benchmark and lean: it keeps integers only and skips
  the seconds in which a virtual cluster is empty). Both run in this process, one after the other, several times.
* Large: ``--jobs`` generated jobs under fifo, scaled to a million; processor time and peak memory.
* Philly, with ``--data`` (the shared data folder): the whole published file under four policies in this process.

``benchmarks/agreement.py`` measures against the published simulator itself.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.ranges import Claim, mean_of, report
from lucid_pipelines import policies
from lucid_pipelines.domain.trace import ClusterSpec, TraceJob
from lucid_pipelines.simulation import ReplayInput, ReplayOptions, prepare, replay, run_replay
from lucid_pipelines.traces import LoadedTrace, generate, load

GPUS_PER_NODE = 8
ROUND_S = 60
THRESHOLD_GPU_S = 18_000
LARGE = 1_000_000


def main() -> int:
    """Run the benchmark; exit status 1 when a claim does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    claims = [against_ticks(name, options.repeats) for name in ("fifo", "tiresias") if options.repeats]
    if options.jobs:
        claims += large(options.jobs)
    if options.data is not None:
        claims += philly(options.data)
    return report(claims, as_json=options.json)


def against_ticks(name: str, repeats: int) -> Claim:
    """How many times faster the replay is than the loop over seconds, on one input and in one run."""
    given = _whole_seconds(2_000)
    ratios: list[float] = []
    for _ in range(repeats):
        begin = time.process_time()
        ticks = tick_fifo(given) if name == "fifo" else tick_tiresias(given)
        middle = time.process_time()
        replayed = replay(given, policies.get(name), ReplayOptions())
        ratios.append((middle - begin) / (time.process_time() - middle))
        mean_jct_s = sum(ticks[job.job_id] - job.submit_s for job in given.jobs) / len(given.jobs)
        if abs(replayed.jct_s.mean() / mean_jct_s - 1) > 0.01:
            raise SystemExit(f"{name}: the two disagree: {replayed.jct_s.mean()} and {mean_jct_s}")
    why = "the artifact's own loop is several times slower than this one"
    return mean_of(f"{name}: times faster than a loop over seconds", ratios, at_least=10.0, why=why)


def large(jobs: int) -> list[Claim]:
    """Processor time for a million jobs, scaled, and the peak memory of this process."""
    trace = generate(seed=1, jobs=jobs, days=30.0 * jobs / 25_000)
    given = prepare(trace.jobs, _cluster(trace))
    begin = time.process_time()
    replay(given, policies.get("fifo"), ReplayOptions())
    million_s = (time.process_time() - begin) * LARGE / len(given.jobs)
    peak_gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return [
        Claim("fifo: processor time per million jobs (s)", million_s, at_most=180.0, why="three minutes on one core"),
        Claim(f"peak memory after {jobs:,} jobs (GiB)", peak_gib, at_most=4.0, why="a laptop's share"),
    ]


def philly(data: Path) -> list[Claim]:
    """Processor time of the whole Philly file, policy by policy, in one process."""
    trace = load(data / "philly" / "philly_vc_to_2017-11-14.csv.gz")
    claims: list[Claim] = []
    for name in ("fifo", "sjf", "tiresias", "lucid"):
        begin = time.process_time()
        (replayed,) = run_replay(trace.jobs, _cluster(trace), [name]).replays
        used_s = time.process_time() - begin
        title = f"{name}: processor time for {len(replayed.input.jobs):,} jobs of Philly (s)"
        claims.append(Claim(title, used_s, at_most=60.0, why="a coffee for four policies"))
    peak_gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    claims.append(Claim("peak memory after four policies (GiB)", peak_gib, at_most=4.0, why="a laptop's share"))
    return claims


def _whole_seconds(jobs: int) -> ReplayInput:
    trace = generate(seed=3, jobs=jobs, days=8.0, vcs=3)
    rounded = [
        TraceJob(
            job.job_id, job.user, job.vc, job.name, job.gpus, float(round(job.submit_s)),
            float(max(round(job.duration_s), 1)),
        )
        for job in trace.jobs
    ]  # fmt: skip
    return prepare(rounded, _cluster(trace))


def _cluster(trace: LoadedTrace) -> ClusterSpec:
    if trace.cluster is None:
        raise SystemExit("a generated trace comes with its cluster")
    return trace.cluster


def tick_fifo(given: ReplayInput) -> dict[str, float]:
    """End of each job, second by second: ends, arrivals, then strict placement in order of submission."""
    ends: dict[str, float] = {}
    for jobs, nodes in _by_vc(given):
        free = list(nodes)
        waiting: list[TraceJob] = []
        running: list[tuple[int, TraceJob, list[tuple[int, int]]]] = []
        now, arrived = int(jobs[0].submit_s), 0
        while arrived < len(jobs) or waiting or running:
            if not waiting and not running:
                now = int(jobs[arrived].submit_s)
            for entry in [entry for entry in running if entry[0] == now]:
                running.remove(entry)
                _release(free, entry[2])
                ends[entry[1].job_id] = now
            while arrived < len(jobs) and jobs[arrived].submit_s == now:
                waiting.append(jobs[arrived])
                arrived += 1
            while waiting and (slots := _place(free, int(waiting[0].gpus))) is not None:
                job = waiting.pop(0)
                running.append((now + int(job.duration_s), job, slots))
            now += 1
    return ends


def tick_tiresias(given: ReplayInput) -> dict[str, float]:
    """As ``tick_fifo``, with two queues by attained service, decisions every minute and preemption."""
    ends: dict[str, float] = {}
    for jobs, nodes in _by_vc(given):
        free, total = list(nodes), sum(nodes)
        remaining = {job.job_id: int(job.duration_s) for job in jobs}
        attained = dict.fromkeys(remaining, 0)
        waiting: list[TraceJob] = []
        running: dict[str, tuple[TraceJob, list[tuple[int, int]]]] = {}
        now, arrived = int(jobs[0].submit_s), 0
        while arrived < len(jobs) or waiting or running:
            if not waiting and not running:
                now = int(jobs[arrived].submit_s)
            for job_id, (job, slots) in list(running.items()):
                if remaining[job_id] == 0:
                    del running[job_id]
                    _release(free, slots)
                    ends[job_id] = now
                else:
                    remaining[job_id] -= 1
                    attained[job_id] += int(job.gpus)
            while arrived < len(jobs) and jobs[arrived].submit_s == now:
                waiting.append(jobs[arrived])
                arrived += 1
            if now % ROUND_S == 0 and waiting:
                _tiresias_round(free, total, waiting, running, remaining, attained)
            now += 1
    return ends


def _tiresias_round(
    free: list[int],
    total: int,
    waiting: list[TraceJob],
    running: dict[str, tuple[TraceJob, list[tuple[int, int]]]],
    remaining: dict[str, int],
    attained: dict[str, int],
) -> None:
    everyone = [job for job, _ in running.values()] + waiting
    everyone.sort(key=lambda job: (attained[job.job_id] > THRESHOLD_GPU_S, job.submit_s))
    starts: list[TraceJob] = []
    stops: list[TraceJob] = []
    for job in everyone:
        gpus = int(job.gpus)
        if gpus <= total:
            total -= gpus
            if job.job_id not in running:
                starts.append(job)
        elif job.job_id in running:
            stops.append(job)
    for job in stops:
        _release(free, running.pop(job.job_id)[1])
        remaining[job.job_id] += 40 if job.gpus <= GPUS_PER_NODE else 60
        waiting.append(job)
    for job in starts:
        slots = _place(free, int(job.gpus))
        if slots is not None:
            waiting.remove(job)
            running[job.job_id] = (job, slots)


def _by_vc(given: ReplayInput) -> list[tuple[list[TraceJob], list[int]]]:
    vcs = dict.fromkeys(job.vc for job in given.jobs)
    return [
        ([job for job in given.jobs if job.vc == vc], [node.gpu_count for node in given.nodes if node.vc == vc])
        for vc in vcs
    ]


def _place(free: list[int], gpus: int) -> list[tuple[int, int]] | None:
    if sum(free) < gpus:
        return None
    size = GPUS_PER_NODE
    if gpus <= size:
        fitting = [(count, i) for i, count in enumerate(free) if count >= gpus]
        chosen = [(min(fitting)[1], gpus)] if fitting else None
    else:
        order = sorted(range(len(free)), key=lambda i: -free[i])
        whole, rest = divmod(gpus, size)
        chosen = None
        if len(order) >= whole + bool(rest) and all(free[i] == size for i in order[:whole]):
            chosen = [(i, size) for i in order[:whole]]
            if rest:
                chosen = [*chosen, (order[whole], rest)] if free[order[whole]] >= rest else None
    for i, count in chosen or ():
        free[i] -= count
    return chosen


def _release(free: list[int], slots: Sequence[tuple[int, int]]) -> None:
    for i, count in slots:
        free[i] += count


if __name__ == "__main__":
    sys.exit(main())
