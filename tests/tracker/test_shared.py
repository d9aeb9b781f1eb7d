"""The public labelled logs: the goals of the tracker, measured as its scorer measures them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from lucid_pipelines.logs import Extent
from lucid_pipelines.tracker.classes import LineClassifier
from lucid_pipelines.tracker.progress import Progress
from lucid_pipelines.tracker.tracking import track_extent, track_file

pytestmark = [pytest.mark.shared, pytest.mark.slow]


def close(a: float | None, b: float | None, share: float) -> bool:
    return a is not None and b is not None and abs(a - b) <= share * max(abs(b), 1e-9)


def test_the_labelled_logs_reach_the_goals(shared_data: Path) -> None:
    folder = shared_data / "logs" / "progress"
    labels = [json.loads(line) for line in (folder / "labels_public.jsonl").open()]
    rows = steps = times = losses = wrong = 0
    for label in labels:
        got = track_file(folder / label["file"])
        if not label["progress"]:
            assert got.is_missing, label["id"]
            continue
        rows += 1
        expected = label["expected"]
        step = got.step in (label["step_accept"] or [None])
        time = (
            got.step_time_s is None
            if expected["step_time_s"] is None
            else close(got.step_time_s, expected["step_time_s"], 0.15)
        )
        accepted = [x for x in (label["loss_accept"] or []) + [expected["loss"]] if x is not None]
        loss = got.loss is None if not accepted else any(close(got.loss, x, 0.02) for x in accepted)
        steps, times, losses = steps + step, times + time, losses + loss
        wrong += (
            (got.step is not None and not step)
            + (got.step_time_s is not None and not time)
            + (got.loss is not None and not loss)
        )
    assert steps >= 0.98 * rows
    assert times >= 0.95 * rows
    assert losses >= 0.95 * rows
    assert wrong < 0.02 * 3 * rows


def test_a_log_read_at_any_moment_of_its_life_is_read_without_error(shared_data: Path) -> None:
    folder = shared_data / "logs" / "progress" / "public"
    for path in sorted(folder.glob("*__noisy.log.gz"))[::4]:
        data = gzip.decompress(path.read_bytes())
        for share in (0.05, 0.3, 0.7):
            part = data[: int(len(data) * share)]
            start = max(0, len(part) - 100_000)
            got = track_extent(Extent(len(part), part[:32768], part[start:], start, None)).progress
            assert isinstance(got, Progress)


def test_the_two_real_logs(shared_data: Path) -> None:
    folder = shared_data / "training_logs"
    rubick = track_file(folder / "rubick_llama7b_181.txt.gz")
    assert (rubick.step, rubick.loss) == (3000, pytest.approx(3.361832))
    assert rubick.step_time_s == pytest.approx(1.099, rel=0.02)
    zhejiang = track_file(folder / "zhejiang_llama2-7b_master.log.gz")
    assert (zhejiang.step, zhejiang.total_steps) == (2436, 2436)
    assert zhejiang.loss == pytest.approx(0.9792)
    assert zhejiang.step_time_s == pytest.approx(45.8, rel=0.05)


def test_labelled_lines_are_classified_better_than_zero_shot_models_do(shared_data: Path) -> None:
    classifier = LineClassifier()
    fold = {"evaluation": "progress", "checkpoint": "info", "data": "init", "build": "init"}
    rows = [json.loads(line) for line in (shared_data / "logs" / "lines.jsonl").open()]
    right = 0
    for row in rows:
        known = classifier.classify_line(row["line"].encode())
        right += fold.get(str(known), str(known)) == row["label"]
    assert right >= 0.85 * len(rows)
