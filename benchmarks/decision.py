"""How long one decision pass takes with a long queue.

``python benchmarks/decision.py [--passes 400] [--repeats 1] [--json]``

One virtual cluster of 512 GPUs is full, and 2,048 (then 100,000) jobs wait. Before every pass one running job ends
and one job is submitted; measured is ``decide`` alone: following the change, ordering, pairing and placing.
Predictions are known (the first model call is not counted). Timed is the processor time of this process, pauses of
Python's collector included. With ``--repeats`` every repeat runs the very same passes, and of each pass the quickest
counts: what is left is what the pass costs, not what else the machine does.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.ranges import Claim, quantile, report
from lucid_pipelines import policies
from lucid_pipelines.domain.decision import Decision, Pack, Start, Stop
from lucid_pipelines.domain.job import Estimate, Profile
from lucid_pipelines.domain.trace import ClusterSpec, NodeGroup
from lucid_pipelines.domain.view import Forecast, QueuedJob, RunningJob
from lucid_pipelines.placement import ClusterState
from lucid_pipelines.policies import Policy

NODES = 64
BUSY = Forecast([0.0, 1e9], [1e6, 1e6], [1e6, 1e6])
"""Many submissions ahead: Lucid looks for partners in every pass."""

CASES: tuple[tuple[str, dict[str, object]], ...] = (
    ("fifo", {}),
    ("fifo", {"backfill": True, "max_overtakes": 1000}),
    ("qssf", {}),
    ("srtf", {}),
    ("tiresias", {"interval_s": 1.0}),
    ("lucid:no_profiler", {}),
    ("lucid:no_profiler", {"max_overtakes": 1000}),
)


def main() -> int:
    """Run the benchmark; exit status 1 when a claim does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passes", type=int, default=400)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    claims: list[Claim] = []
    for waiting, bound_ms, why in (
        (2_048, 1.0, "the paper's own stress test took 3 ms"),
        (100_000, 20.0, "a pass must not grow with the queue"),
    ):
        for name, settings in CASES:
            repeats = [measure(policies.get(name, **settings), waiting, options.passes) for _ in range(options.repeats)]
            times_ms = [min(times) for times in zip(*repeats, strict=True)]
            label = name + ("" if not settings else " " + ", ".join(f"{k}={v}" for k, v in settings.items()))
            median_ms, p99_ms = quantile(times_ms, 0.5), quantile(times_ms, 0.99)
            title = f"{label}, {waiting:,} waiting: pass p99 (ms; spread: p99 − median)"
            claims.append(Claim(title, p99_ms, bound_ms, None, p99_ms - median_ms, len(times_ms), why))
    return report(claims, as_json=options.json)


def measure(policy: Policy, waiting: int, passes: int) -> list[float]:
    """Processor time of each pass in milliseconds."""
    rng = random.Random(7)
    state = ClusterState(ClusterSpec({"a": (NodeGroup(NODES, 8, "X", 24_000.0),)}).nodes())
    number = 0
    for _ in range(waiting):
        number += 1
        state.enqueue(_job(rng, number))
    now_s = 1_000.0
    times_ms: list[float] = []
    for i in range(passes + 50):
        now_s += 1.0
        if i >= 50:
            running = list(state.view(now_s).vcs["a"].running)
            state.release(rng.choice(running))
        number += 1
        state.enqueue(_job(rng, number))
        view = state.view(now_s, forecast=BUSY, explain=False)
        begin = time.process_time()
        decisions = policy.decide(view)
        if i >= 50:
            times_ms.append(1_000 * (time.process_time() - begin))
        _apply(state, decisions, now_s)
    return times_ms


def _job(rng: random.Random, number: int) -> QueuedJob:
    gpus = rng.choice((1, 1, 1, 1, 2, 4, 8, 8, 16, 32))
    duration_s = rng.lognormvariate(7.0, 1.5)
    return QueuedJob(
        job_id=f"job-{number}",
        vc="a",
        gpus=gpus,
        submitted_s=float(number) / 1_000,
        sequence=number,
        user=f"user-{number % 50}",
        estimate=Estimate(duration_s * rng.uniform(0.5, 2.0), "benchmark"),
        profile=Profile(50.0, 20.0, rng.uniform(2_000.0, 20_000.0)),
        sharing_score=rng.choice((0, 1, 2)),
        true_remaining_s=duration_s,
    )


def _apply(state: ClusterState, decisions: list[Decision], now_s: float) -> None:
    for decision in decisions:
        if isinstance(decision, Stop):
            stopped = state.release(decision.job_id)
            state.enqueue(stopped.job._replace(attained_gpu_s=stopped.attained_gpu_s(now_s)))
        elif isinstance(decision, Start):
            state.place(decision.job_id, decision.placement, now_s)
        elif isinstance(decision, Pack):
            slots = state.layout("a").slots(decision.placement)
            running = RunningJob(state.queued(decision.job_id), decision.placement, slots, now_s, now_s)
            state.pack(running, decision.partner_job_id)


if __name__ == "__main__":
    sys.exit(main())
