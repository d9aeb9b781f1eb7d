"""The scheduling window: pass after pass while there is work, one window at a time by a lease.

A pass is observe -> prioritise and bind and place (the policy) -> dispatch. A window ends after about a minute,
once its successor stands by, so that there is no gap; or when there is nothing left to do.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime

from lucid_pipelines.control.deciding import Applied, apply, without_pool
from lucid_pipelines.control.dispatching import DispatchReport, dispatch
from lucid_pipelines.control.facts import gather
from lucid_pipelines.control.forecasting import forecast_now
from lucid_pipelines.control.garbage import long_lived
from lucid_pipelines.control.intake import INTAKE_STATES
from lucid_pipelines.control.lending import propose_lending
from lucid_pipelines.control.live_state import LiveState, Operation
from lucid_pipelines.control.observing import ObservedChanges, observe
from lucid_pipelines.control.packing import restraint
from lucid_pipelines.control.pair_watch import watch_pairs
from lucid_pipelines.control.recording import Recorder
from lucid_pipelines.control.sampling import GpuReadings, look_at_gpus, look_at_running
from lucid_pipelines.control.system import System, numbers_in_force
from lucid_pipelines.domain.decision import Decision, Hold
from lucid_pipelines.domain.errors import ExternalError, LucidError, StaleLockError
from lucid_pipelines.domain.view import Forecast
from lucid_pipelines.store import Lease, QueueView

_log = logging.getLogger(__name__)
WINDOW_LEASE = "scheduling-window"
STANDBY_LEASE = "scheduling-standby"
_LEASE_TTL_S = 12.0
_POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class PassReport:
    """What one pass did."""

    observed: ObservedChanges
    applied: Applied
    dispatched: DispatchReport
    is_idle: bool
    wall_s: float
    decisions: tuple[Decision, ...] = ()
    """What the policy decided, holds left out."""
    policy_error: str | None = None
    """Why nothing was decided in this pass: the policy broke. What was decided before is carried out all the same."""


@dataclass
class WindowReport:
    """What one window did, for the run's metadata."""

    passes: int = 0
    skipped: int = 0
    started: int = 0
    packed: int = 0
    stopped: int = 0
    ended: int = 0
    refused: int = 0
    failed_passes: int = 0
    pass_wall_s: list[float] = field(default_factory=list)
    ended_because: str = ""

    def add(self, report: PassReport) -> None:
        self.passes += 1
        self.started += report.applied.started
        self.packed += report.applied.packed
        self.stopped += report.applied.stopped
        self.refused += report.applied.refused
        self.ended += report.observed.ended
        self.pass_wall_s.append(report.wall_s)
        self.failed_passes += report.policy_error is not None


def run_pass(system: System, worker: str) -> PassReport:
    """One pass: observe, decide, dispatch. Safe to be killed at any point and to be run by anybody."""
    begin = time.perf_counter()
    store = system.store
    queue = store.queue.view()
    observed = observe(system, queue.active)
    if observed.started or observed.ended:
        queue = store.queue.view()
    applied, decisions, policy_error = Applied(), (), None
    if queue.waiting or queue.active or queue.loans:
        try:
            applied, decisions = decide(system, queue)
        except ExternalError:
            raise
        except Exception as error:  # noqa: BLE001 stops and launches that stand in the queue must not wait for it
            _log.exception("the policy %s broke", system.policy.name)
            store.counters.add("policy_failures", now=system.clock.now())
            policy_error = f"{type(error).__name__}: {error}"
            system.memory.state = LiveState()  # it begins anew: its caches may have been left half-changed
    dispatched = dispatch(system, worker)
    is_idle = not (queue.active or queue.waiting or applied.changed or dispatched.done or dispatched.put_off)
    wall_s = time.perf_counter() - begin
    return PassReport(observed, applied, dispatched, is_idle, wall_s, decisions, policy_error)


def decide(system: System, queue: QueueView) -> tuple[Applied, tuple[Decision, ...]]:
    """Look at what runs, ask the policy, and write down what it decides."""
    with system.store.counters.held():
        return _decide(system, queue)


def _decide(system: System, queue: QueueView) -> tuple[Applied, tuple[Decision, ...]]:
    now, store, memory = system.clock.now(), system.store, system.memory
    inventory = system.cluster.inventory()
    readings = GpuReadings(system.cluster, inventory)
    look_at_gpus(system, inventory, queue, now, readings)
    looked = look_at_running(system, queue.active, now)
    if looked or watch_pairs(system, queue, inventory, now, readings=readings):
        queue = store.queue.view()
    facts = gather(system, inventory, queue, memory.facts, restraint(system, queue, now, memory.dirty, settle=True))
    if without_pool(system, queue, facts, now):
        return Applied(), ()  # they wait elsewhere now: the next pass sees them there
    state, operations = memory.state.follow(facts)
    forecast = forecast_now(system, now)
    view = state.view(now.timestamp(), forecast=forecast, explain=True, holds=False)
    decisions = system.policy.decide(view)
    _record(system, now, operations, forecast, decisions)
    applied = apply(system, queue, decisions, now, facts, readings)
    moved = propose_lending(system, view, queue, now)
    held = len(facts.queued) - applied.started - applied.packed
    told = tuple(decision for decision in decisions if not isinstance(decision, Hold))
    return replace(applied, lent=applied.lent + moved, held=held), told


