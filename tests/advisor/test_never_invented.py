"""A value that cannot be determined is missing, with the reason; computed values carry their formula."""

from __future__ import annotations

from pathlib import Path

import pytest

from lucid_pipelines.advisor.metadata import FieldName, JobMetadata, SourceKind
from tests.support_advisor.repos import TRAINING, read


def _loop(loader: str, extra: str = "") -> str:
    return f"""
import argparse, os
import torch
import torch.distributed as dist
p = argparse.ArgumentParser()
p.add_argument("--batch-size", type=int, default=256)
p.add_argument("--lr", type=float, default=0.1)
p.add_argument("--epochs", type=int, default=5)
a = p.parse_args()
dist.init_process_group("nccl")
world = dist.get_world_size()
{extra}
loader = torch.utils.data.DataLoader(data, batch_size={loader}, shuffle=True)
opt = torch.optim.SGD(model.parameters(), lr=a.lr)
for epoch in range(a.epochs):
    for x in loader:
        model(x).backward()
        opt.step()
"""


def test_batch_per_process_times_processes(tmp_path: Path) -> None:
    found = read(tmp_path, {"t.py": _loop("a.batch_size")}, "torchrun --nproc_per_node=4 --nnodes=2 t.py")
    assert found.value(FieldName.BATCH_SIZE_PER_DEVICE) == 256
    assert found.value(FieldName.BATCH_SIZE) == 2048
    assert found.fields[FieldName.BATCH_SIZE].formula is not None


def test_a_batch_that_is_divided_by_the_world_is_that_of_the_job(tmp_path: Path) -> None:
    known = read(tmp_path / "a", {"t.py": _loop("a.batch_size // world")}, "torchrun --nproc_per_node=4 t.py")
    assert (known.value(FieldName.BATCH_SIZE), known.value(FieldName.BATCH_SIZE_PER_DEVICE)) == (256, 64)
    unknown = read(tmp_path / "b", {"t.py": _loop("int(a.batch_size / world)")}, "torchrun --nproc_per_node=N t.py")
    assert unknown.value(FieldName.BATCH_SIZE) == 256
    assert unknown.value(FieldName.BATCH_SIZE_PER_DEVICE) is None


def test_a_batch_per_process_with_an_unknown_world_is_no_batch_of_the_job(tmp_path: Path) -> None:
    found = read(tmp_path, {"t.py": _loop("a.batch_size")}, "torchrun --nproc_per_node=auto t.py")
    assert found.value(FieldName.BATCH_SIZE) is None
    assert "number of processes" in found.missing[FieldName.BATCH_SIZE].reason
    assert found.value(FieldName.GPUS_PER_NODE) is None


def test_a_scaled_learning_rate_keeps_its_base(tmp_path: Path) -> None:
    text = _loop("a.batch_size", "a.lr = a.lr * a.batch_size * world / 512")
    found = read(tmp_path, {"t.py": text}, "torchrun --nproc_per_node=4 t.py --lr 0.5")
    assert found.value(FieldName.LEARNING_RATE) == 0.5
    assert found.value(FieldName.EFFECTIVE_LEARNING_RATE) == 1.0
    assert "a.batch_size" in str(found.fields[FieldName.EFFECTIVE_LEARNING_RATE].formula)


def test_accumulation_is_the_value_that_is_used(tmp_path: Path) -> None:
    text = _loop("a.batch_size", "gradient_accumulation_steps = 40\ngradient_accumulation_steps //= world")
    found = read(tmp_path, {"t.py": text}, "torchrun --nproc_per_node=8 t.py")
    assert found.value(FieldName.GRAD_ACCUMULATION) == 5
    assert found.value(FieldName.BATCH_SIZE) == 256 * 8 * 5


def test_workers_on_all_visible_devices_are_not_counted(tmp_path: Path) -> None:
    text = (
        "import torch, torch.multiprocessing as mp\n"
        "def work(rank, n):\n"
        "    torch.optim.SGD(p, lr=0.1)\n"
        "if __name__ == '__main__':\n"
        "    n = torch.cuda.device_count()\n"
        "    mp.spawn(work, nprocs=n, args=(n,))\n"
    )
    found = read(tmp_path, {"t.py": text}, "python t.py")
    assert found.value(FieldName.GPUS_PER_NODE) is None
    assert "visible" in found.missing[FieldName.GPUS_PER_NODE].reason
    assert found.value(FieldName.LEARNING_RATE) == 0.1


def test_an_unknown_branch_leaves_the_value_open(tmp_path: Path) -> None:
    text = "import torch, lib\nif lib.fast():\n    lr = 0.1\nelse:\n    lr = 0.2\ntorch.optim.SGD(p, lr=lr)\n"
    found = read(tmp_path, {"t.py": text}, "python t.py")
    assert found.value(FieldName.LEARNING_RATE) is None


