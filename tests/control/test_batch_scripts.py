"""Batch scripts as their authors wrote them."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from lucid_pipelines.cli.main import app
from lucid_pipelines.client import Client
from lucid_pipelines.control.batch_scripts import read_batch_script
from lucid_pipelines.domain.errors import InputError, NotFoundError


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
        (["#SBATCH --gpus-per-n=2 --nodes=2"], 4),
        (["#SBATCH --gpus=1 --exclusive --nice -p gpu"], 1),
        (["#SBATCH --gpus=3 # --gpus=5", "##SBATCH --gpus=9"], 3),
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
        (["#SBATCH --gpus=1 --hold"], "adopted"),
        (["#SBATCH --gpus=1 -H"], "adopted"),
        (["#SBATCH --gpus=1 --begin=now+1hour"], "start at once"),
        (["#SBATCH --gpus=1 --test-only"], "tested"),
        (["#SBATCH --gpus=1 --uid=root"], "whoever submits"),
        (["#SBATCH --gpus=1 --wrap='rm -rf /'"], "lucid submit"),
        (["#SBATCH --gpus=1 --partitoin=gpu"], "did you mean 'partition'"),
        (["#SBATCH --gpus=1 -Z"], "does not know"),
        (["#SBATCH --gpus=1 --"], "does not know"),
        (["#SBATCH --gpus=1", "#SBATCH hetjob", "#SBATCH --gpus=1"], "several parts"),
        (["#SBATCH --gpus=²"], "number"),
        (["#SBATCH --gpus=99999999999999999999"], "number"),
        (["#SBATCH --gpus=-1"], "number"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(tmp_path: Path, lines: list[str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_batch_script(script(tmp_path, *lines), (), tmp_path)


def test_a_script_without_a_shell_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="#!"):
        read_batch_script(script(tmp_path, "#SBATCH --gpus=1", first="echo"), (), tmp_path)
    with pytest.raises(NotFoundError, match="no batch script"):
        read_batch_script(tmp_path / "missing", (), tmp_path)
    (tmp_path / "train.sbatch").touch()
    with pytest.raises(NotFoundError, match=r"did you mean 'train\.sbatch'"):
        read_batch_script(tmp_path / "trian.sbatch", (), tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="regular file"):
        read_batch_script(tmp_path / "pipe", (), tmp_path)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"#!/bin/bash\r\n#SBATCH --gpus=1\r\n", "dos2unix"),
        (b"#!/bin/bash\n#SBATCH --gpus=1\0\n", "NUL"),
        (b"#!/bin/bash\n#SBATCH --gpus=1 \xff\n", "as text"),
        (b"", "#!"),
    ],
)
def test_bytes_that_are_no_script_are_refused(tmp_path: Path, data: bytes, said: str) -> None:
    (tmp_path / "train.sbatch").write_bytes(data)
    with pytest.raises(InputError, match=said):
        read_batch_script(tmp_path / "train.sbatch", (), tmp_path)


@pytest.mark.parametrize(
    ("first", "shell"),
    [
        ("#!/bin/sh", "sh"),
        ("#!/usr/bin/env -S bash -x", "bash"),
        ("#!/usr/bin/env A=b python3", "python3"),
        ("#!", "bash"),
    ],
)
def test_the_shell_is_the_one_of_the_first_line(tmp_path: Path, first: str, shell: str) -> None:
    read = read_batch_script(script(tmp_path, "#SBATCH --gpus=1", first=first), (), tmp_path)
    assert read.values["command"][0] == shell


@given(st.lists(st.text(alphabet="-=abgpus12#SBATCH :'\"\\\u2028 ", max_size=30), max_size=4))
def test_any_line_is_read_or_refused(lines: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = script(Path(folder).resolve(), *[f"#SBATCH {line}" for line in lines])
        with suppress(InputError):
            read_batch_script(path, (), path.parent)


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
