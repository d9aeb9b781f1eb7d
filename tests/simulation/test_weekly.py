"""Replays by week: what is stored once, what a killed process leaves, what the past may tell."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lucid_pipelines.domain.errors import InputError, NotFoundError
from lucid_pipelines.settings import ReplaySettings
from lucid_pipelines.simulation.comparison import week_plots, week_table, weeks_table
from lucid_pipelines.simulation.weekly import WEEK_S, WeeklyReplays
from lucid_pipelines.traces import generate
from lucid_pipelines.traces.canonical import write_trace

POLICIES = ("fifo", "sjf", "qssf", "tiresias", "lucid:no_packing")
CLUSTER = "virtual_clusters: {a: {nodes: 2, gpus_per_node: 8, gpu_type: X, gpu_memory_mib: 24576}}\n"


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> ReplaySettings:
    """Four weeks of 50 jobs each, on a cluster file."""
    folder = tmp_path_factory.mktemp("trace")
    write_trace(generate(3, jobs=200, days=28, vcs=["a"]), folder / "trace.csv")
    (folder / "cluster.yaml").write_text(CLUSTER)
    return ReplaySettings(trace=str(folder / "trace.csv"), cluster=folder / "cluster.yaml")


def test_weeks_are_those_of_the_calendar_and_have_every_job(settings: ReplaySettings, tmp_path: Path) -> None:
    replays = WeeklyReplays(settings, tmp_path)
    assert [week.key for week in replays.weeks] == ["2024-01-01", "2024-01-08", "2024-01-15", "2024-01-22"]
    assert sum(week.jobs for week in replays.weeks) == replays.trace.job_count == 200
    for week in replays.weeks:
        inside = [job for job in replays.trace.jobs if week.start_s <= job.submit_s < week.start_s + WEEK_S]
        assert len(inside) == week.jobs
    with pytest.raises(NotFoundError, match="did you mean '2024-01-08'"):
        replays.result("2024-01-09", "fifo")
    with pytest.raises(InputError, match="did you mean 'fifo'"):
        replays.result("2024-01-08", "fifoo")
    assert not any(tmp_path.rglob("*.json")), "nothing is left of what failed"


def test_a_result_is_computed_once_for_the_same_inputs(settings: ReplaySettings, tmp_path: Path) -> None:
    first = WeeklyReplays(settings, tmp_path).result("2024-01-08", "qssf")
    again = WeeklyReplays(settings, tmp_path).result("2024-01-08", "qssf")
    assert (first.is_new, again.is_new) == (True, False)
    assert first.summary == again.summary
    assert {"result.json", "jobs.parquet", "attempts.parquet", "report.html"} <= {
        p.name for p in first.folder.iterdir()
    }
    moved = tmp_path / "moved.yaml"
    moved.write_text(CLUSTER)
    same = WeeklyReplays(settings.model_copy(update={"cluster": moved}), tmp_path)
    assert not same.result("2024-01-08", "qssf").is_new, "content counts, not the place"
    moved.write_text(CLUSTER.replace("nodes: 2", "nodes: 3"))
    other = WeeklyReplays(settings.model_copy(update={"cluster": moved}), tmp_path)
    assert other.result("2024-01-08", "qssf").is_new, "another cluster has results of its own"
    assert WeeklyReplays(settings, tmp_path).result("2024-01-08", "qssf", again=True).is_new


def test_the_content_of_a_table_of_workloads_counts(settings: ReplaySettings, tmp_path: Path) -> None:
    table = tmp_path / "w.csv"
    folders = set[Path]()
    for place, text in ((table, "a"), (tmp_path / "moved.csv", "a"), (table, "b")):
        place.write_text(text)
        folders.add(WeeklyReplays(settings.model_copy(update={"workloads": str(place)}), tmp_path).folder)
    assert len(folders) == 2


SCRIPT = """
import sys
from pathlib import Path
from lucid_pipelines.settings import ReplaySettings
from lucid_pipelines.simulation.weekly import WeeklyReplays
replays = WeeklyReplays(ReplaySettings.model_validate_json(sys.argv[1]), Path(sys.argv[2]))
for week in replays.weeks:
    for policy in sys.argv[3].split(","):
        found = replays.result(week.key, policy)
        print(week.key, policy, found.is_new, flush=True)
"""


@pytest.mark.slow
def test_a_killed_backfill_goes_on_where_it_stopped(settings: ReplaySettings, tmp_path: Path) -> None:
    """20 partitions; SIGKILL after the seventh; the next process computes the other 13 and no more."""
    command = [sys.executable, "-c", SCRIPT, settings.model_dump_json(), str(tmp_path), ",".join(POLICIES)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(7):
            assert process.stdout.readline().endswith("True\n")
        process.send_signal(signal.SIGKILL)
    done = len(list(tmp_path.glob("*/*/*/result.json")))
    assert 7 <= done < 20
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert [line.endswith("True") for line in lines] == [False] * done + [True] * (20 - done)
    left_over = list(tmp_path.rglob(".*.writing"))
    assert len(left_over) <= 1, "what the killed process was writing"
    replays = WeeklyReplays(settings, tmp_path)
    uninterrupted = WeeklyReplays(settings, tmp_path / "other")
    mine, theirs = (dict(r.result("2024-01-08", "qssf").summary) for r in (replays, uninterrupted))
    mine.pop("wall_s"), theirs.pop("wall_s")
    assert mine == theirs
    every = replays.all_stored(POLICIES)
    assert len(every) == 20
    assert weeks_table(every).count("\n") == 6
    assert "**4 weeks that all have**" in weeks_table(every)
    week = [result for result in every if result.week == "2024-01-15"]
    assert week_table(week).count("\n") == 6
    pictures = week_plots(week)
    assert pictures.count("data:image/svg+xml;base64,") == 2
    assert len(pictures) < 80_000, "it is stored with every partition"


def test_what_a_killed_process_left_is_removed_a_day_later(settings: ReplaySettings, tmp_path: Path) -> None:
    replays = WeeklyReplays(settings, tmp_path)
    old, young = (replays.folder / "2024-01-08" / f".fifo.{pid}.writing" for pid in (1, 2))
    for left in (old, young):
        left.mkdir(parents=True)
        (left / "jobs.parquet").touch()
    os.utime(old, (0, 0))
    replays.result("2024-01-08", "fifo")
    assert sorted(path.name for path in old.parent.iterdir()) == [young.name, "fifo"]


def test_predictions_rest_on_what_had_ended_before_the_week(settings: ReplaySettings, tmp_path: Path) -> None:
    replays = WeeklyReplays(settings, tmp_path)
    fallbacks = [json.loads(json.dumps(replays.result(w.key, "qssf").summary["fallbacks"])) for w in replays.weeks[:2]]
    assert fallbacks[0].get("no_estimate", 0) >= 1, "nothing is known in the first week"
    assert "no_estimate" not in fallbacks[1]


def test_without_a_trace_a_month_is_generated_and_a_trace_without_a_cluster_needs_one(tmp_path: Path) -> None:
    assert WeeklyReplays(ReplaySettings(), tmp_path).trace.metadata["synthetic"]
    path = tmp_path / "cluster_log.csv"
    path.write_text(
        "job_id,user,vc,jobname,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
        "1,u,a,n,1,1,1,COMPLETED,2020-09-01 00:00:00,2020-09-01 00:00:10,2020-09-01 00:01:10,60,10\n"
    )
    with pytest.raises(InputError, match=r"replay\.cluster"):
        WeeklyReplays(ReplaySettings(trace=str(path)), tmp_path).result("2020-08-31", "fifo")
