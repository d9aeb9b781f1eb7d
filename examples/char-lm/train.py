"""A character language model: a tiny transformer in numpy, trained on generated sentences."""

from __future__ import annotations

import argparse
import time

import model as transformer
import numpy as np
import runtime

SUBJECTS = ("the scheduler", "a node", "the queue", "every job", "the old gpu", "a small model")
VERBS = ("waits for", "runs beside", "learns from", "moves to", "forgets", "watches")
OBJECTS = ("the next window", "its own log", "a quiet partner", "the last checkpoint", "an empty rack", "noise")


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--max-iters", "--epochs", type=int, default=240, help="training iterations")
    parser.add_argument("--batch-size", type=int, default=12)
    parser.add_argument("--block-size", type=int, default=32, help="characters of context")
    parser.add_argument("--n-embd", type=int, default=32)
    parser.add_argument("--n-head", type=int, default=2)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--eval-interval", type=int, default=60)
    parser.add_argument("--log-interval", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=25.0, help="time over which the iterations are spread")
    return parser.parse_args()


def corpus(rng: np.random.Generator, sentences: int) -> str:
    def pick(words: tuple[str, ...]) -> str:
        return words[rng.integers(len(words))]

    return "".join(f"{pick(SUBJECTS)} {pick(VERBS)} {pick(OBJECTS)}.\n" for _ in range(sentences))


def batch(rng: np.random.Generator, data: np.ndarray, args: argparse.Namespace) -> tuple[np.ndarray, np.ndarray]:
    starts = rng.integers(0, len(data) - args.block_size - 1, args.batch_size)
    rows = starts[:, None] + np.arange(args.block_size)
    return data[rows], data[rows + 1]


class Adam:
    """Adaptive moments, with its state in plain arrays so that it can be stored."""

    def __init__(self, weights: runtime.Arrays) -> None:
        self.first = {name: np.zeros_like(value) for name, value in weights.items()}
        self.second = {name: np.zeros_like(value) for name, value in weights.items()}

    def update(self, weights: runtime.Arrays, gradients: runtime.Arrays, step: int, lr: float) -> None:
        norm = np.sqrt(sum(float((g**2).sum()) for g in gradients.values()))
        clip = min(1.0, 1.0 / (norm + 1e-9))
        for name, gradient in gradients.items():
            gradient = gradient * clip
            self.first[name] = 0.9 * self.first[name] + 0.1 * gradient
            self.second[name] = 0.98 * self.second[name] + 0.02 * gradient**2
            mean = self.first[name] / (1 - 0.9**step)
            spread = self.second[name] / (1 - 0.98**step)
            weights[name] -= (lr * mean / (np.sqrt(spread) + 1e-8)).astype(np.float32)


def estimate_loss(weights: runtime.Arrays, data: np.ndarray, args: argparse.Namespace) -> float:
    rng = np.random.default_rng((args.seed, 10**9))
    losses = [transformer.loss_and_gradients(weights, *batch(rng, data, args), args.n_head)[0] for _ in range(4)]
    return float(np.mean(losses))


def report(
    step: int, weights: runtime.Arrays, train: np.ndarray, validation: np.ndarray, args: argparse.Namespace
) -> None:
    losses = estimate_loss(weights, train, args), estimate_loss(weights, validation, args)
    print(f"step {step}: train loss {losses[0]:.4f}, val loss {losses[1]:.4f}", flush=True)


def checkpoint(step: int, weights: runtime.Arrays, adam: Adam) -> None:
    first = {f"first.{name}": value for name, value in adam.first.items()}
    second = {f"second.{name}": value for name, value in adam.second.items()}
    folder = runtime.save_checkpoint(step, weights | first | second)
    print(f"saving checkpoint to {folder.name}", flush=True)


def main() -> None:
    args = parse_args()
    setup = np.random.default_rng(args.seed)
    text = corpus(setup, 2_000)
    letters = sorted(set(text))
    data = np.array([letters.index(letter) for letter in text])
    train, validation = data[: int(0.9 * len(data))], data[int(0.9 * len(data)) :]
    weights = transformer.init(setup, len(letters), args.block_size, args.n_embd)
    adam = Adam(weights)
    start = 0
    tokens_per_iter = args.batch_size * args.block_size
    print(f"tokens per iteration will be: {tokens_per_iter:,}")
    print(f"number of parameters: {sum(value.size for value in weights.values()) / 1e3:.2f}K")
    if stored := runtime.load_checkpoint():
        start, arrays = stored
        weights = {name: arrays[name] for name in weights}
        adam.first = {name: arrays[f"first.{name}"] for name in weights}
        adam.second = {name: arrays[f"second.{name}"] for name in weights}
        print(f"Resuming training from step {start}", flush=True)
    runtime.declare_gpu_load(gpu_util_pct=93.0, memory_util_pct=61.0, memory_used_mib=17_800.0)

    pace = runtime.Pace(args.seconds, args.max_iters - start)
    for step in range(start, args.max_iters):
        if step % args.eval_interval == 0:
            report(step, weights, train, validation, args)
            if step > start:
                checkpoint(step, weights, adam)
        started_s = time.monotonic()
        rng = np.random.default_rng((args.seed, step))
        loss, gradients = transformer.loss_and_gradients(weights, *batch(rng, train, args), args.n_head)
        adam.update(weights, gradients, step + 1, args.lr)
        pace.step()
        if step % args.log_interval == 0:
            elapsed_ms = (time.monotonic() - started_s) * 1000
            print(f"iter {step}: loss {loss:.4f}, time {elapsed_ms:.2f}ms", flush=True)
    report(args.max_iters, weights, train, validation, args)
    checkpoint(args.max_iters, weights, adam)


if __name__ == "__main__":
    main()
