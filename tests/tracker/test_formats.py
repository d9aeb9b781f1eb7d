"""Logs of many frameworks, simulated: the tracker has to read them all, and to invent nothing."""

from __future__ import annotations

import random
import re
from collections import Counter
from itertools import pairwise

import pytest

from lucid_pipelines.logs import Extent
from lucid_pipelines.tracker.fields import RecordParser
from lucid_pipelines.tracker.progress import Progress
from lucid_pipelines.tracker.tracking import HEAD_BYTES, track_extent
from tests.support_tracker.carriers import CARRIERS
from tests.support_tracker.formats import FORMATS, Format
from tests.support_tracker.formats_fresh import FRESH
from tests.support_tracker.formats_last import LAST
from tests.support_tracker.formats_late import LATE
from tests.support_tracker.formats_more import MORE
from tests.support_tracker.formats_rare import RARE
from tests.support_tracker.formats_wild import WILD
from tests.support_tracker.nothing import NOTHING
from tests.support_tracker.nothing_more import MORE_NOTHING
from tests.support_tracker.write import Written, write

PARSER = RecordParser()
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
OPEN = {"more_lines_with_eval"}
"""Formats whose time cannot be told apart (one step's, or ten steps'): none must be given."""
LIMITS = {
    "fresh_rl_games",
    "fresh_rl_games_nothing_else",
    "fresh_tf_cnn_benchmarks",
    "fresh_glove",
    "last_loss_components_sum",
    "last_val_every_step",
    "late_mlflow_lines",
    "late_spark_ml",
}
"""Formats that are not read in full (docs/metric-tracker.md says why): what is given must be right all the same."""
assert set(MORE_NOTHING) < set(NOTHING)
KNOWN = [form for form in FORMATS if form.name not in LIMITS]
assert len(FORMATS) - len(FRESH) - len(WILD + LATE + LAST) > len(MORE) + len(RARE) > 70


def track(data: bytes, tail_bytes: int = 128 * 1024) -> Progress:
    start = max(0, len(data) - tail_bytes)
    extent = Extent(len(data), data[:HEAD_BYTES], data[start:], start, data[:start].count(b"\n"))
    return track_extent(extent, parser=PARSER).progress


def faults(form: Format, written: Written, got: Progress) -> tuple[list[str], int]:
    """What is not right, and how many numbers are wrong rather than missing."""
    found: list[str] = []
    wrong = 0
    right = got.step is None if written.steps is None else got.step in written.steps
    if not right:
        found.append(f"step {got.step}, right {sorted(written.steps or [])}")
        wrong += got.step is not None
    if written.step_s is None or form.name in OPEN:
        right = got.step_time_s is None
    else:
        right = got.step_time_s is not None and abs(got.step_time_s - written.step_s) <= 0.15 * written.step_s
    if not right:
        found.append(f"step time {got.step_time_s}, right {written.step_s}")
        wrong += got.step_time_s is not None
    if not written.losses:
        right = got.loss is None
    else:
        right = got.loss is not None and any(
            abs(got.loss - x) <= max(0.02 * abs(x), form.loss_rounding) for x in written.losses
        )
    if not right:
        found.append(f"loss {got.loss}, right {written.losses}")
        wrong += got.loss is not None
    return found, wrong


@pytest.mark.parametrize("name", sorted(LIMITS))
def test_what_is_not_read_in_full_is_missing_not_wrong(name: str) -> None:
    form = next(form for form in FORMATS if form.name == name)
    written = write(form, seed=3, reports=90, noisy=True)
    _, wrong = faults(form, written, track(written.data))
    assert wrong == 0


@pytest.mark.parametrize("form", KNOWN, ids=lambda form: form.name)
def test_clean_log(form: Format) -> None:
    written = write(form, seed=3, reports=90)
    got = track(written.data)
    found, _ = faults(form, written, got)
    assert not found, (found, got.fallback_reason, [item.text for item in got.evidence])
    for item in got.evidence:
        line = written.data.split(b"\n")[(item.line or 0) - 1].decode()
        assert item.text.split("|")[-1].strip()[-12:] in COLOURS.sub("", line)


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["noisy", "cut", "short"])
def test_disturbed_logs(variant: str) -> None:
    counts: Counter[str] = Counter()
    misses: list[object] = []
    for form in KNOWN:
        reports = 12 if variant == "short" else 100
        written = write(form, seed=5, noisy=variant == "noisy", cut=variant == "cut", reports=reports)
        found, wrong = faults(form, written, track(written.data))
        counts["logs"] += 1
        counts["right"] += not found
        counts["wrong"] += wrong
        if found:
            misses.append((form.name, found))
    floor = 0.9 if variant == "short" else 0.97
    assert counts["right"] >= floor * counts["logs"], misses
    assert counts["wrong"] <= 0.02 * 3 * counts["logs"], misses


@pytest.mark.slow
@pytest.mark.parametrize("name", CARRIERS)
def test_carried_logs(name: str) -> None:
    counts: Counter[str] = Counter()
    misses: list[object] = []
    for form in KNOWN[::2]:
        written = write(form, seed=13, reports=110)
        found, wrong = faults(form, written, track(CARRIERS[name](written.data, form)))
        counts["logs"] += 1
        counts["right"] += not found
        counts["wrong"] += wrong
        if found:
            misses.append((form.name, found))
    assert counts["right"] >= (0.94 if name == "a task behind" else 0.98) * counts["logs"], misses
    assert counts["wrong"] <= 0.02 * 3 * counts["logs"], misses


@pytest.mark.parametrize("name", NOTHING)
def test_nothing_is_invented(name: str) -> None:
    data = "\n".join(NOTHING[name](random.Random(4), 300)).encode() + b"\n"
    got = track(data)
    assert got.is_missing, got
    assert got.fallback_reason
    assert got.evidence == ()
    assert got.confidence == 0.0


def test_two_logs_without_progress_in_one_are_still_without() -> None:
    names = list(NOTHING)
    for first, second in pairwise(names):
        lines = [
            line
            for pair in zip(NOTHING[first](random.Random(1), 120), NOTHING[second](random.Random(2), 120), strict=False)
            for line in pair
        ]
        got = track("\n".join(lines).encode())
        assert got.step is None, (first, second, got)
        assert got.step_time_s is None
