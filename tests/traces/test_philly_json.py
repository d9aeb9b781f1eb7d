"""Philly's job log: attempts, times that are missing, text that is cut off."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.domain.trace import TraceState
from lucid_pipelines.traces import LoadedTrace, load
from tests.support_traces.samples import philly_job

START, END = "2017-10-07 01:12:09", "2017-10-07 01:13:23"


def loaded(tmp_path: Path, *jobs: object) -> LoadedTrace:
    path = tmp_path / "cluster_job_log"
    path.write_text(json.dumps(jobs))
    trace = load(path)
    assert trace.balances
    return trace


def test_the_documented_example(tmp_path: Path) -> None:
    job = philly_job(
        "application_1506638472019_14199",
        (START, END, 8),
        ("2017-10-07 01:13:30", "2017-10-09 06:53:12", 8),
    )
    (found,) = loaded(tmp_path, job).jobs
    assert found.duration_s == 74 + (2 * 86400 + 20382)
    assert found.queue_s == 30
    assert found.end_s is not None
    assert found.start_s is not None
    assert found.end_s - found.start_s == found.duration_s + 7  # the pause between the attempts
    assert (found.gpus, found.attempts, found.state) == (8.0, 2, TraceState.COMPLETED)


def test_missing_times(tmp_path: Path) -> None:
    trace = loaded(
        tmp_path,
        philly_job("one_lost", (START, None, 2), (START, END, 2)),
        philly_job("word", ("None", END, 2), (START, END, 2)),
        philly_job("still_running", (START, END, 2), (START, None, 2)),
        philly_job("never"),
        philly_job("no_times", (None, None, 2)),
        philly_job("grew", (START, END, 2), (START, END, 4)),
    )
    assert {job.job_id: (job.duration_s, job.gpus) for job in trace.jobs} == {
        "one_lost": (74.0, 2.0),
        "word": (74.0, 2.0),
        "grew": (148.0, 4.0),
    }
    assert trace.repairs == {"attempts_without_times_left_out": 2, "attempts_differ_in_gpus": 1}
    assert trace.quarantined_by_reason == {"never_started": 2, "not_ended": 1}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"attempts": "none"}, "malformed_row"),
        ({"attempts": [3]}, "malformed_row"),
        ({"attempts": [{"start_time": START, "end_time": END, "detail": 5}]}, "malformed_row"),
        ({"attempts": [{"start_time": END, "end_time": START, "detail": []}]}, "end_before_start"),
        ({"attempts": [{"start_time": "soon", "end_time": END, "detail": []}]}, "bad_time"),
        ({"attempts": [{"start_time": START, "end_time": END, "detail": []}]}, "missing_value"),
        ({"status": "Unknowable"}, "unknown_state"),
        ({"jobid": None}, "missing_value"),
        ({"submitted_time": "2017-10-08 00:00:00"}, "start_before_submit"),
        ({"submitted_time": {"a": 1}}, "bad_time"),
    ],
)
def test_damaged_jobs_go_to_quarantine(tmp_path: Path, change: dict[str, object], reason: str) -> None:
    trace = loaded(tmp_path, philly_job("good", (START, END, 1)), philly_job("bad", (START, END, 1)) | change)
    assert [job.job_id for job in trace.jobs] == ["good"]
    assert trace.quarantine.to_dict("records")[0]["row_number"] == 2
    assert trace.quarantined_by_reason == {reason: 1}


def test_json_lines_are_read_too(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    path.write_text("\n".join(json.dumps(philly_job(f"j{i}", (START, END, 1))) for i in range(3)))
    assert load(path).job_count == 3


@pytest.mark.parametrize("cut", [1, 20, 300])
def test_a_cut_off_list_is_an_error(tmp_path: Path, cut: int) -> None:
    text = json.dumps([philly_job(f"j{i}", (START, END, 1)) for i in range(3)])
    path = tmp_path / "log.json"
    path.write_text(text[:-cut])
    with pytest.raises(InputError, match="cut off"):
        load(path)


def test_a_list_longer_than_one_block(tmp_path: Path) -> None:
    trace = loaded(tmp_path, *(philly_job(f"j{i}", (START, END, 8)) for i in range(5000)))
    assert trace.job_count == trace.rows_read == 5000
