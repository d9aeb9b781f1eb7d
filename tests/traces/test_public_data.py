"""The public files themselves, where they are at hand: counts, invariants and known oddities."""

from __future__ import annotations

import tarfile
from pathlib import Path

import numpy as np
import pytest

from lucid_pipelines.traces import (
    detect_format,
    load,
    read_predictions,
    read_profiles,
    read_throughput_forecast,
)

pytestmark = pytest.mark.shared


def test_philly(shared_data: Path) -> None:
    trace = load(shared_data / "philly")
    assert trace.format == "philly_csv"
    assert trace.job_count == trace.rows_read > 60_000
    assert trace.quarantined_count == 0
    assert trace.cluster is not None
    assert trace.cluster.gpus == 352 * 8
    assert set(trace.cluster.virtual_clusters) < set(trace.frame["vc"].cat.categories)


def test_venus(shared_data: Path) -> None:
    trace = load(shared_data / "helios_venus_users")
    assert trace.format == "helios_venus"
    assert set(trace.quarantined_by_reason) == {"no_gpu"}
    assert trace.balances
    assert trace.quarantined_count / trace.rows_read == pytest.approx(0.27, abs=0.03)


def test_openb(shared_data: Path) -> None:
    trace = load(shared_data / "alibaba_openb_2023")
    assert trace.rows_read == 8152
    assert trace.quarantined_by_reason == {"no_gpu": 1052, "never_started": 897}
    assert trace.balances
    gpus = trace.frame["gpus"].to_numpy()
    assert ((gpus < 1).sum() > 2000) and gpus.max() == 8
    assert trace.cluster is not None
    assert trace.cluster.gpus == 6212


def test_lucid_artifact(shared_data: Path) -> None:
    folder = shared_data / "oracle" / "lucid_artifact_small"
    trace = load(folder, start="2020-09-01")
    assert trace.format == "lucid_artifact"
    assert trace.job_count == 2000
    assert trace.cluster is not None
    assert trace.cluster.gpus == 80
    assert trace.frame["submit_s"].iloc[0] - 1585699200 >= 13_219_200
    predictions = read_predictions(folder / "Venus_Sept_ebm_weekly_updated.csv.gz")
    assert predictions.replaced > 0
    assert set(predictions.duration_s) == {job.job_id for job in trace.jobs}
    assert min(predictions.duration_s.values()) >= 0
    forecast = read_throughput_forecast(folder / "Venus_throughput_pred.csv.gz")
    assert np.all(np.diff(forecast.time_s) == 600)


def test_every_sia_list(shared_data: Path) -> None:
    archive = shared_data / "sia" / "workloads.tar.gz"
    with tarfile.open(archive) as tar:
        names = [info.name for info in tar if info.isfile()]
    for name in names:
        path = f"{archive}::{name}"
        assert detect_format(path) == "sia"
    trace = load(f"{archive}::{names[0]}")
    assert trace.quarantined_count == 0
    hours = (trace.frame["gpus"] * trace.frame["duration_s"]).groupby(
        trace.frame["model"], observed=True
    ).median() / 3600
    # The Pollux paper's size classes: small below 1 GPU-hour, medium 1 to 10.
    assert hours["cifar10"] < 2
    assert 0.5 < hours["deepspeech2"] < 20


def test_gavel_lists(shared_data: Path, tmp_path: Path) -> None:
    archive = shared_data / "gavel" / "msr_seed0_traces.tar.gz"
    trace = load(f"{archive}::0e4a51.trace")
    assert trace.format == "gavel"
    assert trace.job_count == trace.rows_read == 1181
    assert trace.balances


def test_tables_that_are_no_traces_are_refused(shared_data: Path) -> None:
    for name in ("helios_earth/earth_vc_sequence_10min.csv.gz", "lucid/colocate_info.csv", "lucid/single_data.csv"):
        with pytest.raises(Exception, match=r"no known trace format|does not fulfil"):
            detect_format(shared_data / name)


def test_measured_profiles(shared_data: Path) -> None:
    table = read_profiles(shared_data / "lucid" / "single_data.csv")
    weight = dict(zip(table.frame["model"], table.heaviness(), strict=True))
    assert weight["BERT"] > weight["VGG"] > weight["PPO"]
    trace = load(shared_data / "philly", workloads=table, seed=1)
    frame = trace.frame
    assert frame["model"].notna().all()
    large = frame[frame["gpus"] > 8]
    assert not set(large["model"]) & {"PPO", "TD3", "NeuMF"}
    assert large["gpu_util_pct"].mean() > frame["gpu_util_pct"].mean() + 20
