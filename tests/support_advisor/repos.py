"""Small repositories written for the advisor's tests."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from lucid_pipelines.advisor.description import ExtractionLimits, LaunchDescription
from lucid_pipelines.advisor.extract import extract_metadata
from lucid_pipelines.advisor.metadata import JobMetadata


def write(root: Path, files: Mapping[str, str]) -> Path:
    """Write files below ``root``; texts are dedented."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip("\n"), encoding="utf-8")
    return root


def read(
    root: Path,
    files: Mapping[str, str],
    command: str | Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    gpus: int | None = None,
    limits: ExtractionLimits | None = None,
) -> JobMetadata:
    """The metadata of a repository made of ``files`` that is started by ``command``."""
    words = command.split() if isinstance(command, str) else list(command)
    return extract_metadata(write(root, files), LaunchDescription(words, env or {}, gpus=gpus), limits)


TRAINING = textwrap.dedent("""
    import argparse
    import torch
    from torch.utils.data import DataLoader
    from torchvision import datasets, models

    def main():
        parser = argparse.ArgumentParser()
        parser.add_argument("--lr", type=float, default=0.1)
        parser.add_argument("--epochs", type=int, default=90)
        parser.add_argument("--batch-size", type=int, default=256)
        args = parser.parse_args()
        model = models.resnet50()
        loader = DataLoader(datasets.CIFAR10("data", train=True), batch_size=args.batch_size, shuffle=True)
        optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
        for epoch in range(args.epochs):
            for x, y in loader:
                loss = model(x).sum()
                loss.backward()
                optimizer.step()

    if __name__ == "__main__":
        main()
""").lstrip()
"""A plain training script: ResNet-50 on CIFAR-10, 90 epochs, batch 256, learning rate 0.1, SGD."""
