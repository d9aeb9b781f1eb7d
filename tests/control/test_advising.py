"""The advise step of a submission: kept before the job runs, used only where it may be, scored once it ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lucid_pipelines.advisor.advising import Advisor
from lucid_pipelines.client import Client
from lucid_pipelines.control.advice_day import advice_day, markdown, numbers
from lucid_pipelines.control.advising import learn_ended
from lucid_pipelines.control.intake import claim_batch
from lucid_pipelines.control.live_advisor import LiveAdvisor
from lucid_pipelines.control.scheduling import run_pass
from lucid_pipelines.control.system import System
from lucid_pipelines.domain.errors import ExternalError
from lucid_pipelines.domain.job import Job, Profile
from lucid_pipelines.domain.similarity import PastJob
from lucid_pipelines.domain.states import Cause, JobState, Mode, Outcome
from lucid_pipelines.resources.advisors import configured_advisor, open_advisor
from lucid_pipelines.settings import Settings
from tests.support_advisor.repos import TRAINING
from tests.support_control.pretend import OwnClock, PretendCluster
from tests.support_control.worlds import take_in_all

PROFILE = Profile(40.0, 20.0, 3_000.0, 200.0, 100, "samples")


def world(client: Client, **modes: Mode) -> System:
    """The control plane of a client with an advisor, under some modes, with a clock of its own."""
    settings = client.settings.model_copy(update={"modes": client.settings.modes.model_copy(update=modes)})
    clock = OwnClock(client.system.clock.now())
    system = System.of(settings, client.system.store, PretendCluster(clock), clock)
    return replace(system, advisor=configured_advisor(settings))


@pytest.fixture
def code(source: Path) -> Path:
    (source / "train.py").write_text(TRAINING)
    return source


def submit(client: Client, code: Path, *words: str, name: str = "n") -> Job:
    return client.submit(["python", "train.py", *words], source_dir=code, vc="vision", name=name).job


def remember(system: System, like: Job, durations_s: Sequence[float], outcome: Outcome = Outcome.COMPLETED) -> None:
    """Past jobs with the code of a job that was advised."""
    row = system.store.advice.of_job(like.job_id)
    assert row is not None and row.mark is not None
    assert system.advisor is not None
    now = system.clock.now()
    past = [
        PastJob(
            job_id=f"past-{number}",
            fingerprint=row.mark["text"],
            submitted_at=now - timedelta(days=2),
            ended_at=now - timedelta(days=1, seconds=number),
            outcome=outcome,
            duration_s=duration_s,
            task_type=row.mark["task_type"],
            gpu_type=row.mark["gpu_type"],
            gpus=like.spec.gpus,
            profile=PROFILE,
        )
        for number, duration_s in enumerate(durations_s)
    ]
    system.advisor.opened.learn(past)


def test_shadow_keeps_the_advice_and_uses_the_plain_estimate(client: Client, code: Path) -> None:
    system = world(client, advise=Mode.SHADOW)
    first = submit(client, code)
    take_in_all(system)
    remember(system, first, [100.0, 110.0, 105.0])
    second = submit(client, code, name="another name")
    take_in_all(system)
    row = system.store.advice.of_job(second.job_id)
    assert row is not None and row.estimate is not None
    assert 100 <= (row.estimate.duration_s or 0) <= 110
    assert {each["job_id"] for each in row.similar} == {"past-0", "past-1", "past-2"}
    kept = system.store.jobs.get(second.job_id).estimate
    assert kept is not None and kept.basis != row.estimate.basis


def test_live_advice_is_the_jobs_estimate_and_names_its_evidence(client: Client, code: Path) -> None:
    system = world(client, advise=Mode.LIVE)
    take_in_all(system)
    first = submit(client, code)
    take_in_all(system)
    remember(system, first, [100.0, 110.0, 105.0])
    second = submit(client, code)
    take_in_all(system)
    estimate = system.store.jobs.get(second.job_id).estimate
    assert estimate is not None and estimate.basis == "advisor_history"
    assert set(estimate.evidence_job_ids) == {"past-0", "past-1", "past-2"}
    stored = system.store.estimates.of_job(second.job_id)
    assert [each.estimate.basis for each in stored] == ["advisor_history"]
    assert stored[0].scored_at is None


def test_the_same_code_and_command_are_read_once(client: Client, code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system = world(client)
    first = submit(client, code)
    take_in_all(system)

    def read_again(*_: Any, **__: Any) -> Any:
        raise AssertionError("read a second time")

    monkeypatch.setattr(Advisor, "advise", read_again)
    second, other = submit(client, code, name="b"), submit(client, code, "--lr", "0.5")
    take_in_all(system)
    rows = [system.store.advice.of_job(job.job_id) for job in (first, second, other)]
    assert rows[0] is not None and rows[1] is not None and rows[2] is not None
    assert rows[1].mark == rows[0].mark
    assert rows[1].reading_key == rows[0].reading_key != rows[2].reading_key
    assert rows[2].basis == "advisor_failed"


def test_off_asks_nothing(client: Client, code: Path) -> None:
    system = world(client, advise=Mode.OFF)
    assert system.advisor is None
    job = submit(client, code)
    assert take_in_all(system) == ["queued"]
    assert system.store.advice.of_job(job.job_id) is None


def test_a_slow_advisor_holds_up_one_batch_for_one_time_box(client: Client, code: Path) -> None:
    system = world(client)

    class Slow:
        def advise(self, *_: Any, **__: Any) -> Any:
            assert system.advisor is not None
            system.advisor.spend(99.0)
            raise ExternalError("reading took too long")

    system = replace(system, advisor=LiveAdvisor(lambda residuals: Slow(), 20.0))  # type: ignore[arg-type,return-value]
    jobs = [submit(client, code, "--epochs", str(number)) for number in range(3)]
    assert take_in_all(system) == ["queued"] * 3
    bases = {getattr(system.store.advice.of_job(job.job_id), "basis", None) for job in jobs}
    assert bases == {"advisor_failed", "batch_out_of_time"}
    submit(client, code, "--epochs", "9")
    claim_batch(system, "another batch")
    assert system.advisor is not None and system.advisor.time_left_s == 20.0


@pytest.mark.parametrize("ends", [0, 1])
def test_an_end_scores_the_advice_and_becomes_evidence(client: Client, code: Path, ends: int) -> None:
    system = world(client, advise=Mode.LIVE)
    job = submit(client, code)
    take_in_all(system)
    run_pass(system, "window")
    run_for(system, job, 120.0, Outcome.COMPLETED if ends == 0 else Outcome.FAILED_USER)
    assert learn_ended(system) == 1
    assert learn_ended(system) == 0
    row = system.store.advice.of_job(job.job_id)
    assert row is not None and row.verdict == "fallback" and row.learned_at is not None
    day = advice_day(system.store, system.clock.now().replace(hour=0, minute=0, second=0, microsecond=0))
    told = numbers(day)
    assert (told["fallback"], told["hit_right"], told["hit_wrong"]) == (1, 0, 0)
    assert told["cpu_h"] > 0
    assert (told["saved_gpu_h"], told["net_gpu_h"]) == (0.0, 0.0)
    assert f"| {row.basis} |" in markdown(day)
    assert system.advisor is not None
    (past,) = system.advisor.opened.index.jobs()
    assert past.job_id == job.job_id
    assert past.teaches_duration == (ends == 0)
    again = submit(client, code)
    take_in_all(system)
    kept = system.store.advice.of_job(again.job_id)
    assert kept is not None
    assert (kept.estimate is not None) == (ends == 0)
    assert kept.basis == ("advisor_history" if ends == 0 else "none_completed")


def run_for(system: System, job: Job, duration_s: float, outcome: Outcome) -> None:
    """Let a placed job start now and end after a while."""
    (attempt,) = system.store.attempts.of_job(job.job_id)
    now = system.clock.now()
    if attempt.started_at is None:
        system.store.attempts.record_started(attempt.attempt_id, now, who="test", now=now)
    clock = system.clock
    assert isinstance(clock, OwnClock)
    clock.sleep(duration_s)
    cause = None if outcome is Outcome.COMPLETED else Cause.USER
    system.store.attempts.record_end(attempt.attempt_id, None, outcome, who="test", now=clock.now(), cause=cause)


@pytest.mark.parametrize("mode", [Mode.LIVE, Mode.SHADOW, Mode.OFF])
def test_the_profile_of_similar_jobs_may_take_the_place_of_profiling(client: Client, code: Path, mode: Mode) -> None:
    system = world(client, skip_profiling=mode)
    clock = system.clock
    assert isinstance(clock, OwnClock)
    system = replace(system, cluster=PretendCluster(clock, (("node-1", 4, "vision"), ("node-3", 4, "profiler"))))
    first = submit(client, code)
    take_in_all(system)
    assert system.store.jobs.get(first.job_id).state is JobState.PROFILE_QUEUED
    remember(system, first, [100.0, 110.0])
    second = submit(client, code, name="other")
    take_in_all(system)
    job, row = system.store.jobs.get(second.job_id), system.store.advice.of_job(second.job_id)
    assert row is not None
    if mode is Mode.LIVE:
        assert job.profile is not None
        assert (job.profile.gpu_util_pct, job.profile.memory_peak_mib) == (pytest.approx(40), 3_000)
        assert (job.profile.source, job.state, row.saved_gpu_s) == ("advisor", JobState.QUEUED, 200.0)
    else:
        assert (job.profile, job.state, row.saved_gpu_s) == (None, JobState.PROFILE_QUEUED, None)
    assert row.skip_mode == (None if mode is Mode.OFF else mode.value)


def test_right_and_wrong_predictions_are_told_apart(client: Client, code: Path) -> None:
    system = world(client, advise=Mode.LIVE)
    first = submit(client, code)
    take_in_all(system)
    remember(system, first, [100.0, 110.0, 105.0])
    jobs = [submit(client, code, name=f"run {number}") for number in range(2)]
    take_in_all(system)
    system.store.jobs.request_cancel(first.job_id, who="test", now=system.clock.now())
    run_pass(system, "window")
    run_for(system, jobs[0], 120.0, Outcome.COMPLETED)
    run_for(system, jobs[1], 20.0, Outcome.COMPLETED)
    learn_ended(system)
    verdicts = [getattr(system.store.advice.of_job(job.job_id), "verdict", None) for job in jobs]
    assert verdicts == ["hit_right", "hit_wrong"]
    rows = [system.store.advice.of_job(job.job_id) for job in jobs]
    assert all(row is not None and row.learned_at is not None and row.made_at < row.learned_at for row in rows)
    assert len(system.store.advice.residuals(10)) == 2


def test_an_index_that_is_away_costs_only_its_answers(client: Client, code: Path) -> None:
    system = world(client)
    settings: Settings = system.settings

    def away(residuals: Sequence[float]) -> Advisor:
        raise ExternalError("the index does not answer")

    system = replace(system, advisor=LiveAdvisor(away, 5.0))
    job = submit(client, code)
    assert take_in_all(system) == ["queued"]
    assert system.store.jobs.get(job.job_id).state is JobState.QUEUED
    assert open_advisor(settings) is not None
