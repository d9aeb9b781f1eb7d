"""A quick look at one setting: a small network on two interleaved spirals."""

from __future__ import annotations

import argparse

import numpy as np
import runtime


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--hidden", type=int, default=16)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=3.0, help="time over which the epochs are spread")
    return parser.parse_args()


def spirals(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    labels = rng.integers(0, 2, count)
    turn = rng.uniform(0.3, 1.0, count) * 1.5 * np.pi
    angle = turn + labels * np.pi
    points = np.stack([turn * np.cos(angle), turn * np.sin(angle)], 1) / 3
    return points + rng.normal(0, 0.25, points.shape), labels.astype(float)


def main() -> None:
    args = parse_args()
    setup = np.random.default_rng(args.seed)
    x, y = spirals(setup, 512)
    model = {
        "in": setup.normal(0, 1.5, (2, args.hidden)),
        "in.bias": setup.normal(0, 0.5, args.hidden),
        "out": setup.normal(0, 0.3, args.hidden),
    }
    start = 0
    if stored := runtime.load_checkpoint():
        start, model = stored
        print(f"resuming at epoch {start}", flush=True)
    print(
        f"config: {{'lr': {args.lr}, 'hidden': {args.hidden}, 'seed': {args.seed}, 'epochs': {args.epochs}}}",
        flush=True,
    )
    runtime.declare_gpu_load(gpu_util_pct=9.0, memory_util_pct=4.0, memory_used_mib=700.0)

    pace = runtime.Pace(args.seconds, args.epochs - start)
    for epoch in range(start, args.epochs):
        for rows in np.array_split(np.random.default_rng((args.seed, epoch)).permutation(len(x)), 16):
            hidden = np.tanh(x[rows] @ model["in"] + model["in.bias"])
            chance = 1 / (1 + np.exp(-hidden @ model["out"]))
            error = (chance - y[rows]) / len(rows)
            grad_hidden = error[:, None] * model["out"] * (1 - hidden**2)
            model["out"] -= args.lr * 10 * hidden.T @ error
            model["in"] -= args.lr * 10 * x[rows].T @ grad_hidden
            model["in.bias"] -= args.lr * 10 * grad_hidden.sum(0)
        pace.step()
        if (epoch + 1) % 5 == 0 or epoch == args.epochs - 1:
            chance = 1 / (1 + np.exp(-np.tanh(x @ model["in"] + model["in.bias"]) @ model["out"]))
            loss = float(-np.log(np.where(y == 1, chance, 1 - chance) + 1e-9).mean())
            accuracy = float(((chance > 0.5) == (y == 1)).mean())
            print(f"{{'loss': {loss:.4f}, 'accuracy': {accuracy:.4f}, 'epoch': {epoch + 1}.0}}", flush=True)
    runtime.save_checkpoint(args.epochs, model)


if __name__ == "__main__":
    main()
