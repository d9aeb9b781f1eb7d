"""A person's yes or no to a proposed action, from the command line or the Dagster UI.

What was recorded in mode ``shadow`` can be decided once the site's mode is ``approve`` or ``live``: the loop proposes
pairs, splits and loans again under the present mode, but nobody proposes a restart of a failure that is handled a
second time. It lapses like a request would have: what it rests on may no longer hold.
"""

from __future__ import annotations

from datetime import timedelta

from lucid_pipelines.control.failure_facts import ISOLATE, RESTART, STOP, recovery_settings
from lucid_pipelines.control.packing import PACK, UNPACK
from lucid_pipelines.control.system import System
from lucid_pipelines.domain.errors import NotFoundError, StateError
from lucid_pipelines.domain.states import JobState, Mode
from lucid_pipelines.settings import ModesSettings
from lucid_pipelines.store import Action, ActionState

_MODE_OF = {STOP: RESTART}
"""Kinds that stand under the mode of another one."""
_LAPSE = (RESTART, ISOLATE, STOP)


def decide(system: System, action_id: int, *, approve: bool, person: str) -> Action:
    """Write a named person's decision down; whoever proposed the action carries it out.

    Raises:
        NotFoundError: there is no such action.
        StateError: it is decided otherwise, has lapsed, or is only recorded by the site's mode.
    """
    now = system.clock.now()
    action = system.store.actions.get(action_id)
    if approve and (over := why_over(system, action)) is not None:
        raise StateError(f"too late: {over}; action {action_id}")
    is_recorded = action.mode is Mode.SHADOW and action.state is ActionState.PROPOSED
    reopen = is_recorded and mode_of(system.settings.modes, action.kind) in (Mode.APPROVE, Mode.LIVE)
    if reopen and approve and action.kind in _LAPSE:
        lapses_at = action.proposed_at + timedelta(seconds=recovery_settings(system).approval_s)
        if lapses_at < now:
            raise StateError(
                f"recorded in mode shadow, and lapsed at {lapses_at:%Y-%m-%d %H:%M} UTC: what it rests on may no"
                f" longer hold; resubmit the job: {action_id}"
            )
    return system.store.actions.decide(action_id, approve=approve, person=person, now=now, reopen=reopen)


def why_over(system: System, action: Action) -> str | None:
    """Why an open proposal about a pair can come to nothing any more, in words; ``None`` while it can.

    It stays ``proposed`` in the audit until what would have come of it is known (``lucid decisions record``).
    """
    if action.state is not ActionState.PROPOSED:
        return None
    if action.kind == UNPACK:
        pair = next(iter(system.store.pairs.find(attempt_id=str(action.payload.get("attempt_id")), limit=1)), None)
        return "the pair has ended" if pair is None or pair.ended_at is not None else None
    if action.kind != PACK:
        return None
    try:
        job = system.store.jobs.get(action.target)
        partner = system.store.attempts.get(str(action.payload.get("partner_attempt_id")))
    except NotFoundError:
        return None  # nothing is known of it: the loop settles that
    if job.state is not JobState.QUEUED or action.payload.get("attempt_number") != job.attempt_count + 1:
        return f"the job does not wait any more, it is {job.state.value}"
    return "its partner has ended" if partner.ended_at is not None else None


def mode_of(modes: ModesSettings, kind: str) -> Mode | None:
    """The present mode of an automation; ``None`` for a kind that has none, as tuning."""
    return getattr(modes, _MODE_OF.get(kind, kind), None)
