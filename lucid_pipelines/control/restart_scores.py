"""Were past automatic restarts right? Judged by what the restarted job did, once that is certain."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from lucid_pipelines.control.failure_facts import RESTART
from lucid_pipelines.control.system import System
from lucid_pipelines.domain.job import Attempt
from lucid_pipelines.domain.states import Outcome
from lucid_pipelines.store import Action, ActionState, Exit

_RAN_ON_S = 3600.0
"""A restarted attempt that runs for so long, and longer than the failed one, went past the failure."""


def score_restarts(system: System) -> int:
    """Judge every restart that was carried out and whose outcome is certain now. Returns how many were judged.

    Right = the next attempt completed, ran past the failure, or ended for another cause. Wrong = the same root error
    came back. An attempt that its user cancelled tells nothing.
    """
    now = system.clock.now()
    judged = 0
    for action in system.store.actions.find(kind=RESTART, states=[ActionState.EXECUTED], limit=500):
        if action.score is not None and "good" in action.score:
            continue
        verdict = _verdict(system, action, now)
        if verdict is not None:
            system.store.actions.score(action.action_id, {**(action.score or {}), **verdict}, now=now)
            judged += 1
    return judged


def _verdict(system: System, action: Action, now: datetime) -> dict[str, Any] | None:
    attempts = system.store.attempts.of_job(action.target)
    place = next((i for i, a in enumerate(attempts) if a.attempt_id == action.payload["attempt_id"]), None)
    if place is None or place + 1 >= len(attempts):
        return None
    failed, following = attempts[place], attempts[place + 1]
    if following.ended_at is None or following.outcome is None:
        ran_s = (now - following.started_at).total_seconds() if following.started_at else 0.0
        if ran_s > max(_RAN_ON_S, _ran_s(failed)):
            return {"good": True, "why": "it ran past the failure"}
        return None
    if following.outcome is Outcome.COMPLETED:
        return {"good": True, "why": "it completed"}
    if following.outcome is Outcome.CANCELLED:
        return {"good": None, "why": "its user cancelled it"}
    exit = _exit(system, following)
    if exit is None or exit.handled_at is None:
        return None
    same = (exit.result or {}).get("signature") == action.payload.get("signature")
    return {"good": not same, "why": "the same error came back" if same else "it ended for another cause"}


def _exit(system: System, attempt: Attempt) -> Exit | None:
    found = system.store.exits.find(since=attempt.ended_at or attempt.placed_at)
    return next((exit for exit in found if exit.attempt_id == attempt.attempt_id), None)


def _ran_s(attempt: Attempt) -> float:
    if attempt.started_at is None or attempt.ended_at is None:
        return 0.0
    return (attempt.ended_at - attempt.started_at).total_seconds()
