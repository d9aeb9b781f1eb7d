"""The command line as scripts use it: JSON fields, exit codes, clear errors."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table
from typer.testing import CliRunner

from lucid_pipelines.cli.main import app
from lucid_pipelines.cli.output import job_table, job_times_s
from lucid_pipelines.client import Client
from lucid_pipelines.domain.errors import InputError, LucidError, NotFoundError
from lucid_pipelines.domain.job import Job
from tests.support_control.worlds import all_ended, drive

runner = CliRunner()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    source = tmp_path / "source"
    source.mkdir()
    monkeypatch.chdir(source)
    monkeypatch.setenv("LUCID_HOME", str(folder))
    monkeypatch.setenv("LUCID__CLUSTER__GPUS", "virtual")
    monkeypatch.setenv("COLUMNS", "200")
    return folder


def lucid(*arguments: str) -> Any:
    """Run a command that succeeds and prints JSON."""
    result = runner.invoke(app, [*arguments, "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def submit(*arguments: str) -> Any:
    result = runner.invoke(app, ["submit", "--json", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def refused(*arguments: str) -> LucidError:
    result = runner.invoke(app, list(arguments))
    assert isinstance(result.exception, LucidError), result.output
    return result.exception


def finish(*ids: str) -> None:
    with Client() as client:
        drive(client, all_ended, ids)


def drawn(table: Table, width: int) -> str:
    """What a terminal of this width shows."""
    console = Console(width=width)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


def ran_s(job: Job) -> float | None:
    return job_times_s(job, datetime.now(UTC))[1]


def test_submit_prints_the_job_id_and_jobs_lists_the_contracted_fields() -> None:
    row = submit("--gpus", "2", "--vc", "vision", "--name", "resnet-cifar", "--", sys.executable, "-c", "1")
    assert row["job_id"]
    (job,) = lucid("jobs")
    contracted = {"job_id", "name", "state", "user", "gpus", "queue_s", "run_s", "exit_code", "outcome"}
    assert contracted <= set(job)
    assert (job["name"], job["state"], job["gpus"], job["run_s"], job["exit_code"]) == (
        "resnet-cifar", "submitted", 2, None, None)  # fmt: skip
    finish(row["job_id"])
    (job,) = lucid("jobs")
    assert (job["state"], job["outcome"], job["exit_code"]) == ("completed", "completed", 0)
    assert job["run_s"] > 0 and job["queue_s"] >= 0


def test_a_file_of_jobs_does_what_the_options_do(tmp_path: Path) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text(
        "jobs:\n"
        f"  - {{name: one, vc: nlp, gpus: 1, command: [{sys.executable}, -c, '1'], env: {{EPOCHS: 3, DEBUG: true}}}}\n"
        f"  - {{name: two, vc: vision, gpus: 2, command: '{sys.executable} -c 1'}}\n"
    )
    rows = submit("-f", str(file))
    assert [(row["name"], row["gpus"], row["vc"]) for row in rows] == [("one", 1, "nlp"), ("two", 2, "vision")]
    with Client() as client:
        assert dict(client.job(rows[0]["job_id"]).spec.env) == {"EPOCHS": "3", "DEBUG": "true"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("jobs: [", "not valid YAML"),
        ("jobs: []", "holds one job"),
        ("- command: [true]\n  gpu: 2", "unknown key 'gpu' (did you mean 'gpus'?)"),
        ("jobs: [{command: [true]}]\nversion: 2", "nothing may stand at the top"),
        ("- {gpus: 1}", "command is missing"),
        ("- {command: [], gpus: 1}", "command"),
        ("- {command: [true], gpus: 0}", "gpus"),
        ("- {command: [true], workdir: ../elsewhere}", "without '..'"),
        ("- {command: [true], env: {'A-B': 1}}", "not a name for an environment variable"),
        ("- {command: [true], env: {CUDA_VISIBLE_DEVICES: 7}}", "set by the scheduler"),
        ('- {command: "\'unbalanced"}', "cannot be split"),
        ("just text", "holds one job"),
        ("- 7", "must be a mapping"),
    ],
)
def test_a_bad_file_gets_a_clear_error_and_submits_nothing(tmp_path: Path, home: Path, text: str, message: str) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text(text)
    error = refused("submit", "-f", str(file))
    assert isinstance(error, InputError) and message in str(error)
    assert not home.exists()


def test_what_can_never_run_is_refused_at_once() -> None:
    assert "has 4 GPUs in all; ask for at most 4" in str(refused("submit", "--gpus", "9", "--vc", "nlp", "--", "true"))
    assert "did you mean 'vision'?" in str(refused("submit", "--vc", "visoin", "--", "true"))
    assert "does not exist" in str(refused("submit", "--source", "no/such/folder", "--", "true"))
    assert "does not exist" in str(refused("submit", "--workdir", "missing", "--", "true"))
    assert "after --" in str(refused("submit"))
    assert "NAME=VALUE" in str(refused("submit", "--env", "A", "--", "true"))
    assert lucid("jobs") == []


def test_show_logs_explain_and_cancel() -> None:
    row = submit("--name", "teller", "--", sys.executable, "-c", "print('hello')")
    waiting = lucid("explain", "teller")
    assert waiting["state"] == "submitted" and waiting["summary"]
    finish(row["job_id"])
    assert lucid("show", row["job_id"][:9])["attempt_list"][0]["exit_code"] == 0
    assert lucid("logs", "teller")["text"] == "hello\n"
    assert runner.invoke(app, ["logs", "teller"]).stdout == "hello\n"
    assert runner.invoke(app, ["logs", "-f", "teller"]).stdout == "hello\n"
    explained = lucid("explain", "teller")
    assert [event["to_state"] for event in explained["events"]][-1] == "completed"
    assert "ended" in explained["summary"]
    cancelled = lucid("cancel", submit("--", "true")["job_id"])
    assert (cancelled["state"], cancelled["outcome"]) == ("cancelled", "cancelled")


def test_explain_says_what_a_queued_job_waits_for() -> None:
    big = submit(
        "--gpus", "4", "--vc", "vision", "--name", "big", "--", sys.executable, "-c", "import time; time.sleep(60)"
    )
    with Client() as client:
        drive(client, lambda jobs: jobs[0].started_at is not None, [big["job_id"]])
        small = submit("--gpus", "1", "--vc", "vision", "--name", "small", "--", "true")
        drive(client, lambda jobs: jobs[0].state.value == "queued", [small["job_id"]])
    answer = lucid("explain", "small")
    assert (answer["position"], answer["waits_for"], answer["gpus_free"]) == (1, "free_gpus", 0)
    assert "needs 1 free GPU(s) in vision" in answer["summary"]
    nodes = {row["node"]: row for row in lucid("nodes")}
    assert (nodes["node-1"]["gpus_free"], nodes["node-2"]["gpus_free"]) == (0, 4)
    assert nodes["node-1"]["gpu_list"][0]["jobs"] == [big["job_id"]]
    picture = lucid("top")
    assert [job["name"] for job in picture["running"]] == ["big"]
    assert "big" in runner.invoke(app, ["top", "--once"]).stdout
    runner.invoke(app, ["cancel", "big"])
    finish(big["job_id"], small["job_id"])


def test_an_unknown_job_names_the_nearest() -> None:
    submit("--name", "resnet", "--", "true")
    error = refused("show", "resmet")
    assert isinstance(error, NotFoundError) and error.exit_code == 4 and "resnet" in str(error)


def test_an_unknown_state_names_the_nearest() -> None:
    assert "did you mean 'running'?" in str(refused("jobs", "--state", "runing"))


def test_text_from_users_cannot_break_the_table() -> None:
    submit("--name", "evil\x1b[31m[bold]name\n", "--", "true")
    shown = runner.invoke(app, ["jobs"]).stdout
    assert "\x1b[31m" not in shown and "[bold]" in shown and len(shown.strip().splitlines()) == 2


def test_a_narrow_terminal_shows_names_vcs_and_how_a_job_failed_whole() -> None:
    row = submit("--name", "sweep-h16-lr0.003", "--vc", "vision", "--user", "somebody", "--", "false")
    finish(row["job_id"])
    with Client() as client:
        jobs, now = client.jobs(), client.system.clock.now()
    narrow, wide = (drawn(job_table(jobs, now, width=width), width) for width in (80, 160))
    for whole in (row["job_id"], "sweep-h16-lr0.003", "vision", "failed_unknown"):
        assert whole in narrow, narrow
    assert "…" not in narrow and "somebody" not in narrow
    assert "somebody" in wide and "OUTCOME" in wide


def test_submit_says_that_no_service_runs_and_still_prints_clean_json() -> None:
    result = runner.invoke(app, ["submit", "--json", "--", "true"], catch_exceptions=False)
    assert json.loads(result.stdout)["state"] == "submitted"
    assert "lucid up" in result.stderr and "not running" in result.stderr


def test_explain_tells_where_a_job_runs_and_when_estimates_are_outrun() -> None:
    first = submit("--gpus", "4", "--vc", "vision", "--name", "short", "--", "true")
    finish(first["job_id"])
    script = "import time; time.sleep(60)"
    long = submit("--gpus", "4", "--vc", "vision", "--name", "long", "--", sys.executable, "-c", script)
    with Client() as client:
        drive(client, lambda jobs: jobs[0].started_at is not None, [long["job_id"]])
        next_one = submit("--gpus", "4", "--vc", "vision", "--name", "next", "--", "true")
        drive(client, lambda jobs: jobs[0].state.value == "queued", [next_one["job_id"]])
        estimate = client.job("long").estimate
        assert estimate is not None and estimate.duration_s is not None
        drive(client, lambda jobs: (ran_s(jobs[0]) or 0.0) > (estimate.duration_s or 0.0), [long["job_id"]])
    running = runner.invoke(app, ["explain", "long"]).stdout
    assert "node-1[0,1,2,3]" in running and "it has run longer than estimated" in running
    assert "what it waits for has run longer than estimated" in runner.invoke(app, ["explain", "next"]).stdout
    runner.invoke(app, ["cancel", "long"])
    finish(long["job_id"], next_one["job_id"])


def test_doctor_knows_that_the_service_is_not_running() -> None:
    findings = {finding["subject"]: finding for finding in lucid("doctor")}
    assert findings["service"]["advice"] == "lucid up"
    assert findings["cluster"]["level"] in ("ok", "note")


def test_doctor_names_a_broken_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUCID__SCHEDULING__POLCY", "fifo")
    result = runner.invoke(app, ["doctor", "--json"])
    assert result.exit_code == 9
    assert "did you mean 'policy'?" in json.loads(result.stdout)[0]["text"]


def test_secrets_are_kept_out_and_told() -> None:
    Path(".env").write_text("TOKEN=abc\n")
    Path("train.py").write_text("print(1)\n")
    assert submit("--", "true")["secrets_kept_out"] == [".env"]


CRASHING = """\
for step in range(1, 41):
    print(f"step {step}/100 loss {3 - step / 50:.3f} time 0.050s")
