"""Carry out what was decided about failures: live actions whose time has come, and those that a person approved.

An action is written as executed in the end, so that a crash in between repeats it; both kinds are guarded by the state
that they change, so that repeating does nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from lucid_pipelines.control.exits import WHO
from lucid_pipelines.control.failure_facts import ISOLATE, RESTART, STOP
from lucid_pipelines.control.notices import Occasion, tell
from lucid_pipelines.control.system import System
from lucid_pipelines.domain.errors import ExternalError, LucidError
from lucid_pipelines.domain.states import JobState, Mode
from lucid_pipelines.store import Action, ActionState

_OPEN = (ActionState.PROPOSED, ActionState.APPROVED)
_ACTING = (Mode.APPROVE, Mode.LIVE)
_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class CarriedOut:
    """One action and what came of it."""

    action: Action
    done: bool
    detail: str


def due_actions(system: System) -> list[Action]:
    """Actions that are to be carried out now, isolations first: a restart must not land on the bad part again."""
    now = system.clock.now()
    acting = system.store.actions.find(states=_OPEN, modes=_ACTING, limit=_AT_ONCE)
    found = [action for action in acting if _is_due(action, now)]
    return sorted(found, key=lambda action: (action.kind != ISOLATE, action.action_id))


def carry_out_due(system: System) -> list[CarriedOut]:
    """Carry out every action whose time has come."""
    return [_carry_out(system, action) for action in due_actions(system)]


def _is_due(action: Action, now: datetime) -> bool:
    if action.kind not in _HANDLERS:
        return False
    if action.mode is Mode.SHADOW or (action.mode is Mode.APPROVE and action.state is not ActionState.APPROVED):
        return False
    not_before = _time(action, "not_before")
    return not_before is None or now >= not_before


def _carry_out(system: System, action: Action) -> CarriedOut:
    now = system.clock.now()
    try:
        detail = _HANDLERS[action.kind](system, action)
    except ExternalError as error:
        system.store.counters.add("actions_retried", now=now)
        return CarriedOut(action, False, f"will be tried again: {error}")
    except LucidError as error:
        system.store.actions.executed(action.action_id, now=now, failed=True, result={"error": str(error)})
        return CarriedOut(action, False, str(error))
    system.store.actions.executed(action.action_id, now=now, result={"detail": detail})
    return CarriedOut(action, True, detail)


def _restart(system: System, action: Action) -> str:
    job = system.store.jobs.get(action.target)
    attempts = system.store.attempts.of_job(job.job_id)
    if attempts[-1].attempt_id != action.payload["attempt_id"] or job.state not in (JobState.FAILED, JobState.LOST):
        return f"nothing to do: the job is {job.state.value} in attempt {attempts[-1].number}"
    system.store.jobs.requeue(
        job.job_id,
        who=action.person or WHO,
        why=action.why,
        now=system.clock.now(),
        avoid_nodes=action.payload.get("avoid_nodes", []),
        evidence={"action": action.action_id, "checkpoint": action.payload.get("checkpoint")},
    )
    return "back in the queue"


def _isolate(system: System, action: Action) -> str:
    payload = action.payload
    _, added = system.store.nodes.isolate(
        payload["node"],
        gpu_index=payload["gpu_index"],
        owner=payload["owner"],
        reason=payload["reason"],
        deadline=_time(action, "decide_by"),
        evidence={"action": action.action_id, "person": action.person},
        now=system.clock.now(),
    )
    part = payload["node"] if payload["gpu_index"] is None else f"GPU {payload['gpu_index']} of {payload['node']}"
    facts = {"node": payload["node"], "decide_by": str(payload.get("decide_by")), "reason": payload["reason"]}
    text = f"{payload['reason']}\n\nIt must be decided about by {payload.get('decide_by')}."
    tell(system, Occasion.ISOLATION, str(action.action_id), f"{part} is out of use", text, facts)
    return "isolated" if added else "it was isolated already"


def _stop(system: System, action: Action) -> str:
    _, asked_first = system.store.attempts.request_stop(
        action.payload["attempt_id"],
        reason=action.why,
        requeue=False,
        who=action.person or WHO,
        now=system.clock.now(),
        evidence={"action": action.action_id},
    )
    return "asked to stop" if asked_first else "nothing to do: it has ended or is being stopped"


_HANDLERS: dict[str, Callable[[System, Action], str]] = {RESTART: _restart, ISOLATE: _isolate, STOP: _stop}


def _time(action: Action, name: str) -> datetime | None:
    text = action.payload.get(name)
    return datetime.fromisoformat(text) if text else None
