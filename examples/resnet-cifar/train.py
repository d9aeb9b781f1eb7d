"""A small residual network on synthetic 16 x 16 images, in numpy with hand-written gradients."""

from __future__ import annotations

import argparse
import time

import numpy as np
import runtime
from numpy.lib.stride_tricks import sliding_window_view

CLASSES = 10
SIDE = 16


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--steps-per-epoch", type=int, default=30)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--width", type=int, default=8, help="channels")
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=20.0, help="time over which the steps are spread")
    return parser.parse_args()


def patterns(rng: np.random.Generator) -> np.ndarray:
    """One picture for each class: a tint and coarse patches."""
    tint = rng.normal(0, 0.5, (CLASSES, 3, 1, 1))
    patches = np.kron(rng.normal(0, 0.6, (CLASSES, 3, 4, 4)), np.ones((1, 1, SIDE // 4, SIDE // 4)))
    return (tint + patches).astype(np.float32)


def images(rng: np.random.Generator, templates: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Noisy copies of the class templates: (count, 3, 16, 16) and labels (count,)."""
    labels = rng.integers(0, CLASSES, count)
    return templates[labels] + rng.normal(0, 0.8, (count, 3, SIDE, SIDE)).astype(np.float32), labels


def init(rng: np.random.Generator, width: int) -> runtime.Arrays:
    def kernel(out_channels: int, in_channels: int) -> np.ndarray:
        scale = np.sqrt(2 / (9 * in_channels))
        return rng.normal(0, scale, (out_channels, in_channels, 3, 3)).astype(np.float32)

    return {
        "stem": kernel(width, 3),
        "conv1": kernel(width, width),
        "conv2": kernel(width, width) * 0.5,
        "head": rng.normal(0, 0.1, (width, CLASSES)).astype(np.float32),
        "bias": np.zeros(CLASSES, np.float32),
    }


def windows(x: np.ndarray) -> np.ndarray:
    """(n, c, h, w) padded by one -> (n, h, w, c * 9)."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    view = sliding_window_view(padded, (3, 3), axis=(2, 3))
    n, _, h, w = x.shape
    return view.transpose(0, 2, 3, 1, 4, 5).reshape(n, h, w, -1)


def conv(x: np.ndarray, kernel: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Same-size 3 x 3 convolution; also returns what the backward pass needs."""
    unrolled = windows(x)
    return (unrolled @ kernel.reshape(len(kernel), -1).T).transpose(0, 3, 1, 2), unrolled


def conv_backward(grad: np.ndarray, unrolled: np.ndarray, kernel: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    flat = grad.transpose(0, 2, 3, 1).reshape(-1, len(kernel))
    kernel_grad = (flat.T @ unrolled.reshape(len(flat), -1)).reshape(kernel.shape)
    input_grad, _ = conv(grad, kernel[:, :, ::-1, ::-1].transpose(1, 0, 2, 3))
    return input_grad, kernel_grad


def forward(model: runtime.Arrays, x: np.ndarray) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    stem, u0 = conv(x, model["stem"])
    a0 = np.maximum(stem, 0)
    c1, u1 = conv(a0, model["conv1"])
    a1 = np.maximum(c1, 0)
    c2, u2 = conv(a1, model["conv2"])
    out = np.maximum(c2 + a0, 0)
    pooled = out.mean((2, 3))
    return pooled @ model["head"] + model["bias"], (u0, a0, u1, a1, u2, out, pooled)


def loss_and_gradients(
    model: runtime.Arrays, x: np.ndarray, labels: np.ndarray
) -> tuple[float, runtime.Arrays, np.ndarray]:
    logits, (u0, a0, u1, a1, u2, out, pooled) = forward(model, x)
    shifted = np.exp(logits - logits.max(1, keepdims=True))
    probabilities = shifted / shifted.sum(1, keepdims=True)
    rows = np.arange(len(labels))
    loss = float(-np.log(probabilities[rows, labels] + 1e-12).mean())
    grad = probabilities.copy()
    grad[rows, labels] -= 1
    grad /= len(labels)
    gradients = {"head": pooled.T @ grad, "bias": grad.sum(0)}
    grad = np.broadcast_to((grad @ model["head"].T / SIDE**2)[:, :, None, None], out.shape) * (out > 0)
    inner, gradients["conv2"] = conv_backward(grad, u2, model["conv2"])
    inner, gradients["conv1"] = conv_backward(inner * (a1 > 0), u1, model["conv1"])
    _, gradients["stem"] = conv_backward((grad + inner) * (a0 > 0), u0, model["stem"])
    return loss, gradients, logits


def accuracy(logits: np.ndarray, labels: np.ndarray, top: int) -> float:
    best = np.argsort(-logits, axis=1)[:, :top]
    return float((best == labels[:, None]).any(1).mean() * 100)


class Meter:
    """Current value and average, printed as ``name value (average)``."""

    def __init__(self, name: str, form: str) -> None:
        self.name, self.form = name, form
        self.value = self.total = 0.0
        self.count = 0

    def update(self, value: float) -> None:
        self.value = value
        self.total += value
        self.count += 1

    def __str__(self) -> str:
        return f"{self.name} {self.value:{self.form}} ({self.total / max(self.count, 1):{self.form}})"


def main() -> None:
    args = parse_args()
    setup = np.random.default_rng(args.seed)
    templates = patterns(setup)
    validation = images(setup, templates, 256)
    model = init(setup, args.width)
    velocity = {name: np.zeros_like(value) for name, value in model.items()}
    start_epoch = 0
    print(f"=> creating model 'resnet-{args.width}' with {sum(v.size for v in model.values()):,} parameters")
    if stored := runtime.load_checkpoint():
        step, arrays = stored
        model = {name: arrays[name] for name in model}
        velocity = {name: arrays[f"velocity.{name}"] for name in model}
        start_epoch = step // args.steps_per_epoch
        print(f"=> loaded checkpoint of step {step} (epoch {start_epoch})")
    runtime.declare_gpu_load(gpu_util_pct=88.0, memory_util_pct=46.0, memory_used_mib=9_200.0)

    pace = runtime.Pace(args.seconds, (args.epochs - start_epoch) * args.steps_per_epoch)
    for epoch in range(start_epoch, args.epochs):
        lr = args.lr * 0.5 * (1 + np.cos(np.pi * epoch / args.epochs))
        forms = {"Time": "6.3f", "Data": "6.3f", "Loss": ".4e", "Acc@1": "6.2f", "Acc@5": "6.2f"}
        meters = [Meter(name, form) for name, form in forms.items()]
        for index in range(args.steps_per_epoch):
            started_s = time.monotonic()
            rng = np.random.default_rng((args.seed, epoch, index))
            x, labels = images(rng, templates, args.batch_size)
            data_s = time.monotonic() - started_s
            loss, gradients, logits = loss_and_gradients(model, x, labels)
            for name, gradient in gradients.items():
                velocity[name] = args.momentum * velocity[name] + gradient + 1e-4 * model[name]
                model[name] = (model[name] - lr * velocity[name]).astype(np.float32)
            pace.step()
            values = (
                time.monotonic() - started_s,
                data_s,
                loss,
                accuracy(logits, labels, 1),
                accuracy(logits, labels, 5),
            )
            for meter, value in zip(meters, values, strict=True):
                meter.update(value)
            if index % 10 == 0 or index == args.steps_per_epoch - 1:
                line = "\t".join(map(str, meters))
                print(f"Epoch: [{epoch}][{index:3d}/{args.steps_per_epoch}]\t{line}", flush=True)
        logits, _ = forward(model, validation[0])
        print(f" *   Acc@1 {accuracy(logits, validation[1], 1):.3f} Acc@5 {accuracy(logits, validation[1], 5):.3f}")
        moments = {f"velocity.{name}": value for name, value in velocity.items()}
        runtime.save_checkpoint((epoch + 1) * args.steps_per_epoch, model | moments)
    print("=> finished", flush=True)


if __name__ == "__main__":
    main()
