"""The summary of a trace, checked against counts made by hand."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from rich.console import Console

from lucid_pipelines.traces import describe, generate, load, render_description
from lucid_pipelines.traces.canonical import write_trace
from lucid_pipelines.traces.render import bars
from tests.support_traces.samples import HELIOS_HEADER, write, write_sample


def test_helios_sample(tmp_path: Path) -> None:
    description = describe(load(write_sample(tmp_path, "helios")))
    assert (description.rows_read, description.jobs, description.quarantined) == (4, 3, 1)
    assert description.gpu_hours == pytest.approx((36848 + 4 * 249 + 675233) / 3600)
    assert description.gpus["4"].jobs == 1
    assert description.gpus["4"].gpu_time_frac == pytest.approx(996 / (36848 + 996 + 675233))
    assert sum(share.jobs for share in description.states.values()) == 3
    assert description.jobs_by_hour[18] == 3
    assert description.jobs_by_weekday == (0, 3, 0, 0, 0, 0, 0)
    assert description.queue_quantiles_s["p50"] == 0.0
    assert description.recurrence.repeated_frac is None
    assert description.recurrence.same_code_frac is None
    assert (description.users, description.mean_gpus, description.first_submit_at) == (
        3,
        2.0,
        "2020-06-09T18:41:01+00:00",
    )
    json.dumps(description.to_json())


def test_recurrence_by_hand(tmp_path: Path) -> None:
    header = "job_id,user,name,gpus,submit_s,duration_s,code_fingerprint"
    rows = [f"{i},u,{'a' if i < 5 else 'b'},1,{i},1,{'x' if i in (0, 3) else ''}" for i in range(7)]
    recurrence = describe(load(write(tmp_path, "t.csv", [header, *rows]))).recurrence
    assert recurrence.repeated_frac == pytest.approx(5 / 7)
    assert recurrence.recurring_frac == pytest.approx(5 / 7)
    assert recurrence.same_code_frac == pytest.approx(1 / 7)
    assert (recurrence.names, recurrence.fingerprints) == (2, 1)


def test_an_empty_trace(tmp_path: Path) -> None:
    description = describe(load(write(tmp_path, "t.csv", [HELIOS_HEADER, "1,2"])))
    assert description.jobs == 0
    assert description.mean_gpus is None
    assert description.duration_quantiles_s == {}
    assert rendered(description)


def rendered(description: object) -> str:
    console = Console(width=100, record=True, file=open("/dev/null", "w"))  # noqa: PTH123, SIM115
    console.print(render_description(description))  # pyright: ignore[reportArgumentType]
    return console.export_text()


def test_rows_add_up_and_what_is_unknown_is_left_out(tmp_path: Path) -> None:
    write_trace(generate(1, jobs=50), tmp_path / "t.csv")
    text = rendered(describe(load(tmp_path / "t.csv", start="2099-01-01")))
    assert "50 = 0 jobs + 0 in quarantine + 50 left out by the selection" in text
    assert "asked for" not in text and "None" not in text
    assert "asked for" in rendered(describe(load(tmp_path / "t.csv")))


def test_the_tables_show_every_part() -> None:
    text = rendered(describe(generate(1, jobs=2000)))
    for part in (
        "SYNTHETIC",
        "GPUs per job",
        "Final states",
        "Virtual clusters",
        "Models",
        "p99",
        "by hour",
        "cluster",
    ):
        assert part in text


def test_long_tables_say_what_they_leave_out() -> None:
    text = rendered(describe(generate(1, jobs=2000, vcs=40)))
    assert re.search(r"and \d+ more", text)


def test_bars() -> None:
    assert bars((0, 4, 8)) == " ▄█"
    assert bars((0, 0)) == "  "
