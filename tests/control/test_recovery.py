"""After a failure: waiting for a shared cause, checking what a restart resumed, giving nodes back, keeping score."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from lucid_pipelines.control.intake import job_dir
from lucid_pipelines.control.releasing import review_isolations
from lucid_pipelines.control.reliability import numbers, page, reliability
from lucid_pipelines.control.restart_scores import score_restarts
from lucid_pipelines.control.resuming import check_resumes
from lucid_pipelines.domain.job import Attempt
from lucid_pipelines.domain.states import JobState, Mode, Outcome
from lucid_pipelines.failures.resume import ResumeState
from lucid_pipelines.store import ActionState
from tests.support_control.talking import ECC, TalkingWorld, steps

LIVE = {"modes": {"restart": "live", "isolate": "live"}, "recovery": {"backoff_base_s": 0.0}}
NODES = (("node-1", 4, "vision"), ("node-2", 4, "vision"), ("node-3", 4, "vision"), ("node-4", 4, "vision"))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[TalkingWorld]:
    made = TalkingWorld(tmp_path / "home", nodes=NODES, **LIVE)
    yield made
    made.store.close()


def saved(world: TalkingWorld, attempt: Attempt, step: int) -> None:
    """A whole checkpoint of the job, written now by the world's clock."""
    import os

    folder = job_dir(world.system, attempt.job_id) / "checkpoints"
    folder.mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("state", b"x" * 100)
    path = folder / f"step_{step}.npz"
    path.write_bytes(buffer.getvalue())
    at = world.clock.now().timestamp()
    os.utime(path, (at, at))


def failed_and_restarted(world: TalkingWorld, last: int = 120, checkpoint: int = 100, **fields: object) -> Attempt:
    """A job whose first attempt met an ECC error. Returns its second attempt, which runs."""
    first = world.start(**fields)
    world.write(first, steps(1, last))
    world.clock.sleep(60.0)
    saved(world, first, checkpoint)
    world.clock.sleep(60.0)
    world.write(first, ECC)
    world.cluster.failing.add(first.attempt_id)
    world.rounds(8)
    _, second = world.attempts(first)
    assert second.started_at is not None
    return second


def look(world: TalkingWorld) -> list[ResumeState]:
    world.clock.sleep(30.0)
    return [verdict.state for _, verdict in check_resumes(world.system, world.store.queue.view().active)]


def test_a_job_that_goes_on_from_its_checkpoint_is_left_alone(world: TalkingWorld) -> None:
    second = failed_and_restarted(world)
    assert look(world) == [], "its log shows no step yet"
    world.write(second, "loading checkpoint step_100.npz\n" + steps(101, 3))
    assert look(world) == [ResumeState.RESUMED]
    assert look(world) == [], "judged once"
    assert world.job(second).state is JobState.RUNNING


def test_a_job_that_begins_again_is_stopped_for_good_and_told(world: TalkingWorld) -> None:
    second = failed_and_restarted(world)
    world.write(second, steps(1, 5))
    assert look(world) == [ResumeState.LOST_PROGRESS]
    world.rounds(6)
    job = world.job(second)
    assert (job.state, job.outcome) == (JobState.FAILED, Outcome.FAILED_USER)
    assert "did not resume" in (job.detail or "")
    assert len(world.attempts(second)) == 2, "and not restarted"


@pytest.mark.parametrize("mode", ["approve", "shadow"])
def test_stopping_it_obeys_the_mode(tmp_path: Path, mode: str) -> None:
    world = TalkingWorld(tmp_path / "home", nodes=NODES, **LIVE)
    second = failed_and_restarted(world)
    modes = world.system.settings.modes.model_copy(update={"restart": Mode(mode)})
    world.system = replace(world.system, settings=world.system.settings.model_copy(update={"modes": modes}))
    world.write(second, steps(1, 5))
    assert look(world) == [ResumeState.LOST_PROGRESS]
    world.rounds(5)
    assert world.job(second).state is JobState.RUNNING
    (action,) = world.store.actions.find(kind="stop")
    assert (action.mode.value, action.state) == (mode, ActionState.PROPOSED)
    if mode == "approve":
        world.store.actions.decide(action.action_id, approve=True, person="ada", now=world.clock.now())
        world.rounds(5)
        assert world.job(second).state is JobState.FAILED
    world.store.close()