raise ValueError("shapes (3,4) and (5,6) not aligned")
"""


def test_after_a_failure_show_diagnose_and_metrics_tell_what_happened(home: Path) -> None:
    Path("train.py").write_text(CRASHING)
    job_id = submit("--name", "crashes", "--", sys.executable, "train.py")["job_id"]
    with Client() as client:
        drive(client, all_ended, [job_id])
        drive(client, lambda jobs: client.system.store.exits.pending() == (0, None), [job_id])

    shown = lucid("show", "crashes")
    assert "shapes (3,4) and (5,6) not aligned" in shown["failure_report"] and shown["actions"] == []
    words = runner.invoke(app, ["show", "crashes"], catch_exceptions=False).stdout
    assert "not aligned" in words

    diagnosed = lucid("diagnose", "crashes")
    assert (diagnosed["job_id"], diagnosed["attempt"], diagnosed["category"]) == (job_id, 1, "user_script")
    assert "not aligned" in diagnosed["root_text"]

    learnt = lucid("metrics", "crashes")
    assert learnt["progress"]["step"] == 40, "it ended before the service looked: its log is read now"
    assert [point["value"] for point in learnt["loss"]][-1] == pytest.approx(2.2)


def test_diagnose_names_what_is_neither_a_file_nor_a_job(home: Path) -> None:
    submit("--name", "crashes", "--", "true")
    for target in ("crash", "folder/no.log"):
        error = refused("diagnose", target)
        assert isinstance(error, NotFoundError) and target in str(error)
    waiting = refused("diagnose", "crashes")
    assert isinstance(waiting, NotFoundError) and "has no log" in str(waiting)
