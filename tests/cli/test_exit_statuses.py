"""One exit status per meaning, one head for errors, and no folder made by looking."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from lucid_pipelines.cli import start
from lucid_pipelines.cli.exit_statuses import ExitStatus
from lucid_pipelines.domain.errors import LucidError

OPERATING = Path(__file__).resolve().parents[2] / "docs" / "operating.md"
WRONG, MISSING, STATE = ExitStatus.WRONG_INPUT, ExitStatus.NOT_FOUND, ExitStatus.WRONG_STATE


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    work = tmp_path / "work"
    (work / "folder").mkdir(parents=True)
    (work / "notes.txt").write_text("hello\n")
    monkeypatch.chdir(work)
    monkeypatch.setenv("LUCID_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LUCID__CLUSTER__GPUS", "virtual")
    return tmp_path / "home"


def status_of(words: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """What the program `lucid` ends with."""
    monkeypatch.setattr(sys, "argv", ["lucid", *words.split()])
    with pytest.raises(SystemExit) as ended:
        start.main()
    code = ended.value.code
    return code if isinstance(code, int) else 0


def test_the_table_in_the_docs_is_whole() -> None:
    section = OPERATING.read_text(encoding="utf-8").partition("## Exit statuses")[2].partition("\n## ")[0]
    assert [int(number) for number in re.findall(r"^\| (\d+) \|", section, re.MULTILINE)] == list(ExitStatus)


def test_every_error_has_a_status_of_the_table() -> None:
    found, todo = set[type[LucidError]](), [LucidError]
    while todo:
        kind = todo.pop()
        found.add(kind)
        todo += kind.__subclasses__()
    assert {kind.exit_code for kind in found if kind is not LucidError} <= set(ExitStatus)


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ("jobs --state x", WRONG),
        ("show nothing", MISSING),
        ("logs nothing", MISSING),
        ("cancel nothing", MISSING),
        ("actions list --state x", WRONG),
        ("actions approve 3", MISSING),
        ("decisions replay 1999-01-01", MISSING),
        ("tuner apply --from no.json", MISSING),
        ("tuner revert", STATE),
        ("models show duration", MISSING),
        ("models rollback duration", STATE),
        ("models train duration --trace no.csv", MISSING),
        ("history search nothing", MISSING),
        ("history import no.jsonl", MISSING),
        ("advise no -- x", MISSING),
        ("track no.log", MISSING),
        ("track folder", WRONG),
        ("diagnose no.log", MISSING),
        ("diagnose folder", WRONG),
        ("replay no.csv --policy fifo", MISSING),
        ("replay notes.txt --policy fifoo", WRONG),
        ("replay notes.txt --policy fifo --format x", WRONG),
        ("replay notes.txt --policy fifo", WRONG),
        ("traces describe folder", WRONG),
        ("traces describe no.csv", MISSING),
        ("tune no.csv", MISSING),
        ("submit --vc x -- true", WRONG),
        ("submit -f no.yaml", MISSING),
        ("submit --source no -- true", MISSING),
        ("submit --source notes.txt -- true", WRONG),
        ("sbatch no.sh", MISSING),
        ("sbatch folder", WRONG),
    ],
)
def test_errors_have_one_head_and_the_status_of_their_kind(
    words: str, status: int, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home.mkdir()
    assert status_of(words, monkeypatch) == status
    told = capsys.readouterr().err
    assert told.lstrip().startswith("error ") and len(told.strip().splitlines()) == 1, told


@pytest.mark.parametrize(
    "words",
    [
        *("jobs", "jobs --json", "show a", "logs a", "metrics a", "cancel a", "explain a", "nodes", "top --once"),
        *("actions list", "actions approve 3", "decisions replay", "decisions record", "tuner show", "tuner revert"),
        *("models list", "models show duration", "models explain", "models promote duration x"),
        *("models rollback duration", "history search a", "history export", "history calibrate", "diagnose a"),
    ],
)
def test_a_mistyped_home_is_told_and_not_made(
    words: str, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of(words, monkeypatch) == MISSING
    assert not home.exists() and "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", ["doctor", "down", "down --json", "track notes.txt", "diagnose notes.txt", "advise . -- x"]
)
def test_what_needs_no_home_makes_none(words: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert status_of(words, monkeypatch) == ExitStatus.DONE
    assert not home.exists()
