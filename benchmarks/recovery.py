"""What the failure handler is worth in a replay: average JCT with it, against failures that wait for their user.

``python -m benchmarks.recovery [--jobs 6000] [--seeds 3] [--policy sjf] [--json]``

A generated trace (its failures are labelled, their causes are not: a quarter is drawn as infrastructure, as in the
paper). Answers of the handler are drawn from the confusion matrices that ``benchmarks/failures.py`` measured:
``known`` (every family known), ``left_out`` (each failure's own family taken away), beside an oracle. The paper
reports about 12.5 % less average JCT.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
from dataclasses import dataclass, replace

from lucid_pipelines import policies
from lucid_pipelines.failures.confusion import ConfusionMatrix, load_confusion
from lucid_pipelines.failures.vocabulary import Category
from lucid_pipelines.simulation import ReplayInput, ReplayOptions, replay
from lucid_pipelines.simulation.estimators import HistoryEstimator
from lucid_pipelines.simulation.record import Replay
from lucid_pipelines.simulation.recovery import (
    INFRASTRUCTURE,
    FailureAssumptions,
    RecoveryOutcome,
    Restarts,
    draw_failures,
    replay_with_failures,
)
from lucid_pipelines.traces import generate

CASES = {
    "user resumes after 1 h": FailureAssumptions(),
    "user resumes after 10 min": FailureAssumptions(reaction_s=600.0),
    "user resumes after 4 h": FailureAssumptions(reaction_s=14_400.0),
    "user begins again after 1 h": FailureAssumptions(users_have_checkpoints=False),
}


@dataclass(frozen=True, slots=True)
class Drawn:
    """Answers of the handler, drawn from a measured matrix."""

    matrix: ConfusionMatrix

    def __call__(self, true_class: str, rng: random.Random) -> bool:
        return self.matrix.draw(Category(true_class), rng).is_restarted


def oracle(true_class: str, rng: random.Random) -> bool:
    """Always right; draws once, as the others do."""
    rng.random()
    return true_class == INFRASTRUCTURE


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=6000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--load", type=float, default=0.7)
    parser.add_argument("--policy", default="sjf")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    handlers: dict[str, Restarts] = {
        "oracle": oracle,
        "known": Drawn(load_confusion("known")),
        "left_out": Drawn(load_confusion("left_out")),
    }
    for case, assumed in CASES.items():
        names = handlers if case == next(iter(CASES)) else {"left_out": handlers["left_out"]}
        for name in names:
            rows = [one(options, assumed, handlers[name], seed) for seed in range(options.seeds)]
            gains = [1.0 - with_it.jct_mean_s / without.jct_mean_s for without, with_it in rows]
            failed = [
                1.0 - with_it.failed_jct_mean_s / without.failed_jct_mean_s
                for without, with_it in rows
                if with_it.failed_jct_mean_s and without.failed_jct_mean_s
            ]
            row = {
                "case": case,
                "handler": name,
                "policy": options.policy,
                "jct_gain_frac": round(statistics.fmean(gains), 4),
                "sd": round(statistics.pstdev(gains), 4),
                "failed_jobs_jct_gain_frac": round(statistics.fmean(failed), 4),
                "gpu_h_more_frac": round(
                    statistics.fmean(with_it.gpu_h / without.gpu_h - 1.0 for without, with_it in rows), 4
                ),
                "unsettled_frac": round(max(max(a.unsettled_frac, b.unsettled_frac) for a, b in rows), 4),
                "seeds": options.seeds,
            }
            if options.json:
                print(json.dumps(row), flush=True)
            else:
                print(
                    f"{case}, {name}: average JCT {row['jct_gain_frac']:.1%} lower (sd {row['sd']:.1%}), "
                    f"of failed jobs {row['failed_jobs_jct_gain_frac']:.1%}; GPU-hours {row['gpu_h_more_frac']:+.1%}; "
                    f"{row['unsettled_frac']:.1%} unsettled",
                    flush=True,
                )
    return 0


def one(
    options: argparse.Namespace, assumed: FailureAssumptions, restarts: Restarts, seed: int
) -> tuple[RecoveryOutcome, RecoveryOutcome]:
    """Without and with the handler, on one trace with one set of draws."""
    trace = generate(seed, jobs=options.jobs, days=options.jobs / 1000.0, vcs=3, load_frac=options.load)
    jobs = list(trace.jobs)
    failures = draw_failures(jobs, assumed, restarts, seed)

    def run(given: ReplayInput) -> Replay:
        return replay(given, policies.get(options.policy), replace(ReplayOptions(), estimator=HistoryEstimator(())))

    assert trace.cluster is not None, "a generated trace comes with its cluster"
    results = [
        replay_with_failures(jobs, trace.cluster, run, failures, assumed, handled=handled) for handled in (False, True)
    ]
    return results[0], results[1]


if __name__ == "__main__":
    sys.exit(main())
