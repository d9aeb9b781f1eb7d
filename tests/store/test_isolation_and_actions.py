"""Isolation reasons with owners, and the audit trail of automations."""

from __future__ import annotations

import pytest

from lucid_pipelines.domain.errors import InputError, NotFoundError, StateError
from lucid_pipelines.domain.states import Mode
from lucid_pipelines.store import ActionState, IntentKind, Store
from tests.support_store.jobs import NOW, at
from tests.support_store.processes import together


def test_reasons_stack_and_each_owner_lifts_its_own(store: Store) -> None:
    ours, added = store.nodes.isolate(
        "n1", owner="lucid", reason="ECC", now=NOW, deadline=at(100), evidence={"xid": 48}
    )
    theirs, _ = store.nodes.isolate("n1", owner="ops", reason="fan", now=at(1))
    assert added
    assert store.nodes.isolated(node="n1") == [ours, theirs]
    with pytest.raises(StateError, match="only its owner 'ops'"):
        store.nodes.lift(theirs.reason_id, owner="lucid", by="ada", now=at(2))
    lifted = store.nodes.lift(ours.reason_id, owner="lucid", by="ada", now=at(2))
    assert (lifted.lifted_at, lifted.lifted_by) == (at(2), "ada")
    assert store.nodes.lift(ours.reason_id, owner="lucid", by="bob", now=at(3)) == lifted
    assert store.nodes.isolated() == [theirs]
    assert store.nodes.past("n1") == [lifted]
    with pytest.raises(NotFoundError):
        store.nodes.lift(999, owner="lucid", by="ada", now=at(2))


def test_isolating_again_changes_nothing_until_it_was_lifted(store: Store) -> None:
    first, added = store.nodes.isolate("n1", gpu_index=0, owner="lucid", reason="ECC", now=NOW)
    again, added_again = store.nodes.isolate("n1", gpu_index=0, owner="lucid", reason="more", now=at(1))
    other, added_other = store.nodes.isolate("n1", gpu_index=1, owner="lucid", reason="ECC", now=at(1))
    assert (added, added_again, added_other) == (True, False, True)
    assert again == first
    store.nodes.lift(first.reason_id, owner="lucid", by="ada", now=at(2))
    third, added_third = store.nodes.isolate("n1", gpu_index=0, owner="lucid", reason="ECC", now=at(3))
    assert added_third
    keys = [(intent.key, intent.kind) for intent in store.intents.find()]
    assert keys == [
        (f"isolate:{first.reason_id}", IntentKind.ISOLATE),
        (f"isolate:{other.reason_id}", IntentKind.ISOLATE),
        (f"restore:{first.reason_id}", IntentKind.RESTORE),
        (f"isolate:{third.reason_id}", IntentKind.ISOLATE),
    ]


def test_rivals_isolate_a_node_once(store_url: str) -> None:
    assert sum(together(5, _isolate, store_url)) == 1
    with Store.open(store_url) as store:
        assert len(store.nodes.isolated()) == 1


def _isolate(_: int, url: str) -> bool:
    with Store.open(url, durable=False) as store:
        return store.nodes.isolate("n1", owner="lucid", reason="ECC", now=NOW)[1]


def test_overdue_isolations_are_named_and_stay(store: Store) -> None:
    late, _ = store.nodes.isolate("n1", owner="lucid", reason="ECC", now=NOW, deadline=at(10), with_intent=False)
    store.nodes.isolate("n2", owner="lucid", reason="ECC", now=NOW, with_intent=False)
    assert store.nodes.overdue(now=at(9)) == []
    assert store.nodes.overdue(now=at(10)) == [late]
    assert len(store.nodes.isolated()) == 2
    assert store.intents.find() == []
    with pytest.raises(InputError):
        store.nodes.isolate("n1", owner="", reason="x", now=NOW)


def test_an_approved_action_is_carried_out_once(store: Store) -> None:
    action, created = store.actions.propose(
        "restart", "j-1", Mode.APPROVE, {"from": "ckpt-9"}, why="rule 4", now=NOW, key="restart:j-1-a1"
    )
    again, created_again = store.actions.propose(
        "restart", "j-1", Mode.APPROVE, {"from": "other"}, why="rule 5", now=at(1), key="restart:j-1-a1"
    )
    assert (created, created_again) == (True, False)
    assert again == action
    with pytest.raises(StateError, match="not approved"):
        store.actions.executed(action.action_id, now=at(2))
    with pytest.raises(InputError, match="name of a person"):
        store.actions.decide(action.action_id, approve=True, person=" ", now=at(2))
    approved = store.actions.decide(action.action_id, approve=True, person="ada", now=at(2))
    assert (approved.state, approved.person, approved.decided_at) == (ActionState.APPROVED, "ada", at(2))
    assert store.actions.decide(action.action_id, approve=True, person="bob", now=at(3)) == approved
    with pytest.raises(StateError, match="is approved"):
        store.actions.decide(action.action_id, approve=False, person="bob", now=at(3))
    done = store.actions.executed(action.action_id, now=at(4), result={"attempt": 2})
    assert (done.state, done.result) == (ActionState.EXECUTED, {"attempt": 2})
    assert store.actions.executed(action.action_id, now=at(5), failed=True) == done
    assert store.actions.get(action.action_id) == done


