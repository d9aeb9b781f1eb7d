"""Every example runs shortened, prints in its own way, stores checkpoints and resumes from them."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"

SHORT = {
    "boosting": (["--rounds", "12", "--rows", "400", "--checkpoint-every", "4"], r"^\[10\]\ttrain-logloss:0\.\d+\t"),
    "cancel-me": (["--steps", "60", "--checkpoint-every", "20"], r"\| pretrain \| step 60/60 \| inertia \d"),
    "cartpole-ppo": (["--iterations", "8"], r"^\|    total_timesteps\s+\| 4096\s+\|$"),
    "char-lm": (["--max-iters", "40", "--eval-interval", "20"], r"^iter 30: loss \d\.\d+, time \d+\.\d+ms$"),
    "ecc": (["--epochs", "4", "--steps-per-epoch", "10", "--no-fault"], r"Iter\(train\) \[  40/40\]  lr: .*loss: \d"),
    "matrix-factorisation": (["--epochs", "3", "--steps-per-epoch", "10"], r'^\{"event": "train", .*"step": 30'),
    "resnet-cifar": (["--epochs", "2", "--steps-per-epoch", "6"], r"^Epoch: \[1\]\[  5/6\]\tTime .*Acc@5"),
    "sweep": (["--epochs", "10"], r"^\{'loss': \d\.\d+, 'accuracy': \d\.\d+, 'epoch': 10\.0\}$"),
    "word2vec": (["--epochs", "2", "--steps-per-epoch", "20"], r"\rEpoch 2/2: 100%\|█{20}\| 20/20 \[.*<00:00, .*it/s"),
}  # fmt: skip
"""Folder: options that make it short, and a line that it prints."""


class Place:
    """Where an example runs: its checkpoints, its declared load, its attempt."""

    def __init__(self, root: Path) -> None:
        self.checkpoints = root / "checkpoints"
        self.load = root / "load.json"

    def environment(self, **extra: str) -> Mapping[str, str]:
        own = {"LUCID_CHECKPOINT_DIR": str(self.checkpoints), "LUCID_GPU_LOAD": str(self.load)}
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        return os.environ | own | threads | extra

    def run(self, folder: str, *options: str, **extra: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [sys.executable, "train.py", "--seconds", "0", *options],
            cwd=EXAMPLES / folder,
            env=self.environment(**extra),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=60,
        )

    def steps(self) -> list[int]:
        return sorted(int(path.name.removeprefix("step-")) for path in self.checkpoints.glob("step-*"))

    def newest(self) -> dict[str, np.ndarray]:
        folder = max(self.checkpoints.glob("step-*"))
        marker = json.loads((folder / "COMPLETE").read_text())
        assert marker["files"] == {"state.npz": (folder / "state.npz").stat().st_size}
        with np.load(folder / "state.npz") as stored:
            return dict(stored)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_every_folder_is_tested() -> None:
    folders = {path.parent.name for path in EXAMPLES.glob("*/train.py")}
    assert folders == set(SHORT) | {"crash", "torch-mlp"}
    assert all((EXAMPLES / folder / "README.md").is_file() for folder in folders)


@pytest.mark.parametrize("folder", SHORT)
def test_it_trains_prints_and_resumes_to_the_same_numbers(folder: str, place: Place, tmp_path: Path) -> None:
    options, line = SHORT[folder]
    whole = place.run(folder, *options)
    assert whole.returncode == 0, whole.stdout.decode()
    assert re.search(line, whole.stdout.decode(), re.MULTILINE), whole.stdout.decode()[-2000:]
    load = json.loads(place.load.read_text())
    assert set(load) == {"gpu_util_pct", "memory_util_pct", "memory_used_mib"}
    assert all(0 < value <= limit for value, limit in zip(load.values(), (100, 100, 24_000), strict=True))
    assert 1 <= len(place.steps()) <= 2
    if len(place.steps()) == 1:
        return  # too short to be worth more than one checkpoint

    # As if killed while it wrote its last checkpoint: the marker is there, the state is cut.
    earlier, last = place.steps()
    expected = place.newest()
    state = max(place.checkpoints.glob("step-*")) / "state.npz"
    state.write_bytes(state.read_bytes()[:-100])
    resumed = place.run(folder, *options)
    assert resumed.returncode == 0, resumed.stdout.decode()
    assert f"step-{last:08d} is not complete" in resumed.stdout.decode()
    assert re.search(rf"(?i)(resum|load|continue).*\b{earlier}\b", resumed.stdout.decode())
    assert place.steps()[-1] == last
    found = place.newest()
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-6, atol=1e-9, err_msg=name)


def test_the_seed_decides(tmp_path: Path) -> None:
    one, two, other = (Place(tmp_path / name) for name in "abc")
    for where, seed in ((one, "1"), (two, "1"), (other, "2")):
        (tmp_path / where.checkpoints.parent.name).mkdir()
        assert where.run("sweep", "--epochs", "3", "--seed", seed).returncode == 0
    assert all(np.array_equal(value, two.newest()[name]) for name, value in one.newest().items())
    assert not all(np.array_equal(value, other.newest()[name]) for name, value in one.newest().items())


def test_the_pace_spreads_the_steps(place: Place) -> None:
    started_s = time.monotonic()
    assert place.run("sweep", "--epochs", "5", "--seconds", "1").returncode == 0
    assert time.monotonic() - started_s >= 1.0


def test_without_any_variable_it_runs_by_hand(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LUCID_")}
    command = [sys.executable, str(EXAMPLES / "sweep/train.py"), "--seconds", "0", "--epochs", "2"]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoints"]


def test_the_crash_is_a_real_one(place: Place) -> None:
    result = place.run("crash", "--steps-per-epoch", "5")
    assert result.returncode == 1
    text = result.stdout.decode()
    assert "epoch 3/6 step 5/5 mse=" in text
    assert re.search(r'Traceback .*\n.*"[^"]*train\.py", line \d+, in <module>', text)
    assert text.rstrip().splitlines()[-1].startswith("ValueError: matmul: ")
    again = place.run("crash", "--steps-per-epoch", "5", "--epochs", "9")
    assert again.returncode == 1  # a restart cannot help


def test_the_broken_gpu_and_the_way_back(place: Place) -> None:
    options = ["--epochs", "4", "--steps-per-epoch", "10"]
    first = place.run("ecc", *options, LUCID_ATTEMPT_NUMBER="1")
    text = first.stdout.decode()
    assert first.returncode == 1
    assert (
        text.index("Saving checkpoint at 20 iterations")
        < text.index("Traceback")
        < text.index("RuntimeError: CUDA error: uncorrectable ECC error encountered")
    )
    assert place.steps() == [10, 20]
    second = place.run("ecc", *options, LUCID_ATTEMPT_NUMBER="2")
    text = second.stdout.decode()
    assert second.returncode == 0
    assert "resumed from checkpoint, iter 20" in text and text.rstrip().endswith("Done")
    first_step = int(re.findall(r"Iter\(train\) \[ *(\d+)/40\]", text)[0])
    assert first_step > 20  # it went on where the checkpoint stands


def test_the_cancelled_one_saves_before_it_leaves(place: Place) -> None:
    process = subprocess.Popen(
        [sys.executable, "train.py", "--seconds", "600", "--steps", "6000"],
        cwd=EXAMPLES / "cancel-me",
        env=place.environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert "step 10/6000" in process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGTERM)
    rest, _ = process.communicate(timeout=20)
    assert process.returncode == 143
    (saved,) = place.steps()
    assert f"SIGTERM received: saved step {saved}, leaving" in rest and saved >= 10


def test_torch_is_optional(place: Place) -> None:
    result = place.run("torch-mlp", "--epochs", "2", "--samples", "256")
    text = result.stdout.decode()
    assert result.returncode == 0, text
    if importlib.util.find_spec("torch") is None:
        assert "PyTorch is not installed" in text and "pip install torch" in text
        assert place.steps() == []
    else:
        assert re.search(r"^Train Epoch: 2 \[0/256 \(0%\)\]\tLoss: \d", text, re.MULTILINE)
        assert place.steps() == [1, 2]


def test_the_helper_is_the_same_in_every_folder() -> None:
    assert len({path.read_bytes() for path in EXAMPLES.glob("*/runtime.py")}) == 1


def test_no_example_imports_the_scheduler() -> None:
    for path in EXAMPLES.glob("*/*.py"):
        assert "lucid_pipelines" not in path.read_text()


def test_the_transformer_computes_its_gradients_rightly() -> None:
    spec = importlib.util.spec_from_file_location("char_lm_model", EXAMPLES / "char-lm" / "model.py")
    assert spec is not None and spec.loader is not None
    model = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(model)
    rng = np.random.default_rng(0)
    weights = {name: value.astype(float) for name, value in model.init(rng, 7, 6, 8).items()}
    tokens, targets = rng.integers(0, 7, (2, 5)), rng.integers(0, 7, (2, 5))
    _, gradients = model.loss_and_gradients(weights, tokens, targets, 2)
    assert gradients.keys() == weights.keys()
    for name, value in weights.items():
        for _ in range(4):
            where = tuple(rng.integers(0, size) for size in value.shape)
            kept, nudge, losses = value[where], 1e-5, []
            for sign in (1, -1):
                value[where] = kept + sign * nudge
                losses.append(model.loss_and_gradients(weights, tokens, targets, 2)[0])
            value[where] = kept
            numeric = (losses[0] - losses[1]) / (2 * nudge)
            assert gradients[name][where] == pytest.approx(numeric, rel=1e-4, abs=1e-7), name
