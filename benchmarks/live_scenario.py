"""A busy session of the running control plane with real processes, and the same session in the simulator.

``python benchmarks/live_scenario.py [--scale 1.0] [--seed 3] [--json]``

Forty jobs on four declared nodes of four virtual GPUs, in about five minutes: short ones that end in the profiling
pool, a burst that borrows a node, pairs, and three jobs beside which others crawl, so that their pairs are split.
Virtual GPUs know no interference, so the jobs slow themselves down by who else is on their GPU, as far as a scripted
table says. The loop is the one of a scheduling window, one pass a second; Dagster is left out.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import fmean

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.ranges import Claim, report
from lucid_pipelines.client import Client
from lucid_pipelines.control.replaying import replay_day
from lucid_pipelines.control.scheduling import run_pass
from lucid_pipelines.domain.job import Attempt, Estimate, Job, JobSpec
from lucid_pipelines.domain.states import JobState
from lucid_pipelines.store import EventKind, PairVerdict
from tests.support_control.live_days import settings_of
from tests.support_control.scenario import NODES, SECTIONS, scenario, simulate, with_bad_neighbours
from tests.support_control.scripted import ScriptedJob
from tests.support_control.worlds import take_in_all

STEP_S = 0.1
PROGRAM = """\
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the board is tidied up
name, board = sys.argv[1], sys.argv[4]
work_s, step_s, shared, slow = (float(sys.argv[i]) for i in (2, 3, 5, 6))
bad = set(sys.argv[7].split(",")) - {""}
gpus = [os.environ["LUCID_NODE"] + "-" + i for i in os.environ["CUDA_VISIBLE_DEVICES"].split(",")]
mine = {f"{gpu}:{name}" for gpu in gpus}
for place in mine:
    open(os.path.join(board, place), "w").close()
try:
    total, done, begin = round(work_s / step_s), 0.0, time.time()
    last = begin
    for step in range(1, total + 1):
        while done < step * step_s:
            time.sleep(0.05)
            others = {p.split(":")[1] for p in os.listdir(board) if p.split(":")[0] in gpus and p not in mine}
            speed = 1.0
            for other in others:
                speed *= slow if other in bad else shared
            now = time.time()
            done += (now - last) * speed
            last = now
        print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} INFO step {step}/{total} loss={2 / (1 + step):.4f}", flush=True)
finally:
    for place in mine:
        os.unlink(os.path.join(board, place))
"""


def main() -> int:
    """Run the scenario; exit status 1 when a claim does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="All times are multiplied by it.")
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        claims = play(Path(folder), with_bad_neighbours(scenario(options.seed, options.scale)))
    return report(claims, as_json=options.json)


def play(folder: Path, jobs: list[ScriptedJob]) -> list[Claim]:
    """Run the jobs to their end and compare."""
    settings = settings_of(folder / "home", NODES, **SECTIONS)
    warm = settings.cluster.model_copy(update={"warmup_s": 1.0, "sample_interval_s": 1.0})
    settings = settings.model_copy(update={"cluster": warm})
    board = folder / "board"
    board.mkdir()
    with Client(settings=settings) as client:
        system, ids = client.system, {}
        begin, todo = time.monotonic(), sorted(jobs, key=lambda job: job.submit_s)
        while todo or not all(job.state.is_terminal for job in client.jobs(ids=list(ids.values()), limit=None)):
            began = time.monotonic()
            while todo and todo[0].submit_s <= began - begin:
                job = todo.pop(0)
                ids[job.name] = system.store.jobs.submit(_spec(job, board), system.clock.now())[0].job_id
            take_in_all(system)
            _estimate(client, jobs, ids)
            run_pass(system, "scenario")
            time.sleep(max(0.0, 1.0 - (time.monotonic() - began)))
        for _ in range(5):
            run_pass(system, "scenario")
            time.sleep(0.5)
        return _judge(client, jobs, ids)


def _spec(job: ScriptedJob, board: Path) -> JobSpec:
    bad = ",".join(name for name, speed in job.beside.items() if speed < job.shared)
    slow = min(job.beside.values(), default=job.shared)
    numbers = (str(job.work_s), str(STEP_S), str(board), str(job.shared), str(slow), bad)
    load = {"gpu_util_pct": job.util_pct, "memory_util_pct": job.memory_util_pct, "memory_used_mib": job.memory_mib}
    command = (sys.executable, "-S", "-E", "-c", PROGRAM, job.name, *numbers)
    return JobSpec(
        job.name, job.user, job.vc, job.gpus, command, declared_load=tuple(sorted(load.items())), grace_s=5.0
    )


