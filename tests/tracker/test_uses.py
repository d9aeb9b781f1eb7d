from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.tracker.classes import LineClass
from lucid_pipelines.tracker.eta import estimate_end, pause_share
from lucid_pipelines.tracker.hang import HangSettings, JobPulse, judge_hang
from lucid_pipelines.tracker.interference import PairedJob, PairSettings, PairVerdict, judge_pair
from lucid_pipelines.tracker.measurements import Measurement, PaceWindow, pace_between
from lucid_pipelines.tracker.progress import Progress
from lucid_pipelines.tracker.straggler import PeerPace, find_stragglers

NOW = datetime(2025, 3, 11, 12, tzinfo=UTC)
EARLY, LATE = NOW - timedelta(hours=3), NOW - timedelta(hours=1)


def job(name: str, started: datetime, before: float | None, after: float | None, steps: float = 100) -> PairedJob:
    alone = PaceWindow(before, 200, 10) if before is not None else None
    return PairedJob(name, started, alone, PaceWindow(after, steps, 10))


def test_a_pair_that_runs_at_less_than_half_speed_is_taken_apart() -> None:
    finding = judge_pair(job("a", EARLY, 1.0, 2.5), job("b", LATE, None, 0.4), NOW)
    assert finding.verdict is PairVerdict.EVICT
    assert finding.evict_job_id == "b"
    assert finding.never_pack
    assert finding.ratios == (("a", pytest.approx(0.4)),)
    assert "40%" in finding.reason


def test_the_order_of_the_pair_does_not_matter() -> None:
    a, b = job("a", EARLY, 1.0, 2.5), job("b", LATE, 1.0, 1.1)
    assert judge_pair(a, b, NOW) == judge_pair(b, a, NOW)


def test_a_pair_that_runs_well_stays() -> None:
    finding = judge_pair(job("a", EARLY, 1.0, 1.6), job("b", LATE, None, None), NOW)
    assert finding.verdict is PairVerdict.KEEP
    assert finding.evict_job_id is None
    strict = judge_pair(job("a", EARLY, 1.0, 1.6), job("b", LATE, None, None), NOW, PairSettings(min_ratio_frac=0.65))
    assert strict.verdict is PairVerdict.EVICT


def test_a_pair_that_cannot_be_tracked_is_left_alone() -> None:
    finding = judge_pair(job("a", EARLY, None, 2.5), job("b", LATE, None, 0.4), NOW)
    assert finding.verdict is PairVerdict.UNTRACKABLE
    assert finding.evict_job_id is None


def test_too_few_steps_and_a_cool_down_wait() -> None:
    assert judge_pair(job("a", EARLY, 1.0, 9.0, 5), job("b", LATE, None, None), NOW).verdict is PairVerdict.NOT_YET
    soon = judge_pair(job("a", EARLY, 1.0, 9.0), job("b", LATE, None, None), NOW, None, NOW - timedelta(seconds=60))
    assert soon.verdict is PairVerdict.NOT_YET


def test_a_ratio_outside_the_possible_is_refused() -> None:
    with pytest.raises(InputError, match=r"1\.5"):
        PairSettings(min_ratio_frac=1.5)


@given(st.floats(0.01, 100), st.floats(0.01, 100), st.floats(0.05, 0.95))
def test_eviction_is_exactly_below_the_threshold(before: float, after: float, limit: float) -> None:
    settings = PairSettings(min_ratio_frac=limit)
    finding = judge_pair(job("a", EARLY, before, after), job("b", LATE, None, None), NOW, settings)
    assert (finding.verdict is PairVerdict.EVICT) == (before / after < limit)


def test_pace_of_a_span_leaves_out_settling_in_and_unknown() -> None:
    rows = [Measurement(EARLY + timedelta(minutes=i), 10.0 * i, 9.0 if i < 3 else 1.0) for i in range(10)]
    rows[5] = Measurement(rows[5].at, 50.0, None)
    window = pace_between(rows, EARLY, NOW, skip_steps=30)
    assert window.step_time_s == pytest.approx(1.0)
    assert window.steps == 90
    assert window.measurements == 6
    assert pace_between(rows, NOW, NOW) == PaceWindow(None, 0.0, 0)


def pulse(stale_s: float, **changes: object) -> JobPulse:
    base = JobPulse(NOW - timedelta(seconds=stale_s), 10.0, 60.0, LineClass.PROGRESS, NOW)
    return replace(base, **changes)  # type: ignore[arg-type]


def test_silence_is_suspicious_by_the_job_s_own_history() -> None:
    assert not judge_hang(pulse(250), NOW).is_suspected
    assert judge_hang(pulse(400), NOW).is_suspected
    assert not judge_hang(pulse(400, report_interval_s=60.0), NOW).is_suspected
    assert not judge_hang(pulse(400, longest_pause_s=200.0), NOW).is_suspected


