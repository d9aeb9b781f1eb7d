"""What somebody new types: options on the wrong side, misspelt names, questions that nothing answers."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lucid_pipelines.cli.lazy import COMMANDS, load
from lucid_pipelines.cli.main import app
from lucid_pipelines.client import Client
from lucid_pipelines.control.following import Follower
from lucid_pipelines.domain.states import Cause, JobState, Outcome
from lucid_pipelines.service.dagster_home import run_files
from lucid_pipelines.service.status import ServiceStatus, hold_lock, write_status
from lucid_pipelines.settings import load_settings
from tests.support_control.worlds import all_ended, drive

RUN = CliRunner()
CRASHING = (
    "for i in range(30): print(f'step {i} loss {3 - i / 50}')\nraise ValueError('shapes (3,4) and (5,6) not aligned')\n"
)
BATCH = "#!/bin/bash\n#SBATCH --gres=gpu:1\n#SBATCH -p nlp\necho $@\n"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    source = tmp_path / "source"
    source.mkdir()
    monkeypatch.chdir(source)
    monkeypatch.setenv("LUCID_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LUCID__CLUSTER__GPUS", "virtual")
    return tmp_path / "home"


def told(*words: str) -> str:
    """What a command says, on both streams, without the frame around errors and its line breaks."""
    result = RUN.invoke(app, list(words), terminal_width=200)
    said = f"{result.output} {result.exception or ''}"
    return " ".join(said.replace("│", " ").split())


def test_options_of_the_command_are_told_to_go_behind_two_dashes() -> None:
    hint = "Put -- before the command that starts the job"
    behind = told("submit", "python", "train.py", "--epochs", "3")
    assert f"No such option: --epochs. {hint}" in behind and "Possible options" not in behind
    assert hint in told("submit", "--epochs", "3")
    before = told("submit", "--gpu", "2", "python", "train.py")
    assert hint in before and "--gpus" in before, "it may as well be a misspelt one"
    assert "Put --" not in told("submit", "--gpu", "2", "--", "python", "train.py")
    assert "Put --" not in told("jobs", "--gpu", "2")
    Path("b.sh").write_text(BATCH)
    assert "Put -- before the arguments of the script" in told("sbatch", "b.sh", "--epochs", "3")


def test_an_option_behind_the_command_that_lucid_takes_for_its_own_is_told() -> None:
    said = told("submit", "python", "train.py", "--name", "mine")
    assert "--name: taken as lucid's own; to hand it on, put -- before the command" in said
    for words in (["--name", "mine", "python", "x"], ["python", "x"], ["--name", "m", "--", "python", "--name", "x"]):
        assert "taken as" not in told("submit", *words)
    with Client() as client:
        assert client.jobs()[0].spec.command == ("python", "--name", "x")


@pytest.mark.parametrize("name", COMMANDS)
def test_completion_is_set_up_at_the_top_alone_and_h_is_help_everywhere(name: str) -> None:
    for command in (load(name), *getattr(load(name), "commands", {}).values()):
        result: Any = RUN.invoke(app, [name, "-h"] if command.name == name else [name, command.name, "-h"])
        assert result.exit_code == 0 and "completion" not in result.output, result.output


def test_a_misspelt_command_names_the_nearest() -> None:
    assert "install-completion" in told("--help")
    assert "No such command 'job' (did you mean 'jobs'?)" in told("job")
    assert "No such command 'zzzzzz'." in told("zzzzzz")


def test_no_job_like_that_is_not_no_job(home: Path) -> None:
    assert "no state folder yet; `lucid submit` and `lucid up` make it" in told("jobs") and not home.exists()
    home.mkdir()
    assert f"No job yet in {home}." in told("jobs"), "it may be the wrong folder"
    told("submit", "--", "true")
    assert "No job is like that" in told("jobs", "--user", "nobody")


def test_a_time_limit_without_waiting_is_refused_and_submits_nothing() -> None:
    assert "--timeout says how long --wait waits" in told("submit", "--timeout", "5", "--", "true")
    Path("train.py").write_text("1")
    assert "is no folder" in told("submit", "--source", "train.py", "--", "true")
    assert "No job yet" in told("jobs")


def test_sbatch_tells_what_submit_tells() -> None:
    Path("b.sh").write_text(BATCH)
    Path(".env").write_text("TOKEN=abc")
    said = told("sbatch", "b.sh")
    assert "submitted" in said and "kept out .env" in said and "service of this home folder is not running" in said
    assert '"secrets_kept_out": [".env"]' in told("sbatch", "--json", "b.sh")


def test_attempts_are_listed_with_the_diagnosed_cause() -> None:
    Path("train.py").write_text(CRASHING)
    told("submit", "--name", "crashes", "--", sys.executable, "train.py")
    with Client() as client:
        job_id = client.job("crashes").job_id
        drive(client, all_ended, [job_id])
        drive(client, lambda jobs: client.system.store.exits.pending() == (0, None), [job_id])
        (recorded,) = client.attempts(job_id)
        assert recorded.outcome is Outcome.FAILED_UNKNOWN, "the exit record itself stays as it is"
        for _ in range(2):
            assert "failed_unknown" not in told("show", "crashes")
            (listed,) = client.explain("crashes").attempts
            assert (listed.outcome, listed.cause) == (Outcome.FAILED_USER, Cause.USER)
            if client.job("crashes").state.is_terminal:  # and as an earlier attempt, once it is back in the queue
                client.system.store.jobs.requeue(job_id, who="ann", why="again", now=client.system.clock.now())


def test_a_command_that_cannot_start_is_its_users_mistake() -> None:
    told("submit", "--name", "nope", "--", "./nope")
    with Client() as client:
        job_id = client.job("nope").job_id
        drive(client, all_ended, [job_id])
        drive(client, lambda jobs: client.system.store.exits.pending() == (0, None), [job_id])
        assert client.system.store.actions.find(target=job_id) == [], "nobody is asked about a restart"
    said = told("show", "nope")
    assert "failed, user script" in said and "Mend the command and submit the job again: command not found" in said
    assert "none found in" in said


def test_a_job_where_a_log_is_wanted_and_one_that_did_not_fail() -> None:
    told("submit", "--name", "fine", "--", sys.executable, "-c", "print(1)")
    with Client() as client:
        drive(client, all_ended, [client.job("fine").job_id])
    assert "if that is a job, ask `lucid metrics fine`" in told("track", "fine")
    assert "has not failed: it is completed" in told("diagnose", "fine")
    assert "line text why" not in told("diagnose", "fine")


def test_the_history_is_searched_by_a_jobs_name_too() -> None:
    told("submit", "--name", "one", "--", "true")
    with Client() as client:
        job_id = client.job("one").job_id
    past = {"job_id": job_id, "fingerprint": "model: resnet50", "outcome": "completed", "duration_s": 60}
    times = {"submitted_at": "2026-01-01T00:00:00", "ended_at": "2026-01-01T00:01:00"}
    Path("past.jsonl").write_text("\n".join(json.dumps({**past, **times, "job_id": key}) for key in (job_id, "other")))
    assert "2 past jobs read" in told("history", "import", "past.jsonl")
    assert told("history", "search", "one") == told("history", "search", job_id)
    assert "other" in told("history", "search", "one")
    assert "no such past job" in told("history", "search", "three")


def test_doctor_names_modes_that_the_running_service_has_and_this_shell_has_not(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = run_files(load_settings())
    lock = hold_lock(files)
    assert lock is not None
    write_status(files, ServiceStatus(1, "running", "http://127.0.0.1:9", "2026-01-01", modes={"pack": "live"}))
    with lock:
        differs = "pack: live in the running service, shadow by the settings that this command reads"
        assert differs in told("doctor")
        monkeypatch.setenv("LUCID__MODES__PACK", "live")
        assert "this command reads" not in told("doctor") and "pack: live" in told("doctor")


def test_explain_tells_what_the_log_says_when_the_estimate_is_outrun() -> None:
    steps = "import time\nfor i in range(90): print(f'step {i}/500 loss {3 - i / 500:.4f} 0.5 s/step', flush=True)\n"
    Path("train.py").write_text(steps + "time.sleep(60)\n")
    told("submit", "--name", "long", "--", sys.executable, "train.py")
    with Client() as client:
        job_id = client.job("long").job_id
        drive(client, lambda jobs: jobs[0].state is JobState.RUNNING, [job_id])
        attempt = client.attempt(job_id)
        assert attempt is not None
        deadline = time.monotonic() + 30
        while b"step 89" not in client.read_log(attempt.attempt_id, 0, 1 << 20).data and time.monotonic() < deadline:
            time.sleep(0.1)
        Follower().look(client.system, client.system.store.queue.view().active)
        said = told("explain", "long")
        assert "by its log, in" in said and "steps left at 0.5 s" in said
        client.cancel(job_id, who="ann")
        drive(client, all_ended, [job_id])
        assert "by its log" not in told("explain", "long")


def test_a_job_that_was_cancelled_before_it_began_is_not_waited_for() -> None:
    told("submit", "--name", "waits", "--", "true")
    assert "add --follow to wait" in told("logs", "waits") and "has not started yet" in told("metrics", "waits")
    told("cancel", "waits")
    assert "add --follow" not in told("logs", "waits") and "never started" in told("metrics", "waits")
