"""The whole path, as the submission job, the policies and the command line use it."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from lucid_pipelines.advisor.advising import Advice, Advisor, AdvisorSettings, vector_space
from lucid_pipelines.advisor.box import BoxLimits
from lucid_pipelines.advisor.description import LaunchDescription
from lucid_pipelines.advisor.estimates import Fallback
from lucid_pipelines.advisor.extract import extract_metadata
from lucid_pipelines.advisor.fingerprint import Surroundings, fingerprint
from lucid_pipelines.advisor.metadata import FieldName, JobMetadata
from lucid_pipelines.advisor.past_job_json import past_job_to_json
from lucid_pipelines.advisor.scoring import Verdict
from lucid_pipelines.advisor.target import find_target
from lucid_pipelines.cli.advise import advise
from lucid_pipelines.cli.history import app as history_app
from lucid_pipelines.domain.errors import ExternalError, InputError, NotFoundError
from lucid_pipelines.domain.similarity import HistoryFilter, IndexEntry, PastJob, VectorSpace
from lucid_pipelines.domain.states import Outcome
from lucid_pipelines.resources.embedders.hashing import HashEmbedder
from lucid_pipelines.resources.history_index import open_index
from tests.support_advisor.model_double import UNREACHABLE, ModelDouble, finish, read
from tests.support_advisor.past import LATER, day, past
from tests.support_advisor.repos import TRAINING, write

EMBEDDER = HashEmbedder()
PLACE = Surroundings("A100", 1)
COMMAND = ["python", "train.py"]
SETTINGS = AdvisorSettings(threshold=EMBEDDER.default_threshold)


def read_here(root: Path, launch: LaunchDescription, limits: BoxLimits) -> JobMetadata:
    """The reader without its box: starting a process for each test takes long."""
    del limits
    return extract_metadata(root, launch)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write(tmp_path / "code", TRAINING if isinstance(TRAINING, dict) else {"train.py": TRAINING})


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Advisor]:
    def made(settings: AdvisorSettings = SETTINGS, **more: Any) -> Advisor:
        index = open_index(f"sqlite:///{tmp_path / 'history.db'}", vector_space(EMBEDDER))
        return Advisor(EMBEDDER, index, settings, **{"read": read_here, **more})

    return made


def runs_of(root: Path, *hours: float, first_day: float = 1.0, **facts: Any) -> list[PastJob]:
    """Past runs of the code at ``root``."""
    mark = fingerprint(extract_metadata(root, LaunchDescription(COMMAND)), PLACE)
    return [
        past(
            f"run-{first_day:g}-{number}",
            first_day + number,
            3600 * each,
            **{"fingerprint": mark.text, "task_type": mark.task_type, "gpu_type": mark.gpu_type, "gpus": 1, **facts},
        )
        for number, each in enumerate(hours)
    ]


def ask(advisor: Advisor, root: Path, as_of: float = 100.0) -> Advice:
    return advisor.advise(root, LaunchDescription(COMMAND), day(as_of), PLACE)


def test_a_job_that_ran_before_has_an_estimate(root: Path, make: Callable[..., Advisor]) -> None:
    advisor = make()
    assert advisor.learn(runs_of(root, 2.0, 2.1, 1.9)) == 3
    advice = ask(advisor, root)
    assert advice.estimate is not None and advice.estimate.duration_s is not None
    assert advice.estimate.duration_s == pytest.approx(2 * 3600, rel=0.05)
    assert advice.estimate.evidence_job_ids == ("run-1-2", "run-1-1", "run-1-0")
    assert advice.basis == "advisor_history"
    assert advice.metadata is not None and advice.similar is not None
    assert [match.similarity for match in advice.similar.matches] == pytest.approx([1, 1, 1], abs=1e-5)
    assert advice.cost.cpu_s > 0
    assert dict(advisor.counts) == {"advisor_history": 1}


def test_nothing_from_the_future_leaks(root: Path, make: Callable[..., Advisor]) -> None:
    advisor = make()
    advisor.learn(runs_of(root, 2.0, 2.0, first_day=10))
    assert ask(advisor, root, as_of=9.9).advised.fallback is Fallback.NO_HISTORY
    assert ask(advisor, root, as_of=20).estimate is not None


def test_the_paper_rule_can_be_chosen(root: Path, make: Callable[..., Advisor]) -> None:
    advisor = make(AdvisorSettings(threshold=0.85, use_paper_rule=True))
    advisor.learn(runs_of(root, 1.0, 2.0, 3.0))
    advice = ask(advisor, root)
    assert advice.estimate is not None
    assert (advice.estimate.duration_s, advice.basis) == (pytest.approx(7200), "advisor_top_mean")


def test_each_way_to_fall_back_is_counted(root: Path, tmp_path: Path, make: Callable[..., Advisor]) -> None:
    advisor = make()
    assert ask(advisor, root).basis == "no_history"
    advisor.learn([past("other", 1, fingerprint="model: vgg16", task_type=runs_of(root, 1)[0].task_type)])
    assert ask(advisor, root).basis == "no_match"
    advisor.learn(runs_of(root, 1.0, 1.0, outcome=Outcome.FAILED_USER))
    assert ask(advisor, root).basis == "none_completed"
    empty = write(tmp_path / "empty", {"run.sh": "echo hello\n"})
    assert advisor.advise(empty, LaunchDescription(["sh", "run.sh"]), LATER).basis == "too_little_read"
    assert ask(advisor, tmp_path / "missing").basis == "code_not_read"
    assert dict(advisor.counts) == {
        "no_history": 1,
        "no_match": 1,
        "none_completed": 1,
        "too_little_read": 1,
        "code_not_read": 1,
    }


class _Away:
    """An index whose server is away."""

    space = vector_space(EMBEDDER)

    def search(self, *_: object) -> Any:
        raise ExternalError("the Redis server of the history index did not answer as it should")


def test_an_index_that_is_away_is_a_fallback(root: Path) -> None:
    advisor = Advisor(EMBEDDER, _Away(), SETTINGS, read=read_here)  # pyright: ignore[reportArgumentType]
    advice = ask(advisor, root)
    assert (advice.estimate, advice.advised.fallback) == (None, Fallback.HISTORY_AWAY)
    assert "Redis" in advice.advised.detail


def test_a_reader_that_breaks_is_a_fallback(root: Path, make: Callable[..., Advisor]) -> None:
    def broken(*_: object) -> JobMetadata:
        raise ExternalError("reading the code took longer than its time box: 15 s")

    advice = ask(make(read=broken), root)
    assert (advice.advised.fallback, advice.metadata) == (Fallback.CODE_NOT_READ, None)


def test_the_box_gets_what_is_left_of_the_time(root: Path, make: Callable[..., Advisor]) -> None:
    limits: list[BoxLimits] = []

    def noting(folder: Path, launch: LaunchDescription, box: BoxLimits) -> JobMetadata:
        limits.append(box)
        return extract_metadata(folder, launch)

    ask(make(AdvisorSettings(threshold=0.85, time_box_s=20), read=noting, clock=lambda: 0.0), root)
    assert limits[0].wall_s == 16.0


def test_another_embedders_index_is_refused(tmp_path: Path) -> None:
    index = open_index(f"sqlite:///{tmp_path / 'history.db'}", VectorSpace("bge-m3", 1024, 1))
    with pytest.raises(InputError, match="bge-m3"):
        Advisor(EMBEDDER, index, SETTINGS)


def test_a_model_is_asked_for_what_is_missing(tmp_path: Path, make: Callable[..., Advisor]) -> None:
    root = write(
        tmp_path / "opaque",
        {"train.py": "import sys, sauce\nsauce.go(sys.argv[1])\n", "run.yaml": "model: resnet50\nbatch_size: 48\n"},
    )
    model = ModelDouble(read("run.yaml"), finish(("batch_size", 48, "run.yaml", 2)))
    advice = make(model=model).advise(root, LaunchDescription(COMMAND), LATER)
    assert advice.metadata is not None and advice.metadata.value(FieldName.BATCH_SIZE) == 48
    assert advice.agent is not None and advice.agent.accepted == 1
    away = make(model=ModelDouble(UNREACHABLE)).advise(root, LaunchDescription(COMMAND), LATER)
    assert away.metadata is not None and FieldName.BATCH_SIZE not in away.metadata.fields
    assert away.agent is not None and away.agent.stop == "unreachable"


def test_outcomes_teach_the_interval(root: Path, make: Callable[..., Advisor]) -> None:
    advisor = make()
    advisor.learn(runs_of(root, 2.0, 2.0, 2.0))
    assert ask(advisor, root).advised.fallback is None
    for factor in [1.5, 0.9] * 30:
        found = advisor.note_outcome(ask(advisor, root).advised, Outcome.COMPLETED, 7200 * factor)
        assert found.verdict is Verdict.HIT_RIGHT
    made = ask(advisor, root).estimate
    assert made is not None
    assert (made.low_s, made.high_s) == (pytest.approx(7200 * 0.9), pytest.approx(7200 * 1.5))
    assert advisor.note_outcome(ask(advisor, root).advised, Outcome.LOST, None).verdict is Verdict.NOT_SCORED


def test_settings_are_checked() -> None:
    for wrong in ({"threshold": 1.5}, {"threshold": float("nan")}, {"k": 0}, {"time_box_s": 0}):
        with pytest.raises(InputError):
            AdvisorSettings(**{"threshold": 0.85, **wrong})


# ---------------------------------------------------------------------- the folder and the file


def test_a_file_in_a_checkout_finds_its_top_and_the_working_directory(tmp_path: Path) -> None:
    top = write(
        tmp_path / "repo",
        {
            "setup.py": "",
            "examples/a/train.py": "",
            "examples/a/cfg.yaml": "",
            "examples/b/run.sh": "",
            "tools/t.py": "",
        },
    )
    file = top / "examples" / "a" / "train.py"

    def place(path: Path, command: str) -> tuple[str, str, str | None]:
        found = find_target(path, shlex.split(command))
        return found.root.name, found.workdir, found.entry

    assert place(file, "python train.py --config cfg.yaml") == ("repo", "examples/a", "examples/a/train.py")
    assert place(file, "python examples/a/train.py --config examples/a/cfg.yaml")[1] == ""
    assert place(file, "python a/train.py --config a/cfg.yaml")[1] == "examples"
    assert place(file.parent, "python train.py") == ("repo", "examples/a", None)
    assert place(top, "python -m tools.t") == ("repo", "", None)
    assert place(file, "accelerate launch something")[1] == "examples/a"
    with pytest.raises(NotFoundError, match=r"train\.py"):
        find_target(top / "examples" / "a" / "trian.py")
    loose = write(tmp_path / "loose", {"train.py": ""})
    assert find_target(loose).root.name == "loose"


# ---------------------------------------------------------------------- command line


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Any]:
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command("advise")(advise)
    app.add_typer(history_app, name="history")

    def call(*words: str | Path) -> Any:
        return CliRunner().invoke(app, [str(word) for word in words], env={"LUCID_HOME": str(tmp_path / "home")})

    return call


def test_advise_and_history_on_the_command_line(root: Path, tmp_path: Path, run: Callable[..., Any]) -> None:
    first = run("advise", "--json", "--in-process", "--gpu-type", "A100", "--gpus", "1", root, "--", *COMMAND)
    assert first.exit_code == 0, first.output
    data = json.loads(first.stdout)
    assert data["fallback"]["reason"] == "no_history"
    batch = data["fields"]["batch_size"]
    assert (batch["value"], data["values"]["batch_size"]) == (batch["value"],) * 2
    assert batch["evidence"][0]["line"] >= 1

    jobs = tmp_path / "jobs.jsonl"
    lines = [json.dumps(past_job_to_json(job)) for job in runs_of(root, 2.0, 2.2, 2.1)]
    jobs.write_text("\n".join([*lines, "", "no json", '{"job_id": "x"}']) + "\n")
    brought = run("history", "import", "--json", jobs)
    assert brought.exit_code == 2
    told = json.loads(brought.stdout)
    assert (told["read"], told["new"], [each["line"] for each in told["refused"]]) == (3, 3, [5, 6])

    as_of = ["--as-of", "2026-02-01"]
    again = run("advise", "--json", "--in-process", *as_of, "--gpu-type", "A100", "--gpus", "1", root, "--", *COMMAND)
    data = json.loads(again.stdout)
    assert data["estimate"]["duration_s"] == pytest.approx(2.1 * 3600, rel=0.03)
    assert [each["job_id"] for each in data["similar"]] == ["run-1-2", "run-1-1", "run-1-0"]
    assert data["search"]["eligible"] == 3

    shown = run("advise", "--in-process", *as_of, "--gpu-type", "A100", "--gpus", "1", root, "--", *COMMAND)
    assert shown.exit_code == 0
    assert "estimate" in shown.stdout and "run-1-2" in shown.stdout and "batch_size" in shown.stdout

    found = run("history", "search", "run-1-0", "--json")
    assert [each["job_id"] for each in json.loads(found.stdout)["matches"]] == ["run-1-2", "run-1-1"]
    out = tmp_path / "out.jsonl"
    assert run("history", "export", "--out", out).exit_code == 0
    assert sorted(map(json.loads, out.read_text().splitlines()), key=lambda job: job["job_id"]) == [
        json.loads(line) for line in lines
    ]
    calibrated = run("history", "calibrate", "--json")
    assert calibrated.exit_code == 1
    assert json.loads(calibrated.stdout)["threshold"] is None


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (["--env", "novalue", "ROOT", "--", "python", "x.py"], InputError),
        (["--as-of", "yesterday", "ROOT", "--", "python", "x.py"], InputError),
        (["ROOT/missing", "--", "python", "x.py"], NotFoundError),
        (["--index", "nonsense", "ROOT", "--", "python", "x.py"], InputError),
    ],
)
def test_wrong_words(words: list[str], kind: type[Exception], root: Path, run: Callable[..., Any]) -> None:
    result = run("advise", "--in-process", *[word.replace("ROOT", str(root)) for word in words])
    assert isinstance(result.exception, kind)


def test_history_commands_without_a_history(run: Callable[..., Any]) -> None:
    for words in (["export"], ["search", "x"], ["calibrate"]):
        assert isinstance(run("history", *words).exception, NotFoundError)


def test_an_unknown_job_names_the_nearest(root: Path, tmp_path: Path, run: Callable[..., Any]) -> None:
    jobs = tmp_path / "jobs.jsonl"
    jobs.write_text(json.dumps(past_job_to_json(past("resnet-7"))) + "\n")
    assert run("history", "import", jobs).exit_code == 0
    assert "resnet-7" in str(run("history", "search", "resnet-8").exception)


def test_the_command_reads_in_its_box(root: Path, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "lucid_pipelines.cli.start", "advise", "--json", str(root), "--", *COMMAND]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["report"]["entry"] == "train.py"
    missing = subprocess.run([*words[:5], str(root / "no"), "--", "x"], capture_output=True, text=True, check=False)
    assert missing.returncode == 4
    assert "error" in missing.stderr and "Traceback" not in missing.stderr


def test_filters_of_an_entry_match_its_own_job(root: Path) -> None:
    job = runs_of(root, 1.0)[0]
    assert HistoryFilter(job.task_type, "a100", 1).admits(job)
    assert IndexEntry(job, [1.0]).job is job
