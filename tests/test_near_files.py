"""A file that is not there: the nearest one is named wherever a person names one."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from lucid_pipelines.cli.main import app
from lucid_pipelines.domain.errors import LucidError
from lucid_pipelines.near_files import near_file


def test_the_nearest_name_in_the_same_folder(tmp_path: Path) -> None:
    (tmp_path / "train.log").touch()
    assert near_file(tmp_path / "trian.log") == " (did you mean 'train.log'?)"
    for path in (tmp_path / "other", tmp_path / "missing" / "train.log", tmp_path / "train.log" / "a", Path("a\0b")):
        assert near_file(path) == ""


@pytest.mark.parametrize("command", [["submit", "-f"], ["sbatch"], ["track"], ["diagnose"], ["traces", "describe"]])
def test_every_command_that_takes_a_file(command: list[str], tmp_path: Path) -> None:
    (tmp_path / "train.x").touch()
    result = CliRunner().invoke(app, [*command, str(tmp_path / "trian.x")], env={"LUCID_HOME": str(tmp_path / "home")})
    told = str(result.exception) if isinstance(result.exception, LucidError) else result.output
    assert "did you mean 'train.x'" in " ".join(told.split())
