"""Whatever the bytes: our own errors or a trace whose rows add up."""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.traces import FORMATS, load
from lucid_pipelines.traces.slurm_units import elapsed_s, gpus_of, scaled_number
from tests.support_traces.samples import GAVEL_SPEEDS, HELIOS_HEADER, SAMPLES

FEW = settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow])


def loads_or_refuses(data: bytes, name: str | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace"
        path.write_bytes(data)
        if name == "gavel":
            (Path(folder) / "oracle_throughputs.json").write_text(str(GAVEL_SPEEDS).replace("'", '"'))
        try:
            trace = load(path, format=name)
        except InputError as error:
            assert str(error)
            return
        assert trace.balances
        assert len({job.job_id for job in trace.jobs}) == trace.job_count
        assert all(job.duration_s >= 0 and job.submit_s >= 0 and job.gpus > 0 for job in trace.jobs)
        assert set(trace.quarantined_by_reason) <= {str(reason) for reason in trace.quarantine["reason"]}


@FEW
@given(data=st.binary(max_size=400))
def test_garbage_is_refused(data: bytes) -> None:
    loads_or_refuses(data, None)
    loads_or_refuses(gzip.compress(data), None)


@pytest.mark.parametrize("name", FORMATS)
@FEW
@given(data=st.data())
def test_damaged_samples_are_refused_or_add_up(name: str, data: st.DataObject) -> None:
    text = bytearray(SAMPLES[name][1].encode())
    for _ in range(data.draw(st.integers(1, 6))):
        place = data.draw(st.integers(0, len(text)))
        length = data.draw(st.integers(0, 12))
        text[place : place + length] = data.draw(st.binary(max_size=8))
    loads_or_refuses(bytes(text), name)
    loads_or_refuses(bytes(text), None)


CELLS = st.one_of(
    st.sampled_from(
        ["", "1", "0", "-1", "8", "0.5", "nan", "1e400", "COMPLETED", "x", '"', "a,b", "2020-01-01 00:00:00"]
    ),
    st.datetimes().map(lambda moment: moment.isoformat(sep=" ", timespec="seconds")),
    st.text(max_size=6),
)


@FEW
@given(rows=st.lists(st.lists(CELLS, min_size=10, max_size=13), min_size=1, max_size=12))
def test_random_cells_add_up(rows: list[list[str]]) -> None:
    loads_or_refuses("\n".join([HELIOS_HEADER, *(",".join(row) for row in rows)]).encode("utf-8", "replace"), "helios")


@FEW
@given(
    rows=st.lists(st.text(alphabet="|\n1a:-T", max_size=60).map(lambda text: text + "|" * 3), min_size=1, max_size=10)
)
def test_random_sacct_records_add_up(rows: list[str]) -> None:
    header = "JobID|JobName|State|Submit|Start|End|AllocTRES"
    loads_or_refuses("\n".join([header, *rows]).encode(), "slurm")


@given(text=st.text(max_size=40))
def test_slurm_units_never_raise(text: str) -> None:
    count, _ = gpus_of(text)
    assert not count < 0
    assert not scaled_number(text) < 0
    assert not elapsed_s(text) < 0