def test_branches_that_agree_or_raise_decide(tmp_path: Path) -> None:
    text = (
        "import torch, lib\n"
        "if lib.fast():\n"
        "    lr = 0.1\n"
        "else:\n"
        "    raise ValueError('no')\n"
        "if lib.slow():\n"
        "    n = 3\n"
        "else:\n"
        "    n = 3\n"
        "torch.optim.SGD(p, lr=lr)\n"
        "for epoch in range(n):\n"
        "    train(epoch)\n"
    )
    found = read(tmp_path, {"t.py": text}, "python t.py")
    assert found.value(FieldName.LEARNING_RATE) == 0.1
    assert found.value(FieldName.ITERATIONS) == 3


@pytest.mark.parametrize("limit", ["None", "-1", "float('inf')", "os.cpu_count()"])
def test_no_limit_is_no_number(tmp_path: Path, limit: str) -> None:
    text = (
        "\n"
        "n = 0\n"
        "while True:\n"
        "    step(n)\n"
        "    n += 1\n"
        "    if max_iters is not None and n >= max_iters:\n"
        "        break\n"
    )
    assert read(tmp_path, {"t.py": text}, "python t.py").value(FieldName.ITERATIONS) is None


def test_batches_counted_in_tokens_are_no_number_of_samples(tmp_path: Path) -> None:
    files = {
        "t.py": "import torch, yaml\nc = yaml.safe_load(open('c.yaml'))\n",
        "c.yaml": "batch_size: 4096\nbatch_type: tokens\n",
    }
    found = read(tmp_path, files, "python t.py")
    assert found.value(FieldName.BATCH_SIZE) is None
    assert "tokens" in found.missing[FieldName.BATCH_SIZE].reason


def test_settings_of_equal_standing_that_differ_are_no_answer(tmp_path: Path) -> None:
    files = {"t.py": "import yaml\nc = yaml.safe_load(open('c.yaml'))\n", "c.yaml": "a:\n  lr: 0.1\nb:\n  lr: 0.2\n"}
    found = read(tmp_path, files, "python t.py")
    assert found.value(FieldName.LEARNING_RATE) is None
    assert "equal standing" in found.missing[FieldName.LEARNING_RATE].reason


def test_a_section_that_the_launch_line_names_is_chosen(tmp_path: Path) -> None:
    files = {
        "t.py": (
            "import argparse, yaml\n"
            "p = argparse.ArgumentParser()\n"
            "p.add_argument('--env')\n"
            "a = p.parse_args()\n"
            "c = yaml.safe_load(open('c.yaml'))\n"
        ),
        "c.yaml": "Pong:\n  lr: 0.1\nBreakout:\n  lr: 0.2\n",
    }
    assert read(tmp_path, files, "python t.py --env Breakout").value(FieldName.LEARNING_RATE) == 0.2


def test_evaluation_settings_are_not_training_settings(tmp_path: Path) -> None:
    files = {
        "t.py": "import yaml\nc = yaml.safe_load(open('c.yaml'))\n",
        "c.yaml": "eval:\n  batch_size: 512\nval_batch_size: 256\ntest_loader:\n  batch_size: 7\n",
    }
    found = read(tmp_path, files, "python t.py")
    assert found.value(FieldName.BATCH_SIZE) is None
    assert found.value(FieldName.BATCH_SIZE_PER_DEVICE) is None


def test_a_snapshot_without_the_program_answers_only_what_the_launch_line_says(tmp_path: Path) -> None:
    found = read(tmp_path, {"README.md": "# Nothing\n"}, "torchrun --nproc_per_node=8 train.py --lr 0.5")
    assert found.value(FieldName.GPUS_PER_NODE) == 8
    assert found.value(FieldName.ITERATIONS) is None
    assert found.value(FieldName.MODEL) is None
    assert any("not in the snapshot" in note for note in found.report.notes)
    misspelt = read(tmp_path, {"src/train.py": "import torch\n"}, "cd src && python trian.py")
    assert "the program is not in the snapshot (did you mean 'train.py'?): trian.py" in misspelt.report.notes


@pytest.mark.parametrize("command", ["", "ls -la", "echo hello", "/bin/true"])
def test_commands_that_train_nothing(tmp_path: Path, command: str) -> None:
    found = read(tmp_path, {"train.py": TRAINING}, command)
    assert set(found.fields) <= {FieldName.NODES}


def _sources(found: JobMetadata) -> set[SourceKind]:
    return {value.kind for value in found.fields.values()}


def test_library_defaults_are_marked_as_such(tmp_path: Path) -> None:
    text = "import torch\nopt = torch.optim.Adam(model.parameters())\nfor epoch in range(3):\n    opt.step()\n"
    found = read(tmp_path, {"t.py": text}, "python t.py")
    assert found.value(FieldName.LEARNING_RATE) == 1e-3
    assert found.fields[FieldName.LEARNING_RATE].kind is SourceKind.LIBRARY
    assert SourceKind.LANGUAGE_MODEL not in _sources(found)


def test_a_rate_that_is_set_while_training_is_not_the_librarys(tmp_path: Path) -> None:
    text = (
        "import torch\n"
        "opt = torch.optim.Adam(model.parameters())\n"
        "for step in range(300):\n"
        "    for group in opt.param_groups:\n"
        "        group['lr'] = schedule(step)\n"
        "    opt.step()\n"
    )
    assert read(tmp_path, {"t.py": text}, "python t.py").value(FieldName.LEARNING_RATE) is None
