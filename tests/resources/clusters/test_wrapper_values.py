"""What the wrapper makes of samples, loads and notes: values in, values out."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lucid_pipelines.resources.clusters import wrapper

PERCENT = st.floats(0, 100)
MAYBE = st.none() | PERCENT


def _samples(levels: Sequence[float | None], start: float = 0.0, memory: float = 100.0) -> list[wrapper.Sample]:
    return [(start + i, [(0, level, level, memory)]) for i, level in enumerate(levels)]


def test_warm_up_is_dropped_and_the_rest_averaged() -> None:
    levels = [0.0, 2.0, 5.0, *[80.0, 84.0] * 10]
    found = wrapper.summarise(_samples(levels), 0.0)
    assert (found["gpu_util_pct"], found["sample_count"], found["window_s"]) == (82.0, 20, 19.0)


def test_the_launcher_may_declare_a_longer_warm_up() -> None:
    found = wrapper.summarise(_samples([60.0] * 10 + [80.0] * 10), 12.0)
    assert (found["gpu_util_pct"], found["sample_count"]) == (80.0, 8)


@pytest.mark.parametrize(
    "levels",
    [[], [50.0], [50.0, 50.0], [None] * 20, [50.0, None] * 10, [20.0] * 3 + [90.0] * 9 + [20.0] * 12],
    ids=["none", "one", "two", "unreadable", "half", "unsteady"],
)
def test_too_little_or_unsteady_is_unknown_and_not_small(levels: list[float | None]) -> None:
    assert wrapper.summarise(_samples(levels), 0.0)["gpu_util_pct"] is None


def _measured(rows: Sequence[tuple[float, float, float]]) -> dict[str, object]:
    samples: list[wrapper.Sample] = [(float(i), [(0, *row)]) for i, row in enumerate(rows)]
    return wrapper.summarise(samples, 0.0, measured=True)


def test_a_gpu_that_was_never_used_in_the_window_is_unknown_and_not_small() -> None:
    found = wrapper.summarise(_samples([0.0] * 20, memory=300.0), 0.0)
    assert (found["gpu_util_pct"], found["memory_util_pct"], found["unknown_because"]) == (None, None, "idle")


def test_readings_that_do_not_move_are_a_driver_that_does_not_look() -> None:
    frozen = _measured([(42.0, 17.0, 5_000.0)] * 30)
    assert [frozen[name] for name in ("gpu_util_pct", "memory_util_pct", "memory_peak_mib")] == [None] * 3
    assert frozen["unknown_because"] == "frozen"
    young = _measured([(42.0, 17.0, 5_000.0)] * 5)
    assert (young["gpu_util_pct"], young["memory_util_pct"]) == (None, None)
    assert young["unknown_because"] == "too_few", "what has not moved yet is not known yet"
    moving = _measured([(42.0, 17.0 + i % 2, 5_000.0) for i in range(30)])
    assert moving["gpu_util_pct"] == 42.0 and moving["unknown_because"] is None
    full = _measured([(100.0, 80.0, 5_000.0)] * 30)
    assert full["gpu_util_pct"] == 100.0, "a full GPU stands still, and is no small job"
    declared = wrapper.summarise(_samples([42.0] * 30), 0.0)
    assert declared["gpu_util_pct"] == 42.0, "a declaration may well be constant"


@pytest.mark.parametrize(
    ("levels", "why"),
    [([50.0], "too_few"), ([None] * 20, "missing"), ([20.0] * 3 + [90.0] * 9 + [20.0] * 12, "unsteady")],
)
def test_why_a_profile_is_unknown_is_told(levels: list[float | None], why: str) -> None:
    assert wrapper.summarise(_samples(levels), 0.0)["unknown_because"] == why


def test_memory_is_a_peak_even_of_the_warm_up() -> None:
    samples = [*_samples([0.0] * 3, memory=9_000.0), *_samples([50.0] * 10, start=3.0, memory=4_000.0)]
    assert wrapper.summarise(samples, 3.0)["memory_peak_mib"] == 9_000.0


def test_a_job_on_several_gpus_has_their_mean_and_the_highest_memory() -> None:
    samples: list[wrapper.Sample] = [(float(i), [(0, 40.0, 10.0, 100.0), (3, 60.0, 30.0, 700.0)]) for i in range(5)]
    found = wrapper.summarise(samples, 0.0)
    assert (found["gpu_util_pct"], found["memory_util_pct"], found["memory_peak_mib"]) == (50.0, 20.0, 700.0)


@given(st.lists(st.tuples(MAYBE, MAYBE, st.none() | st.floats(0, 1e6)), max_size=40), st.floats(-5, 50))
def test_a_summary_stays_within_what_was_seen(rows: list[tuple[float | None, ...]], steady_from: float) -> None:
    samples: list[wrapper.Sample] = [(float(i), [(0, *row)]) for i, row in enumerate(rows)]  # pyright: ignore[reportAssignmentType]
    found = wrapper.summarise(samples, steady_from)
    for column, name in ((0, "gpu_util_pct"), (1, "memory_util_pct"), (2, "memory_peak_mib")):
        seen = [row[column] for row in rows if row[column] is not None]
        value = found[name]
        if value is not None:
            assert min(seen) - 1e-3 <= value <= max(seen) + 1e-3  # pyright: ignore[reportOperatorIssue, reportArgumentType]
            assert len(seen) >= wrapper.STEADY_SAMPLES
    assert 0 <= found["sample_count"] <= len(rows)


@pytest.mark.parametrize("value", [None, True, "50", [], {}, math.nan, math.inf, -math.inf, -0.001, 100.001, 10**400])
def test_what_is_no_share_is_unknown(value: object) -> None:
    assert wrapper.within(value, 100.0) is None


@given(st.floats(0, 100) | st.integers(0, 100))
def test_what_is_a_share_stays_itself(value: float) -> None:
    assert wrapper.within(value, 100.0) == value


def _load(tmp_path: Path, text: bytes | None, declared: dict[str, float] | None = None) -> list[tuple[object, ...]]:
    path = tmp_path / wrapper.LOAD
    path.unlink(missing_ok=True)
    if text is not None:
        path.write_bytes(text)
    gpus = [{"index": 1, "memory_mib": 24_000.0}, {"index": 3, "memory_mib": None}]
    return [reading for reading in wrapper.LoadReader(str(tmp_path), gpus, declared).latest()]


def test_a_load_is_what_the_job_says_else_what_was_declared(tmp_path: Path) -> None:
    declared = {"gpu_util_pct": 10.0}
    same = b'{"gpu_util_pct": 70, "memory_util_pct": 5.5, "memory_used_mib": 1000}'
    each = b'{"gpus": {"1": {"gpu_util_pct": 70}, "3": {"gpu_util_pct": 30}}}'
    assert _load(tmp_path, None, None) == [(1, None, None, None), (3, None, None, None)]
    assert _load(tmp_path, None, declared) == [(1, 10.0, None, None), (3, 10.0, None, None)]
    assert _load(tmp_path, same, declared) == [(1, 70.0, 5.5, 1000.0), (3, 70.0, 5.5, 1000.0)]
    assert _load(tmp_path, each, declared) == [(1, 70.0, None, None), (3, 30.0, None, None)]


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"[]", b"7", b"\xff", b'{"gpu_util_pct": NaN}', b'{"gpu_util_pct": 101}', b'{"gpu_util_pct": "high"}',
     b'{"gpus": {"1": 5}}', b'{"gpus": {"2": {"gpu_util_pct": 5}}}', b"[" * 20_000, b" " * 70_000 + b"{}"],
)  # fmt: skip
def test_a_load_that_makes_no_sense_is_unknown(tmp_path: Path, text: bytes) -> None:
    assert _load(tmp_path, text, {"gpu_util_pct": 10.0}) == [(1, None, None, None), (3, None, None, None)]


def test_more_memory_than_a_gpu_has_is_unknown(tmp_path: Path) -> None:
    assert [row[3] for row in _load(tmp_path, b'{"memory_used_mib": 25000}')] == [None, 25_000.0]


def test_a_load_behind_a_link_is_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text('{"gpu_util_pct": 50}')
    (tmp_path / wrapper.LOAD).symlink_to(secret)
    reader = wrapper.LoadReader(str(tmp_path), [{"index": 0}], None)
    assert reader.latest() == [(0, None, None, None)]


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("", {}),
        ('{"a": 1, "b": "two", "c": [3]}', {"a": "1", "b": "two", "c": "[3]"}),
        ("a = 1\nb=x=y\n", {"a": "1", "b": "x=y"}),
        ('{"a\\n": "x\\u001b[31m"}', {"a": "x [31m"}),
    ],
)
def test_a_note_holds_facts(tmp_path: Path, text: str, facts: dict[str, str]) -> None:
    (tmp_path / "note").write_text(text)
    assert wrapper.read_note(str(tmp_path / "note")) == (facts, None)


@pytest.mark.parametrize(
    "content", ["words without a sign", "[1]", "x" * 20_000, json.dumps({str(i): i for i in range(99)})]
)
def test_a_note_that_is_not_taken_whole_says_so(tmp_path: Path, content: str) -> None:
    (tmp_path / "note").write_text(content)
    facts, problem = wrapper.read_note(str(tmp_path / "note"))
    assert len(facts) <= wrapper.NOTE_FACTS
    assert problem


@given(st.binary(max_size=2_000))
def test_any_note_is_survived_in_bounds(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "note"
    path.write_bytes(content)
    facts, _ = wrapper.read_note(str(path))
    assert len(facts) <= wrapper.NOTE_FACTS
    for key, value in facts.items():
        assert len(key) <= 64
        assert len(value) <= wrapper.FACT_CHARS
        assert (key + value).isprintable() or not key + value


@settings(max_examples=40)
@given(
    st.dictionaries(st.text(max_size=80), st.text(max_size=1_200), max_size=40),
    st.text(max_size=3_000),
)
def test_the_largest_record_fits_into_what_was_reserved(
    tmp_path_factory: pytest.TempPathFactory, note: dict[str, str], reason: str
) -> None:
    folder = tmp_path_factory.mktemp("attempt")
    (folder / wrapper.NOTE).write_text(json.dumps(note, ensure_ascii=False))
    declared, problem = wrapper.read_note(str(folder / wrapper.NOTE))
    spec = {"attempt_id": "a", "attempt_dir": str(folder), "disk_retry_s": 0.0}
    record = wrapper.unstarted_record(spec, "stopped", reason[: wrapper.DETAIL_CHARS])
    record |= {"declared": declared, "declared_problem": problem, "stop": {"reason": reason}}
    reserve = wrapper.reserve_record(str(folder))
    wrapper.write_exit(spec, record, reserve)
    os.close(reserve)
    written = (folder / wrapper.EXIT).read_bytes()
    assert len(written) <= wrapper.RESERVE_BYTES
    assert json.loads(written)["declared"] in (declared, {})
    assert not (folder / wrapper.RESERVE).exists()


@given(st.floats(0, 4e9, allow_nan=False))
def test_times_are_utc_to_the_microsecond(seconds: float) -> None:
    from datetime import datetime

    moment = datetime.fromisoformat(wrapper.iso(seconds))
    assert moment.utcoffset() is not None
    assert abs(moment.timestamp() - seconds) < 2e-6