def test_a_rejected_action_is_never_carried_out(store: Store) -> None:
    action, _ = store.actions.propose("isolate", "n1", Mode.APPROVE, {}, why="w", now=NOW)
    store.actions.decide(action.action_id, approve=False, person="ada", now=at(1))
    with pytest.raises(StateError, match="is rejected"):
        store.actions.executed(action.action_id, now=at(2))


def test_shadow_is_only_recorded_and_scored(store: Store) -> None:
    action, _ = store.actions.propose("pack", "j-1+j-2", Mode.SHADOW, {"ratio": 0.9}, why="rule 1", now=NOW)
    with pytest.raises(StateError, match="shadow"):
        store.actions.decide(action.action_id, approve=True, person="ada", now=at(1))
    with pytest.raises(StateError, match="mode shadow"):
        store.actions.executed(action.action_id, now=at(1))
    assert store.actions.find(modes=[Mode.SHADOW], scored=False) == [action]
    scored = store.actions.score(action.action_id, {"would_be_safe": True}, now=at(9))
    assert (scored.scored_at, scored.score) == (at(9), {"would_be_safe": True})
    assert store.actions.find(scored=True) == [scored]
    assert store.actions.find(scored=False) == []


def test_live_needs_no_approval_and_off_proposes_nothing(store: Store) -> None:
    action, _ = store.actions.propose("restart", "j-1", Mode.LIVE, {}, why="w", now=NOW)
    failed = store.actions.executed(action.action_id, now=at(1), failed=True, result={"error": "no node"})
    assert failed.state is ActionState.FAILED
    with pytest.raises(InputError, match="off"):
        store.actions.propose("restart", "j-1", Mode.OFF, {}, why="w", now=NOW)
    with pytest.raises(NotFoundError):
        store.actions.get(12345)


def test_actions_are_filtered_newest_first(store: Store) -> None:
    made = [store.actions.propose(kind, "t", Mode.APPROVE, {}, why="w", now=NOW)[0] for kind in ("a", "b", "a")]
    store.actions.decide(made[0].action_id, approve=True, person="ada", now=at(1))
    assert [action.action_id for action in store.actions.find(kind="a")] == [made[2].action_id, made[0].action_id]
    assert store.actions.find(states=[ActionState.PROPOSED], kind="a", target="t") == [made[2]]
    assert store.actions.find(limit=1) == [made[2]]


@pytest.mark.parametrize("number", [0, -1, 4711, 2**63, 10**30])
def test_an_unknown_number_is_told(store: Store, number: int) -> None:
    with pytest.raises(NotFoundError, match="no action has this number"):
        store.actions.decide(number, approve=True, person="ada", now=NOW)
    with pytest.raises(NotFoundError, match="no action has this number"):
        store.actions.get(number)


def test_a_request_that_has_lapsed_is_not_approved_but_may_be_rejected(store: Store) -> None:
    payload = {"lapses_at": at(10).isoformat()}
    late, _ = store.actions.propose("restart", "j-1", Mode.APPROVE, payload, why="w", now=NOW)
    in_time, _ = store.actions.propose("restart", "j-2", Mode.APPROVE, payload, why="w", now=NOW)
    approved = store.actions.decide(in_time.action_id, approve=True, person="ada", now=at(10))
    with pytest.raises(StateError, match="lapsed at"):
        store.actions.decide(late.action_id, approve=True, person="ada", now=at(11))
    assert store.actions.decide(in_time.action_id, approve=True, person="bob", now=at(11)) == approved
    assert store.actions.decide(late.action_id, approve=False, person="ada", now=at(11)).state is ActionState.REJECTED


def test_rivals_decide_an_action_once(store_url: str) -> None:
    with Store.open(store_url) as store:
        action, _ = store.actions.propose("restart", "j-1", Mode.APPROVE, {}, why="w", now=NOW)
    results = together(4, _decide, store_url, action.action_id)
    with Store.open(store_url) as store:
        settled = store.actions.get(action.action_id)
    assert settled.state in (ActionState.APPROVED, ActionState.REJECTED)
    # Two say yes, two say no: those who agree with the first are told what was decided, the others that it was.
    assert sorted(results) == sorted([settled.state.value, settled.state.value, "refused", "refused"])


def _decide(number: int, url: str, action_id: int) -> str:
    with Store.open(url, durable=False) as store:
        try:
            decided = store.actions.decide(action_id, approve=number % 2 == 0, person=f"p{number}", now=at(number))
        except StateError:
            return "refused"
        return decided.state.value
