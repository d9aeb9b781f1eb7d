"""A multi-layer perceptron in PyTorch on synthetic digits; says so and ends well where PyTorch is missing."""

from __future__ import annotations

import argparse
import sys

import numpy as np
import runtime

SIDE = 12
CLASSES = 10


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--samples", type=int, default=3_200)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--log-interval", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=15.0, help="time over which the steps are spread")
    return parser.parse_args()


def digits(rng: np.random.Generator, shapes: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Noisy pictures (count, 144) and labels (count,)."""
    labels = rng.integers(0, CLASSES, count)
    noise = rng.normal(0, 0.9, (count, SIDE * SIDE))
    return (shapes[labels] + noise).astype(np.float32), labels


def main() -> int:
    args = parse_args()
    try:
        import torch  # pyright: ignore[reportMissingImports] - optional
        from torch import nn  # pyright: ignore[reportMissingImports]
    except ImportError:
        print("PyTorch is not installed here, so there is nothing to train: pip install torch", flush=True)
        return 0

    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    setup = np.random.default_rng(args.seed)
    shapes = setup.normal(0, 0.5, (CLASSES, SIDE * SIDE))
    x, y = digits(setup, shapes, args.samples)
    x_test, y_test = map(torch.from_numpy, digits(setup, shapes, 500))
    net = nn.Sequential(nn.Linear(SIDE * SIDE, 64), nn.ReLU(), nn.Linear(64, CLASSES))
    start_epoch = 0
    if stored := runtime.load_checkpoint():
        start_epoch, arrays = stored
        net.load_state_dict({name: torch.from_numpy(value) for name, value in arrays.items()})
        print(f"Resumed from epoch {start_epoch}", flush=True)
    optimiser = torch.optim.SGD(net.parameters(), lr=args.lr)
    runtime.declare_gpu_load(gpu_util_pct=41.0, memory_util_pct=19.0, memory_used_mib=2_300.0)

    batches = (args.samples + args.batch_size - 1) // args.batch_size
    pace = runtime.Pace(args.seconds, (args.epochs - start_epoch) * batches)
    for epoch in range(start_epoch, args.epochs):
        order = np.random.default_rng((args.seed, epoch)).permutation(args.samples)
        for index, rows in enumerate(np.array_split(order, batches)):
            loss = nn.functional.cross_entropy(net(torch.from_numpy(x[rows])), torch.from_numpy(y[rows]))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            pace.step()
            if index % args.log_interval == 0:
                done = index * args.batch_size
                print(
                    f"Train Epoch: {epoch + 1} [{done}/{args.samples} ({100 * index / batches:.0f}%)]"
                    f"\tLoss: {loss.item():.6f}",
                    flush=True,
                )
        with torch.no_grad():
            scores = net(x_test)
            correct = int((scores.argmax(1) == y_test).sum())
            test_loss = nn.functional.cross_entropy(scores, y_test).item()
        print(
            f"\nTest set: Average loss: {test_loss:.4f}, "
            f"Accuracy: {correct}/{len(y_test)} ({100 * correct / len(y_test):.0f}%)\n",
            flush=True,
        )
        runtime.save_checkpoint(epoch + 1, {name: value.numpy() for name, value in net.state_dict().items()})
    return 0


if __name__ == "__main__":
    sys.exit(main())
