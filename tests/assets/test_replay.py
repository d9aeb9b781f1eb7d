"""The `replay` asset: one run over several partitions, and a real backfill with a killed run."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from dagster import AssetKey, DagsterInstance, DagsterRunStatus

from lucid_pipelines.definitions import defs
from lucid_pipelines.service.control import bring_up
from lucid_pipelines.service.dagster_home import run_files
from lucid_pipelines.service.status import read_status
from lucid_pipelines.settings import Settings
from lucid_pipelines.traces import generate
from lucid_pipelines.traces.canonical import write_trace
from tests.support_service import processes_of, throw_away_service

WEEKS = ("2024-01-01", "2024-01-08", "2024-01-15", "2024-01-22")
RANGE = ("dagster/asset_partition_range_start", "dagster/asset_partition_range_end")


def write_inputs(folder: Path, jobs: int) -> dict[str, str]:
    """A trace of four weeks and a cluster; returns the settings that name them."""
    write_trace(generate(3, jobs=jobs, days=28, vcs=["a"]), folder / "trace.csv")
    cluster = folder / "cluster.yaml"
    cluster.write_text("virtual_clusters: {a: {nodes: 6, gpus_per_node: 8, gpu_memory_mib: 24576}}\n")
    return {"LUCID__REPLAY__TRACE": str(folder / "trace.csv"), "LUCID__REPLAY__CLUSTER": str(cluster)}


def test_one_run_fills_a_row_of_partitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"LUCID_HOME": str(tmp_path / "home"), "LUCID__CLUSTER__GPUS": "virtual", **write_inputs(tmp_path, 80)}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    with DagsterInstance.ephemeral() as instance:
        defs.resolve_job_def("replay_trace_job").execute_in_process(instance=instance)
        assert tuple(instance.get_dynamic_partitions("replay_week")) == WEEKS
        job = defs.resolve_job_def("replay_job")
        tags = dict(zip(RANGE, (f"fifo|{WEEKS[1]}", f"qssf|{WEEKS[1]}"), strict=True))
        first = job.execute_in_process(instance=instance, tags=tags).asset_materializations_for_node("replay")
        assert {event.partition for event in first} == {f"{name}|{WEEKS[1]}" for name in ("fifo", "sjf", "qssf")}
        for event in first:
            assert event.metadata["computed_now"].value is True
            assert event.metadata["jobs"].value > 0
            assert "| qssf |" in event.metadata["comparison"].value
            assert "data:image/svg+xml" in event.metadata["plots"].value
            assert Path(event.metadata["report"].value).is_file()
        tags = dict(zip(RANGE, (f"sjf|{WEEKS[1]}", f"tiresias|{WEEKS[1]}"), strict=True))
        second = job.execute_in_process(instance=instance, tags=tags).asset_materializations_for_node("replay")
        computed = {event.partition.partition("|")[0]: event.metadata["computed_now"].value for event in second}
        assert computed == {"sjf": False, "qssf": False, "standalone": True, "tiresias": True}
        assert "| fifo |" in second[0].metadata["comparison"].value, "what earlier runs stored is compared, too"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Settings]:
    home = tmp_path / "home"
    inputs = write_inputs(tmp_path, 8_000)  # enough work to be caught at it
    with throw_away_service(home, **inputs) as settings:
        bring_up(settings)
        yield settings
    assert not processes_of(home)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.service
def test_a_backfill_of_20_partitions_takes_few_runs_and_outlives_a_kill(service: Settings) -> None:
    told = subprocess.run(
        [str(Path(sys.executable).parent / "lucid"), "replay-weeks", "--json"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    launched = json.loads(told.stdout)
    assert (launched["partitions"], launched["not_computed"]) == (20, 20)
    results = service.artefacts / "replays"
    caught: list[psutil.Process] = []

    def is_half_done() -> bool:
        caught[:] = _replay_workers(service)
        return bool(caught) and len(list(results.glob("*/*/*/result.json"))) >= 2

    _await(is_half_done, 180)
    caught[0].send_signal(signal.SIGKILL)
    stored = {path: path.stat().st_mtime_ns for path in results.glob("*/*/*/result.json")}
    with DagsterInstance.from_config(str(service.dagster_home)) as instance:
        _await(lambda: len(instance.get_materialized_partitions(AssetKey("replay"))) == 20, 400)
        runs = [run for run in instance.get_runs() if run.tags.get("dagster/backfill") in launched["backfill_ids"]]
        killed = [run for run in runs if run.status is DagsterRunStatus.FAILURE]
        assert len(killed) == 1
        # One run for each week under all five policies; after the kill Dagster may ask once more than it needs.
        assert len(WEEKS) <= len(runs) - len(killed) <= len(WEEKS) + 1
    now = {path: path.stat().st_mtime_ns for path in results.glob("*/*/*/result.json")}
    assert len(now) == 20
    assert {path: now[path] for path in stored} == stored, "what was stored before the kill was not computed again"


def _replay_workers(settings: Settings) -> list[psutil.Process]:
    """Processes that write results now."""
    status = read_status(run_files(settings))
    assert status is not None
    writing = {int(path.name.split(".")[-2]) for path in settings.artefacts.glob("replays/*/*/.*.writing")}
    return [p for p in psutil.Process(status.processes["run-server"].pid).children() if p.pid in writing]


def _await(condition: Callable[[], bool], patience_s: float) -> None:
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)
