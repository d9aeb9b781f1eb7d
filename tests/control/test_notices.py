"""What people are told: once an occasion and channel, at least once delivered, never holding anything up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lucid_pipelines.control.exits import claim_exits, handle_exit
from lucid_pipelines.control.notices import Occasion, alarm_for_lag, deliver, tell
from lucid_pipelines.control.scheduling import run_pass
from lucid_pipelines.domain.errors import ExternalError, InputError
from lucid_pipelines.domain.job import JobSpec
from lucid_pipelines.ports import Notice
from tests.support_control.talking import TalkingWorld
from tests.support_control.worlds import take_in_all


class Ear:
    """A channel that keeps what it hears, and fails as often as a test says."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.heard: list[Notice] = []

    def send(self, notice: Notice, timeout_s: float) -> None:
        self.heard.append(notice)
        if self.errors:
            raise self.errors.pop(0)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[TalkingWorld]:
    made = TalkingWorld(tmp_path / "home", modes={"restart": "approve", "isolate": "off"})
    yield made
    made.store.close()


def listening(world: TalkingWorld, **ears: Ear) -> None:
    world.system = replace(world.system, notifiers=ears)


def test_nothing_is_left_while_no_channel_is_set_up(world: TalkingWorld) -> None:
    assert tell(world.system, Occasion.HANG, "x", "s", "t") == 0
    assert world.store.notices.find() == []


def test_an_occasion_is_told_once_a_channel_with_secrets_hidden(world: TalkingWorld) -> None:
    chat, hook = Ear(), Ear()
    listening(world, slack=chat, webhook=hook)
    assert (
        tell(world.system, Occasion.HANG, "x", "a\nhang", "token=abcdefgh12345", {"root": "password: hunter2hunter2"})
        == 2
    )
    assert tell(world.system, Occasion.HANG, "x", "again", "t") == 0
    assert deliver(world.system, "w") == {"told": 2, "put_off": 0, "given_up": 0}
    assert deliver(world.system, "w")["told"] == 0
    (heard,) = hook.heard
    assert heard.subject == "a hang" and "abcdefgh" not in heard.text and "hunter2" not in str(heard.facts)
    assert chat.heard[0].key != heard.key, "a key a channel"


def test_an_outage_is_waited_for_and_given_up_in_the_end(world: TalkingWorld) -> None:
    ear = Ear(*[ExternalError("away")] * 50)
    listening(world, webhook=ear)
    tell(world.system, Occasion.HANG, "x", "s", "t")
    tell(world.system, Occasion.HANG, "y", "s", "t")
    tell(world.system, Occasion.HANG, "z", "s", "t")
    assert deliver(world.system, "w") == {"told": 0, "put_off": 3, "given_up": 0}
    assert len(ear.heard) == 2, "a silent channel is not asked again in the same batch"
    assert deliver(world.system, "w")["put_off"] == 0, "not before its time"
    for _ in range(40):
        world.clock.sleep(3600.0)
        deliver(world.system, "w")
    assert all(notice.failed for notice in world.store.notices.find(done=True))
    assert world.store.notices.find(done=False) == []
    assert {heard.key for heard in ear.heard} == {"hang:x@webhook", "hang:y@webhook"}
    assert world.store.counters.all()["notices_given_up"] == 3


def test_what_is_refused_for_good_is_given_up_at_once(world: TalkingWorld) -> None:
    listening(world, webhook=Ear(InputError("404")))
    tell(world.system, Occasion.HANG, "x", "s", "t")
    assert deliver(world.system, "w")["given_up"] == 1


def test_a_worker_that_died_while_sending_leaves_it_to_the_next(world: TalkingWorld) -> None:
    ear = Ear()
    listening(world, webhook=ear)
    tell(world.system, Occasion.HANG, "x", "s", "t")
    world.store.notices.claim(worker="dead", now=world.clock.now(), limit=5, ttl_s=300.0)
    assert deliver(world.system, "w")["told"] == 0
    world.clock.sleep(301.0)
    assert deliver(world.system, "w")["told"] == 1


def test_a_failure_and_what_waits_for_a_person_are_told_once(world: TalkingWorld) -> None:
    ear = Ear()
    listening(world, webhook=ear)
    job, _ = world.store.jobs.submit(JobSpec("bad", "ada", "vision", 1, ("fail",)), world.clock.now())
    take_in_all(world.system)
    for _ in range(5):
        world.clock.sleep(1.0)
        run_pass(world.system, "window")
    assert alarm_for_lag(world.system) is False
    world.clock.sleep(300.0)
    assert alarm_for_lag(world.system) is True and alarm_for_lag(world.system) is True
    for claim in claim_exits(world.system, "w"):
        assert handle_exit(world.system, claim) is not None
    deliver(world.system, "w")
    assert sorted(heard.kind for heard in ear.heard) == ["approval", "failure", "lag"]
    told = next(heard for heard in ear.heard if heard.kind == "failure")
    assert told.facts["job"] == job.job_id and told.text.startswith("# ")


def test_a_suspected_hang_is_told(world: TalkingWorld) -> None:
    from tests.support_control.talking import steps

    ear = Ear()
    listening(world, webhook=ear)
    attempt = world.start()
    for number in range(3):
        world.write(attempt, steps(1 + 60 * number, 60))
        world.look()
    for _ in range(6):
        world.look(120.0)
    deliver(world.system, "w")
    assert [heard.kind for heard in ear.heard] == ["hang"]
