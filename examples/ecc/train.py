"""A mixer of patches for image classification; on its first attempt its GPU is made to fail.

Everything here trains for real but for one function, ``failing_kernel``, which stands in for broken hardware so
that the way from failure to recovery can be seen on any machine. ``--no-fault`` leaves it out.
"""

from __future__ import annotations

import argparse
import datetime
import os
import time

import numpy as np
import runtime

CLASSES = 8
PATCHES, PATCH_WIDTH = 16, 12


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--steps-per-epoch", type=int, default=30)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--hidden", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=15.0, help="time over which all steps are spread")
    parser.add_argument("--no-fault", action="store_true", help="never inject the hardware fault")
    return parser.parse_args()


def log(message: str) -> None:
    stamp = time.strftime("%Y/%m/%d %H:%M:%S")
    print(f"{stamp} - mixer - INFO - {message}", flush=True)


def batch(rng: np.random.Generator, prototypes: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Patches (count, 16, 12) and labels (count,)."""
    labels = rng.integers(0, CLASSES, count)
    return prototypes[labels] + rng.normal(0, 1.2, (count, PATCHES, PATCH_WIDTH)), labels


class Mixer:
    """Mix across patches, then across channels, pool, classify."""

    def __init__(self, rng: np.random.Generator, hidden: int) -> None:
        self.weights = {
            "patch": np.eye(PATCHES) + rng.normal(0, 0.05, (PATCHES, PATCHES)),
            "channel": rng.normal(0, 0.3, (PATCH_WIDTH, hidden)),
            "head": rng.normal(0, 0.1, (hidden, CLASSES)),
        }
        self.cache: tuple[np.ndarray, ...] = ()

    def forward(self, x: np.ndarray) -> np.ndarray:
        mixed = np.einsum("pq,bqc->bpc", self.weights["patch"], x)
        active = np.maximum(mixed @ self.weights["channel"], 0)
        pooled = active.mean(1)
        self.cache = (x, mixed, active, pooled)
        return pooled @ self.weights["head"]

    def backward(self, grad: np.ndarray) -> runtime.Arrays:
        x, mixed, active, pooled = self.cache
        inner = (grad @ self.weights["head"].T)[:, None, :] / PATCHES * (active > 0)
        return {
            "head": pooled.T @ grad,
            "channel": np.einsum("bpc,bph->ch", mixed, inner),
            "patch": np.einsum("bpc,bqc->pq", inner @ self.weights["channel"].T, x),
        }


def cross_entropy(logits: np.ndarray, labels: np.ndarray) -> tuple[float, np.ndarray]:
    chances = np.exp(logits - logits.max(1, keepdims=True))
    chances /= chances.sum(1, keepdims=True)
    rows = np.arange(len(labels))
    loss = float(-np.log(chances[rows, labels] + 1e-12).mean())
    chances[rows, labels] -= 1
    return loss, chances / len(labels)


def train_step(model: Mixer, x: np.ndarray, labels: np.ndarray, lr: float, broken: bool) -> float:
    loss, grad = cross_entropy(model.forward(x), labels)
    if broken:
        failing_kernel()
    for name, gradient in model.backward(grad).items():
        model.weights[name] -= lr * 10 * gradient
    return loss


# ============================== the injected fault: nothing above or below pretends ==============================
def failing_kernel() -> None:
    """Fail as PyTorch does when a memory cell of the GPU has flipped beyond repair."""
    print(
        "[W CUDAGuardImpl.h:115] Warning: CUDA warning: uncorrectable ECC error encountered (function destroyEvent)",
        flush=True,
    )
    raise RuntimeError(
        "CUDA error: uncorrectable ECC error encountered\n"
        "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be "
        "incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
        "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
    )


# =================================================================================================================


def main() -> None:
    args = parse_args()
    first_attempt = int(os.environ.get("LUCID_ATTEMPT_NUMBER") or 1) <= 1
    total = args.epochs * args.steps_per_epoch
    fails_at = int(total * 0.6) if first_attempt and not args.no_fault else None
    setup = np.random.default_rng(args.seed)
    prototypes = setup.normal(0, 0.6, (CLASSES, PATCHES, PATCH_WIDTH))
    held_out = batch(setup, prototypes, 400)
    model = Mixer(setup, args.hidden)
    start = 0
    if stored := runtime.load_checkpoint():
        start, model.weights = stored
        log(f"resumed from checkpoint, iter {start}")
    log(f"model has {sum(value.size for value in model.weights.values())} parameters, {total} iters in all")
    runtime.declare_gpu_load(gpu_util_pct=71.0, memory_util_pct=38.0, memory_used_mib=7_400.0)

    pace = runtime.Pace(args.seconds * (total - start) / total, total - start)
    for step in range(start, total):
        started_s = time.monotonic()
        rng = np.random.default_rng((args.seed, step))
        x, labels = batch(rng, prototypes, args.batch_size)
        data_s = time.monotonic() - started_s
        loss = train_step(model, x, labels, args.lr, broken=step == fails_at)
        pace.step()
        done, step_s = step + 1, time.monotonic() - started_s
        if done % 10 == 0:
            eta = datetime.timedelta(seconds=int(step_s * (total - done)))
            log(
                f"Iter(train) [{done:4d}/{total}]  lr: {args.lr:.4e}  eta: {eta}  time: {step_s:.4f}  "
                f"data_time: {data_s:.4f}  memory: 7400  loss: {loss:.4f}"
            )
        if done % args.steps_per_epoch == 0:
            accuracy = (model.forward(held_out[0]).argmax(1) == held_out[1]).mean()
            log(f"Iter(val) [1/1]  accuracy/top1: {accuracy * 100:.4f}")
            runtime.save_checkpoint(done, model.weights)
            log(f"Saving checkpoint at {done} iterations")
    log("Done")


if __name__ == "__main__":
    main()
