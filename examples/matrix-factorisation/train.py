"""A recommender: logistic matrix factorisation of implicit feedback, reporting JSON lines."""

from __future__ import annotations

import argparse
import json
import time

import numpy as np
import runtime


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--steps-per-epoch", type=int, default=40)
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--users", type=int, default=400)
    parser.add_argument("--items", type=int, default=300)
    parser.add_argument("--factors", type=int, default=16)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--l2", type=float, default=1e-4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=15.0, help="time over which the steps are spread")
    return parser.parse_args()


def feedback(
    rng: np.random.Generator, tastes: np.ndarray, traits: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Users, items and whether the user took the item."""
    users = rng.integers(0, len(tastes), count)
    items = rng.integers(0, len(traits), count)
    affinity = (tastes[users] * traits[items]).sum(1)
    return users, items, (rng.random(count) < 1 / (1 + np.exp(-affinity))).astype(float)


def train_step(
    model: runtime.Arrays, users: np.ndarray, items: np.ndarray, taken: np.ndarray, lr: float, l2: float
) -> float:
    """One update in place; returns the mean log loss."""
    p, q = model["users"][users], model["items"][items]
    score = (p * q).sum(1) + model["bias"][items]
    chance = 1 / (1 + np.exp(-np.clip(score, -30, 30)))
    error = (chance - taken)[:, None]
    np.add.at(model["users"], users, -lr * (error * q + l2 * p))
    np.add.at(model["items"], items, -lr * (error * p + l2 * q))
    np.add.at(model["bias"], items, -lr * error[:, 0])
    return float(-np.log(np.where(taken == 1, chance, 1 - chance) + 1e-9).mean())


def auc(model: runtime.Arrays, users: np.ndarray, items: np.ndarray, taken: np.ndarray) -> float:
    """Chance that a taken item is ranked above one that was not."""
    score = (model["users"][users] * model["items"][items]).sum(1) + model["bias"][items]
    ranks = score.argsort().argsort() + 1
    positives = taken == 1
    count, rest = positives.sum(), (~positives).sum()
    return float((ranks[positives].sum() - count * (count + 1) / 2) / (count * rest))


def report(**facts: object) -> None:
    print(json.dumps(facts), flush=True)


def main() -> None:
    args = parse_args()
    setup = np.random.default_rng(args.seed)
    tastes = setup.normal(0, 1.2, (args.users, 6))
    traits = setup.normal(0, 1.2, (args.items, 6))
    held_out = feedback(setup, tastes, traits, 4_000)
    model = {
        "users": setup.normal(0, 0.1, (args.users, args.factors)),
        "items": setup.normal(0, 0.1, (args.items, args.factors)),
        "bias": np.zeros(args.items),
    }
    start_epoch = 0
    if stored := runtime.load_checkpoint():
        step, model = stored
        start_epoch = step // args.steps_per_epoch
        report(event="resume", step=step, epoch=start_epoch)
    report(event="start", users=args.users, items=args.items, factors=args.factors, seed=args.seed)
    runtime.declare_gpu_load(gpu_util_pct=24.0, memory_util_pct=37.0, memory_used_mib=6_100.0)

    total = args.epochs * args.steps_per_epoch
    pace = runtime.Pace(args.seconds, total - start_epoch * args.steps_per_epoch)
    for epoch in range(start_epoch, args.epochs):
        started_s = time.monotonic()
        for index in range(args.steps_per_epoch):
            rng = np.random.default_rng((args.seed, epoch, index))
            loss = train_step(model, *feedback(rng, tastes, traits, args.batch_size), args.lr, args.l2)
            pace.step()
            if (index + 1) % 10 == 0:
                step = epoch * args.steps_per_epoch + index + 1
                rate = (index + 1) * args.batch_size / (time.monotonic() - started_s)
                facts = {"epoch": epoch, "step": step, "total_steps": total, "loss": round(loss, 5)}
                report(event="train", **facts, examples_per_s=round(rate, 1))
        report(event="eval", epoch=epoch, auc=round(auc(model, *held_out), 5))
        runtime.save_checkpoint((epoch + 1) * args.steps_per_epoch, model)
    report(event="done", auc=round(auc(model, *held_out), 5))


if __name__ == "__main__":
    main()
