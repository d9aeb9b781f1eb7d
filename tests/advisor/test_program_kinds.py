"""Ways of writing a training program that reading must see through, or must not be misled by."""

from __future__ import annotations

from pathlib import Path

import pytest

from lucid_pipelines.advisor.metadata import FieldName
from tests.support_advisor.repos import read

_OPTIONS = """
import argparse
class Options:
    def __init__(self):
        self.parser = argparse.ArgumentParser()
        self.parser.add_argument("--lr", type=float, default=0.25)
        self.parser.add_argument("--num_epochs", type=int, default=7)
    def parse(self):
        return self.parser.parse_args()
"""
_MAIN = """
import _paths
import torch
from options import Options
opt = Options().parse()
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.Adam(model.parameters(), opt.lr)
for epoch in range(opt.num_epochs):
    model(1).backward()
"""
_PATHS = """
import os.path as osp
import sys
def add_path(path):
    if path not in sys.path:
        sys.path.insert(0, path)
add_path(osp.join(osp.dirname(__file__), "lib"))
"""


def test_a_module_that_is_imported_to_set_the_import_path_runs(tmp_path: Path) -> None:
    files = {"src/main.py": _MAIN, "src/_paths.py": _PATHS, "src/lib/options.py": _OPTIONS}
    found = read(tmp_path, files, "python src/main.py")
    assert (found.value(FieldName.ITERATIONS), found.value(FieldName.LEARNING_RATE)) == (7, 0.25)


@pytest.mark.parametrize("module", ["yaml", "ruamel.yaml", "ruamel_yaml", "oyaml"])
def test_yaml_libraries_read_the_same(tmp_path: Path, module: str) -> None:
    program = f"""
import torch
import {module} as yaml
config = yaml.load(open("c.yaml"), Loader=yaml.Loader)
optimizer = torch.optim.AdamW(torch.nn.Linear(2, 2).parameters(), lr=float(config["init_lr"]))
for epoch in range(config["max_epoch"]):
    optimizer.step()
"""
    found = read(tmp_path, {"t.py": program, "c.yaml": "init_lr: 2e-5\nmax_epoch: 10\n"}, "python t.py")
    assert (found.value(FieldName.ITERATIONS), found.value(FieldName.LEARNING_RATE)) == (10, 2e-5)


_LISTED = """
import argparse
import torch
p = argparse.ArgumentParser()
p.add_argument("--gpus", default="0")
p.add_argument("--batch_size", type=int, default=32)
opt = p.parse_args()
val = torch.utils.data.DataLoader(other, batch_size=1, shuffle=False, num_workers=1)
train = torch.utils.data.DataLoader(data, batch_size=opt.batch_size, shuffle=True, num_workers=6)
trainer = make(opt.gpus)
for epoch in range(3):
    trainer.run(train).backward()
"""


def test_one_process_for_several_devices_has_no_batch_of_a_device(tmp_path: Path) -> None:
    found = read(tmp_path, {"t.py": _LISTED}, "python t.py --gpus 0,1,2,3 --batch_size 128")
    assert (found.value(FieldName.GPUS_PER_NODE), found.value(FieldName.BATCH_SIZE)) == (4, 128)
    assert found.value(FieldName.BATCH_SIZE_PER_DEVICE) is None
    assert "spreads" in found.missing[FieldName.BATCH_SIZE_PER_DEVICE].reason


def test_loader_workers_are_those_of_the_training_data(tmp_path: Path) -> None:
    assert read(tmp_path, {"t.py": _LISTED}, "python t.py").value(FieldName.WORKERS) == 6


_TUNING = """
import argparse
import torch
from transformers import BertModel
p = argparse.ArgumentParser()
p.add_argument("--model_name_or_path", default="bert-base-uncased")
a = p.parse_args()
model = BertModel.from_pretrained(a.model_name_or_path)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
for epoch in range(3):
    model(1).backward()
"""


def test_an_encoder_that_is_tuned_keeps_no_task_of_its_own(tmp_path: Path) -> None:
    tuned = read(tmp_path / "a", {"train.py": _TUNING}, "python train.py")
    assert tuned.value(FieldName.MODEL) == "bert-base-uncased"
    assert tuned.value(FieldName.TASK_TYPE) is None
    trained = read(tmp_path / "b", {"pretrain.py": _TUNING}, "python pretrain.py")
    assert trained.value(FieldName.TASK_TYPE) == "masked language modelling"


def test_a_vocabulary_is_no_model_and_a_blank_no_dataset(tmp_path: Path) -> None:
    program = _TUNING.replace("a = p", 'p.add_argument("--vocab-file"); p.add_argument("--data-path")\na = p')
    command = "python t.py --model_name_or_path roberta-base --vocab-file x/gpt2-vocab.json --data-path <my_data>_text"
    found = read(tmp_path, {"t.py": program}, command)
    assert found.value(FieldName.MODEL) == "roberta-base"
    assert found.value(FieldName.DATASET) is None


def test_a_check_before_training_does_not_say_the_batch(tmp_path: Path) -> None:
    program = """
import argparse
import torch
for x in torch.utils.data.DataLoader(data, batch_size=8, shuffle=True):
    show(x)
    break
p = argparse.ArgumentParser()
p.add_argument("-batch_size", type=int, default=2)
a = p.parse_args()
loader = torch.utils.data.DataLoader(
    data,
    batch_size=a.batch_size,
    shuffle=True,
)
for epoch in range(3):
    for x in loader:
        model(x).backward()
"""
    found = read(tmp_path, {"t.py": program}, "python t.py")
    assert found.value(FieldName.BATCH_SIZE) == 2


def test_so_many_epochs_are_no_limit(tmp_path: Path) -> None:
    program = _TUNING.replace("a = p", 'p.add_argument("--epochs", type=int)\na = p').replace(
        "range(3)", "range(a.epochs)"
    )
    found = read(tmp_path, {"t.py": program}, "python t.py --epochs 999999")
    assert found.value(FieldName.ITERATIONS) is None
    assert found.missing[FieldName.ITERATIONS].reason == "no limit is set"


def test_a_runs_name_is_no_model_and_an_options_name_no_dataset(tmp_path: Path) -> None:
    program = """
import argparse
import torch
import torchvision
p = argparse.ArgumentParser()
p.add_argument("--model", default="resnet50")
p.add_argument("--my_pile_stage", type=int, default=0)
p.add_argument("--lr", type=float, default=0.5)
p.add_argument("--device", default="")
o = p.parse_args()
o.model_name = "SupCon_cifar10_{}_lr_{}_bsz_{}".format(o.model, o.lr, 1024)
optimizer = torch.optim.SGD(build(o.model).parameters(), lr=o.lr)
for epoch in range(3):
    optimizer.step()
"""
    found = read(tmp_path, {"t.py": program}, "python t.py --my_pile_stage 3 --device 1")
    assert found.value(FieldName.MODEL) == "resnet50"
    assert found.value(FieldName.DATASET) is None
    assert found.value(FieldName.GPUS_PER_NODE) == 1


def test_short_names_of_models_are_names(tmp_path: Path) -> None:
    program = """
import argparse
import torch
p = argparse.ArgumentParser()
p.add_argument("--algo", default="a2c")
a = p.parse_args()
optimizer = torch.optim.RMSprop(make(a.algo).parameters(), lr=7e-4)
"""
    files = {"main.py": program, "README.md": "# some-ppo-code\n"}
    assert read(tmp_path, files, "python main.py").value(FieldName.MODEL) == "a2c"
