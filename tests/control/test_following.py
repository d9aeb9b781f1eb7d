"""Running jobs' logs are followed: values stored once, progress shown, hangs and stragglers told as advice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lucid_pipelines.control.following import LOSS, STEP, Follower
from lucid_pipelines.resources.language_models.configured import configured_model
from lucid_pipelines.settings import LanguageModelSettings
from lucid_pipelines.store import Tracked
from tests.support_advisor.model_server import fails, says, serving
from tests.support_control.talking import TalkingWorld, steps


@pytest.fixture
def world(tmp_path: Path) -> Iterator[TalkingWorld]:
    made = TalkingWorld(tmp_path / "home")
    yield made
    made.store.close()


def kinds(row: Tracked) -> list[str]:
    return [finding["kind"] for finding in row.findings]


def test_progress_and_values_are_stored_once_and_a_restart_repeats_nothing(world: TalkingWorld) -> None:
    attempt = world.start()
    world.write(attempt, steps(1, 40))
    world.look()
    world.follower = Follower()  # another process: only the stored cursor is left
    world.write(attempt, steps(41, 40))
    (look,) = world.look()
    assert look.tracked is not None
    told = look.tracked.progress
    assert (told["step"], told["total_steps"], told["step_time_s"]) == (80, 100_000, pytest.approx(0.5))
    assert told["remaining"]["low_s"] < told["remaining"]["remaining_s"] <= told["remaining"]["high_s"]
    points = world.store.metrics.points(attempt.attempt_id)
    losses = [point for point in points if point.name == LOSS]
    assert [p.step for p in losses] == sorted({p.step for p in losses}), "no loss twice"
    assert len(losses) <= 2 * world.system.settings.tracker.values_per_look
    assert losses[-1].step == 80
    world.look()
    assert world.store.metrics.points(attempt.attempt_id) == points, "nothing new was written: nothing is stored"


def test_of_two_looks_from_one_cursor_only_the_first_is_stored(world: TalkingWorld) -> None:
    attempt = world.start()
    world.write(attempt, steps(1, 40))
    world.look()
    before = world.tracked(attempt)
    world.write(attempt, steps(41, 40))
    world.look()
    points = world.store.metrics.points(attempt.attempt_id)
    late = replace(before, version=before.version + 1)
    assert world.store.tracking.advance([(late, points)]) == set()
    assert world.store.metrics.points(attempt.attempt_id) == points


def test_a_log_that_cannot_be_read_keeps_what_was_known(world: TalkingWorld) -> None:
    attempt, other = world.start(), world.start()
    world.write(attempt, steps(1, 40))
    world.look()
    known = world.tracked(attempt)
    world.cluster.is_away = True
    looks = {look.attempt.attempt_id: look for look in world.look(7200.0)}
    assert looks[attempt.attempt_id].tracked == known
    assert looks[attempt.attempt_id].log_bytes is None
    assert world.tracked(attempt) == known and kinds(known) == [], "blindness is no hang (R-1)"
    world.cluster.is_away = False
    world.cluster.logs[other.attempt_id] = bytearray(b"\x00\xff garbage \xed\xa0\x80\r" * 50)
    assert len(world.look()) == 2


def test_a_job_that_stops_stepping_is_suspected_once_and_cleared_when_it_goes_on(world: TalkingWorld) -> None:
    attempt = world.start()
    done = 1
    for _ in range(4):
        world.write(attempt, steps(done, 60))
        done += 60
        world.look()
    world.look(120.0)
    assert kinds(world.tracked(attempt)) == []
    for _ in range(4):
        world.look(120.0)
    assert kinds(world.tracked(attempt)) == ["hang"]
    assert world.store.queue.view().active, "advice only: it runs on"
    world.write(attempt, steps(done, 10))
    world.look()
    assert kinds(world.tracked(attempt)) == []
    notes = [event.why for event in world.store.events.of_job(attempt.job_id) if event.who == "metric_tracker"]
    assert [note.split(" ")[1] for note in notes] == ["suspected", "no"]


def test_saving_a_checkpoint_is_given_more_time(world: TalkingWorld) -> None:
    attempt = world.start()
    for number in range(3):
        world.write(attempt, steps(1 + 60 * number, 60))
        world.look()
    world.write(attempt, "Saving model checkpoint to /out/step_180\n")
    for _ in range(5):
        world.look(200.0)
    assert kinds(world.tracked(attempt)) == []


def test_time_in_which_nobody_looked_is_no_hang(world: TalkingWorld) -> None:
    attempt = world.start()
    for number in range(3):
        world.write(attempt, steps(1 + 60 * number, 60))
        world.look()
    world.write(attempt, steps(181, 5))
    world.look(36_000.0)  # the control plane was down for ten hours; the job stopped soon after it went
    assert kinds(world.tracked(attempt)) == []
    assert world.tracked(attempt).pulse["longest_pause_s"] < 60.0
    world.look(36_000.0)  # and once more, with nothing new at all
    assert kinds(world.tracked(attempt)) == []
    for _ in range(4):
        world.look(120.0)
    assert kinds(world.tracked(attempt)) == ["hang"], "what looks have seen counts"


def test_steps_of_an_epoch_that_begins_again_are_counted_on(world: TalkingWorld) -> None:
    attempt = world.start()
    for epoch in range(3):
        text = "".join(f"epoch {epoch} batch {i} loss {3 - i / 100:.3f} 0.5 s/it\n" for i in range(1, 51))
        world.write(attempt, text)
        world.look()
    done = [point.value for point in world.store.metrics.points(attempt.attempt_id, STEP)]
    assert done == [50.0, 100.0, 150.0]


def test_equal_jobs_elsewhere_show_a_straggler(tmp_path: Path) -> None:
    nodes = tuple((f"node-{i}", 1, "vision") for i in range(5))
    world = TalkingWorld(tmp_path / "home", nodes=nodes)
    attempts = [world.start() for _ in range(5)]
    for i, attempt in enumerate(attempts):
        world.write(attempt, steps(1, 60, 0.9 if i == 2 else 0.5 + i / 1000))
    world.look()
    assert [kinds(world.tracked(attempt)) for attempt in attempts] == [[], [], ["straggler"], [], []]
    world.store.close()


def odd(first: int, count: int) -> str:
    return "".join(
        f"~~ {i * 3} ~~ zorp {9 - i / 900:.4f} ~~ quux {0.7 + (i % 5) / 100:.3f} ~~\n"
        for i in range(first, first + count)
    )


def names_numbers(reply, request) -> None:
    """A model that answers about whatever lines it is shown."""
    import json

    lines = json.loads(request["messages"][-1]["content"])["lines"]
    index = max(int(key) for key in lines)
    numbers = [part for part in lines[str(index)].split() if part[0].isdigit()]
    said = {
        "reports_training": True, "line": index, "step": numbers[0], "total_steps": None, "epoch": None,
        "loss": numbers[1], "step_time": numbers[2], "steps_per_second": None, "step_time_unit": "s",
    }  # fmt: skip
    says(said)(reply, request)


def test_a_model_is_asked_once_only_where_reading_is_not_sure(tmp_path: Path) -> None:
    world = TalkingWorld(tmp_path / "home")
    plain, strange = world.start(), world.start()
    with serving(fails(500), fails(500), names_numbers) as server:
        world.with_model(configured_model(LanguageModelSettings(url=server.url)))
        done = 1
        for _ in range(3):  # young jobs are not asked about
            world.write(plain, steps(done, 60))
            world.write(strange, odd(done, 60))
            done += 60
            world.look()
        assert server.seen == []
        world.clock.sleep(600.0)
        for _ in range(3):
            world.write(plain, steps(done, 60))
            world.write(strange, odd(done, 60))
            done += 60
            world.look(400.0)
            world.follower = Follower()
        assert world.tracked(strange).progress["step"] == (done - 1) * 3
        assert world.tracked(strange).progress["step_time_s"] == pytest.approx(0.72, rel=0.02)
        assert world.tracked(strange).cursor["template"] is not None, "remembered for this job"
        assert len(server.seen) == 3, "failed twice, then answered; never asked again"
    counters = world.store.counters.all("tracker_model")
    assert counters == {"tracker_model_asked": 2, "tracker_model_accepted": 1, "tracker_model_failed": 1}
    world.store.close()
