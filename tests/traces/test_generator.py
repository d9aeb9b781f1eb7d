"""The synthetic trace: equal by seed, calibrated to what was published, with code that drifts as asked."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.traces import LoadedTrace, generate, published


@pytest.fixture(scope="module")
def month() -> LoadedTrace:
    return generate(11)


@settings(max_examples=15)
@given(
    seed=st.integers(0, 2**40),
    jobs=st.integers(1, 400),
    days=st.floats(0.05, 40),
    vcs=st.integers(1, 9),
    drift=st.floats(0, 1),
    load_frac=st.floats(0.05, 1),
)
def test_equal_arguments_give_equal_traces(
    seed: int, jobs: int, days: float, vcs: int, drift: float, load_frac: float
) -> None:
    first, second = (generate(seed, jobs=jobs, days=days, vcs=vcs, drift=drift, load_frac=load_frac) for _ in range(2))
    pd.testing.assert_frame_equal(first.frame, second.frame)
    assert first.cluster == second.cluster
    assert first.metadata == second.metadata
    assert first.balances
    assert first.job_count == jobs == first.frame["job_id"].nunique()
    frame = first.frame
    start_s = datetime(2024, 1, 1, tzinfo=UTC).timestamp()
    assert frame["submit_s"].between(start_s, start_s + days * 86_400).all()
    assert frame["submit_s"].is_monotonic_increasing
    assert (frame["duration_s"] >= 1).all()
    assert (frame["duration_s"] == frame["duration_s"].round()).all()
    assert first.cluster is not None
    largest = frame.groupby("vc", observed=True)["gpus"].max()
    assert all(gpus <= first.cluster.gpus_of(str(vc)) for vc, gpus in largest.items())


def test_other_seeds_give_other_traces() -> None:
    assert generate(1, jobs=100).jobs != generate(2, jobs=100).jobs


@pytest.mark.parametrize("seed", range(4))
def test_published_statistics(seed: int) -> None:
    trace = generate(seed, jobs=20_000)
    frame = trace.frame
    duration, gpus = frame["duration_s"], frame["gpus"]
    assert duration.median() == pytest.approx(published.MEDIAN_DURATION_S, rel=0.10)
    assert duration.mean() == pytest.approx(published.MEAN_DURATION_S, rel=0.35)
    assert duration.max() <= published.MAX_DURATION_S
    assert duration.quantile(0.99) > 100 * duration.median()  # heavy tail
    shares = frame["state"].value_counts(normalize=True)
    for state, share in published.STATE_SHARES.items():
        assert shares[state] == pytest.approx(share, abs=0.001)
    by_gpus = gpus.value_counts(normalize=True)
    for count, share in published.GPU_SHARES.items():
        assert by_gpus.get(float(count), 0.0) == pytest.approx(share, abs=0.02)
    assert gpus.mean() == pytest.approx(published.MEAN_GPUS, rel=0.12)
    assert (gpus <= 8).mean() > 0.94
    runs = frame.groupby(["user", "name"], observed=True)["job_id"].transform("size")
    assert (runs >= 5).mean() >= published.RECURRING_FRAC


def test_gpu_time_by_state_on_average() -> None:
    shares = []
    for seed in range(6):
        frame = generate(seed, jobs=50_000).frame
        work = (frame["gpus"] * frame["duration_s"]).groupby(frame["state"], observed=True).sum()
        shares.append(work / work.sum())
    mean = pd.concat(shares, axis=1).mean(axis=1)
    for state, share in published.STATE_GPU_TIME_SHARES.items():
        # The tail is heavy: single traces of 50,000 jobs stray by 0.04 (one standard deviation).
        assert mean[state] == pytest.approx(share, abs=0.06)


def test_arrivals_follow_the_day_and_the_week(month: LoadedTrace) -> None:
    at = pd.to_datetime(month.frame["submit_s"], unit="s")
    by_hour = at.dt.hour.value_counts(normalize=True).sort_index().to_numpy() * 24
    assert np.corrcoef(by_hour, published.HOUR_WEIGHTS)[0, 1] > 0.95
    by_day = at.dt.normalize().value_counts()
    weekend = by_day.index.day_of_week >= 5
    assert 0.5 < by_day[weekend].mean() / by_day[~weekend].mean() < 0.85


def test_users_are_unequal(month: LoadedTrace) -> None:
    counts = month.frame["user"].value_counts(normalize=True)
    assert counts.iloc[: len(counts) // 20].sum() > 0.25
    assert month.frame["user"].nunique() > 100


def test_failed_runs_are_shorter_and_larger_jobs_longer(month: LoadedTrace) -> None:
    frame = month.frame
    medians = frame.groupby("state", observed=True)["duration_s"].median()
    assert medians["failed"] < 0.8 * medians["completed"]
    assert np.corrcoef(np.log(frame["gpus"]), np.log(frame["duration_s"]))[0, 1] > 0.1


@pytest.mark.parametrize("drift", [0.0, 0.1, 0.5, 1.0])
def test_drift_is_the_share_of_runs_with_changed_code(drift: float) -> None:
    frame = generate(3, jobs=8000, drift=drift).frame
    new_code = ~frame["code_fingerprint"].duplicated()
    templates = generate(3, jobs=8000, drift=0.0).frame["code_fingerprint"].nunique()
    changed = (new_code.sum() - templates) / (len(frame) - templates)
    assert changed == pytest.approx(drift, abs=0.02)


def test_equal_code_tells_more_about_the_run_time_than_an_equal_name(month: LoadedTrace) -> None:
    frame = month.frame
    log = np.log(frame["duration_s"])

    def explained(keys: list[str]) -> float:
        mean = log.groupby([frame[key] for key in keys], observed=True).transform("mean")
        return 1 - ((log - mean) ** 2).sum() / ((log - log.mean()) ** 2).sum()

    assert 0.5 < explained(["code_fingerprint"]) < 0.9
    assert explained(["code_fingerprint"]) > explained(["user", "name"]) + 0.03


def test_names_mislead_now_and_then(month: LoadedTrace) -> None:
    frame = month.frame
    codes = frame.groupby(["user", "name"], observed=True)["code_fingerprint"].nunique()
    names = frame.groupby("code_fingerprint")["name"].nunique()
    assert (codes > 1).mean() > 0.1  # one name, several codes
    assert (names > 1).sum() > 10  # one code, several names


def test_a_template_keeps_its_gpus_and_workload(month: LoadedTrace) -> None:
    by_code = month.frame.groupby("code_fingerprint")
    assert (by_code["gpus"].nunique() == 1).all()
    assert (by_code["model"].nunique() == 1).all()
    assert set(month.frame["workload_source"]) == {"generated"}


def test_the_cluster_fits_the_load(month: LoadedTrace) -> None:
    assert month.cluster is not None
    work = float((month.frame["gpus"] * month.frame["duration_s"]).sum())
    assert 0.25 < work / (30 * 86_400 * month.cluster.gpus) <= 0.7
    assert all(group.gpu_memory_mib for groups in month.cluster.virtual_clusters.values() for group in groups)


def test_it_says_that_it_is_synthetic(month: LoadedTrace) -> None:
    assert month.is_synthetic
    assert month.metadata["parameters"]["seed"] == 11
    assert all(job.code_fingerprint and job.code_fingerprint.startswith("synthetic:") for job in month.jobs[:50])


@pytest.mark.parametrize(
    "wrong",
    [
        {"jobs": 0},
        {"jobs": 10**9},
        {"days": 0.0},
        {"vcs": 0},
        {"vcs": ["a", "a"]},
        {"users": 0},
        {"load_frac": 0.0},
        {"load_frac": 1.5},
        {"drift": -0.1},
        {"drift": 1.1},
        {"seed": -1},
    ],
)
def test_impossible_arguments(wrong: dict[str, object]) -> None:
    arguments: dict[str, object] = {"seed": 1, "jobs": 10, **wrong}
    with pytest.raises(InputError, match="got"):
        generate(**arguments)  # pyright: ignore[reportArgumentType]


def test_named_virtual_clusters_and_users() -> None:
    trace = generate(1, jobs=500, vcs=["vision", "speech"], users=4, start_at=datetime(2025, 3, 1))  # noqa: DTZ001
    assert {job.vc for job in trace.jobs} == {"vision", "speech"}
    assert len({job.user for job in trace.jobs}) <= 4
    first = trace.first_submit_at
    assert first is not None
    assert first.date().isoformat() == "2025-03-01"
