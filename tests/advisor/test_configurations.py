"""Every usual way in which a training program gets its settings is read, with the place of each value."""

from __future__ import annotations

from pathlib import Path

import pytest

from lucid_pipelines.advisor.metadata import FieldName, SourceKind
from tests.support_advisor.repos import TRAINING, read

LOOP = """
import torch
from torch.utils.data import DataLoader
def run(lr, epochs, batch_size):
    model = torch.nn.Linear(1, 1)
    loader = DataLoader(data, batch_size=batch_size, shuffle=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    for epoch in range(epochs):
        train_one_epoch(model, loader, optimizer)
"""

CASES: dict[str, tuple[dict[str, str], str]] = {
    "argparse": (
        {
            "t.py": LOOP
            + """
import argparse
p = argparse.ArgumentParser()
g = p.add_argument_group("training")
g.add_argument("--lr", "--learning-rate", dest="lr", type=float, default=1.0)
g.add_argument("-e", "--epochs", type=int, default=1)
g.add_argument("--batch_size", type=lambda text: int(text), default="1")
a = p.parse_args()
run(a.lr, a.epochs, a.batch_size)
"""
        },
        "python t.py --learning-rate=0.25 -e 7 --batch_size 32",
    ),
    "argparse with defaults from a file": (
        {
            "t.py": LOOP
            + """
import argparse, yaml
first = argparse.ArgumentParser(add_help=False)
first.add_argument("-c", "--config")
p = argparse.ArgumentParser(parents=[first])
p.add_argument("--lr", type=float, default=1.0)
p.add_argument("--epochs", type=int, default=1)
p.add_argument("--batch-size", type=int, default=1)
known, rest = first.parse_known_args()
if known.config:
    with open(known.config) as f:
        p.set_defaults(**yaml.safe_load(f))
a = p.parse_args(rest)
run(a.lr, a.epochs, a.batch_size)
""",
            "c.yaml": "lr: 0.25\nepochs: 3\nbatch_size: 32\n",
        },
        "python t.py -c c.yaml --epochs 7",
    ),
    "click": (
        {
            "t.py": LOOP
            + """
import click
@click.command()
@click.option("--lr", type=float, default=1.0)
@click.option("--epochs", "n", type=click.IntRange(min=1), default=1)
@click.option("-b", "--batch-size", default=1, show_default=True)
def main(lr, n, batch_size):
    run(lr, n, batch_size)
main()
"""
        },
        "python t.py --lr 0.25 --epochs 7 -b 32",
    ),
    "click group": (
        {
            "t.py": LOOP
            + """
import click
@click.group()
def cli():
    pass
@cli.command("fit")
@click.option("--lr", type=float, default=0.25)
@click.option("--epochs", type=int, default=1)
@click.option("--batch-size", type=int, default=32)
def fit(lr, epochs, batch_size):
    run(lr, epochs, batch_size)
if __name__ == "__main__":
    cli()
"""
        },
        "python t.py fit --epochs 7",
    ),
    "fire": (
        {
            "t.py": LOOP
            + """
import fire
def main(lr=1.0, epochs: int = 7, batch_size=1, flag=False):
    run(lr, epochs, batch_size)
fire.Fire(main)
"""
        },
        "python t.py --lr=0.25 --flag --batch-size 32",
    ),
    "typer": (
        {
            "t.py": LOOP
            + """
import typer
app = typer.Typer()
@app.command()
def main(lr: float = typer.Option(0.25), epochs: int = 1, batch_size: int = 32):
    run(lr, epochs, batch_size)
app()
"""
        },
        "python t.py --epochs 7",
    ),
    "tyro dataclass": (
        {
            "t.py": LOOP
            + """
import tyro
from dataclasses import dataclass, field
@dataclass
class Optim:
    lr: float = 1.0
@dataclass
class Args:
    optim: Optim = field(default_factory=Optim)
    epochs: int = 7
    batch_size: int = 1
a = tyro.cli(Args)
run(a.optim.lr, a.epochs, a.batch_size)
"""
        },
        "python t.py --optim.lr 0.25 --batch-size 32",
    ),
    "absl flags": (
        {
            "t.py": LOOP
            + """
from absl import app, flags
FLAGS = flags.FLAGS
flags.DEFINE_float("lr", 1.0, "rate")
flags.DEFINE_integer("epochs", 7, "epochs")
flags.DEFINE_integer("batch_size", 1, "batch")
def main(argv):
    run(FLAGS.lr, FLAGS.epochs, FLAGS.batch_size)
if __name__ == "__main__":
    app.run(main)
"""
        },
        "python t.py --lr=0.25 --batch_size 32",
    ),
    "ml_collections": (
        {
            "t.py": LOOP
            + """
from absl import app, flags
from ml_collections import config_flags
config_flags.DEFINE_config_file("config")
def main(argv):
    c = flags.FLAGS.config
    run(c.optim.lr, c.epochs, c.batch_size)
app.run(main)
""",
            "configs/base.py": """
import ml_collections
def get_config():
    c = ml_collections.ConfigDict()
    c.optim = ml_collections.ConfigDict({"lr": 1.0})
    c.epochs = 1
    c.batch_size = 1
    return c
""",
            "configs/big.py": """
from configs import base
def get_config():
    c = base.get_config()
    c.optim.lr = 0.25
    c.epochs = 7
    return c
""",
        },
        "python t.py --config=configs/big.py --config.batch_size=32",
    ),
    "yacs": (
        {
            "t.py": LOOP
            + """
import argparse
from yacs.config import CfgNode as CN
_C = CN()
_C.SOLVER = CN()
_C.SOLVER.BASE_LR = 1.0
_C.SOLVER.EPOCHS = 1
_C.BATCH_SIZE = 1
p = argparse.ArgumentParser()
p.add_argument("--cfg")
p.add_argument("opts", default=[], nargs=argparse.REMAINDER)
a = p.parse_args()
cfg = _C.clone()
cfg.merge_from_file(a.cfg)
cfg.merge_from_list(a.opts)
cfg.freeze()
run(cfg.SOLVER.BASE_LR, cfg.SOLVER.EPOCHS, cfg.BATCH_SIZE)
""",
            "base.yaml": "SOLVER:\n  BASE_LR: 0.25\n  EPOCHS: 3\n",
            "child.yaml": "_BASE_: base.yaml\nSOLVER:\n  EPOCHS: 7\n",
        },
        "python t.py --cfg child.yaml BATCH_SIZE 32",
    ),
    "omegaconf with a dot list": (
        {
            "t.py": LOOP
            + """
import sys
from omegaconf import OmegaConf as om
cfg = om.merge(om.load(sys.argv[1]), om.from_cli(sys.argv[2:]))
om.resolve(cfg)
run(cfg.optimizer.lr, cfg.epochs, cfg.batch_size)
""",
            "c.yaml": "base: 0.25\nepochs: 1\nbatch_size: 32\noptimizer:\n  lr: ${base}\n",
        },
        "python t.py c.yaml epochs=7",
    ),
    "hydra": (
        {
            "t.py": LOOP
            + """
import hydra
@hydra.main(version_base=None, config_path="conf", config_name="config")
def main(cfg):
    run(cfg.optim.lr, cfg.trainer.epochs, cfg.data.batch_size)
if __name__ == "__main__":
    main()
""",
            "conf/config.yaml": "defaults:\n  - optim: sgd\n  - data: small\n  - trainer: base\n  - _self_\n",
            "conf/optim/sgd.yaml": "lr: 1.0\n",
            "conf/optim/adam.yaml": "lr: 0.25\n",
            "conf/data/small.yaml": "batch_size: 1\n",
            "conf/trainer/base.yaml": "epochs: 3\n",
            "conf/experiment/x.yaml": (
                "# @package _global_\ndefaults:\n  - override /optim: adam\ntrainer:\n  epochs: 7\n"
            ),
        },
        "python t.py +experiment=x data.batch_size=32",
    ),
    "python configuration run with exec": (
        {
            "t.py": """
batch_size = 1
lr = 1.0
max_epochs = 1
import sys
from ast import literal_eval
for word in sys.argv[1:]:
    if "=" not in word:
        exec(open(word).read())
    else:
        key, value = word.split("=")
        globals()[key[2:]] = literal_eval(value)
"""
            + LOOP
            + "run(lr, max_epochs, batch_size)\n",
            "config/x.py": "lr = 25e-2\nmax_epochs = 2\nbatch_size = 4 * 8\n",
        },
        "python t.py config/x.py --max_epochs=7",
    ),
    "json": (
        {
            "t.py": LOOP
            + """
import json, sys
class HParams:
    def __init__(self, **kw):
        for k, v in kw.items():
            self[k] = HParams(**v) if isinstance(v, dict) else v
    def __getitem__(self, k):
        return getattr(self, k)
    def __setitem__(self, k, v):
        return setattr(self, k, v)
h = HParams(**json.loads(open(sys.argv[1]).read()))
run(h.train.learning_rate, h.train.epochs, h.train.batch_size)
""",
            "c.json": '{"train": {"learning_rate": 0.25, "epochs": 7,\n "batch_size": 32}}',
        },
        "python t.py c.json",
    ),
    "toml": (
        {
            "t.py": LOOP
            + (
                "import tomllib\n"
                'with open("c.toml", "rb") as f:\n'
                "    c = tomllib.load(f)\n"
                'run(c["train"]["lr"], c["train"]["epochs"], c["batch_size"])\n'
            ),
            "c.toml": "batch_size = 32\n[train]\nlr = 0.25\nepochs = 7\n",
        },
        "python t.py",
    ),
    "ini": (
        {
            "t.py": LOOP
            + (
                "import configparser\n"
                "c = configparser.ConfigParser()\n"
                'c.read("c.ini")\n'
                'run(c.getfloat("train", "lr"), c.getint("train", "epochs"), int(c.get("train", "batch_size")))\n'
            ),
            "c.ini": "[train]\nlr = 0.25\nepochs = 7\nbatch_size = 32\n",
        },
        "python t.py",
    ),
    "hyperpyyaml": (
        {
            "t.py": LOOP
            + """
import sys
from hyperpyyaml import load_hyperpyyaml
with open(sys.argv[1]) as f:
    h = load_hyperpyyaml(f, {"number_of_epochs": 7})
run(h["lr"], h["number_of_epochs"], h["opts"]["batch_size"])
""",
            "h.yaml": (
                "number_of_epochs: 1\n"
                "lr: 0.25\n"
                "per: 16\n"
                "opts:\n"
                "  batch_size: !ref <per> * 2\n"
                "opt: !name:torch.optim.AdamW\n"
                "  lr: !ref <lr>\n"
            ),
        },
        "python t.py h.yaml",
    ),
    "HParams text": (
        {
            "t.py": LOOP
            + """
import argparse, tensorflow as tf
def create(text):
    h = tf.contrib.training.HParams(lr=1.0, epochs=7, batch_size=32)
    if text:
        h.parse(text)
    return h
p = argparse.ArgumentParser()
p.add_argument("--hparams", type=str)
h = create(p.parse_args().hparams)
run(h.lr, h.epochs, h.batch_size)
"""
        },
        "python t.py --hparams=lr=0.25",
    ),
    "transformers arguments": (
        {
            "t.py": """
from dataclasses import dataclass, field
import transformers
@dataclass
class Model:
    model_name_or_path: str = field(default="x")
@dataclass
class Train(transformers.TrainingArguments):
    optim: str = field(default="adamw_torch")
def main():
    model, train = transformers.HfArgumentParser((Model, Train)).parse_args_into_dataclasses()
    transformers.Trainer(model=net, args=train).train()
main()
"""
        },
        (
            "python t.py --model_name_or_path gpt2 --learning_rate 0.25 "
            "--num_train_epochs 7 --per_device_train_batch_size 32"
        ),
    ),
    "gin": (
        {
            "t.py": "import gin, torch\ngin.parse_config_file('c.gin')\n",
            "c.gin": "include 'base.gin'\nRATE = 0.25\ntrain.learning_rate = %RATE\ntrain.epochs = 7\n",
            "base.gin": "train.batch_size = 32\ntrain.learning_rate = 1.0\n",
        },
        "python t.py --gin_file=c.gin",
    ),
    "keras": (
        {
            "t.py": """
from tensorflow import keras
BATCH, EPOCHS = 32, 7
model = keras.Sequential([keras.layers.Dense(1)])
model.compile(optimizer=keras.optimizers.AdamW(learning_rate=0.25), loss="mse")
model.fit(x, y, batch_size=BATCH, epochs=EPOCHS)
"""
        },
        "python t.py",
    ),
    "lightning": (
        {
            "t.py": """
import lightning as L, torch
class Lit(L.LightningModule):
    def __init__(self, lr=1.0):
        super().__init__()
        self.save_hyperparameters()
    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)
class Data(L.LightningDataModule):
    def __init__(self, batch_size):
        super().__init__()
        self.batch_size = batch_size
    def train_dataloader(self):
        return torch.utils.data.DataLoader(data, batch_size=self.batch_size, shuffle=True)
trainer = L.Trainer(max_epochs=7, devices=1)
trainer.fit(Lit(lr=0.25), datamodule=Data(32))
"""
        },
        "python t.py",
    ),
    "environment variables": (
        {
            "t.py": LOOP
            + 'import os\nrun(float(os.environ["LR"]), int(os.getenv("EPOCHS", 7)), int(os.environ.get("BS", "1")))\n'
        },
        "LR=0.25 BS=32 python t.py",
    ),
    "constants": ({"t.py": LOOP + "LEARNING_RATE = 2.5e-1\nrun(LEARNING_RATE, 7, 32)\n"}, "python t.py"),
    "installed command": (
        {
            "setup.py": (
                "from setuptools import setup\nsetup(entry_points={'console_scripts': ['fit-it = pack.cli:main']})\n"
            ),
            "pack/__init__.py": "",
            "pack/loop.py": LOOP,
            "pack/cli.py": (
                "import sys\nfrom .loop import run\ndef main():\n    run(float(sys.argv[1]), int(sys.argv[2]), 32)\n"
            ),
        },
        "fit-it 0.25 7",
    ),
}


