"""What a job's fingerprint says, and how alike the hash embedder finds two of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lucid_pipelines.advisor.description import LaunchDescription
from lucid_pipelines.advisor.extract import extract_metadata
from lucid_pipelines.advisor.fingerprint import (
    FIELD_WEIGHTS,
    Fingerprint,
    Surroundings,
    canonical_name,
    fingerprint,
    fingerprint_of,
)
from lucid_pipelines.advisor.metadata import FieldName, Scalar
from lucid_pipelines.domain.similarity import gpu_count_class, gpu_family
from lucid_pipelines.resources.embedders.hashing import HashEmbedder
from tests.support_advisor.repos import write

EMBEDDER = HashEmbedder()
T_SCORE = HashEmbedder.default_threshold
FACTS: dict[FieldName, Scalar] = {
    FieldName.MODEL: "ResNet-50",
    FieldName.MODEL_TYPE: "cnn",
    FieldName.DATASET: "ImageNet-1k",
    FieldName.TASK_TYPE: "image classification",
    FieldName.ITERATIONS: 90,
    FieldName.ITERATION_TYPE: "epochs",
    FieldName.BATCH_SIZE: 256,
    FieldName.LEARNING_RATE: 0.1,
    FieldName.OPTIMIZER: "SGD",
    FieldName.PRECISION: "fp16",
    FieldName.FRAMEWORK: "pytorch",
}
PLACE = Surroundings("NVIDIA A100-SXM4-80GB", 8, {"torch": "2.4.1+cu124", "cuda": "12.4"}, (1_281_167, "samples"))


def changed(**facts: Scalar) -> Fingerprint:
    return fingerprint_of({**FACTS, **{FieldName(name): value for name, value in facts.items()}}, PLACE)


def alike(one: Fingerprint, other: Fingerprint) -> float:
    first, second = EMBEDDER.embed([one.text, other.text])
    return float(np.dot(first, second))


def test_the_text_says_what_moves_a_run_time() -> None:
    assert fingerprint_of(FACTS, PLACE).text.splitlines() == [
        "batch size: 256",
        "cuda: 12.4",
        "data scale: 1.28117e+06 samples",
        "dataset: imagenet1k",
        "framework: pytorch 2.4",
        "gpu type: a100",
        "gpus: 8",
        "iterations: 90 epochs",
        "learning rate: 0.1",
        "model: resnet50",
        "model family: resnet cnn",
        "optimizer: sgd",
        "precision: fp16",
        "task: image classification",
    ]


def test_hard_filters_come_with_it() -> None:
    where = fingerprint_of(FACTS, PLACE).hard_filter
    assert (where.task_type, where.gpu_family, where.gpu_count_class) == ("image classification", "a100", 8)


def test_little_is_not_telling() -> None:
    assert fingerprint_of(FACTS, PLACE).is_telling
    assert not fingerprint_of({FieldName.FRAMEWORK: "pytorch", FieldName.OPTIMIZER: "SGD"}, PLACE).is_telling
    assert not fingerprint_of({}).is_telling
    assert fingerprint_of({}).text == ""


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ResNet-50", "resnet50"),
        ("resnet_50", "ResNet 50"),
        ("meta-llama/Llama-3-8B", "Llama_3-8b"),
        ("google/vit-base-patch16-224", "vit_base_patch16_224"),
        ("/models/gpt2/", "GPT-2"),
    ],
)
def test_one_model_has_one_spelling(one: str, other: str) -> None:
    assert canonical_name(one) == canonical_name(other)


@pytest.mark.parametrize(
    "facts",
    [
        {"learning_rate": 0.4},
        {"optimizer": "LARS"},
        {"precision": "bf16"},
        {"batch_size": 512},
        {"iterations": 100},
        {"grad_accumulation": 2},
    ],
    ids=str,
)
def test_a_job_with_another_setting_is_still_a_match(facts: dict[str, Scalar]) -> None:
    assert alike(changed(), changed(**facts)) >= T_SCORE


@pytest.mark.parametrize(
    "facts",
    [
        {"model": "VGG-16"},
        {"model": "ResNet-101"},
        {"model": "ViT-B/16", "model_type": "transformer"},
        {"dataset": "CIFAR-10"},
        {"iterations": 900},
        {"iterations": 5},
        {"iteration_type": "steps"},
    ],
    ids=str,
)
def test_another_model_dataset_or_length_is_no_match(facts: dict[str, Scalar]) -> None:
    assert alike(changed(), changed(**facts)) < T_SCORE


def test_sizes_of_one_family_are_told_apart() -> None:
    small, large = changed(model="meta-llama/Llama-3-8B"), changed(model="meta-llama/Llama-3-70B")
    assert alike(small, large) < T_SCORE


@given(st.floats(1, 1e6), st.floats(1.02, 50), st.floats(1.02, 50))
def test_numbers_that_lie_further_apart_are_less_alike(value: float, near: float, far: float) -> None:
    """Up to the grid of the scale (half a bin), and to chance where two numbers have nothing in common any more:
    what the vectors then still share are collisions of hashed features, of either sign."""
    near, far = sorted((near, far))
    if far < near * 1.6:
        return
    base = changed(iterations=value)
    chance = 0.03 if near < 2.5 else 0.07  # of 3,680 random pairs the most by chance was 0.058, none of it below 2.5
    assert alike(base, changed(iterations=value * near)) >= alike(base, changed(iterations=value * far)) - chance


@settings(max_examples=60)
@given(st.lists(st.text(max_size=40), max_size=8))
def test_every_text_has_a_unit_vector(lines: list[str]) -> None:
    vector = np.asarray(EMBEDDER.embed(["\n".join(lines)])[0])
    assert vector.shape == (1024,)
    assert vector.dtype == np.float32
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)


@given(st.permutations(sorted(FIELD_WEIGHTS)))
def test_the_order_of_lines_does_not_matter(names: list[str]) -> None:
    texts = ["\n".join(f"{name}: {len(name)} x" for name in order) for order in (names, sorted(names))]
    one, other = EMBEDDER.embed(texts)
    assert float(np.dot(one, other)) == pytest.approx(1, abs=1e-5)


def test_another_process_finds_the_same_vector() -> None:
    """Hashes of Python's own kind differ from process to process; stored vectors must not."""
    program = (
        "import sys; from lucid_pipelines.resources.embedders.hashing import HashEmbedder;"
        "print(HashEmbedder(64).embed([sys.argv[1]])[0].tobytes().hex())"
    )
    done = subprocess.run([sys.executable, "-c", program, changed().text], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == np.asarray(HashEmbedder(64).embed([changed().text])[0]).tobytes().hex()


TRAIN = """
import argparse, torch, torchvision
parser = argparse.ArgumentParser()
parser.add_argument("--name", default="NAME")
parser.add_argument("--out", default="/scratch/NAME/out")
parser.add_argument("--epochs", type=int, default=90)
parser.add_argument("--batch-size", type=int, default=256)
parser.add_argument("--lr", type=float, default=0.1)
args = parser.parse_args()
model = torchvision.models.MODEL()
data = torchvision.datasets.ImageNet("/data/NAME/imagenet")
loader = torch.utils.data.DataLoader(data, batch_size=args.batch_size)
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
for epoch in range(args.epochs):
    for x, y in loader:
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward(); optimizer.step()
"""


def _read(folder: Path, name: str, model: str) -> Fingerprint:
    root = write(folder / name, {"train.py": TRAIN.replace("NAME", name).replace("MODEL", model)})
    command = ["python", "train.py", "--name", name, "--out", f"/home/{name}"]
    return fingerprint(extract_metadata(root, LaunchDescription(command)), PLACE)


def test_a_renamed_copy_is_the_same_job_and_the_same_name_with_another_model_is_not(tmp_path: Path) -> None:
    mine, copy = _read(tmp_path / "a", "first", "resnet50"), _read(tmp_path / "b", "renamed", "resnet50")
    namesake = _read(tmp_path / "c", "first", "vgg16")
    assert mine.is_telling
    assert mine.digest == copy.digest
    assert alike(mine, copy) == pytest.approx(1, abs=1e-5)
    assert alike(mine, namesake) < T_SCORE


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("NVIDIA A100-SXM4-80GB", "a100"),
        ("a100", "a100"),
        ("Tesla V100-SXM2-32GB", "v100"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA GeForce RTX 3090", "rtx3090"),
        ("NVIDIA RTX 6000 Ada Generation", "rtx6000ada"),
        ("NVIDIA A100-PCIE-40GB MIG 1g.5gb", "a100mig1g.5gb"),
        ("virtual", "virtual"),
        ("NVIDIA", "nvidia"),
        ("", None),
        (None, None),
    ],
)
def test_gpu_families(name: str | None, family: str | None) -> None:
    assert gpu_family(name) == family


@given(st.integers(1, 10_000))
def test_classes_of_gpu_counts_are_powers_of_two(gpus: int) -> None:
    found = gpu_count_class(gpus)
    assert found is not None and found & (found - 1) == 0
    assert gpus <= found < 2 * gpus


def test_no_gpus_have_no_class() -> None:
    assert (gpu_count_class(None), gpu_count_class(0)) == (None, None)
