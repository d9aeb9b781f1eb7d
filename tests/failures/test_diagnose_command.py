"""The command line: one JSON object a line and file, in order; errors that say what to do."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from lucid_pipelines.cli.diagnose import diagnose
from lucid_pipelines.domain.errors import InputError, NotFoundError
from tests.support_failures.faults_one import FAULTS
from tests.support_failures.worlds import build, trap

ECC = next(fault for fault in FAULTS if fault.name == "paddle_ecc")
KEYS = {
    "file", "root_line", "root_text", "root_rank", "category", "component", "restart", "confidence", "rule",
    "cascade_lines", "evidence", "advice",
}  # fmt: skip


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer()
    app.command()(diagnose)
    return app


def test_one_object_a_line_in_the_order_of_the_files(app: typer.Typer, tmp_path: Path) -> None:
    cases = [build(ECC, 1), build(FAULTS[20], 1), trap("cancel", 1)]
    paths = []
    for i, case in enumerate(cases):
        path = tmp_path / f"{i}.log.gz"
        path.write_bytes(gzip.compress(case.data))
        paths.append(str(path))
    result = CliRunner().invoke(app, ["--json", *paths])
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in result.output.splitlines()]
    assert [row["file"] for row in rows] == paths
    for row, case in zip(rows, cases, strict=True):
        assert row.keys() >= KEYS
        assert (row["category"], row["component"], row["restart"]) == (case.category, case.component, case.restart)
    assert rows[0]["root_line"] == cases[0].root_line
    assert rows[0]["cascade_lines"] and rows[0]["evidence"][0]["line"] == cases[0].root_line
    assert rows[2]["category"] is None


def test_people_get_words(app: typer.Typer, tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(build(ECC, 1).data)
    result = CliRunner().invoke(app, [str(path)])
    assert result.exit_code == 0
    assert "infrastructure (gpu)" in result.output and "restart: sensible" in result.output


def test_a_missing_file_and_no_file_are_told(app: typer.Typer, tmp_path: Path) -> None:
    missing = CliRunner().invoke(app, ["--json", str(tmp_path / "no.log")]).exception
    assert isinstance(missing, NotFoundError) and "no.log" in str(missing)
    folder = CliRunner().invoke(app, [str(tmp_path)]).exception
    assert isinstance(folder, InputError) and "a folder" in str(folder)
    assert CliRunner().invoke(app, ["--json"]).exit_code == 2


@pytest.mark.parametrize(
    "data",
    [b"", b"\x00" * 5000, b"\xff\xfe\xfa" * 999, b"\n" * 5000, b"\r" * 5000, b"Traceback (most recent call last):"],
)
def test_odd_files_are_answered(app: typer.Typer, data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "odd.log"
    path.write_bytes(data)
    result = CliRunner().invoke(app, ["--json", str(path)])
    assert result.exit_code == 0
    assert json.loads(result.output)["restart"] is False


def test_a_cut_gzip_file_gives_what_could_be_read(app: typer.Typer, tmp_path: Path) -> None:
    case = build(ECC, 1)
    path = tmp_path / "cut.log.gz"
    path.write_bytes(gzip.compress(case.data)[:-40])
    result = CliRunner().invoke(app, ["--json", str(path)])
    assert result.exit_code == 0


def test_a_name_with_brackets_and_a_packing_that_is_not_read(app: typer.Typer, tmp_path: Path) -> None:
    odd = tmp_path / "run[red]a.log"
    odd.write_bytes(build(ECC, 1).data)
    shown = CliRunner().invoke(app, [str(odd)])
    assert shown.exit_code == 0
    assert "run[red]a.log" in shown.output.replace("\n", ""), "lines of a narrow terminal may break in it"
    packed = tmp_path / "a.log.zst"
    packed.write_bytes(b"\x28\xb5\x2f\xfd rest")
    refused = CliRunner().invoke(app, [str(packed)]).exception
    assert isinstance(refused, InputError) and "zstd -d" in str(refused)


def test_it_runs_as_a_program(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(build(ECC, 1).data)
    run = subprocess.run(
        [sys.executable, "-m", "lucid_pipelines.cli.start", "diagnose", "--json", str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(run.stdout)["component"] == "gpu"