@pytest.mark.parametrize("name", list(CASES))
def test_learning_rate_epochs_and_batch_are_read(tmp_path: Path, name: str) -> None:
    files, command = CASES[name]
    found = read(tmp_path, files, command)
    assert found.value(FieldName.LEARNING_RATE) == 0.25
    assert (found.value(FieldName.ITERATIONS), found.value(FieldName.ITERATION_TYPE)) == (7, "epochs")
    assert 32 in (found.value(FieldName.BATCH_SIZE), found.value(FieldName.BATCH_SIZE_PER_DEVICE))
    if name != "gin":
        assert found.value(FieldName.OPTIMIZER) == "AdamW"
    for field in (FieldName.LEARNING_RATE, FieldName.ITERATIONS):
        assert found.fields[field].evidence, "every value says where it stands"


def test_evidence_names_file_line_and_source(tmp_path: Path) -> None:
    found = read(tmp_path, {"train.py": TRAINING}, "python train.py --epochs 5")
    rate = found.fields[FieldName.LEARNING_RATE]
    assert (rate.kind, rate.evidence[0].file, rate.evidence[0].name) == (SourceKind.DEFAULT, "train.py", "lr")
    line = (tmp_path / "train.py").read_text().splitlines()[(rate.evidence[0].line or 0) - 1]
    assert '"--lr"' in line
    epochs = found.fields[FieldName.ITERATIONS]
    assert (epochs.kind, epochs.evidence[0].file, epochs.evidence[0].line) == (SourceKind.COMMAND_LINE, "<command>", 4)
    assert epochs.confidence_frac > rate.confidence_frac
    assert found.value(FieldName.DATASET) == "CIFAR-10"
    assert str(found.value(FieldName.MODEL)).lower() == "resnet50"
    assert found.value(FieldName.TASK_TYPE) == "image classification"
    assert found.value(FieldName.FRAMEWORK) == "pytorch"


