from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from lucid_pipelines.cli.main import app
from lucid_pipelines.cli.track import watch
from lucid_pipelines.domain.errors import InputError, NotFoundError
from lucid_pipelines.tracker.display import live_view, progress_table, sparkline
from lucid_pipelines.tracker.tracking import track_file

RUN = CliRunner()


def write_log(path: Path, last: int) -> Path:
    path.write_bytes(b"".join(b"step %d/500 loss %.4f 0.5 s/step\n" % (i, 3 - i / 500) for i in range(1, last)))
    return path


def test_json_is_one_object_a_file_in_order(tmp_path: Path) -> None:
    a = write_log(tmp_path / "a.log", 50)
    b = tmp_path / "b.log"
    b.write_bytes(b"downloading 50%\n" * 9)
    c = tmp_path / "c.log.gz"
    c.write_bytes(gzip.compress(a.read_bytes()))
    done = RUN.invoke(app, ["track", "--json", str(a), str(b), str(c)])
    assert done.exit_code == 0, done.output
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["file"] for row in rows] == [str(a), str(b), str(c)]
    assert [row["step"] for row in rows] == [49, None, 49]
    assert rows[0]["evidence"] == [{"line": 49, "text": "step 49/500 loss 2.9020 0.5 s/step"}]
    assert rows[0]["eta_s"] == pytest.approx(451 * 0.5)
    assert rows[1]["fallback_reason"]


def test_each_log_has_its_row_and_a_missing_one_its_status(tmp_path: Path) -> None:
    log = write_log(tmp_path / "a.log", 50)
    command = [
        sys.executable,
        "-m",
        "lucid_pipelines.cli.start",
        "track",
        "--json",
        str(log),
        str(tmp_path / "gone.log"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["step"] for row in rows] == [49, None]
    assert "gone.log" in rows[1]["fallback_reason"]
    assert done.returncode == 4
    assert "gone.log" in done.stderr


def test_a_table_for_people(tmp_path: Path) -> None:
    log = write_log(tmp_path / "a.log", 50)
    console = Console(file=io.StringIO(), width=200)
    console.print(progress_table([("a", track_file(log))]))
    console.print(live_view("a", track_file(log)))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "49 / 500" in shown
    assert "3 min" in shown
    assert "loss" in shown


def test_following_shows_what_changed_until_told_to_stop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = write_log(tmp_path / "a.log", 50)
    looks = iter([60, 60, 70])
    console = Console(file=io.StringIO(), width=160)
    watch(log, console, as_json=True, rounds=4, sleep=lambda _: write_log(log, next(looks)) and None)
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["step"] for row in rows] == [49, 59, 69]
    watch(log, console, rounds=2, sleep=lambda _: write_log(log, 80) and None)
    assert "79 / 500" in console.file.getvalue()  # type: ignore[attr-defined]


def test_following_ends_quietly_when_interrupted(tmp_path: Path) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    watch(write_log(tmp_path / "a.log", 50), Console(file=io.StringIO()), sleep=interrupt)


def test_what_cannot_be_followed_is_refused(tmp_path: Path) -> None:
    packed = tmp_path / "a.log.gz"
    packed.write_bytes(gzip.compress(b"step 1\n"))
    with pytest.raises(InputError, match="does not grow"):
        watch(packed, Console(), rounds=1)
    with pytest.raises(NotFoundError):
        watch(tmp_path / "gone.log", Console(), rounds=1)
    done = RUN.invoke(app, ["track", "--follow", str(packed), str(packed)])
    assert isinstance(done.exception, InputError)


def test_standard_input_is_a_log_too(tmp_path: Path) -> None:
    data = write_log(tmp_path / "a.log", 50).read_bytes()
    done = RUN.invoke(app, ["track", "--json", "-"], input=data)
    row = json.loads(done.stdout)
    assert (row["file"], row["step"], row["evidence"][0]["line"]) == ("-", 49, 49)
    assert isinstance(RUN.invoke(app, ["track", "--follow", "-"], input=data).exception, InputError)
    empty = RUN.invoke(app, ["track", "-"], input=b"")
    assert "the log is empty" in empty.stdout


def test_a_log_that_vanishes_while_followed_is_waited_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = write_log(tmp_path / "a.log", 50)
    deeds = iter([log.unlink, lambda: None, lambda: write_log(log, 20), lambda: os.truncate(log, 0)])
    watch(log, Console(), as_json=True, rounds=5, sleep=lambda _: next(deeds)() and None)
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["step"] for row in rows] == [49, 49, 19, None]
    assert "come back" in rows[1]["fallback_reason"]
    assert "empty" in rows[3]["fallback_reason"]


def test_people_read_what_is_missing_and_why(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(b"".join(b"step %d/500 loss nan 0.5 s/step\n" % i for i in range(1, 50)))
    done = RUN.invoke(app, ["track", str(log), str(tmp_path / "gone.log")])
    assert "the newest training loss is nan" in " ".join(done.stdout.split())
    assert "there is no log at" in " ".join(done.stdout.split())
    console = Console(file=io.StringIO(), width=200)
    console.print(live_view("a", track_file(log)))


def test_small_pictures() -> None:
    assert sparkline([1, 2, 3]) == "▁▄█"
    assert sparkline([2, 2]) == "▁▁"
