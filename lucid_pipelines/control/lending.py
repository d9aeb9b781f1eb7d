"""Nodes lent to the profiling pool and given back, under the site's mode. A node with a job on it never moves."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial

from lucid_pipelines.control.system import System
from lucid_pipelines.domain.decision import LendNodes
from lucid_pipelines.domain.errors import LucidError, StateError
from lucid_pipelines.domain.states import Mode
from lucid_pipelines.domain.view import ClusterView
from lucid_pipelines.policies.lucid import Lucid
from lucid_pipelines.store import Action, ActionState, QueueView

LEND = "lend"
_OPEN = (ActionState.PROPOSED, ActionState.APPROVED)


def carry_out_lending(system: System, decision: LendNodes, queue: QueueView, now: datetime) -> str:
    """Move the nodes of a decision. Returns a word of ``Applied``."""
    lent = {loan.node: loan for loan in queue.loans}
    reasons = [reason.to_json() for reason in decision.reasons]
    try:
        for node in decision.nodes:
            if node in lent and lent[node].from_vc == decision.to_vc:
                system.store.loans.give_back(node, now=now, reasons=reasons)
            else:
                system.store.loans.lend(node, decision.from_vc, decision.to_vc, now=now, reasons=reasons)
    except StateError:
        system.store.counters.add("loans_refused", now=now)
        return "refused"
    if system.settings.modes.lend is Mode.LIVE:
        action, _ = _propose(system, decision, Mode.LIVE, now)
        system.store.actions.executed(action.action_id, now=now, result={"detail": "moved"})
    return "lent"


def propose_lending(system: System, view: ClusterView, queue: QueueView, now: datetime) -> int:
    """In modes ``shadow`` and ``approve``: record what would move, and move what a person approved.

    Returns how many loans were made or ended.
    """
    mode, policy = system.settings.modes.lend, system.policy
    if mode not in (Mode.SHADOW, Mode.APPROVE) or not isinstance(policy, Lucid):
        return 0
    moved = 0
    wanted = policy.lending(view)
    for decision in wanted:
        action, _ = _propose(system, decision, mode, now)
        if mode is Mode.APPROVE and action.state is ActionState.APPROVED:
            # One transaction: a loan without its line in the audit would be told to have come too late.
            moved += system.store.together(partial(_carry_out_approved, system, decision, action, queue, now))
    if mode is Mode.APPROVE:
        _drop_late_approvals(system, wanted, now)
    return moved


def _carry_out_approved(system: System, decision: LendNodes, action: Action, queue: QueueView, now: datetime) -> int:
    done = carry_out_lending(system, decision, queue, now) == "lent"
    system.store.actions.executed(action.action_id, now=now, result={"detail": "moved"}, failed=not done)
    return int(done)


def _propose(system: System, decision: LendNodes, mode: Mode, now: datetime) -> tuple[Action, bool]:
    """One proposal for each wish to move a node; a wish that comes back an hour later is a new one."""
    nodes = ", ".join(decision.nodes)
    return system.store.actions.propose(
        LEND,
        nodes,
        mode,
        {
            "from_vc": decision.from_vc,
            "to_vc": decision.to_vc,
            "reasons": [reason.to_json() for reason in decision.reasons],
        },
        why=f"let {nodes} of {decision.from_vc} work for {decision.to_vc}",
        now=now,
        key=_key(system, decision, now),
    )


def _key(system: System, decision: LendNodes, now: datetime) -> str:
    nodes = ",".join(decision.nodes)
    if system.settings.modes.lend is Mode.LIVE:
        return f"lend:{nodes}:{decision.to_vc}:{now.isoformat()}"
    return f"lend:{nodes}:{decision.to_vc}:{now:%Y-%m-%dT%H}"


def _drop_late_approvals(system: System, wanted: Sequence[LendNodes], now: datetime) -> None:
    keys = {_key(system, decision, now) for decision in wanted}
    for action in system.store.actions.find(kind=LEND, states=[ActionState.APPROVED], limit=50):
        if action.mode is Mode.APPROVE and action.key not in keys:
            why = "approved too late: the queue no longer asks for it"
            try:
                system.store.actions.executed(action.action_id, now=now, failed=True, result={"error": why})
            except LucidError:
                system.store.counters.add("actions_stale", now=now)