def _estimate(client: Client, jobs: list[ScriptedJob], ids: dict[str, str]) -> None:
    """What a model would say of the jobs, from the script: the estimate is not what is compared here."""
    store, now = client.system.store, client.system.clock.now()
    work_s = {ids[job.name]: job.work_s for job in jobs if job.name in ids}
    for job in store.queue.view().waiting:
        if job.estimate is None or job.estimate.basis != "scripted":
            told = Estimate(work_s[job.job_id], "scripted")
            store.jobs.annotate(job.job_id, who="scenario", why="scripted", now=now, estimate=told)


def _judge(client: Client, jobs: list[ScriptedJob], ids: dict[str, str]) -> list[Claim]:
    store = client.system.store
    ended = {name: store.jobs.get(job_id) for name, job_id in ids.items()}
    attempts = {name: store.attempts.of_job(job_id) for name, job_id in ids.items()}
    pairs = store.pairs.find()
    simulated = simulate(jobs, client.settings, watch_s=20.0)
    live_s, simulated_s = fmean(_jct_s(job) for job in ended.values()), float(simulated.jct_s.mean())
    filtered = sum(len(found) == 1 and found[0].profiling for found in attempts.values())
    (recording,) = client.settings.decisions.iterdir()
    played = replay_day(recording)
    completed = sum(job.state is JobState.COMPLETED for job in ended.values())
    split = sum(pair.verdict is PairVerdict.SPLIT for pair in pairs)
    their_s = dict(zip([job.job_id for job in simulated.input.jobs], simulated.jct_s.tolist(), strict=True))
    apart = sorted((abs(_jct_s(job) - their_s[name]), name) for name, job in ended.items())
    why = (
        f"live {live_s:.1f} s, simulated {simulated_s:.1f} s; one job: median {apart[len(apart) // 2][0]:.1f} s apart, "
        f"at most {apart[-1][0]:.1f} s ({apart[-1][1]})"
    )
    starts_s, ends_s = _lags_s(client, attempts)
    lags = (
        f"placed to started {fmean(starts_s):.2f} s, ended to seen {fmean(ends_s):.2f} s; load {os.getloadavg()[0]:.1f}"
    )
    away, otherwise = len(store.loans.out()), played.decisions - played.same
    return [
        Claim("jobs completed", completed, at_least=40, at_most=40),
        Claim("jobs that ended in the profiling pool", filtered, at_least=8),
        Claim("pairs formed", len(pairs), at_least=3),
        Claim("pairs split", split, at_least=1),
        Claim("nodes lent and returned", len(store.loans.past()), at_least=1, why=f"{away} still out"),
        Claim("GPUs held by two that are no pair", _clashes(client, attempts), at_most=0),
        Claim("mean JCT: live over simulated", live_s / simulated_s, at_least=0.9, at_most=1.1, why=why),
        Claim("mean seconds of an attempt that only the real world takes", fmean(starts_s) + fmean(ends_s), why=lags),
        Claim("recorded decisions replayed otherwise", otherwise, at_most=0, samples=played.decisions),
    ]


def _jct_s(job: Job) -> float:
    assert job.ended_at is not None
    return (job.ended_at - job.submitted_at).total_seconds()


def _lags_s(client: Client, attempts: dict[str, list[Attempt]]) -> tuple[list[float], list[float]]:
    """Seconds from placement to start, and from the end of a process to its row, of every attempt."""
    starts_s, ends_s = [], []
    for attempt in (attempt for found in attempts.values() for attempt in found):
        if attempt.started_at is None or attempt.ended_at is None:
            continue
        starts_s.append((attempt.started_at - attempt.placed_at).total_seconds())
        told = client.system.store.events.of_job(attempt.job_id)
        ends = [event for event in told if event.kind is EventKind.ENDED]
        mine = [event.at for event in ends if (event.evidence or {}).get("attempt_id") == attempt.attempt_id]
        ends_s += [(at - attempt.ended_at).total_seconds() for at in mine]
    return starts_s, ends_s


def _clashes(client: Client, attempts: dict[str, list[Attempt]]) -> int:
    """Attempts that ran on one GPU at one time and were no pair."""
    together = {frozenset((p.first_attempt_id, p.later_attempt_id)) for p in client.system.store.pairs.find()}
    spans: dict[tuple[str, int], list[tuple[float, float, str]]] = {}
    for found in attempts.values():
        for attempt in found:
            if attempt.started_at is None or attempt.ended_at is None:
                continue
            span = (attempt.started_at.timestamp(), attempt.ended_at.timestamp(), attempt.attempt_id)
            for share in attempt.placement.shares:
                for index in share.gpu_indices:
                    spans.setdefault((share.node, index), []).append(span)
    clashes = 0
    for held in spans.values():
        held.sort()
        for number, (_, end, first) in enumerate(held):
            others = [span for span in held[number + 1 :] if span[0] < end - 0.1]
            clashes += sum(frozenset((first, other)) not in together for _, _, other in others)
    return clashes


if __name__ == "__main__":
    sys.exit(main())
