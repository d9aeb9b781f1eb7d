"""Skip-gram word vectors with negative sampling on a synthetic corpus of topics."""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np
import runtime

WORDS_PER_TOPIC = 25


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--steps-per-epoch", type=int, default=100)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--topics", type=int, default=20)
    parser.add_argument("--dim", type=int, default=48)
    parser.add_argument("--negatives", type=int, default=5)
    parser.add_argument("--lr", type=float, default=0.03)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=20.0, help="time over which the steps are spread")
    return parser.parse_args()


def pairs(rng: np.random.Generator, topics: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Centre and context words that occur together because they share a topic; a tenth is noise."""
    topic = rng.integers(0, topics, count)
    centre = topic * WORDS_PER_TOPIC + rng.integers(0, WORDS_PER_TOPIC, count)
    context = topic * WORDS_PER_TOPIC + rng.integers(0, WORDS_PER_TOPIC, count)
    noise = rng.random(count) < 0.1
    context[noise] = rng.integers(0, topics * WORDS_PER_TOPIC, noise.sum())
    return centre, context


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-np.clip(x, -30, 30)))


def train_step(
    inner: np.ndarray, outer: np.ndarray, centre: np.ndarray, context: np.ndarray, negative: np.ndarray, lr: float
) -> float:
    """One update in place; returns the mean loss."""
    targets = np.concatenate([context[:, None], negative], axis=1)
    wanted = np.zeros(targets.shape)
    wanted[:, 0] = 1
    vectors, others = inner[centre], outer[targets]
    scores = sigmoid(np.einsum("bd,bkd->bk", vectors, others))
    error = scores - wanted
    np.add.at(inner, centre, -lr * np.einsum("bk,bkd->bd", error, others))
    np.add.at(outer, targets, -lr * error[:, :, None] * vectors[:, None, :])
    likelihood = np.where(wanted == 1, scores, 1 - scores)
    return float(-np.log(likelihood + 1e-9).sum(1).mean())


def topic_purity(inner: np.ndarray) -> float:
    """Share of words whose nearest neighbour belongs to the same topic."""
    unit = inner / (np.linalg.norm(inner, axis=1, keepdims=True) + 1e-9)
    similarity = unit @ unit.T
    np.fill_diagonal(similarity, -2)
    nearest = similarity.argmax(1)
    return float((nearest // WORDS_PER_TOPIC == np.arange(len(inner)) // WORDS_PER_TOPIC).mean())


def clock(seconds: float) -> str:
    return f"{int(seconds) // 60:02d}:{int(seconds) % 60:02d}"


def bar(epoch: int, epochs: int, done: int, total: int, elapsed_s: float, loss: float) -> None:
    """A progress bar on standard error that overwrites itself, as tqdm's does."""
    rate = done / elapsed_s if elapsed_s > 0 else 0.0
    left_s = (total - done) / rate if rate else 0.0
    filled = "█" * int(20 * done / total)
    sys.stderr.write(
        f"\rEpoch {epoch + 1}/{epochs}: {100 * done / total:3.0f}%|{filled:<20}| {done}/{total} "
        f"[{clock(elapsed_s)}<{clock(left_s)}, {rate:5.2f}it/s, loss={loss:.3f}]"
    )
    if done == total:
        sys.stderr.write("\n")
    sys.stderr.flush()


def main() -> None:
    args = parse_args()
    vocabulary = args.topics * WORDS_PER_TOPIC
    setup = np.random.default_rng(args.seed)
    inner = setup.normal(0, 0.1, (vocabulary, args.dim))
    outer = np.zeros((vocabulary, args.dim))
    start_epoch = 0
    if stored := runtime.load_checkpoint():
        step, arrays = stored
        inner, outer, start_epoch = arrays["inner"], arrays["outer"], step // args.steps_per_epoch
        print(f"Resuming from step {step} (epoch {start_epoch + 1})", flush=True)
    print(f"Vocabulary of {vocabulary} words, {args.dim} dimensions, {args.negatives} negatives", flush=True)
    runtime.declare_gpu_load(gpu_util_pct=31.0, memory_util_pct=22.0, memory_used_mib=1_900.0)

    pace = runtime.Pace(args.seconds, (args.epochs - start_epoch) * args.steps_per_epoch)
    for epoch in range(start_epoch, args.epochs):
        started_s, loss = time.monotonic(), float("nan")
        lr = args.lr * (1 - epoch / args.epochs)
        for index in range(args.steps_per_epoch):
            rng = np.random.default_rng((args.seed, epoch, index))
            centre, context = pairs(rng, args.topics, args.batch_size)
            negative = rng.integers(0, vocabulary, (args.batch_size, args.negatives))
            loss = train_step(inner, outer, centre, context, negative, lr)
            pace.step()
            bar(epoch, args.epochs, index + 1, args.steps_per_epoch, time.monotonic() - started_s, loss)
        print(f"epoch {epoch + 1}: loss {loss:.4f}, nearest neighbour in topic {topic_purity(inner):.1%}", flush=True)
        runtime.save_checkpoint((epoch + 1) * args.steps_per_epoch, {"inner": inner, "outer": outer})
    print(f"Saved word vectors of {vocabulary} words", flush=True)


if __name__ == "__main__":
    main()
