"""A person's word on what was recorded in shadow, after the site has changed its mode."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lucid_pipelines.control import approvals
from lucid_pipelines.control.failure_facts import recovery_settings
from lucid_pipelines.domain.errors import StateError
from lucid_pipelines.domain.job import Attempt
from lucid_pipelines.domain.states import JobState, Mode
from lucid_pipelines.store import Action, ActionState, Store
from tests.control.test_live_pairs import pair_of, until_known
from tests.support_control.talking import ECC, TalkingWorld, steps

NODES = (("node-1", 4, "vision"), ("node-2", 4, "vision"))
SHADOW = {"modes": {"restart": "shadow", "isolate": "shadow"}, "recovery": {"backoff_base_s": 0.0}}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[TalkingWorld]:
    made = TalkingWorld(tmp_path / "home", nodes=NODES, **SHADOW)
    yield made
    made.store.close()


def failed_in_shadow(world: TalkingWorld, **fields: object) -> tuple[Attempt, Action]:
    """A job that failed by a fault of its GPU, and the restart that was only recorded."""
    attempt = world.start(**fields)
    world.write(attempt, steps(1, 120))
    world.clock.sleep(60.0)
    world.write(attempt, ECC)
    world.cluster.failing.add(attempt.attempt_id)
    world.rounds(8)
    assert world.job(attempt).state is JobState.FAILED
    (action,) = world.store.actions.find(kind="restart")
    assert (action.mode, action.state) == (Mode.SHADOW, ActionState.PROPOSED)
    return attempt, action


def in_mode(world: TalkingWorld, mode: str) -> None:
    modes = world.system.settings.modes.model_copy(update={"restart": Mode(mode)})
    world.system = replace(world.system, settings=world.system.settings.model_copy(update={"modes": modes}))


@pytest.mark.parametrize("mode", ["approve", "live"])
def test_a_restart_that_was_only_recorded_waits_for_a_person_after_a_mode_change(
    world: TalkingWorld, mode: str
) -> None:
    attempt, action = failed_in_shadow(world)
    with pytest.raises(StateError, match=r"only recorded: modes\.restart is shadow"):
        approvals.decide(world.system, action.action_id, approve=True, person="ada")
    in_mode(world, mode)
    world.rounds(3)
    assert len(world.attempts(attempt)) == 1, "old failures are not restarted all at once"
    decided = approvals.decide(world.system, action.action_id, approve=True, person="ada")
    assert (decided.mode, decided.state, decided.person) == (Mode.APPROVE, ActionState.APPROVED, "ada")
    world.rounds(3)
    assert len(world.attempts(attempt)) == 2
    assert world.store.actions.get(action.action_id).state is ActionState.EXECUTED


def test_what_was_recorded_long_ago_lapses_as_a_request_does(world: TalkingWorld) -> None:
    _, action = failed_in_shadow(world)
    in_mode(world, "approve")
    world.clock.sleep(recovery_settings(world.system).approval_s + 1.0)
    with pytest.raises(StateError, match="lapsed at"):
        approvals.decide(world.system, action.action_id, approve=True, person="ada")
    assert approvals.decide(world.system, action.action_id, approve=False, person="ada").state is ActionState.REJECTED


def test_a_job_that_has_gone_on_meanwhile_is_not_restarted_again(world: TalkingWorld) -> None:
    attempt, action = failed_in_shadow(world)
    in_mode(world, "approve")
    world.store.jobs.requeue(attempt.job_id, who="ada", why="by hand", now=world.clock.now())
    world.rounds(2)
    approvals.decide(world.system, action.action_id, approve=True, person="ada")
    world.rounds(2)
    assert len(world.attempts(attempt)) == 2
    assert "nothing to do" in str(world.store.actions.get(action.action_id).result)


def test_a_restart_that_finds_no_other_node_says_so(world: TalkingWorld) -> None:
    world.cluster.nodes = NODES[:1]
    attempt, action = failed_in_shadow(world, gpus=4)
    assert action.payload["avoid_nodes"] == ["node-1"]
    in_mode(world, "approve")
    approvals.decide(world.system, action.action_id, approve=True, person="ada")
    world.rounds(3)
    _, second = world.attempts(attempt)
    assert second.placement.node_names == ("node-1",)
    (told,) = [e for e in world.store.events.of_job(attempt.job_id) if e.kind.value == "placed"][1:]
    assert "node-1" in told.why and "no other node" in told.why


def test_a_pair_that_cannot_be_formed_any_more_is_not_approved(tmp_path: Path) -> None:
    with Store.open(tmp_path / "state.db", durable=False) as store:
        session = pair_of(store, tmp_path, modes={"pack": "approve"})
        until_known(session)
        session.run_until(lambda: bool(store.actions.find(kind="pack")), most=5)
        (action,) = store.actions.find(kind="pack")
        assert approvals.why_over(session.system, action) is None
        store.jobs.request_cancel(session.ids["short"], who="ada", now=session.clock.now())
        assert approvals.why_over(session.system, action) is not None
        with pytest.raises(StateError, match="too late: the job does not wait any more, it is cancelled"):
            approvals.decide(session.system, action.action_id, approve=True, person="ada")
