"""Workloads from a profile table: heavier for larger jobs, the same for the same job, whatever else is there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.traces import assign_workloads, convert, generate, generated_profiles, load, read_profiles
from lucid_pipelines.traces.collector import typed_frame
from tests.support_traces.samples import write, write_sample

TABLE = (
    "model,dataset,batchsize,amp,speed,gpu_util,gmem_util,gmem,label",
    "BERT,SQuAD,32,0,84.8,99.7,62.5,20162.0,2",
    "PPO,LunarLander,64,0,14.2,11.9,0.0,2051.0,0",
)


def frame_of(gpus: list[float], durations: list[float], names: list[str] | None = None) -> pd.DataFrame:
    n = len(gpus)
    columns = {
        "job_id": [f"j{i}" for i in range(n)],
        "user": ["u"] * n,
        "name": names or [""] * n,
        "gpus": gpus,
        "submit_s": np.arange(n),
        "duration_s": durations,
    }
    return typed_frame(columns, n)


def mean_weight(frame: pd.DataFrame) -> float:
    return float(frame["gpu_util_pct"].mean() + frame["memory_peak_mib"].mean() / 200)


def test_larger_and_longer_jobs_get_heavier_models() -> None:
    table = generated_profiles()
    n = 2000
    groups = [
        assign_workloads(frame_of([gpus] * n, [seconds] * n), table, 1)
        for gpus, seconds in ((1.0, 60.0), (1.0, 1e5), (8.0, 1e5), (32.0, 60.0))
    ]
    weights = [mean_weight(group) for group in groups]
    assert weights[0] < weights[1] < weights[2]
    assert weights[3] > weights[1]
    light = set(table.frame.loc[table.heaviness() < np.median(table.heaviness()), "model"])
    assert not set(groups[3]["model"]) & (light - set(table.frame["model"][table.heaviness() > 0.6]))
    assert set(groups[0]["workload_source"]) == {"mapped"}


def test_runs_of_one_name_share_a_workload() -> None:
    frame = frame_of([1.0] * 6, [10.0, 1e5, 50.0, 10.0, 10.0, 10.0], ["a", "a", "a", "b", "c", "d"])
    done = assign_workloads(frame, generated_profiles(), 3)
    assert done.loc[done["name"] == "a", ["model", "batch_size", "amp"]].drop_duplicates().shape[0] == 1


def test_the_mapping_is_seeded_and_does_not_depend_on_the_selection(tmp_path: Path) -> None:
    path = convert(generate(2, jobs=400), tmp_path / "t.parquet")
    bare = load(path).frame.drop(columns=["workload_source"]).assign(workload_source=np.nan)
    for name in ("model", "dataset", "batch_size", "amp", "gpu_util_pct", "memory_util_pct", "memory_peak_mib"):
        bare[name] = np.nan
    bare.to_csv(tmp_path / "bare.csv", index=False)
    whole = load(tmp_path / "bare.csv", workloads="generated", seed=7)
    assert all(job.workload_source == "mapped" for job in whole.jobs)
    by_id = {job.job_id: job for job in whole.jobs}
    part = load(tmp_path / "bare.csv", workloads="generated", seed=7, start="2024-01-05", end="2024-01-12", scale=0.5)
    assert all(by_id[job.job_id] == job for job in part.jobs)
    other = load(tmp_path / "bare.csv", workloads="generated", seed=8)
    assert [job.model for job in other.jobs] != [job.model for job in whole.jobs]


def test_recorded_workloads_stay(tmp_path: Path) -> None:
    trace = load(write_sample(tmp_path, "lucid_artifact"), workloads="generated")
    assert [job.model for job in trace.jobs] == ["ResNet50", "BERT"]
    assert {job.workload_source for job in trace.jobs} == {"recorded"}


def test_a_table_from_a_file(tmp_path: Path) -> None:
    table = read_profiles(write(tmp_path, "single_data.csv", TABLE))
    assert table.frame["sharing_score"].tolist() == [2.0, 0.0]
    assert table.heaviness().tolist() == [1.0, 0.5]
    trace = load(write_sample(tmp_path, "helios"), workloads=table)
    assert {job.model for job in trace.jobs} <= {"BERT", "PPO"}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (TABLE[:1], "no rows"),
        ((*TABLE, "x,y,z,0,1,2,3,4,5"), "line 4 .* damaged .bad_number"),
        ((*TABLE, "x,y"), "line 4 .* damaged .malformed_row"),
        ((TABLE[0].replace("gmem_util", "mem_util"), *TABLE[1:]), "'gmem_util' .did you mean 'mem_util'"),
    ],
)
def test_damaged_tables(tmp_path: Path, rows: tuple[str, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_profiles(write(tmp_path, "single_data.csv", rows))


def test_the_generated_table_is_plausible() -> None:
    table = generated_profiles().frame
    assert len(table) >= 50
    assert table["gpu_util_pct"].between(0, 100).all()
    assert (table["memory_util_pct"] <= table["gpu_util_pct"]).all()
    assert table["memory_peak_mib"].max() < 24_576
    assert set(table["sharing_score"]) == {0.0, 1.0, 2.0}
    means = table.groupby("sharing_score")["gpu_util_pct"].mean()
    assert means.is_monotonic_increasing
    assert all(name.startswith("synthetic-") for name in table["model"])
