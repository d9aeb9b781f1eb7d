"""`lucid metrics` and the progress that `lucid show` tells."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lucid_pipelines.cli.main import app
from lucid_pipelines.cli.output import progress_facts
from lucid_pipelines.domain.job import JobSpec
from lucid_pipelines.store import Tracked
from lucid_pipelines.tracker.curves import curve_lines, curve_svg
from tests.support_control.talking import TalkingWorld, steps

RUN = CliRunner()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LUCID__CLUSTER__GPUS", "virtual")
    return tmp_path / "home"


def tracked_job(home: Path) -> str:
    world = TalkingWorld(home)
    attempt = world.start(name="talker")
    for number in range(3):
        world.write(attempt, steps(1 + 60 * number, 60, total=1000))
        world.look()
    world.store.close()
    return attempt.job_id


def test_a_job_is_drawn_and_given_as_json(home: Path) -> None:
    job_id = tracked_job(home)
    shown = RUN.invoke(app, ["metrics", job_id, "--home", str(home)])
    assert shown.exit_code == 0, shown.output
    for text in ("180 of 1,000", "seconds per step", "loss", "time left", "between"):
        assert text in shown.output
    assert any("\u2801" <= char <= "\u28ff" for char in shown.output), "a curve"
    value = json.loads(RUN.invoke(app, ["metrics", "talker", "--json", "--home", str(home)]).output)
    assert value["progress"]["step"] == 180 and value["job_id"] == job_id
    assert value["loss"][-1]["value"] == pytest.approx(3.82) and value["loss"][-1]["run_s"] > 0
    told = RUN.invoke(app, ["show", job_id, "--home", str(home)]).output
    assert "180 of 1,000" in told and "time left" in told
    seen = json.loads(RUN.invoke(app, ["show", job_id, "--json", "--home", str(home)]).output)
    assert seen["progress"]["remaining"]["low_s"] < seen["progress"]["remaining"]["high_s"]


def test_a_job_that_has_not_started_says_so(home: Path) -> None:
    world = TalkingWorld(home)
    world.cluster.nodes = ()
    job, _ = world.store.jobs.submit(JobSpec("waits", "ada", "vision", 1, ("hold",)), world.clock.now())
    world.store.close()
    assert "not started" in RUN.invoke(app, ["metrics", job.job_id, "--home", str(home)]).output
    assert RUN.invoke(app, ["metrics", job.job_id, "--json", "--home", str(home)]).exit_code != 0


CURVES: list[list[tuple[float, float]]] = [
    [],
    [(0.0, 1.0)],
    [(5.0, float("nan")), (1.0, float("inf"))],
    [(float(i), (-1) ** i * 1e12) for i in range(500)],
    [(0.0, 3.0), (9.0, 3.0)],
]


@pytest.mark.parametrize("points", CURVES)
def test_curves_of_any_values_have_their_size(points: list[tuple[float, float]]) -> None:
    lines = curve_lines(points, 60, 6)
    assert len(lines) in (1, 7) and all(len(line) <= 60 for line in lines)
    svg = curve_svg(points, "loss <b>")
    assert svg.startswith("<svg") and svg.endswith("</svg>") and "<b>" not in svg and "nan" not in svg


def test_one_look_is_a_number_and_no_empty_curve(home: Path) -> None:
    world = TalkingWorld(home)
    attempt = world.start(name="talker")
    world.write(attempt, steps(1, 60, total=1000))
    world.look()
    world.store.close()
    shown = RUN.invoke(app, ["metrics", "talker", "--home", str(home)]).output
    assert "one look makes no curve" in shown
    assert "60 of 1,000 (6%)" in shown


def test_of_an_ended_job_nothing_is_left_and_its_epoch_is_told() -> None:
    told = {
        "step": 50, "total_steps": 100, "steps_left": None, "epoch": 10.0, "step_unit": "step",
        "step_time_s": 0.5, "step_time_source": "printed", "step_time_unit": "step",
        "remaining": {"remaining_s": 60.0, "low_s": 50.0, "high_s": 70.0, "basis": "120 steps left at 0.5 s (printed)"},
    }  # fmt: skip
    row = Tracked("a", "j", 1, datetime(2026, 1, 5, tzinfo=UTC), {}, told, {}, ())
    running, ended = progress_facts(row), progress_facts(row, has_ended=True)
    assert "between" in str(running["time left"])
    assert ended["time left"] is None
    assert running["step"] == "50 of 100, of this epoch or of all"
    assert running["epoch"] == "10"
    assert running["time per step"] == "0.5 s (printed)"