def test_numbers_that_count_something_else_prove_nothing(world: TalkingWorld) -> None:
    """The checkpoint's number is an epoch's, or the log counts within an epoch."""
    second = failed_and_restarted(world, last=450, checkpoint=3)
    world.write(second, steps(1, 5))
    assert look(world) == [ResumeState.UNKNOWN]
    other = failed_and_restarted(world, last=50, checkpoint=700)
    world.write(other, steps(1, 5))
    assert look(world) == [ResumeState.UNKNOWN]
    assert world.job(other).state is JobState.RUNNING


def test_the_same_error_after_a_restart_is_a_loop_and_counts_against_it(world: TalkingWorld) -> None:
    second = failed_and_restarted(world)
    world.write(second, steps(101, 30) + ECC)
    world.cluster.failing.add(second.attempt_id)
    world.rounds(8)
    assert world.job(second).state is JobState.FAILED and len(world.attempts(second)) == 2
    score_restarts(world.system)
    (restart,) = world.store.actions.find(kind="restart", states=[ActionState.EXECUTED])
    assert restart.score is not None and restart.score["good"] is False


def test_many_failures_at_once_wait_for_the_shared_cause_and_then_go_on(tmp_path: Path) -> None:
    world = TalkingWorld(tmp_path / "home", nodes=(*NODES, ("node-5", 4, "vision")), **LIVE)
    attempts = [world.start(gpus=4, user=f"u{i}") for i in range(4)]
    for attempt in attempts:
        world.write(attempt, steps(1, 60) + ECC)
        world.cluster.failing.add(attempt.attempt_id)
    world.rounds(5)
    assert {world.job(a).state for a in attempts} == {JobState.FAILED}, "held, none is restarted"
    assert world.store.exits.pending()[0] == 4 and world.store.nodes.isolated() == []
    notes = [e for a in attempts for e in world.store.events.of_job(a.job_id) if e.who == "failure_handler"]
    world.rounds(12, 120.0)
    assert world.store.exits.pending()[0] == 0
    assert {len(world.attempts(a)) for a in attempts} == {2}, "the cause has passed: every job went on, once"
    again = [e for a in attempts for e in world.store.events.of_job(a.job_id) if e.who == "failure_handler"]
    assert len(again) == 2 * len(notes), "told once, restarted once"
    world.store.close()


def test_a_sweep_of_broken_programs_is_no_shared_cause(world: TalkingWorld) -> None:
    attempts = [world.start(gpus=4) for _ in range(4)]
    for attempt in attempts[:3]:
        world.write(attempt, "Traceback (most recent call last):\n  File 'x.py', line 1\nKeyError: 'labels'\n")
        world.cluster.failing.add(attempt.attempt_id)
    world.rounds(5)
    world.write(attempts[3], steps(1, 60) + ECC)
    world.cluster.failing.add(attempts[3].attempt_id)
    world.rounds(8)
    assert len(world.attempts(attempts[3])) == 2, "their failures are the user's own"


def test_an_isolated_node_is_tested_at_its_deadline_and_given_back_or_told_of(world: TalkingWorld) -> None:
    world.cluster.broken_nodes.add("node-1")
    second = failed_and_restarted(world)
    (reason,) = world.store.nodes.isolated()
    assert (reason.node, reason.gpu_index) == ("node-1", 0)
    assert ("node-1", 0) not in {(s.node, g) for s in second.placement.shares for g in s.gpu_indices}
    assert review_isolations(world.system) == [], "before its deadline"
    world.store.nodes.isolate("node-4", owner="ops", reason="planned work", now=world.clock.now())
    world.clock.sleep(25 * 3600.0)
    (stuck,) = review_isolations(world.system)
    assert stuck.decision.verb.value == "alarm" and len(world.store.nodes.isolated()) == 2
    world.cluster.broken_nodes.clear()
    world.clock.sleep(3600.0)
    (lifted,) = review_isolations(world.system)
    assert lifted.decision.verb.value == "restore"
    assert [r.owner for r in world.store.nodes.isolated()] == ["ops"], "only our own is lifted"
    (action,) = world.store.actions.find(kind="isolate", states=[ActionState.EXECUTED])
    assert action.score is not None and action.score["good"] is True, "a test had failed again: it was right"


