"""Our own format: what was written is what is read."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lucid_pipelines.domain.errors import ExternalError, InputError
from lucid_pipelines.domain.trace import ClusterSpec, TraceJob, TraceState
from lucid_pipelines.traces import FORMATS, convert, generate, load
from lucid_pipelines.traces.collector import typed_frame
from lucid_pipelines.traces.loaded import JOB_FIELDS, LoadedTrace, jobs_of
from tests.support_traces.samples import write, write_sample

ENDINGS = ("out.csv", "out.csv.gz", "out.parquet")
TEXT = st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\x00\ufffd"), min_size=1, max_size=8).filter(
    lambda text: text == text.strip()
)
SECONDS = st.floats(0, 1e9)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_converted_trace_has_the_same_jobs(tmp_path: Path, name: str, ending: str) -> None:
    trace = load(write_sample(tmp_path, name))
    again = load(convert(trace, tmp_path / ending))
    assert again.jobs == trace.jobs
    assert again.has_calendar == trace.has_calendar
    assert again.cluster == trace.cluster
    assert again.clock == trace.clock
    assert again.metadata["format"] == trace.metadata.get("format", name)


def trace_of(jobs: list[TraceJob]) -> LoadedTrace:
    columns = {name: [getattr(job, name) for job in jobs] for name in JOB_FIELDS}
    frame = typed_frame(columns, len(jobs)).sort_values("submit_s", kind="stable", ignore_index=True)
    return LoadedTrace("canonical", "made", frame, generate(0, jobs=3).quarantine, len(jobs), "test")


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    jobs=st.lists(
        st.builds(
            TraceJob,
            job_id=TEXT,
            user=TEXT,
            vc=TEXT,
            name=TEXT,
            gpus=st.sampled_from([0.25, 1.0, 8.0, 64.0]),
            submit_s=SECONDS,
            duration_s=SECONDS,
            state=st.sampled_from(TraceState),
            amp=st.none() | st.booleans(),
            batch_size=st.none() | st.integers(1, 4096),
            memory_peak_mib=st.none() | st.floats(0, 1e6),
            attempts=st.none() | st.integers(1, 9),
            code_fingerprint=st.none() | TEXT,
            workload_source=st.none() | st.just("mapped"),
        ),
        min_size=1,
        max_size=6,
        unique_by=lambda job: job.job_id,
    ),
    ending=st.sampled_from(ENDINGS),
)
def test_any_job_survives_the_round_trip(tmp_path: Path, jobs: list[TraceJob], ending: str) -> None:
    trace = trace_of(jobs)
    assert sorted(trace.jobs, key=lambda job: job.job_id) == sorted(jobs, key=lambda job: job.job_id)
    assert load(convert(trace, tmp_path / ending)).jobs == trace.jobs == jobs_of(trace.frame)


@pytest.mark.parametrize("ending", ENDINGS)
def test_equal_traces_give_equal_bytes(tmp_path: Path, ending: str) -> None:
    first = convert(generate(3, jobs=50), tmp_path / f"a_{ending}").read_bytes()
    assert convert(generate(3, jobs=50), tmp_path / f"b_{ending}").read_bytes() == first


def test_a_synthetic_trace_says_so_everywhere(tmp_path: Path) -> None:
    trace = generate(1, jobs=20)
    text = gzip.decompress(convert(trace, tmp_path / "t.csv.gz").read_bytes()).decode()
    first, second = text.splitlines()[:2]
    header = json.loads(first.removeprefix("# lucid-trace "))
    assert header["synthetic"] is True
    assert header["warning"].startswith("SYNTHETIC")
    assert header["parameters"]["seed"] == 1
    assert second.startswith("# SYNTHETIC")
    for ending in ENDINGS:
        assert load(convert(trace, tmp_path / ending)).is_synthetic
    again = load(convert(load(tmp_path / "out.csv"), tmp_path / "twice.parquet"))
    assert again.is_synthetic
    assert again.cluster == trace.cluster
    assert isinstance(again.cluster, ClusterSpec)


def test_another_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"\.csv, \.csv\.gz or \.parquet"):
        convert(generate(1, jobs=5), tmp_path / "t.json")


def test_a_failed_write_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ExternalError):
        convert(generate(1, jobs=5), tmp_path / "file" / "t.csv")
    target = tmp_path / "t.csv"
    target.mkdir()
    with pytest.raises(ExternalError):
        convert(generate(1, jobs=5), target)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "t.csv"]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["# lucid-trace {broken", "job_id,gpus,submit_s,duration_s", "a,1,1,1"], "header is not JSON"),
        (['# lucid-trace {"version": 99}', "job_id,gpus,submit_s,duration_s", "a,1,1,1"], "version 99"),
        (["job_id,gpus,submit_s,duration", "a,1,1,1"], "did you mean 'duration'"),
    ],
)
def test_damaged_headers(tmp_path: Path, lines: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load(write(tmp_path, "t.csv", lines), format="canonical")


def test_an_unknown_column_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "t.csv", ["job_id,gpus,submit_s,duration_s,usr", "a,1,1,1,me"])
    with pytest.raises(InputError, match=r"'usr' .did you mean 'user'"):
        load(path, format="canonical")


def test_a_damaged_parquet_file(tmp_path: Path) -> None:
    data = convert(generate(1, jobs=50), tmp_path / "t.parquet").read_bytes()
    for keep in (4, 100, len(data) // 2, len(data) - 3):
        (tmp_path / "cut.parquet").write_bytes(data[:keep])
        with pytest.raises(InputError, match=r"cut\.parquet"):
            load(tmp_path / "cut.parquet")
