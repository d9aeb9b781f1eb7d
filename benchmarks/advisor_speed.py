"""How long advice takes: reading a large repository, and the advise step of a submission.

``python benchmarks/advisor_speed.py [--repositories 12] [--jobs 40] [--json]``

The repositories are generated: 40,000 lines in 120 modules that import one another, with options, a YAML
configuration and a training loop; what is asked for is known. CPU time is measured, so that other work on the
machine does not count. The advise step is that of the control plane, with a store of its own: jobs whose code is
new, and jobs whose code and command were read before.
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.ranges import Claim, mean_of, quantile, report
from lucid_pipelines import store
from lucid_pipelines.advisor.description import LaunchDescription
from lucid_pipelines.advisor.extract import extract_metadata
from lucid_pipelines.advisor.metadata import FieldName
from lucid_pipelines.client import Client
from lucid_pipelines.control.intake import claim_batch, take_in
from lucid_pipelines.control.system import System
from lucid_pipelines.domain.job import Job
from lucid_pipelines.domain.states import Mode
from lucid_pipelines.resources.advisors import configured_advisor, preload
from lucid_pipelines.settings import Settings, load_settings

MODULES = 120
LINES = 40_000
COMMAND = ("torchrun", "--nproc_per_node=8", "train.py", "--config", "config.yaml", "--lr", "0.02")


def main() -> int:
    """Run the benchmark; exit status 1 when a claim does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repositories", type=int, default=12)
    parser.add_argument("--jobs", type=int, default=40)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    preload()
    with tempfile.TemporaryDirectory() as folder:
        claims = [*_reading(Path(folder), options.repositories), *_step(Path(folder), options.jobs)]
    return report(claims, as_json=options.json)


def _reading(folder: Path, count: int) -> list[Claim]:
    took: list[float] = []
    right = 0
    for seed in range(count):
        root = folder / f"repository-{seed}"
        lines = write_repository(root, seed)
        assert lines >= LINES, lines
        started = time.process_time()
        found = extract_metadata(root, LaunchDescription(COMMAND))
        took.append(time.process_time() - started)
        asked = (FieldName.LEARNING_RATE, FieldName.ITERATIONS, FieldName.BATCH_SIZE, FieldName.GPUS_PER_NODE)
        right += [found.value(name) for name in asked] == [0.02, 90 + seed, 8 * 64, 8]
    return [
        Claim(
            "reading 40,000 lines, p50 (CPU-s)",
            quantile(took, 0.5),
            at_most=1,
            samples=count,
            why="nobody waits for advice",
        ),
        Claim(
            "reading 40,000 lines, p95 (CPU-s)",
            quantile(took, 0.95),
            at_most=3,
            samples=count,
            why="nobody waits for advice",
        ),
        mean_of("reading 40,000 lines, mean (CPU-s)", took, at_most=1),
        Claim("of them read right", right / count, at_least=1),
    ]


def _step(folder: Path, count: int) -> list[Claim]:
    took: dict[str, list[float]] = {"without advice": [], "new code": [], "known code": []}
    for kind, mode in (("without advice", Mode.OFF), ("new code", Mode.SHADOW), ("known code", Mode.SHADOW)):
        home = folder / kind.replace(" ", "-")
        system, client = _world(home, mode)
        source = home / "source"
        source.mkdir(parents=True)
        for number in range(count):
            (source / "train.py").write_text(_TRAIN if kind == "known code" else f"# {number}\n{_TRAIN}")
            (source / "config.yaml").write_text("epochs: 90\n")
            client.submit(["python", "train.py", "--config", "config.yaml"], source_dir=source, vc="vision")
        took[kind] = [_measured(system, claim) for claim in claim_batch(system, "benchmark")][1:]
        client.close()
    plain = sum(took["without advice"]) / len(took["without advice"])
    return [
        mean_of("taking in a submission without advice (CPU-s)", took["without advice"]),
        Claim("advice on new code, on top of that (CPU-s)", sum(took["new code"]) / len(took["new code"]) - plain,
            at_most=0.15, samples=count, why="at 1,800 jobs an hour: 0.075 of a core"),
        Claim("advice on known code, on top of that (CPU-s)", sum(took["known code"]) / len(took["known code"]) - plain,
            at_most=0.03, samples=count, why="at 1,800 jobs an hour: 0.015 of a core"),
    ]  # fmt: skip


