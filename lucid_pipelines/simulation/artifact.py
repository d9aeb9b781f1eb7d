"""``lucid:artifact``: the published simulator's own rules and faults, to compare with (docs/lucid-vs-artifact.md).

Its profiler runs first, over the whole trace; then every virtual cluster runs with the jobs that did not end
there, at their original times and with their full durations, as if profiling had cost nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lucid_pipelines import policies
from lucid_pipelines.domain.cluster import Gpu, Node
from lucid_pipelines.domain.decision import Decision, LendNodes, Pack, Reason, Start
from lucid_pipelines.domain.job import Estimate
from lucid_pipelines.domain.trace import TraceJob
from lucid_pipelines.domain.view import ClusterView, Forecast, QueuedJob
from lucid_pipelines.policies.lucid import Lucid
from lucid_pipelines.policies.ordered_queue import Key
from lucid_pipelines.policies.profiler import idle_nodes
from lucid_pipelines.policies.queue_policy import Bypass, QueuePolicy
from lucid_pipelines.simulation.engine import replay
from lucid_pipelines.simulation.inputs import ReplayInput
from lucid_pipelines.simulation.interference import UnaffectedModels
from lucid_pipelines.simulation.options import ReplayEstimator, ReplayFaults, ReplayOptions
from lucid_pipelines.simulation.record import Replay

NEGATIVE_PREDICTION_S = 1000.0
_RESERVE = "reserve"
_TEMPORARY = 9999
"""Number of the node that comes and goes."""
_PROFILER = "profiler"


@dataclass(frozen=True, slots=True)
class ArtifactSetup:
    """What the artifact hard-codes for its cluster.

    Attributes:
        donors: virtual clusters that lose one node each to the profiler for good.
        lender: the one that lends it a third.
        window_s: longest profiling run.
        max_gpus: jobs above are not profiled.
        unaffected_models: pairs with one of these never slow each other.
        partner_stays_slow: a partner is not restored when the earlier-placed job of a pair ends first.
    """

    donors: tuple[str, ...] = ("vc8Gr", "vcefl")
    lender: str = "vcYVn"
    window_s: float = 200.0
    max_gpus: int = 8
    unaffected_models: tuple[str, ...] = ("NeuMF", "ResNet50", "BERT", "Transformer")
    partner_stays_slow: bool = True

    @classmethod
    def for_cluster(cls, nodes: Sequence[Node]) -> ArtifactSetup:
        """The artifact's names where the cluster has them, else its three largest virtual clusters."""
        default = cls()
        sizes: dict[str, int] = {}
        for node in nodes:
            sizes[node.vc] = sizes.get(node.vc, 0) + 1
        if {*default.donors, default.lender} <= set(sizes):
            return default
        largest = sorted(sizes, key=lambda vc: -sizes[vc])
        donors = tuple(vc for vc in largest if sizes[vc] > 1)[:2]
        return cls(donors=donors, lender=next((vc for vc in largest if vc not in donors), largest[0]))


def replay_artifact(given: ReplayInput, options: ReplayOptions, setup: ArtifactSetup | None = None) -> Replay:
    """Run ``lucid:artifact`` on ``given``.

    Negative predictions count as 1,000 s; pairs with certain models never slow each other; a partner is not
    restored when the earlier-placed job of a pair ends first; profiling delays and costs nothing.
    """
    setup = setup or ArtifactSetup.for_cluster(given.nodes)
    profiled, changes = _profile(given, options.forecast, setup)
    done = {job.job_id for job in profiled.input.jobs if job.duration_s < setup.window_s}
    done |= {job.job_id for job in given.jobs if job.duration_s == setup.window_s and int(job.gpus) <= setup.max_gpus}
    kept = tuple(job for job in given.jobs if job.job_id not in done)
    main: Replay | None = None
    if kept:
        main_given = ReplayInput(kept, _main_nodes(given.nodes, setup), given.quarantined)
        policy = _LendingLucid(setup.lender, changes)
        main = replay(main_given, policy, _main_options(options, setup))
    return _merge(given, profiled, main)


