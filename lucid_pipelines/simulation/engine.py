"""The event-driven replay: exact times, no ticks, the same ``Policy.decide`` as in production.

At one moment everything that ends ends first, then what is submitted enters the queue, then the policy decides.
So GPUs freed at t can be given at t, and a job submitted at t can start at t.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from lucid_pipelines.domain.decision import Continue, Hold, LendNodes, Pack, Resize, Start, Stop
from lucid_pipelines.domain.errors import StateError
from lucid_pipelines.domain.trace import TraceJob
from lucid_pipelines.domain.view import ClusterView
from lucid_pipelines.placement import ClusterState
from lucid_pipelines.policies import Policy
from lucid_pipelines.simulation.events import END, GIVE_UP, SAMPLED, Events
from lucid_pipelines.simulation.inputs import ReplayInput
from lucid_pipelines.simulation.options import ReplayOptions
from lucid_pipelines.simulation.pool import with_profiler
from lucid_pipelines.simulation.record import Recorder, Replay, finish
from lucid_pipelines.simulation.world import World

_MAX_PASSES_AT_ONCE = 10_000


def replay(given: ReplayInput, policy: Policy, options: ReplayOptions = ReplayOptions()) -> Replay:
    """Run every job of ``given`` under ``policy``.

    A policy that profiles gets a virtual cluster for it: the cluster's own, or a few nodes taken from the others
    (``pool.with_profiler``); if none can be spared nobody is profiled, and ``fallbacks`` says so.

    Raises:
        InputError: the policy packs and ``options.pair_speeds`` is missing.
        StateError: the policy decided something impossible.
    """
    began = time.perf_counter()
    recorder = Recorder(len(given.jobs))
    with without_garbage_collection():
        _replay(given, policy, options, recorder)
    return finish(recorder, policy.name, given, policy.fallbacks, time.perf_counter() - began)


def _replay(given: ReplayInput, policy: Policy, options: ReplayOptions, recorder: Recorder) -> None:
    nodes, profiling = given.nodes, policy.profiling
    if profiling is not None:
        pooled = with_profiler(given.nodes, given.jobs, profiling)
        if pooled is None:
            profiling = None
            policy.fallbacks["no_profiler_nodes"] += len(given.jobs)
        else:
            nodes = pooled
    state = ClusterState(nodes, track_arrivals=policy.ages)
    events = Events()
    if not policy.packs:
        options = replace(options, scorer=None, profiles_known=False, reuse_profiles=False)
    if policy.knows_profiles:
        options = replace(options, profiles_known=True)
    if not policy.predicts:
        options = replace(options, estimator=None)
    world = World(state, events, recorder, options, profiling, preempts=policy.preempts, resizes=policy.resizes)
    _run(given.jobs, policy, state, events, world, recorder, options)


def _run(
    arrivals: tuple[TraceJob, ...],
    policy: Policy,
    state: ClusterState,
    events: Events,
    world: World,
    recorder: Recorder,
    options: ReplayOptions,
) -> None:
    next_arrival, arrival_count = 0, len(arrivals)
    arrival_s = arrivals[0].submit_s if arrivals else math.inf
    wake_s = math.inf
    round_s, needs_news = policy.round_s, policy.needs_news
    used_gpus = -1
    view = state.view(0.0, forecast=options.forecast, explain=False)
    while True:
        now_s = events.next_s if events.next_s < arrival_s else arrival_s
        if wake_s < now_s:
            now_s = wake_s
        elif now_s == math.inf:
            return
        while events.next_s <= now_s:
            kind, job = events.pop()
            if job is None:
                continue
            if kind is END:
                world.end(job, now_s)
            elif kind is GIVE_UP:
                world.give_up(job, now_s)
            elif kind is SAMPLED:
                world.sampled(job)
            else:
                world.watch(job)
        while arrival_s <= now_s:
            world.arrive(next_arrival, arrivals[next_arrival])
            next_arrival += 1
            arrival_s = arrivals[next_arrival].submit_s if next_arrival < arrival_count else math.inf
        # Where nobody waits, only what the policy asked to be woken for, or an unstable pair, is to be decided.
        has_work = state.has_news if needs_news else state.waiting_count > 0
        if round_s is not None and now_s % round_s:
            # Between its rounds the policy decides nothing.
            if wake_s <= now_s:
                wake_s = math.inf
            if has_work and wake_s > (next_round_s := (now_s // round_s + 1) * round_s):
                wake_s = next_round_s
        elif has_work or state.has_unstable or wake_s <= now_s:
            next_s = _pass(policy, state, view, world, recorder, now_s)
            wake_s = math.inf if next_s is None else next_s
        if state.used_gpus != used_gpus:
            used_gpus = state.used_gpus
            recorder.use(now_s, used_gpus)


def _pass(
    policy: Policy,
    state: ClusterState,
    view: ClusterView,
    world: World,
    recorder: Recorder,
    now_s: float,
) -> float | None:
    """Ask the policy until it wants no further pass at this moment; returns when it wants the next."""
    for _ in range(_MAX_PASSES_AT_ONCE):
        recorder.passes += 1
        state.refresh(view, now_s)
        resizes: list[Resize] = []
        for decision in policy.decide(view):
            if resizes and not isinstance(decision, Resize):
                world.resize(resizes, now_s)
                resizes = []
            if isinstance(decision, Start):
                world.start(decision, now_s)
            elif isinstance(decision, Resize):
                resizes.append(decision)
            elif isinstance(decision, Pack):
                world.pack(decision, now_s)
            elif isinstance(decision, Stop):
                world.stop(decision, now_s)
            elif isinstance(decision, Continue):
                world.go_on(decision)
            elif isinstance(decision, Hold):
                continue
            elif isinstance(decision, LendNodes):
                state.move_nodes(decision.from_vc, decision.to_vc, decision.nodes)
            else:
                raise StateError(f"the replay cannot carry out such a decision: {decision!r}")
        if resizes:
            world.resize(resizes, now_s)
        wake_s = policy.next_pass_s(view)
        if wake_s is None or wake_s > now_s:
            return wake_s
    raise StateError(f"{policy.name} keeps asking for another pass at the same moment; got {now_s}")


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """A replay makes millions of small objects and few cycles; looking for cycles would take most of its time.

    What a replay needs only while it runs must be gone by the end, or the collector looks at all of it once more.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