PRECEDENCE = """
import argparse, os, yaml
p = argparse.ArgumentParser()
p.add_argument("--config")
p.add_argument("--lr", type=float)
a = p.parse_args()
settings = {"lr": 0.1}
if a.config:
    settings.update(yaml.safe_load(open(a.config)))
if a.lr is not None:
    settings["lr"] = a.lr
if "LR" in os.environ:
    settings["lr"] = float(os.environ["LR"])
import torch
torch.optim.SGD(model.parameters(), lr=settings["lr"])
"""


@pytest.mark.parametrize(
    ("command", "rate", "kind"),
    [
        ("python t.py", 0.1, SourceKind.CODE),
        ("python t.py --config c.yaml", 0.2, SourceKind.CONFIG),
        ("python t.py --config c.yaml --lr 0.3", 0.3, SourceKind.COMMAND_LINE),
        ("LR=0.4 python t.py --config c.yaml --lr 0.3", 0.4, SourceKind.ENVIRONMENT),
    ],
)
def test_the_programs_own_precedence_decides(tmp_path: Path, command: str, rate: float, kind: SourceKind) -> None:
    found = read(tmp_path, {"t.py": PRECEDENCE, "c.yaml": "lr: 0.2\n"}, command)
    assert found.value(FieldName.LEARNING_RATE) == rate
    assert found.fields[FieldName.LEARNING_RATE].kind is kind