def _main_options(options: ReplayOptions, setup: ArtifactSetup) -> ReplayOptions:
    pairs, estimator = options.pair_speeds, options.estimator
    return replace(
        options,
        end_lag_s=1.0,
        profiles_known=True,
        pair_speeds=UnaffectedModels(setup.unaffected_models, pairs) if pairs is not None else None,
        estimator=_NoNegatives(estimator) if estimator is not None else None,
        faults=ReplayFaults(whole_seconds=True, partner_stays_slow=setup.partner_stays_slow),
    )


class _NoNegatives:
    """Takes a negative prediction for ``NEGATIVE_PREDICTION_S``."""

    def __init__(self, inner: ReplayEstimator) -> None:
        self._inner = inner

    def estimate(self, job: QueuedJob) -> Estimate | None:
        estimate = self._inner.estimate(job)
        if estimate is None or estimate.duration_s is None or estimate.duration_s >= 0:
            return estimate
        return replace(estimate, duration_s=NEGATIVE_PREDICTION_S)

    def observe(self, job: TraceJob, ended_s: float) -> None:
        self._inner.observe(job, ended_s)


Change = tuple[float, int]
"""When the profiler took (+1) or gave back (−1) a node."""


def _profile(given: ReplayInput, forecast: Forecast | None, setup: ArtifactSetup) -> tuple[Replay, list[Change]]:
    jobs = tuple(_profiled(job, setup.window_s) for job in given.jobs if int(job.gpus) <= setup.max_gpus)
    size = max(node.gpu_count for node in given.nodes)
    nodes = (_node(_PROFILER, 0, size), _node(_PROFILER, 1, size), _node(_RESERVE, 0, size))
    policy = _ArtifactProfiler()
    replayed = replay(ReplayInput(jobs, nodes, ()), policy, ReplayOptions(forecast=forecast))
    return replayed, policy.changes


def _profiled(job: TraceJob, window_s: float) -> TraceJob:
    """A job's run in the profiler, with what decides it there."""
    return TraceJob(
        job.job_id,
        job.user,
        _PROFILER,
        job.name,
        job.gpus,
        job.submit_s,
        min(job.duration_s, window_s),
        job.state,
        queue_s=job.queue_s,
        end_s=job.end_s,
    )


def _main_nodes(nodes: Sequence[Node], setup: ArtifactSetup) -> tuple[Node, ...]:
    kept: list[Node] = []
    for vc in dict.fromkeys(node.vc for node in nodes):
        own = [node for node in nodes if node.vc == vc]
        kept += own[:-1] if vc in setup.donors else own
    size = max(node.gpu_count for node in nodes)
    return (*kept, _node(_RESERVE, 0, size))


def _node(vc: str, number: int, gpus: int) -> Node:
    return Node(f"{vc}/{number}", tuple(Gpu(i, is_virtual=True) for i in range(gpus)), vc)


