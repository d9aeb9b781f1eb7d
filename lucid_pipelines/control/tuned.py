"""Settings of the System Tuner that a person has applied: an audited overlay over the policy's defaults.

What is in force is one row of the state database; every change of it is an action with the person's name, and the
values that it replaced. A scheduling window reads the row when it opens, so a change takes effect within a minute.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from lucid_pipelines import policies
from lucid_pipelines.domain.errors import InputError, NotFoundError, StateError, did_you_mean
from lucid_pipelines.domain.states import Mode
from lucid_pipelines.policies.registry import settings_of
from lucid_pipelines.store import Action, ActionState, Store

KIND = "tuned_settings"
"""The kind of action under which changes are audited."""
_APPLIED = "tuner.applied"
_OUTSIDE_POLICY = ("tiny_above", "medium_above", "retrain_every_days")
"""Settings that are not the policy's: thresholds of the sharing score, and how often models are trained."""


@dataclass(frozen=True)
class Applied:
    """What is in force.

    Attributes:
        values: setting → value; empty = the defaults.
        action_id: the action that put it in force; ``None`` = nothing was ever applied.
        origin_id: the action that these values were first applied by; ``None`` = the defaults.
        sweep: which sweep it came from.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    action_id: int | None = None
    origin_id: int | None = None
    person: str | None = None
    at: datetime | None = None
    sweep: str | None = None


def applied(store: Store) -> Applied:
    """The settings in force."""
    row = store.meta.get(_APPLIED)
    if not row:
        return Applied()
    return Applied(
        dict(row["values"]),
        row["action_id"],
        row["origin_id"],
        row["person"],
        datetime.fromisoformat(row["at"]),
        row.get("sweep"),
    )


def retrain_every_days(store: Store) -> float | None:
    """The applied retraining period; ``None`` = the schedules' own."""
    return applied(store).values.get("retrain_every_days")


def policy_settings(values: Mapping[str, Any], policy: str) -> dict[str, Any]:
    """Those of the values that this policy takes."""
    known = settings_of(policy)
    return {name: value for name, value in values.items() if name in known}


def check_values(values: Mapping[str, Any], policy: str) -> None:
    """Refuse settings that the policy cannot be built with.

    Raises:
        InputError: an unknown setting (the nearest is named) or a value out of range.
    """
    known = (*settings_of(policy), *_OUTSIDE_POLICY)
    for name in values:
        if name not in known:
            raise InputError(f"{policy} takes no setting {name!r}{did_you_mean(name, known)}")
    tiny, medium = values.get("tiny_above", 0.95), values.get("medium_above", 0.85)
    if not 0 < medium <= tiny <= 1:
        raise InputError(f"thresholds need 0 < medium_above ≤ tiny_above ≤ 1; got {medium} and {tiny}")
    policies.get(policy, **policy_settings(values, policy))


def propose(
    store: Store, values: Mapping[str, Any], *, policy: str, why: str, now: datetime, sweep: str | None = None
) -> Action:
    """Ask a person to apply settings; ``lucid actions approve`` or ``lucid tuner apply`` says yes.

    The same proposal over the same present settings is one action.

    Raises:
        InputError: the settings cannot be used.
    """
    check_values(values, policy)
    return _propose(store, {"values": dict(values), "sweep": sweep}, policy, why, now)


def apply(store: Store, action_id: int, *, person: str, now: datetime) -> Action:
    """Say yes to a proposal and put it in force. May be repeated after a crash; what is in force stays in force.

    Raises:
        NotFoundError: no such action.
        StateError: it was rejected, or it proposes something else than settings.
    """
    action = store.actions.get(action_id)
    if action.kind != KIND:
        raise StateError(f"action {action_id} is a {action.kind}, not {KIND}")
    if action.state is ActionState.PROPOSED:
        action = store.actions.decide(action_id, approve=True, person=person, now=now)
    return _put_in_force(store, action, now)


def carry_out_approved(store: Store, now: datetime) -> int:
    """Put in force what a person approved by ``lucid actions approve``; returns how many changes that were."""
    approved = store.actions.find(states=[ActionState.APPROVED], kind=KIND)
    for action in sorted(approved, key=lambda item: item.action_id):
        _put_in_force(store, action, now)
    return len(approved)


def revert(store: Store, *, person: str, why: str, now: datetime) -> Action:
    """Put back what was in force before the last change; a second time goes one further, to the defaults at last.

    Raises:
        StateError: nothing is applied.
    """
    origin_id = applied(store).origin_id
    if origin_id is None:
        raise StateError("no tuned settings are applied; the policy's defaults are in force")
    origin = store.actions.get(origin_id)
    payload = {
        "values": dict(origin.payload["previous"]),
        "sweep": None,
        "reverts": origin_id,
        "restores": origin.payload["previous_origin"],
    }
    action = _propose(store, payload, origin.target, why, now)
    return apply(store, action.action_id, person=person, now=now)


def latest_proposal(store: Store) -> Action:
    """The newest proposal that nobody has decided about.

    Raises:
        NotFoundError: there is none.
    """
    found = store.actions.find(states=[ActionState.PROPOSED], kind=KIND, limit=1)
    if not found:
        raise NotFoundError("no tuned settings are proposed; `lucid tune TRACE` or the asset tuned_settings does")
    return found[0]


def _propose(store: Store, payload: dict[str, Any], policy: str, why: str, now: datetime) -> Action:
    present = applied(store)
    payload |= {"previous": dict(present.values), "previous_origin": present.origin_id, "policy": policy}
    digest = hashlib.sha256(json.dumps(payload["values"], sort_keys=True).encode()).hexdigest()[:16]
    key = f"{KIND}:{digest}:after:{present.action_id or 0}"
    action, _ = store.actions.propose(KIND, policy, Mode.APPROVE, payload, why=why, now=now, key=key)
    return action


def _put_in_force(store: Store, action: Action, now: datetime) -> Action:
    if action.state is ActionState.EXECUTED:
        return action
    if action.state is not ActionState.APPROVED:
        raise StateError(f"action {action.action_id} is {action.state.value}; propose the settings again")
    row = {
        "values": dict(action.payload["values"]),
        "action_id": action.action_id,
        "origin_id": action.payload["restores"] if "reverts" in action.payload else action.action_id,
        "person": action.person,
        "at": now.isoformat(),
        "sweep": action.payload.get("sweep"),
    }
    present = applied(store)
    if present.action_id is not None and present.action_id > action.action_id:
        return store.actions.executed(
            action.action_id, now=now, failed=True, result={"error": "newer settings are in force already"}
        )
    store.meta.set(_APPLIED, row, now=now)
    return store.actions.executed(action.action_id, now=now, result={"in_force": dict(row["values"])})