def _world(home: Path, mode: Mode) -> tuple[System, Client]:
    values = load_settings(home, environ={}).model_dump()
    values["cluster"]["gpus"] = "virtual"
    values["modes"]["advise"] = mode
    values["submission"]["batch"] = 500
    settings = Settings.model_validate(values)
    client = Client(settings=settings)
    return replace(client.system, advisor=configured_advisor(settings)), client


def _measured(system: System, claim: store.Claim[Job]) -> float:
    """CPU time of this process and of its children, for one submission."""
    begin = _cpu_s()
    take_in(system, claim)
    return _cpu_s() - begin


def _cpu_s() -> float:
    uses = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(use.ru_utime + use.ru_stime for use in uses)


# ---------------------------------------------------------------------- generated code


def write_repository(root: Path, seed: int) -> int:
    """A project of at least ``LINES`` lines. Returns how many there are."""
    rng = random.Random(seed)
    package = root / "project"
    package.mkdir(parents=True)
    per_module = LINES // MODULES + 12
    total = 0
    for number in range(MODULES):
        total += _write(package / f"m{number}.py", _module(rng, number, per_module))
    (package / "__init__.py").write_text("")
    (root / "config.yaml").write_text(f"epochs: {90 + seed}\nbatch_size: 64\nlr: 0.5\n")
    return total + _write(root / "train.py", _TRAIN)


def _write(path: Path, text: str) -> int:
    path.write_text(text)
    return text.count("\n")


def _module(rng: random.Random, number: int, lines: int) -> str:
    """Functions and networks. The first function calls that of the next module, so that a walk passes them all."""
    following = range(number + 1, min(number + 4, MODULES))
    text = "import math\nimport torch\n" + "".join(f"from project.m{other} import f{other}_0\n" for other in following)
    text += _function(number, 0, f"f{number + 1}_0(x)" if number + 1 < MODULES else "x")
    part = 1
    while text.count("\n") < lines:
        text += rng.choice((_function, _class))(number, part)
        part += 1
    return text


def _function(number: int, part: int, start: str = "scale") -> str:
    steps = "".join(f"    y = y * {step} + math.sin(x) if x > {step} else y - {step}\n" for step in range(8))
    return f"\n\ndef f{number}_{part}(x, scale=1.0):\n    y = {start}\n{steps}    return y\n"


def _class(number: int, part: int) -> str:
    layers = "".join(f"        self.l{layer} = torch.nn.Linear({layer + 1}, {layer + 2})\n" for layer in range(6))
    calls = "".join(f"        x = self.l{layer}(x)\n" for layer in range(6))
    head = f"\n\nclass C{number}_{part}(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    return f"{head}{layers}\n    def forward(self, x):\n{calls}        return x\n"


_TRAIN = """
import argparse
import torch
import torch.distributed as dist
import torchvision
import yaml
from project.m0 import f0_0
p = argparse.ArgumentParser()
p.add_argument("--config")
p.add_argument("--lr", type=float)
p.add_argument("--batch_size", type=int, default=64)
p.add_argument("--epochs", type=int, default=1)
known, _ = p.parse_known_args()
p.set_defaults(**yaml.safe_load(open(known.config)))
a = p.parse_args()
dist.init_process_group("nccl")
model = torchvision.models.resnet50()
loader = torch.utils.data.DataLoader(torchvision.datasets.ImageNet("data"), batch_size=a.batch_size, shuffle=True)
opt = torch.optim.SGD(model.parameters(), lr=a.lr)
for epoch in range(a.epochs):
    for x, y in loader:
        loss = model(x).sum() + f0_0(1)
        loss.backward()
        opt.step()
"""

if __name__ == "__main__":
    sys.exit(main())