class _ArtifactProfiler(QueuePolicy):
    """Smallest demand first, strict; lends and gives back at fixed seconds."""

    def __init__(self) -> None:
        super().__init__("lucid:artifact", Bypass())
        self.changes: list[Change] = []

    def key(self, job: QueuedJob) -> Key | None:
        return (job.gpus,) if job.vc == _PROFILER else None

    def key_reason(self, job: QueuedJob, key: Key) -> Reason:
        return Reason("gpu_demand", {"gpus": job.gpus})

    def decide(self, view: ClusterView) -> list[Decision]:
        decisions = super().decide(view)
        if decisions and any(isinstance(decision, Start) for decision in decisions):
            return decisions
        profiler = view.vcs[_PROFILER]
        waiting, has_third = len(profiler.queued), len(profiler.free.layout.names) > 2
        third = f"{_RESERVE}/0"
        if view.now_s % 10 == 0 and waiting > 10 and not has_third:
            self.changes.append((view.now_s, 1))
            return [LendNodes(_RESERVE, _PROFILER, (third,))]
        if view.now_s % 100 == 0 and waiting < 5 and has_third and third in idle_nodes(profiler):
            ahead = view.forecast.mean_gpus_ahead(view.now_s) if view.forecast is not None else None
            if ahead is None or ahead <= 40:
                self.changes.append((view.now_s, -1))
                return [LendNodes(_PROFILER, _RESERVE, (third,))]
        return decisions

    def next_pass_s(self, view: ClusterView) -> float | None:
        profiler = view.vcs[_PROFILER]
        has_third = len(profiler.free.layout.names) > 2
        if self.queues.has_decided and view.now_s % 10 == 0:
            return view.now_s  # once the starts are made, a node may come or go in the same second
        if self.changes and self.changes[-1][0] == view.now_s:
            return view.now_s + 1
        if not has_third and len(profiler.queued) > 10:
            return (view.now_s // 10 + 1) * 10
        if has_third and (profiler.queued or profiler.running):
            return (view.now_s // 100 + 1) * 100
        return None


class _LendingLucid(Lucid):
    """Lucid with the artifact's settings; a virtual cluster loses and gains nodes at given times."""

    needs_news = True  # what a partner has done is not credited to it, so that time alone opens no pair

    def __init__(self, lender: str, changes: Sequence[Change]) -> None:
        built = policies.get("lucid:artifact")
        assert isinstance(built, Lucid)
        self.__dict__.update(built.__dict__)
        self._lender = lender
        self._changes = list(changes)
        self._done = 0
        self._numbers: dict[str, int] = {}
        self._has_removed = False

    def decide(self, view: ClusterView) -> list[Decision]:
        decisions = super().decide(view)
        is_due = self._done < len(self._changes) and self._changes[self._done][0] <= view.now_s
        if not is_due or any(isinstance(decision, Start | Pack) for decision in decisions):
            return decisions
        change = self._changes[self._done][1]
        self._done += 1
        lender, reserve = view.vcs[self._lender], view.vcs[_RESERVE]
        if not self._numbers:
            self._numbers = {name: i for i, name in enumerate(lender.free.layout.names)}
        if change < 0:
            if _TEMPORARY in self._numbers.values():
                return decisions
            name = reserve.free.layout.names[0]
            self._numbers[name] = _TEMPORARY
            return [*decisions, LendNodes(_RESERVE, self._lender, (name,))]
        idle = idle_nodes(lender)
        if not idle:
            return decisions
        name = max(idle, key=self._numbers.__getitem__)
        if self._has_removed and self._numbers[name] < _TEMPORARY:
            # The artifact swaps the names of the idle node and of the busy temporary one.
            for other, number in self._numbers.items():
                if number == _TEMPORARY:
                    self._numbers[other] = self._numbers[name]
        del self._numbers[name]
        self._has_removed = True
        return [*decisions, LendNodes(self._lender, _RESERVE, (name,))]

    def next_pass_s(self, view: ClusterView) -> float | None:
        now_s, next_s = view.now_s, super().next_pass_s(view)
        due_s = math.inf if next_s is None else next_s
        if self._done < len(self._changes):
            due_s = min(due_s, max(self._changes[self._done][0], now_s))
        if self._done and self._changes[self._done - 1][0] == now_s:
            due_s = min(due_s, now_s + 1)  # a node that comes at the end of a second can be used in the next
        return due_s if due_s < math.inf else None


def _merge(given: ReplayInput, profiled: Replay, main: Replay | None) -> Replay:
    """One row per job of ``given``. A job that went on has the times of its virtual cluster, and its queue time is
    that of the profiler plus that of its virtual cluster, although the two overlap."""
    to_given = {job.job_id: i for i, job in enumerate(given.jobs)}
    start_s, end_s, queue_s, held_s = np.full((4, len(given.jobs)), np.nan)
    attempts = np.zeros(len(given.jobs), np.int32)
    profiler_queue_s = np.zeros(len(given.jobs))
    for source in (profiled, main):  # what the virtual clusters say of a job counts
        if source is not None:
            rows = [to_given[job.job_id] for job in source.input.jobs]
            start_s[rows], end_s[rows] = source.start_s, source.end_s
            queue_s[rows], held_s[rows] = source.queue_s + profiler_queue_s[rows], source.held_s
            attempts[rows] = source.attempt_count
            profiler_queue_s[rows] = source.queue_s
    base = main or profiled
    index = np.array([to_given[job.job_id] for job in base.input.jobs])
    return replace(
        base,
        policy="lucid:artifact",
        input=given,
        start_s=start_s,
        end_s=end_s,
        queue_s=queue_s,
        held_s=held_s,
        attempt_count=attempts,
        attempt_job=index[base.attempt_job],
        pair_first=index[base.pair_first],
        pair_second=index[base.pair_second],
        passes=profiled.passes + (main.passes if main is not None else 0),
        wall_s=profiled.wall_s + (main.wall_s if main is not None else 0.0),
    )
