"""Files with predicted run times and predicted submissions."""

from __future__ import annotations

from pathlib import Path

import pytest

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.traces import read_predictions, read_throughput_forecast
from tests.support_traces.samples import write


def test_our_predictions(tmp_path: Path) -> None:
    lines = ["job_id,duration_s", "a,10", "b,2.5", "b,3", "c,-1", "d,soon", "e"]
    found = read_predictions(write(tmp_path, "p.csv", lines))
    assert dict(found.duration_s) == {"a": 10.0, "b": 2.5}
    assert sorted(found.quarantine["reason"]) == ["bad_number", "duplicate_id", "malformed_row", "negative_duration"]
    assert found.rows_read == len(found.duration_s) + len(found.quarantine)


def test_the_artifacts_predictions(tmp_path: Path) -> None:
    found = read_predictions(write(tmp_path, "Venus_Sept_lgb.csv", ["job_id,priority", "702619,33992", "702620,-43"]))
    assert dict(found.duration_s) == {"702619": 33992.0, "702620": 1000.0}
    assert found.replaced == 1


def test_a_missing_column(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"'duration_s' .did you mean 'duration'"):
        read_predictions(write(tmp_path, "p.csv", ["job_id,duration", "a,10"]))


def test_a_forecast(tmp_path: Path) -> None:
    lines = [
        "time,submit_gpu_job,submit_gpu_num,pred_gpu_job,pred_gpu_num",
        "2020-09-01 00:10:00,0,0,1.5,1.1",
        "2020-09-01 00:00:00,1,1,0.6,1.0",
        "2020-09-01 00:20:00,x,1,0.6,1.0",
    ]
    found = read_throughput_forecast(write(tmp_path, "f.csv", lines))
    assert found.time_s.tolist() == [1598918400.0, 1598919000.0]
    assert found.predicted_jobs.tolist() == [0.6, 1.5]
    assert found.predicted_gpus.tolist() == [1.0, 1.1]
    assert found.recorded_jobs.tolist() == [1.0, 0.0]
    assert found.quarantine["reason"].tolist() == ["bad_number"]


def test_a_forecast_without_usable_rows(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no usable rows"):
        read_throughput_forecast(write(tmp_path, "f.csv", ["time,pred_gpu_job,pred_gpu_num", "x,1,1"]))
