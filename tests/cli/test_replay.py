"""`lucid replay` in the hands of somebody who gets it wrong: nothing breaks, and the message says what to do."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lucid_pipelines.cli.main import app
from lucid_pipelines.domain.errors import ExternalError, InputError, LucidError, NotFoundError

runner = CliRunner()
FIELDS = ("policy", "jobs", "avg_jct_s", "avg_queue_s", "p999_queue_s", "makespan_s", "wall_s")


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trace") / "t.csv"
    assert runner.invoke(app, ["traces", "generate", str(path), "--jobs", "200", "--days", "2"]).exit_code == 0
    return path


def refused(*arguments: object) -> LucidError:
    result = runner.invoke(app, ["replay", *map(str, arguments)])
    assert isinstance(result.exception, LucidError), result.output
    return result.exception


def test_one_json_object_per_policy_named_once(trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "o"
    for _ in range(2):  # a second replay into the same folder replaces the first
        result = runner.invoke(app, ["replay", str(trace), "-p", "fifo, sjf,fifo", "-o", str(out), "--json"])
        assert result.exit_code == 0, result.output
        lines: list[dict[str, Any]] = [json.loads(line) for line in result.stdout.splitlines()]
        assert [line["policy"] for line in lines] == ["fifo", "sjf"]
        assert all(set(FIELDS) <= set(line) for line in lines)
        assert sorted(path.name for path in out.iterdir()) == [
            "attempts.parquet",
            "jobs.parquet",
            "report.html",
            "summary.jsonl",
        ]


def test_a_folder_that_cannot_be_written_is_told_before_the_work(trace: Path, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for out in (file, file / "below"):
        error = refused(trace, "-o", out)
        assert isinstance(error, ExternalError)
        assert str(out) in str(error)


def test_what_the_table_does_not_tell_is_told_below_it(trace: Path, tmp_path: Path) -> None:
    cluster = tmp_path / "c.yaml"
    cluster.write_text("virtual_clusters: {vc01: {nodes: 4, gpus_per_node: 8}}")
    result = runner.invoke(app, ["replay", str(trace), "-c", str(cluster), "-p", "fifo,lucid"])
    assert result.exit_code == 0, result.output
    *_, aside, guessed, hint, pool = result.stdout.splitlines()
    assert aside.startswith("set aside, no replay can run them on this cluster: unknown_vc ")
    assert guessed.startswith("lucid had to guess: ") and "unknown_gpu_memory " in guessed
    assert hint.startswith("unknown_gpu_memory: ") and "gpu_memory_mib" in hint
    assert pool.startswith("no_profiler_nodes: ")
    whole = runner.invoke(app, ["replay", str(trace), "-p", "fifo"])
    assert "set aside" not in whole.stdout and "guess" not in whole.stdout


def test_what_is_no_table_is_told_in_few_words(trace: Path) -> None:
    for option in ("--predictions", "--forecast"):
        assert len(str(refused(trace, option, trace))) < 700
    assert "it is no archive" in str(refused(trace, "--scaling", trace, "-p", "sia"))
    assert "did you mean 'generated'" in str(refused(trace, "--workloads", "generate"))


def test_nothing_left_to_replay_says_where_the_jobs_went(trace: Path) -> None:
    assert "outside_window: 200" in str(refused(trace, "--from", "2031-01-01"))
    error = refused(trace, "--from", "2024-01-02", "--to", "2024-01-01")
    assert "2024-01-02 to 2024-01-01" in str(error)
    assert "did you mean 'vc01'" in str(refused(trace, "--vc", "vc1"))
    assert "above 0" in str(refused(trace, "--scale", "0"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("virtual_clusters: {elsewhere: {nodes: 1, gpus_per_node: 8}}", "the cluster has elsewhere"),
        ("virtual_clusters: {vc01: {nodes: 900000000, gpus_per_node: 8}}", "at most"),
        ("job_id,user\n" + "a,b\n" * 10_000, "must be a table"),
        ("[1, 2", "must be YAML"),
    ],
)
def test_a_wrong_cluster_file_is_told_in_few_words(trace: Path, tmp_path: Path, text: str, says: str) -> None:
    cluster = tmp_path / "c.yaml"
    cluster.write_text(text)
    error = refused(trace, "-c", cluster)
    assert isinstance(error, InputError)
    assert says in str(error)
    assert len(str(error)) < 400


def test_a_missing_cluster_file_names_the_nearest(trace: Path, tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").touch()
    error = refused(trace, "-c", tmp_path / "clustr.yaml")
    assert isinstance(error, NotFoundError)
    assert "did you mean 'cluster.yaml'" in str(error)


@pytest.mark.slow
def test_a_replay_that_is_interrupted_leaves_no_half_file(tmp_path: Path) -> None:
    path, out = tmp_path / "t.csv", tmp_path / "o"
    assert runner.invoke(app, ["traces", "generate", str(path), "--jobs", "20000"]).exit_code == 0
    lucid = Path(sys.executable).with_name("lucid")
    command = [str(lucid), "replay", str(path), "-p", "lucid,fifo", "-o", str(out)]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell that runs tests in the background lets all of them ignore interrupts.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    until = time.monotonic() + 60
    while not out.is_dir() and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert not list(out.iterdir())


def test_a_day_in_the_midst_of_a_week_names_its_week(trace: Path, tmp_path: Path) -> None:
    (tmp_path / "lucid.yaml").write_text(f"replay: {{trace: {trace}}}")
    home = ["--home", str(tmp_path / ".lucid")]
    listed = runner.invoke(app, ["replay-weeks", "--list", "--json", *home])
    assert json.loads(listed.stdout)["weeks"] == {"2024-01-01": 200}, listed.output
    for text in ("2024-01-03", "2024-01-1"):
        result = runner.invoke(app, ["replay-weeks", "-w", text, *home])
        assert isinstance(result.exception, NotFoundError) and "did you mean '2024-01-01'" in str(result.exception)


def test_policies_that_predict_begin_with_what_had_ended_before_the_window(trace: Path) -> None:
    whole = runner.invoke(app, ["replay", str(trace), "-p", "qssf", "--json"])
    part = runner.invoke(app, ["replay", str(trace), "-p", "qssf", "--from", "2024-01-02", "--json"])
    assert (whole.exit_code, part.exit_code) == (0, 0), part.output
    assert json.loads(whole.stdout)["fallbacks"]["no_estimate"] > 0, "nothing had ended when the first job came"
    assert "no_estimate" not in json.loads(part.stdout)["fallbacks"]
    assert "had ended before --from" in part.stderr and "had ended" not in whole.stderr