def test_evaluation_checkpoints_and_loading_have_more_time() -> None:
    for activity in (LineClass.EVALUATION, LineClass.CHECKPOINT, LineClass.DATA, LineClass.BUILD):
        assert not judge_hang(pulse(1800, activity=activity), NOW).is_suspected
        assert judge_hang(pulse(4000, activity=activity), NOW).is_suspected


def test_no_evidence_no_suspicion() -> None:
    assert not judge_hang(pulse(9e6, newest_step_at=None), NOW).is_suspected
    assert not judge_hang(pulse(9e6, observed_at=None), NOW).is_suspected
    # The log could not be read for an hour: only what was seen counts.
    unread = JobPulse(NOW - timedelta(seconds=3700), 10.0, None, LineClass.PROGRESS, NOW - timedelta(seconds=3600))
    assert not judge_hang(unread, NOW).is_suspected


@given(st.floats(0, 1e6), st.floats(0.01, 1e4), st.floats(0, 1e4))
def test_nothing_is_suspected_within_the_limit(stale_s: float, interval_s: float, pause_s: float) -> None:
    finding = judge_hang(pulse(stale_s, report_interval_s=interval_s, longest_pause_s=pause_s), NOW, HangSettings())
    assert finding.limit_s is not None
    assert finding.stale_s is not None
    assert finding.is_suspected == (finding.stale_s > finding.limit_s)
    assert finding.limit_s >= 300


def test_remaining_time_has_an_interval_and_uses_joined_epochs() -> None:
    progress = Progress(
        step=50, total_steps=100, steps_left=50, step_time_s=2.0, step_time_low_s=1.8, step_time_high_s=2.5
    )
    eta = estimate_end(progress, NOW)
    assert eta is not None
    assert (eta.remaining_s, eta.low_s, eta.high_s) == (100.0, 90.0, 125.0)
    assert eta.ends_at == NOW + timedelta(seconds=100)
    joined = estimate_end(replace(progress, global_step=50, global_total_steps=1000, steps_left=950), NOW)
    assert joined is not None
    assert joined.steps_left == 950
    paused = estimate_end(progress, NOW, pause_share_frac=0.2)
    assert paused is not None
    assert paused.remaining_s == pytest.approx(125.0)


def test_no_remaining_time_without_total_or_pace() -> None:
    for progress in (
        Progress(step=5, total_steps=None, step_time_s=1.0),
        Progress(step=5, total_steps=9, steps_left=4, step_time_s=None),
        Progress(step=10, total_steps=9, step_time_s=1.0),
        Progress(),
    ):
        assert estimate_end(progress, NOW) is None


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.floats(1e-4, 1e4), st.floats(0, 1))
def test_the_interval_holds_the_estimate(step: int, more: int, pace: float, share: float) -> None:
    eta = estimate_end(
        Progress(step=step, total_steps=step + more, steps_left=more, step_time_s=pace), NOW, pause_share_frac=share
    )
    if eta is not None:
        assert 0 <= eta.low_s <= eta.remaining_s <= eta.high_s


def test_pauses_are_what_the_steady_pace_does_not_explain() -> None:
    assert pause_share(1.0, 80, 100.0) == pytest.approx(0.2)
    assert pause_share(2.0, 80, 100.0) == 0.0
    assert pause_share(1.0, 0, 0.0) == 0.0


def peer(name: str, node: str, pace: float | None, **changes: object) -> PeerPace:
    return replace(PeerPace(name, node, "A100", "f1", 8, pace), **changes)  # type: ignore[arg-type]


def test_a_slow_node_stands_out_among_equal_jobs() -> None:
    paces = [peer(f"j{i}", f"n{i}", 1.0 + i / 100) for i in range(4)] + [peer("slow", "n9", 1.5)]
    (hint,) = find_stragglers(paces)
    assert (hint.job_id, hint.node) == ("slow", "n9")
    assert hint.ratio_frac == pytest.approx(1.5 / 1.015, rel=1e-3)
    assert len(hint.peer_job_ids) == 4


def test_unlike_packed_unknown_and_few_peers_say_nothing() -> None:
    slow = peer("slow", "n9", 1.5)
    equal = [peer(f"j{i}", f"n{i}", 1.0) for i in range(4)]
    assert find_stragglers([*(replace(p, fingerprint="f2") for p in equal), slow]) == []
    assert find_stragglers([*(replace(p, gpu_type="V100") for p in equal), slow]) == []
    assert find_stragglers([*equal, replace(slow, is_packed=True)]) == []
    assert find_stragglers([*equal, replace(slow, step_time_s=None)]) == []
    assert find_stragglers([*equal[:2], slow]) == []
    assert find_stragglers([*(replace(p, node="n9") for p in equal), slow]) == []