def test_the_report_of_a_week_counts_what_happened(world: TalkingWorld) -> None:
    begin = world.clock.now() - timedelta(days=1)
    world.cluster.broken_nodes.add("node-1")
    second = failed_and_restarted(world)
    bad = world.start()
    world.write(bad, "Traceback (most recent call last):\n  File 'x.py', line 1\nKeyError: '<b>labels|'\n")
    world.cluster.failing.add(bad.attempt_id)
    world.cluster.ending.add(second.attempt_id)
    world.rounds(5)
    score_restarts(world.system)
    report = reliability(world.system, begin, begin + timedelta(days=7))
    assert (report.failures, report.attempts, report.undiagnosed) == (2, 3, 0)
    assert report.by_cause == {"infrastructure": 1, "user": 1}
    assert (report.by_component, report.by_node) == ({"gpu": 1}, {"node-1": 1})
    assert report.lost_gpu_h["infrastructure"] == pytest.approx(60 / 3600, rel=0.2), "since the checkpoint only"
    assert len(report.recovery_s) == 1 and 0 <= report.recovery_s[0] < 60
    assert (report.restarts.right, report.restarts.wrong, report.restarts.frac) == (1, 0, 1.0)
    assert report.isolations.open == 1 and report.isolations.frac is None
    text = page(report)
    assert "| infrastructure | 1 |" in text.replace("`", "") and "<b>" not in text
    assert numbers(report)["restart_precision_frac"] == 1.0
    empty = reliability(world.system, begin - timedelta(days=30), begin)
    assert numbers(empty)["failures"] == 0 and page(empty)


def test_logs_that_a_launcher_wrote_for_each_rank_are_read_too(world: TalkingWorld) -> None:
    attempt = world.start()
    world.write(attempt, steps(1, 60) + "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n")
    folder = job_dir(world.system, attempt.job_id) / "outputs" / "logs" / "attempt_0" / "1"
    folder.mkdir(parents=True)
    (folder / "stderr.log").write_text("loading\n" + steps(1, 60) + ECC)
    (folder.parent / "rank_7.log").symlink_to("/etc/passwd")
    world.cluster.failing.add(attempt.attempt_id)
    world.rounds(8)
    (restart,) = world.store.actions.find(kind="restart")
    assert restart.payload["component"] == "gpu"
    exit = world.store.exits.get(attempt.attempt_id)
    assert exit.result is not None and "uncorrectable" in exit.result["root_text"]


class Reader:
    """A language model that names the line it is told to."""

    def __init__(self, quote: str) -> None:
        self.quote, self.asked = quote, 0

    def complete_json(self, messages: object, schema: object, timeout_s: float) -> dict[str, object]:
        self.asked += 1
        return {"error_type": "framework", "faulty_component": "none", "quote": self.quote, "confidence": 0.8}


@pytest.mark.parametrize(("quote", "name"), [("frobnicator subsystem gave up: code 7", "accepted"),
                                             ("a line that nobody wrote", "invented_quote")])  # fmt: skip
def test_a_language_model_is_asked_about_what_no_rule_knows_and_must_quote(
    world: TalkingWorld, quote: str, name: str
) -> None:
    world.with_model(Reader(quote))
    attempt, other = world.start(), world.start()
    world.write(attempt, steps(1, 60) + "FATAL frobnicator subsystem gave up: code 7\n")
    world.write(other, steps(1, 60) + ECC)
    world.cluster.failing |= {attempt.attempt_id, other.attempt_id}
    world.rounds(6)
    assert world.store.counters.all("failures_model") == {f"failures_model_{name}": 1}, "not about the known one"
