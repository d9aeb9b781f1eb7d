"""An auto-encoder whose evaluation was never tried: it crashes after the first epochs, as real code does."""

from __future__ import annotations

import argparse

import numpy as np
import runtime


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--steps-per-epoch", type=int, default=25)
    parser.add_argument("--evaluate-every", type=int, default=3)
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--code", type=int, default=8)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=12.0, help="time over which all steps would be spread")
    return parser.parse_args()


class AutoEncoder:
    """Two linear layers: features -> code -> features."""

    def __init__(self, rng: np.random.Generator, features: int, code: int) -> None:
        self.encoder = rng.normal(0, 0.2, (features, code))
        self.decoder = rng.normal(0, 0.2, (code, features))

    def forward(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        hidden = x @ self.encoder
        return hidden, hidden @ self.decoder

    def train_step(self, x: np.ndarray, lr: float) -> float:
        hidden, restored = self.forward(x)
        error = restored - x
        grad_decoder = hidden.T @ error / len(x)
        grad_encoder = x.T @ (error @ self.decoder.T) / len(x)
        self.decoder -= lr * grad_decoder
        self.encoder -= lr * grad_encoder
        return float((error**2).mean())


def load_split(rng: np.random.Generator, basis: np.ndarray, split: str) -> np.ndarray:
    """Rows of correlated features. The validation file keeps a label in its last column, which nobody removes."""
    rows = rng.normal(0, 1, (200, len(basis))) @ basis + rng.normal(0, 0.1, (200, basis.shape[1]))
    if split == "validation":
        rows = np.concatenate([rows, rng.integers(0, 2, (200, 1))], axis=1)
    return rows


def evaluate(model: AutoEncoder, data: np.ndarray) -> float:
    total = 0.0
    for rows in np.array_split(data, 4):
        _, restored = model.forward(rows)
        total += float(((restored - rows) ** 2).mean())
    return total / 4


def main() -> None:
    args = parse_args()
    setup = np.random.default_rng(args.seed)
    basis = setup.normal(0, 0.4, (args.code, args.features))
    train = load_split(setup, basis, "train")
    validation = load_split(setup, basis, "validation")
    model = AutoEncoder(setup, args.features, args.code)
    start_epoch = 0
    if stored := runtime.load_checkpoint():
        step, arrays = stored
        model.encoder, model.decoder = arrays["encoder"], arrays["decoder"]
        start_epoch = step // args.steps_per_epoch
        print(f"INFO: restored weights of step {step}", flush=True)
    print(f"INFO: {len(train)} training rows, {len(validation)} validation rows", flush=True)
    runtime.declare_gpu_load(gpu_util_pct=35.0, memory_util_pct=15.0, memory_used_mib=2_600.0)

    pace = runtime.Pace(args.seconds, (args.epochs - start_epoch) * args.steps_per_epoch)
    for epoch in range(start_epoch, args.epochs):
        for index in range(args.steps_per_epoch):
            rng = np.random.default_rng((args.seed, epoch, index))
            loss = model.train_step(train[rng.integers(0, len(train), 32)], args.lr)
            pace.step()
            if (index + 1) % 5 == 0:
                print(
                    f"INFO: epoch {epoch + 1}/{args.epochs} step {index + 1}/{args.steps_per_epoch} mse={loss:.5f}",
                    flush=True,
                )
        runtime.save_checkpoint(
            (epoch + 1) * args.steps_per_epoch, {"encoder": model.encoder, "decoder": model.decoder}
        )
        if (epoch + 1) % args.evaluate_every == 0:
            print(f"INFO: validation mse={evaluate(model, validation):.5f}", flush=True)


if __name__ == "__main__":
    main()
