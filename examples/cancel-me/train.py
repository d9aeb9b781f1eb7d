"""A long pre-training run that somebody will cancel: k-means on a stream that has no end."""

from __future__ import annotations

import argparse
import datetime
import signal
import sys
import time
from types import FrameType

import numpy as np
import runtime


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", "--epochs", type=int, default=6_000)
    parser.add_argument("--clusters", type=int, default=32)
    parser.add_argument("--dim", type=int, default=16)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--checkpoint-every", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=900.0, help="time over which the steps are spread")
    return parser.parse_args()


class StopRequest:
    """Notes that somebody asked for an end, so that the step under way is finished first."""

    def __init__(self) -> None:
        self.name: str | None = None
        signal.signal(signal.SIGTERM, self)

    def __call__(self, signum: int, _: FrameType | None) -> None:
        self.name = signal.Signals(signum).name


def log(message: str) -> None:
    stamp = time.strftime("%Y-%m-%d %H:%M:%S")
    print(f"{stamp},{time.time_ns() // 1_000_000 % 1000:03d} | INFO | pretrain | {message}", flush=True)


def main() -> int:
    args = parse_args()
    stop = StopRequest()
    setup = np.random.default_rng(args.seed)
    truth = setup.normal(0, 2, (args.clusters, args.dim))
    centres, counts, start = setup.normal(0, 2, truth.shape), np.zeros(args.clusters), 0
    if stored := runtime.load_checkpoint():
        start, arrays = stored
        centres, counts = arrays["centres"], arrays["counts"]
        log(f"resuming from step {start}")
    runtime.declare_gpu_load(gpu_util_pct=97.0, memory_util_pct=74.0, memory_used_mib=21_000.0)

    pace, began_s = runtime.Pace(args.seconds, args.steps - start), time.monotonic()
    for step in range(start + 1, args.steps + 1):
        rng = np.random.default_rng((args.seed, step))
        x = truth[rng.integers(0, args.clusters, args.batch_size)] + rng.normal(0, 0.5, (args.batch_size, args.dim))
        distances = ((x[:, None] - centres) ** 2).sum(-1)
        nearest = distances.argmin(1)
        for cluster in np.unique(nearest):
            members = x[nearest == cluster]
            counts[cluster] += len(members)
            centres[cluster] += len(members) / counts[cluster] * (members.mean(0) - centres[cluster])
        pace.step()
        if step % 10 == 0:
            step_s = (time.monotonic() - began_s) / (step - start)
            left = datetime.timedelta(seconds=int(step_s * (args.steps - step)))
            progress = f"step {step}/{args.steps} | inertia {distances.min(1).mean():.4f}"
            log(f"{progress} | {step_s:.3f} s/step | eta {left}")
        if stop.name or step % args.checkpoint_every == 0 or step == args.steps:
            runtime.save_checkpoint(step, {"centres": centres, "counts": counts})
        if stop.name:
            log(f"{stop.name} received: saved step {step}, leaving")
            return 128 + signal.SIGTERM
    log("finished")
    return 0


if __name__ == "__main__":
    sys.exit(main())
