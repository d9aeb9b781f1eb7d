"""When the next scheduling window must be started: never a gap while there is work, never two at once."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace

from lucid_pipelines.control.scheduling import STANDBY_LEASE, WINDOW_LEASE, has_work
from lucid_pipelines.control.system import System

_LEAD_S = 25.0
"""A successor is asked for this long before a window's time is over: a tick (10 or 15 s) and the start of a run."""
_PATIENCE_S = 12.0
"""A window that was asked for and did not appear is asked for again after so long."""


@dataclass(frozen=True, slots=True)
class WatchState:
    """What the watcher remembers from tick to tick (the sensor's cursor). Times are POSIX seconds."""

    holder: str | None = None
    holder_since_s: float = 0.0
    asked_s: float | None = None

    @classmethod
    def parse(cls, text: str | None) -> WatchState:
        """Read a cursor; one that cannot be read is taken as a fresh start."""
        try:
            return cls(**json.loads(text)) if text else cls()
        except (ValueError, TypeError):
            return cls()

    def to_text(self) -> str:
        return json.dumps(asdict(self))


@dataclass(frozen=True, slots=True)
class WatchVerdict:
    """Whether to start a window now, and why or why not."""

    start: bool
    why: str
    state: WatchState


def watch_window(system: System, state: WatchState) -> WatchVerdict:
    """Look at the leases and at whether there is work. Three small queries."""
    now = system.clock.now()
    now_s = now.timestamp()
    holder = system.store.leases.holder(WINDOW_LEASE, now=now)
    if holder != state.holder:
        state = WatchState(holder=holder, holder_since_s=now_s)
    if system.store.leases.holder(STANDBY_LEASE, now=now) is not None:
        return WatchVerdict(False, "a window is open and its successor stands by", state)
    if holder is not None and 0 <= now_s - state.holder_since_s < system.settings.scheduling.window_s - _LEAD_S:
        return WatchVerdict(False, "a window is open", state)
    if state.asked_s is not None and 0 <= now_s - state.asked_s < _PATIENCE_S:
        return WatchVerdict(False, "a window was asked for a moment ago", state)
    if not has_work(system):
        return WatchVerdict(False, "nothing waits and nothing runs", state)
    why = "the open window's time is nearly over" if holder else "there is work and no window"
    return WatchVerdict(True, why, replace(state, asked_s=now_s))
