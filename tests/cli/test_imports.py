"""What a program does not use it does not wait for: heavy libraries stay out of commands that need none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lucid_pipelines.cli.lazy import COMMANDS, TOOLS, load

TRAINING = ("interpret", "sklearn", "scipy", "optuna")
HEAVY = (*TRAINING, "numpy", "pandas", "pyarrow", "matplotlib", "dagster")

_COMMAND = """
import json, sys
sys.argv = ["lucid", *json.loads(sys.argv[1])]
from lucid_pipelines.cli.start import main
try:
    main()
except SystemExit as ended:
    assert not ended.code, ended.code
print()
print(json.dumps(sorted(sys.modules)))
"""

_SENSORS = """
import json, sys
import dagster as dg
from lucid_pipelines.definitions import defs
repository = defs.get_repository_def()
with dg.DagsterInstance.ephemeral() as instance:
    ticks = {}
    for sensor in repository.sensor_defs:
        with dg.build_sensor_context(instance=instance, repository_def=repository, sensor_name=sensor.name) as context:
            ticks[sensor.name] = len(sensor.evaluate_tick(context).run_requests or [])
print()
print(json.dumps([ticks, sorted(sys.modules)]))
"""


def _last_line(program: str, home: Path, *words: str) -> object:
    env = {**os.environ, "LUCID_HOME": str(home), "LUCID__CLUSTER__GPUS": "virtual", "DAGSTER_HOME": ""}
    done = subprocess.run(
        [sys.executable, "-c", program, *words], env=env, cwd=home, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def _loaded(modules: object, unwanted: tuple[str, ...]) -> list[str]:
    assert isinstance(modules, list)
    assert len(modules) > 50
    return sorted(set(unwanted).intersection(modules))


@pytest.mark.parametrize(
    ("words", "unwanted"),
    [
        (["--help"], (*HEAVY, "sqlalchemy", "pydantic", "yaml")),
        (["jobs"], HEAVY),
        (["submit", "--", "true"], HEAVY),
        (["nodes"], (*TRAINING, "pandas", "dagster", "matplotlib")),
        (["metrics", "--help"], (*TRAINING, "pandas", "dagster")),
        (["tuner", "show"], HEAVY),
        (["models", "list"], (*TRAINING, "pandas", "pyarrow", "matplotlib", "dagster")),
        (["models", "explain", "--kind", "packing"], (*TRAINING, "pandas", "matplotlib", "dagster")),
        (["replay", "--help"], TRAINING),
    ],
    ids=" ".join,
)
def test_a_command_loads_only_what_it_needs(words: list[str], unwanted: tuple[str, ...], tmp_path: Path) -> None:
    assert _loaded(_last_line(_COMMAND, tmp_path, json.dumps(words)), unwanted) == []


def test_showing_a_job_loads_no_models(tmp_path: Path) -> None:
    _last_line(_COMMAND, tmp_path, json.dumps(["submit", "--name", "one", "--", "true"]))
    assert _loaded(_last_line(_COMMAND, tmp_path, json.dumps(["show", "one"])), HEAVY) == []


def test_the_sensors_load_nothing_that_only_training_needs(tmp_path: Path) -> None:
    found = _last_line(_SENSORS, tmp_path)
    assert isinstance(found, list)
    ticks, modules = found
    assert len(ticks) >= 3
    assert _loaded(modules, (*TRAINING, "pandas", "matplotlib")) == []


@pytest.mark.parametrize("name", [name for name, command in COMMANDS.items() if command.panel != TOOLS])
def test_the_list_of_commands_says_what_each_says_itself(name: str) -> None:
    command = load(name)
    assert command.name == name
    own = " ".join((command.help or "").split("\n\n")[0].split())
    assert COMMANDS[name].help.rstrip(".") == own.rstrip(".")
