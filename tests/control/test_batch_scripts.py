"""Batch scripts as their authors wrote them."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from lucid_pipelines.cli.main import app
from lucid_pipelines.client import Client
from lucid_pipelines.control.batch_scripts import read_batch_script
from lucid_pipelines.domain.errors import InputError


def script(folder: Path, *lines: str, first: str = "#!/bin/bash -l") -> Path:
    path = folder / "train.sbatch"
    path.write_text("\n".join([first, *lines, ""]))
    return path


@pytest.mark.parametrize(
    ("lines", "gpus"),
    [
        (["#SBATCH --gres=gpu:4"], 4),
        (["#SBATCH --gres=gpu:a100:2,nvme:1", "#SBATCH -N 2"], 4),
        (["#SBATCH --gres gpu"], 1),
        (["#SBATCH --gpus=a100:3"], 3),
        (["#SBATCH -G8"], 8),
        (["#SBATCH --gpus-per-node=8 --nodes=2-4"], 16),
        (["#SBATCH --ntasks=3 --gpus-per-task=2"], 6),
        (["", "# a comment", "  # another", "#SBATCH --gpus=2", "python train.py", "#SBATCH --gpus=9"], 2),
    ],
)
def test_gpus_are_counted_as_sbatch_counts_them(tmp_path: Path, lines: list[str], gpus: int) -> None:
    assert read_batch_script(script(tmp_path, *lines), (), tmp_path).values["gpus"] == gpus


def test_name_partition_folder_and_the_rest(tmp_path: Path) -> None:
    path = script(
        tmp_path, '#SBATCH -J "my run" -p vision,other', "#SBATCH --gpus=1 --time=1-00:00:00 --exclusive -o out-%j.txt"
    )
    read = read_batch_script(path, ("--lr", "0.1"), tmp_path)
    assert read.values["command"] == ("bash", "train.sbatch", "--lr", "0.1")
    assert (read.values["name"], read.values["vc"], read.values["source_dir"]) == ("my run", "vision", tmp_path)
    assert read.not_carried_over == ("--time=1-00:00:00", "--exclusive", "--output=out-%j.txt")


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["#SBATCH --gpus=1 --array=0-9"], "array"),
        (["#SBATCH --gpus=1 -d afterok:7"], "dependencies"),
        (["echo no gpu"], "no GPU"),
        (["#SBATCH --gpus=zero"], "number"),
        (["#SBATCH --gpus=1 stray"], "stray"),
        (['#SBATCH --job-name="open'], "words"),
        (["#SBATCH --gpus=1 --chdir=/somewhere/else"], "sealed"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(tmp_path: Path, lines: list[str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_batch_script(script(tmp_path, *lines), (), tmp_path)


def test_a_script_without_a_shell_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="#!"):
        read_batch_script(script(tmp_path, "#SBATCH --gpus=1", first="echo"), (), tmp_path)
    with pytest.raises(InputError, match="cannot be read"):
        read_batch_script(tmp_path / "missing", (), tmp_path)


def test_the_command_submits_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "code"
    source.mkdir()
    script(source, "#SBATCH --gpus=2 -p vision --time=10", "python train.py")
    monkeypatch.chdir(source)
    monkeypatch.setenv("LUCID__CLUSTER__GPUS", "virtual")
    done = CliRunner().invoke(app, ["sbatch", "--home", str(tmp_path / "home"), "train.sbatch", "a", "b"])
    assert done.exit_code == 0, done.output
    with Client(tmp_path / "home") as client:
        (job,) = client.jobs()
    assert (job.spec.gpus, job.spec.vc, job.spec.command) == (2, "vision", ("bash", "train.sbatch", "a", "b"))
