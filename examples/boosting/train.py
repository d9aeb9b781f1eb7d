"""Gradient boosting of shallow trees from scikit-learn on a synthetic table."""

from __future__ import annotations

import argparse

import numpy as np
import runtime
from sklearn.tree import DecisionTreeRegressor

FEATURES = 12


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", "--epochs", type=int, default=60)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--eta", type=float, default=0.2, help="learning rate")
    parser.add_argument("--subsample", type=float, default=0.7)
    parser.add_argument("--rows", type=int, default=2_000)
    parser.add_argument("--checkpoint-every", type=int, default=15)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=15.0, help="time over which the rounds are spread")
    return parser.parse_args()


def table(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    x = rng.normal(0, 1, (rows, FEATURES))
    score = 1.5 * x[:, 0] * x[:, 1] + np.sin(2 * x[:, 2]) + np.where(x[:, 3] > 0.5, 1.2, -0.6) + 0.4 * x[:, 4]
    return x, (rng.random(rows) < 1 / (1 + np.exp(-2 * score))).astype(float)


def log_loss(margin: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.logaddexp(0, np.where(wanted == 1, -margin, margin)).mean())


def error_rate(margin: np.ndarray, wanted: np.ndarray) -> float:
    return float(((margin > 0) != (wanted == 1)).mean())


def as_arrays(tree: DecisionTreeRegressor) -> np.ndarray:
    """A fitted tree as rows of (left, right, feature, threshold, value): five numbers a node."""
    inner = tree.tree_
    columns = (inner.children_left, inner.children_right, inner.feature, inner.threshold, inner.value[:, 0, 0])
    return np.stack([np.asarray(column, float) for column in columns], axis=1)


def predict(nodes: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The value of the leaf that each row of ``x`` falls into."""
    here = np.zeros(len(x), int)
    inputs = x.astype(np.float32)  # scikit-learn compares in this precision
    while (inside := nodes[here, 0] >= 0).any():
        goes_left = inputs[np.arange(len(x)), nodes[here, 2].astype(int)] <= nodes[here, 3]
        here = np.where(inside, np.where(goes_left, nodes[here, 0], nodes[here, 1]).astype(int), here)
    return nodes[here, 4]


def main() -> None:
    args = parse_args()
    setup = np.random.default_rng(args.seed)
    x, y = table(setup, args.rows)
    x_valid, y_valid = table(setup, args.rows // 2)
    trees: list[np.ndarray] = []
    if stored := runtime.load_checkpoint():
        done, arrays = stored
        trees = [arrays[f"tree{number}"] for number in range(done)]
        print(f"Continue training from round {done}", flush=True)
    margin, margin_valid = np.zeros(len(x)), np.zeros(len(x_valid))
    for nodes in trees:
        margin += args.eta * predict(nodes, x)
        margin_valid += args.eta * predict(nodes, x_valid)
    print(f"Training on {len(x)} rows of {FEATURES} features, validating on {len(x_valid)}", flush=True)
    runtime.declare_gpu_load(gpu_util_pct=12.0, memory_util_pct=8.0, memory_used_mib=1_100.0)

    pace = runtime.Pace(args.seconds, args.rounds - len(trees))
    for number in range(len(trees), args.rounds):
        rng = np.random.default_rng((args.seed, number))
        chosen = rng.random(len(x)) < args.subsample
        residual = y - 1 / (1 + np.exp(-margin))
        tree = DecisionTreeRegressor(max_depth=args.depth, min_samples_leaf=5, random_state=int(rng.integers(2**31)))
        tree.fit(x[chosen], 4 * residual[chosen])  # a Newton step with the largest curvature, 1/4
        nodes = as_arrays(tree)
        trees.append(nodes)
        margin += args.eta * predict(nodes, x)
        margin_valid += args.eta * predict(nodes, x_valid)
        pace.step()
        if number % 5 == 0 or number == args.rounds - 1:
            train = f"train-logloss:{log_loss(margin, y):.5f}\ttrain-error:{error_rate(margin, y):.5f}"
            valid = f"valid-logloss:{log_loss(margin_valid, y_valid):.5f}"
            valid += f"\tvalid-error:{error_rate(margin_valid, y_valid):.5f}"
            print(f"[{number}]\t{train}\t{valid}", flush=True)
        if (number + 1) % args.checkpoint_every == 0 or number == args.rounds - 1:
            runtime.save_checkpoint(number + 1, {f"tree{index}": nodes for index, nodes in enumerate(trees)})
    print(f"Stopped after {args.rounds} rounds", flush=True)


if __name__ == "__main__":
    main()
