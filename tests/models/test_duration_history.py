"""History features: hand-computed values, and nothing that was not known at the moment."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lucid_pipelines.domain.job import Profile
from lucid_pipelines.domain.states import Outcome
from lucid_pipelines.models.duration import HistoryIndex, RunningAttempt, Teaching
from lucid_pipelines.models.duration.baselines import baseline_logs
from lucid_pipelines.models.duration.features import build_lessons, duration_features
from lucid_pipelines.models.duration.selecting import select_rows
from tests.support_models.worlds import START, habits, run

COLUMNS = [feature.name for feature in duration_features()]


def features_of(rows: list, job: int, teaching: Teaching = Teaching.HELD) -> dict[str, float]:
    lessons, _ = build_lessons(rows, lambda name: name or None, teaching, every_outcome=True)
    where = [row.job_id for row in lessons.rows].index(f"j{job}")
    return dict(zip(COLUMNS, lessons.matrix[where].tolist(), strict=True))


def test_features_by_hand() -> None:
    rows = [
        run(0, at_h=0, run_s=100.0),
        run(1, at_h=1, run_s=300.0),
        run(2, at_h=2, run_s=50.0, outcome=Outcome.CANCELLED),
        run(3, at_h=3, run_s=9_000.0, user="bob", gpus=2, name="other"),
        run(4, at_h=3.2, run_s=40_000.0),  # runs until 14 h
        run(5, at_h=4.0, run_s=1.0),
    ]
    found = features_of(rows, 5)
    log = [math.log1p(s) for s in (100.0, 300.0, 50.0)]
    assert found["gpus"] == 1.0
    assert found["hour"] == 4.0
    assert found["weekday"] == 0.0
    assert found["same_last"] == pytest.approx(log[2])
    assert found["same_median"] == pytest.approx(log[0])
    assert found["same_count"] == found["user_count"] == 3.0
    assert found["same_age"] == pytest.approx(math.log1p(2.0 - 50 / 3600))
    assert found["last_outcome"] == 1.0
    assert found["completed_frac"] == pytest.approx(2 / 3)
    assert found["done_median"] == pytest.approx(log[1])  # of two, the upper
    assert found["running_count"] == 1.0
    assert found["running_oldest"] == found["running_median"] == pytest.approx(math.log1p(0.8 * 3600))
    assert min(log) < found["typical"] < max(log)
    assert math.isnan(found["gpu_util_pct"])
    first = features_of(rows, 0)
    assert first["user_count"] == 0.0
    assert math.isnan(first["typical"]) and math.isnan(first["same_last"])


def test_means_are_shrunk_towards_wider_groups() -> None:
    steady = [run(i, at_h=i, run_s=1_000.0, user="bob") for i in range(20)]
    one_run = [run(30, at_h=30, run_s=10.0), run(31, at_h=31)]
    found = features_of([*steady, *one_run], 31)
    assert math.log1p(10.0) < found["user_mean"] < math.log1p(1_000.0)
    many = [run(30 + i, at_h=30 + i, run_s=10.0) for i in range(40)]
    later = features_of([*steady, *many, run(90, at_h=90)], 90)
    assert later["user_mean"] < found["user_mean"]


def test_a_name_that_others_run_helps_a_stranger() -> None:
    rows = [run(i, at_h=i, run_s=5_000.0, user=f"u{i}", name="long_job") for i in range(12)]
    rows += [run(20 + i, at_h=12 + i, run_s=20.0, user=f"v{i}", name="short_job") for i in range(12)]
    known = features_of([*rows, run(50, at_h=50, user="new", name="long_job")], 50)
    strange = features_of([*rows, run(50, at_h=50, user="new", name="what")], 50)
    assert known["typical"] > strange["typical"]
    assert math.isnan(strange["bucket_mean"])


@given(seed=st.integers(0, 50), cut=st.integers(20, 70))
@settings(max_examples=25)
def test_the_future_changes_nothing(seed: int, cut: int) -> None:
    """Poison every attempt that had not ended when a job was submitted: its features stay."""
    rows = habits(80, seed=seed, days=2.0)
    moment = rows[cut].submitted_at
    poisoned = [
        row
        if row.ended_at <= moment
        else replace(
            row,
            duration_s=1e7,
            outcome=Outcome.COMPLETED,
            ended_at=max(row.ended_at, moment) + timedelta(days=100),
        )
        for row in rows
    ]
    job = int(rows[cut].job_id[1:])
    clean, dirty = features_of(rows, job), features_of(poisoned, job)
    assert np.array_equal(list(clean.values()), list(dirty.values()), equal_nan=True)


def test_what_an_attempt_measured_of_itself_is_not_its_feature() -> None:
    profile = Profile(50.0, 20.0, 3_000.0)
    rows = [
        run(0, at_h=0, run_s=100.0, profile=profile),
        run(1, at_h=1, run_s=60.0, profiling=True, profile=profile, outcome=Outcome.EVICTED),
        run(2, at_h=1, run_s=5_000.0, job_id="j1", number=2, started_at=START + timedelta(hours=2),
            ended_at=START + timedelta(hours=4), profile=Profile(99.0, 99.0, 99.0)),
    ]  # fmt: skip
    lessons, _ = build_lessons(rows, lambda name: name, Teaching.HELD)
    by_attempt = {row.attempt_id: lessons.matrix[i] for i, row in enumerate(lessons.rows)}
    column = COLUMNS.index("gpu_util_pct")
    assert np.isnan(by_attempt["a0"][column])
    assert by_attempt["a2"][column] == 50.0
    assert "a1" not in by_attempt  # an eviction teaches nothing
    known = {row.attempt_id: at for row, at in zip(lessons.rows, lessons.known_at_s, strict=True)}
    assert known["a2"] == rows[1].ended_at.timestamp()


def test_which_outcomes_teach() -> None:
    rows = [run(i, at_h=i, outcome=outcome) for i, outcome in enumerate(Outcome)]
    held, _ = build_lessons(rows, lambda name: name, Teaching.HELD)
    done, _ = build_lessons(rows, lambda name: name, Teaching.COMPLETED)
    assert {row.outcome for row in held.rows} == {
        Outcome.COMPLETED, Outcome.CANCELLED, Outcome.FAILED_USER, Outcome.FAILED_FRAMEWORK,
    }  # fmt: skip
    assert {row.outcome for row in done.rows} == {Outcome.COMPLETED}


def test_running_attempts_stop_running_when_they_end() -> None:
    index = HistoryIndex()
    running = COLUMNS.index("running_count") - len(COLUMNS)
    index.start("a1", "ada", 1, START.timestamp())
    index.start("a1", "ada", 1, START.timestamp())
    index.start("a2", "ada", 1, START.timestamp() + 5)
    at_s = START.timestamp() + 60
    assert index.features("ada", None, 1, at_s)[running] == 2.0
    index.end(run(1, run_s=float("nan")), None)
    index.end(run(1, run_s=30.0, attempt_id="never-started", outcome=Outcome.LOST), None)
    assert index.features("ada", None, 1, at_s)[running] == 1.0
    assert index.user_count("ada") == 0
    lessons, live = build_lessons(
        [run(0, run_s=10.0)], lambda name: name, Teaching.HELD, running=[RunningAttempt("x", "ada", 1, START)]
    )
    assert live.features("ada", None, 1, at_s)[running] == 1.0
    assert len(lessons.rows) == 1


def test_bad_rows_are_left_out_and_counted() -> None:
    as_of = START + timedelta(days=2)
    late = START + timedelta(days=3)
    rows = [
        run(0),
        run(0, at_h=1),
        run(1, gpus=0),
        run(2, run_s=float("nan")),
        run(3, run_s=-5.0),
        run(4, duration_s=None),
        run(5, ended_at=START - timedelta(hours=1)),
        run(6, ended_at=late),
        run(7, submitted_at=late, started_at=late, ended_at=late),
        run(8, run_s=float("inf"), ended_at=START + timedelta(hours=9)),
    ]
    found = select_rows(rows, as_of)
    assert [row.attempt_id for row in found.rows] == ["a0"]
    assert found.left_out == {
        "duplicate_attempt": 1, "no_gpu": 1, "bad_duration": 3, "no_duration": 1, "bad_times": 1, "after_as_of": 2,
    }  # fmt: skip
    assert len(found.rows) + sum(found.left_out.values()) == len(rows)


def test_baselines_are_what_they_say() -> None:
    rows = [
        run(0, at_h=0, run_s=100.0),
        run(1, at_h=1, run_s=300.0),
        run(2, at_h=2, run_s=50.0, outcome=Outcome.FAILED_USER),
        run(3, at_h=3, run_s=7.0, user="bob", gpus=4),
    ]
    asked = [run(9, at_h=10), run(10, at_h=10, user="bob", gpus=1), run(11, at_h=10, user="eve", gpus=4)]
    found = baseline_logs(rows, asked, np.array([row.submitted_at.timestamp() for row in asked]))
    seconds = {name: np.expm1(values) for name, values in found.items()}
    assert seconds["last_of_user_and_gpus"] == pytest.approx([50.0, 7.0, 7.0])
    assert seconds["last_completed_of_user_and_gpus"] == pytest.approx([300.0, 7.0, 7.0])
    assert seconds["ladder_mean"] == pytest.approx([150.0, 7.0, 7.0])
    assert seconds["ladder_mean_of_completed"] == pytest.approx([200.0, 7.0, 7.0])
    nothing = baseline_logs([], asked, np.zeros(3))
    assert all((values == 0).all() for values in nothing.values())