def _record(
    system: System,
    now: datetime,
    operations: Sequence[Operation],
    forecast: Forecast | None,
    decisions: Sequence[Decision],
) -> None:
    if not system.settings.scheduling.record:
        return
    memory = system.memory
    if memory.recorder is None:
        settings = numbers_in_force(system.settings, system.store, system.clock)
        memory.recorder = Recorder(system.settings.decisions, system.policy.name, settings)
    if not memory.recorder.note(now, operations, forecast, decisions):
        system.store.counters.add("decisions_unrecorded", now=now)
        memory.state = LiveState()


def has_work(system: System) -> bool:
    """Whether a window is needed: something waits, runs, or must be done to the world. Two small queries."""
    counts = system.store.jobs.counts()
    return any(count and not state.is_terminal for state, count in counts.items()) or (
        system.store.intents.open_count() > 0
    )


def run_window(
    system: System, holder: str, on_pass: Callable[[PassReport], None] = lambda report: None
) -> WindowReport:
    """Hold the scheduling lease and make passes until the window's time is over or nothing is left to do.

    Args:
        holder: unique name of this window, e.g. its run id.
        on_pass: told after every pass.
    """
    report = WindowReport()
    try:
        lease = _become_current(system, holder)
    except StaleLockError:
        report.ended_because = "lost its place as the one that stands by"
        return report
    if lease is None:
        report.ended_because = "another window is at work and one more stands by"
        return report
    try:
        with ExitStack() as stack:
            _work(system, lease, report, on_pass, stack)
    except StaleLockError:
        report.ended_because = "lost the lease"
    except BaseException:
        # Interrupted or broken: give the lease back at once, so that the next window need not wait for it.
        with contextlib.suppress(LucidError):  # a database that is away must not hide what happened
            system.store.leases.release(lease)
        raise
    return report


def _become_current(system: System, holder: str) -> Lease | None:
    """Get the lease; while another window has it, stand by for it (one at a time)."""
    clock, leases = system.clock, system.store.leases
    lease = leases.acquire(WINDOW_LEASE, holder, ttl_s=_LEASE_TTL_S, now=clock.now())
    if lease is not None:
        return lease
    standby = leases.acquire(STANDBY_LEASE, holder, ttl_s=_LEASE_TTL_S, now=clock.now())
    if standby is None:
        return None
    give_up_after_s = 2 * system.settings.scheduling.window_s + _LEASE_TTL_S
    begin = renewed = clock.now()
    while _apart_s(clock.now(), begin) < give_up_after_s:
        lease = leases.acquire(WINDOW_LEASE, holder, ttl_s=_LEASE_TTL_S, now=clock.now())
        if lease is not None:
            leases.release(standby)
            return lease
        clock.sleep(_POLL_S)
        if _apart_s(clock.now(), renewed) > _LEASE_TTL_S / 3:
            renewed = clock.now()
            standby = leases.renew(standby, ttl_s=_LEASE_TTL_S, now=renewed)
    leases.release(standby)
    return None


def _work(
    system: System, lease: Lease, report: WindowReport, on_pass: Callable[[PassReport], None], stack: ExitStack
) -> None:
    clock, settings, store = system.clock, system.settings.scheduling, system.store
    begin = last_busy = clock.now()
    renewed = begin
    last_pass = None
    seen_change = None
    while True:
        now = clock.now()
        if now < begin:  # somebody set the clock back: count anew from here
            begin = last_busy = now
        if _apart_s(now, renewed) > _LEASE_TTL_S / 3:
            lease = store.leases.renew(lease, ttl_s=_LEASE_TTL_S, now=now)
            renewed = now
        change = store.change_counter()
        due = last_pass is None or _apart_s(now, last_pass) >= settings.pass_interval_s
        if due or change != seen_change:
            try:
                done = run_pass(system, lease.holder)
            except ExternalError as error:
                # The database or the cluster does not answer: nothing is concluded; the next pass tries again.
                report.failed_passes += 1
                report.ended_because = f"last pass failed: {error}"
                clock.sleep(settings.pass_interval_s)
                done = None
            last_pass = clock.now()
            if done is not None:
                report.add(done)
                on_pass(done)
                if report.passes == 1:
                    stack.enter_context(long_lived())
                # A pass's own writes need no second pass: its decisions already took them into account.
                seen_change = store.change_counter() if not done.applied.changed else change
                if not done.is_idle or _intake_pending(system):
                    last_busy = last_pass
        else:
            report.skipped += 1
        age_s = (clock.now() - begin).total_seconds()
        if (clock.now() - last_busy).total_seconds() >= settings.idle_exit_s:
            report.ended_because = "idle"
            store.leases.release(lease)
            return
        if age_s >= settings.window_s:
            successor = store.leases.holder(STANDBY_LEASE, now=clock.now())
            if successor is not None or age_s >= 2 * settings.window_s:
                report.ended_because = "handed over" if successor else "no successor came"
                store.leases.release(lease)
                return
        clock.sleep(_POLL_S)


def _apart_s(one: datetime, other: datetime) -> float:
    """Seconds between two moments, in whichever order: a clock that was set back is as old as one set forward."""
    return abs((one - other).total_seconds())


def _intake_pending(system: System) -> bool:
    counts = system.store.jobs.counts()
    return any(counts[state] for state in INTAKE_STATES)
