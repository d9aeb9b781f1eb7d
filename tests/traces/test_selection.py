"""Windows, virtual clusters and scaling: what is left out is counted, and what stays is unchanged."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.traces import LoadedTrace, convert, generate, load
from tests.support_traces.samples import write_sample


@pytest.fixture(scope="module")
def month(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, LoadedTrace]:
    trace = generate(5, jobs=1200, days=14, vcs=3)
    return convert(trace, tmp_path_factory.mktemp("month") / "t.parquet"), trace


def test_a_window_is_closed_at_its_start_and_open_at_its_end(month: tuple[Path, LoadedTrace]) -> None:
    path, whole = month
    start, end = datetime(2024, 1, 3, tzinfo=UTC), datetime(2024, 1, 5, tzinfo=UTC)
    for bounds in ((start, end), ("2024-01-03", "2024-01-05"), (start.timestamp(), end.timestamp())):
        part = load(path, start=bounds[0], end=bounds[1])
        expected = [job for job in whole.jobs if start.timestamp() <= job.submit_s < end.timestamp()]
        assert list(part.jobs) == expected
        assert part.deselected == {"outside_window": whole.job_count - len(expected)}
        assert part.balances


def test_what_had_ended_before_the_window_is_kept_apart(month: tuple[Path, LoadedTrace]) -> None:
    path, whole = month
    start = datetime(2024, 1, 3, tzinfo=UTC)
    assert load(path).past_jobs == () == load(path, end=start).past_jobs
    part = load(path, start=start, end="2024-01-05", vcs=["vc01"])
    before = [job for job in whole.jobs if job.vc == "vc01" and job.submit_s < start.timestamp()]
    ended = [job for job in before if job.submit_s + (job.queue_s or 0.0) + job.duration_s <= start.timestamp()]
    assert list(part.past_jobs) == ended and 0 < len(ended) < len(before)


def test_a_bound_without_an_offset_is_of_the_zone_of_the_trace(tmp_path: Path) -> None:
    path = write_sample(tmp_path, "helios")
    assert load(path, start="2020-06-09 18:41:27", timezone="Asia/Shanghai").job_count == 2
    assert load(path, start="2020-06-09T18:41:27+08:00", timezone="Asia/Shanghai").job_count == 2
    assert load(path, start="2020-06-09T18:41:27+08:00").job_count == 3


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ({"start": "soon"}, "YYYY-MM-DD"),
        ({"start": "2024-01-05", "end": "2024-01-05"}, "end after it starts"),
    ],
)
def test_impossible_windows(month: tuple[Path, LoadedTrace], bounds: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load(month[0], start=bounds.get("start"), end=bounds.get("end"))


def test_a_trace_without_a_calendar_takes_seconds_only(tmp_path: Path) -> None:
    path = write_sample(tmp_path, "alibaba_openb")
    assert load(path, start=1, end="427062").job_count == 1
    with pytest.raises(InputError, match="counts seconds from its own zero"):
        load(path, start="2023-01-01")


def test_virtual_clusters(month: tuple[Path, LoadedTrace]) -> None:
    path, whole = month
    part = load(path, vcs=["vc02", "vc03"])
    assert {job.vc for job in part.jobs} == {"vc02", "vc03"}
    assert part.deselected == {"other_virtual_cluster": whole.job_count - part.job_count}
    with pytest.raises(InputError, match="did you mean 'vc02'"):
        load(path, vcs=["vc2"])


@settings(max_examples=6)
@given(scale=st.floats(0.01, 0.99), seed=st.integers(0, 99))
def test_scaling_down_keeps_whole_users(month: tuple[Path, LoadedTrace], scale: float, seed: int) -> None:
    path, whole = month
    part = load(path, scale=scale, seed=seed)
    assert part.job_count == max(1, round(scale * whole.job_count))
    assert part.balances
    assert load(path, scale=scale, seed=seed).jobs == part.jobs
    assert set(part.jobs) <= set(whole.jobs)
    before, after = whole.frame["user"].value_counts(), part.frame["user"].value_counts()
    whole_users = [user for user in after.index if after[user] == before[user]]
    assert sum(after[user] for user in whole_users) >= 0.5 * part.job_count


def test_scaling_up_compresses_arrivals(month: tuple[Path, LoadedTrace]) -> None:
    path, whole = month
    fast = load(path, scale=4.0)
    assert fast.job_count == whole.job_count
    assert fast.deselected == {}
    was, now = whole.frame["submit_s"].to_numpy(), fast.frame["submit_s"].to_numpy()
    assert np.allclose(now - now[0], (was - was[0]) / 4)
    assert fast.frame["duration_s"].equals(whole.frame["duration_s"])


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf")])
def test_impossible_scales(month: tuple[Path, LoadedTrace], scale: float) -> None:
    with pytest.raises(InputError, match="scale must be above 0"):
        load(month[0], scale=scale)
