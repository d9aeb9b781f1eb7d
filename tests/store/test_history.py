"""What past runs say, as of a moment, against the same numbers computed another way."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lucid_pipelines.domain.cluster import Placement
from lucid_pipelines.domain.history import HistoryRow, Rung
from lucid_pipelines.domain.job import Profile
from lucid_pipelines.domain.states import Cause, Outcome
from lucid_pipelines.store import Store
from tests.support_store.jobs import NOW, at


def _row(number: int, **changes: object) -> HistoryRow:
    row = HistoryRow(
        attempt_id=f"old-{number}-a1",
        job_id=f"old-{number}",
        number=1,
        user="ada",
        vc="vision",
        name="resnet",
        gpus=1,
        submitted_at=at(number - 100),
        started_at=at(number - 50),
        ended_at=at(number),
        duration_s=50.0,
        outcome=Outcome.COMPLETED,
        cause=None,
        profile=None,
        placement=None,
        packed=False,
        profiling=False,
    )
    return replace(row, **changes)  # type: ignore[arg-type]


def test_the_ladder_goes_from_near_to_far(store: Store) -> None:
    store.history.add(
        [
            _row(1, duration_s=10.0),
            _row(2, duration_s=30.0),
            _row(3, gpus=4, duration_s=100.0),
            _row(4, user="bob", duration_s=1000.0),
            _row(5, user="eve", gpus=8, duration_s=5000.0),
        ]
    )
    stats = store.history.duration_stats("ada", 1, at(10))
    assert [(rung.rung, rung.count, rung.mean_s) for rung in stats.rungs] == [
        (Rung.USER_AND_GPUS, 2, 20.0),
        (Rung.USER, 3, pytest.approx(140 / 3)),
        (Rung.SAME_GPUS, 3, pytest.approx(1040 / 3)),
        (Rung.GLOBAL, 5, 1228.0),
    ]
    assert stats.best == stats.rungs[0]
    enough = [store.history.duration_stats("ada", 1, at(10), enough=n).rungs for n in (1, 3, 9)]
    assert enough == [stats.rungs[:1], stats.rungs[:2], stats.rungs]
    assert stats.rungs[0].newest_job_ids == ("old-2", "old-1")
    assert [rung.rung for rung in store.history.duration_stats("new", 4, at(10)).rungs] == [Rung.SAME_GPUS, Rung.GLOBAL]
    assert [rung.rung for rung in store.history.duration_stats("new", 3, at(10)).rungs] == [Rung.GLOBAL]


def test_nothing_later_is_seen_and_only_completed_runs_teach(store: Store) -> None:
    store.history.add(
        [_row(1, duration_s=10.0), _row(20, duration_s=1e6), _row(30, duration_s=float(2**40))]
        + [_row(2 + n, outcome=outcome) for n, outcome in enumerate(Outcome) if outcome is not Outcome.COMPLETED]
        + [_row(19, duration_s=None)]
    )
    assert store.history.duration_stats("ada", 1, at(0.999)).best is None
    stats = store.history.duration_stats("ada", 1, at(19.9))
    assert [(rung.count, rung.mean_s) for rung in stats.rungs] == [(1, 10.0)] * 4
    assert store.history.duration_stats("ada", 1, at(20)).rungs[0].count == 2


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(
        st.tuples(
            st.sampled_from(["a", "b", "c"]),
            st.sampled_from([1, 2, 8]),
            st.integers(0, 40),
            st.floats(0, 1e7, allow_nan=False),
            st.booleans(),
        ),
        max_size=40,
    ),
    as_of=st.integers(-1, 41),
    limit=st.integers(1, 12),
)
def test_statistics_equal_numpy_on_the_same_rows(
    sqlite_store: Store, rows: list[tuple[str, int, int, float, bool]], as_of: int, limit: int
) -> None:
    prefix = f"user-{id(rows)}-{as_of}-{limit}-"  # each example has users of its own in the shared store
    history = [
        _row(n, attempt_id=f"{prefix}{n}", user=prefix + user, gpus=gpus, duration_s=duration,
             ended_at=at(when) + timedelta(microseconds=n), outcome=Outcome.COMPLETED if good else Outcome.LOST)
        for n, (user, gpus, when, duration, good) in enumerate(rows)
    ]  # fmt: skip
    sqlite_store.history.add(history)
    for user, gpus in (("a", 1), ("b", 8)):
        stats = sqlite_store.history.duration_stats(prefix + user, gpus, at(as_of), max_samples=limit)
        mine = [
            row
            for row in history
            if row.outcome is Outcome.COMPLETED and row.user == prefix + user and row.ended_at <= at(as_of)
        ]
        for rung, chosen in (
            (Rung.USER_AND_GPUS, [row for row in mine if row.gpus == gpus]),
            (Rung.USER, mine),
        ):
            newest = sorted(chosen, key=lambda row: row.ended_at, reverse=True)[:limit]
            found = next((entry for entry in stats.rungs if entry.rung is rung), None)
            if not newest:
                assert found is None
                continue
            assert found is not None
            durations = np.array([row.duration_s for row in newest])
            expected = [durations.mean(), *np.quantile(durations, [0.1, 0.5, 0.9])]
            assert [found.mean_s, found.q10_s, found.median_s, found.q90_s] == pytest.approx(expected, rel=1e-9)
            assert found.count == len(newest)


def test_rows_come_back_as_they_went_in_and_are_added_once(store: Store) -> None:
    full = _row(
        1,
        profile=Profile(50.0, None, 900.0, 30.0, 12, "nvml"),
        placement=Placement.of({"n1": [0, 3]}),
        cause=Cause.USER,
        outcome=Outcome.FAILED_USER,
        packed=True,
        profiling=True,
    )
    others = [_row(n) for n in range(2, 1203)]
    assert store.history.add([full, *others]) == 1202
    assert store.history.add([full, *others[:3], _row(5000)]) == 1
    assert store.history.rows(limit=1) == [full]
    assert store.history.rows(since=at(2), until=at(4)) == others[:2]
    assert store.history.rows(newest_first=True, limit=1) == [_row(5000)]
    assert store.history.rows(outcomes=[Outcome.FAILED_USER]) == [full]
    assert store.history.rows(user="nobody") == []


def test_ties_of_a_moment_are_all_seen(store: Store) -> None:
    store.history.add([_row(n, ended_at=NOW, duration_s=float(n)) for n in range(1, 6)])
    best = store.history.duration_stats("ada", 1, NOW).best
    assert best is not None
    assert (best.count, best.mean_s) == (5, 3.0)
