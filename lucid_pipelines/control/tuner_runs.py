"""The System Tuner on this cluster's own history: its trace, its nodes, a sweep, and the proposal that follows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from lucid_pipelines.control import tuned
from lucid_pipelines.control.estimating import models_root
from lucid_pipelines.control.system import System
from lucid_pipelines.domain.cluster import Node
from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.domain.history import HistoryRow
from lucid_pipelines.domain.states import Outcome
from lucid_pipelines.domain.trace import ClusterSpec, NodeGroup, TraceJob, TraceState
from lucid_pipelines.models.artefacts import ModelKind, Registry
from lucid_pipelines.store import Action
from lucid_pipelines.tuning.proposing import Strategy
from lucid_pipelines.tuning.scenarios import ScenarioSet, scenarios_of
from lucid_pipelines.tuning.space import space_for
from lucid_pipelines.tuning.sweep import Progress
from lucid_pipelines.tuning.tune import TuneReport, TuneRequest, tune
from lucid_pipelines.whole_files import write_whole

_STATES = {Outcome.COMPLETED: TraceState.COMPLETED, Outcome.CANCELLED: TraceState.CANCELLED}
_REPORT = "tuned_settings.json"


@dataclass(frozen=True, slots=True)
class TunerPlan:
    """How the scheduled sweep searches.

    Attributes:
        history_days: how much of the newest history is replayed, the unseen days among it.
    """

    trials: int = 24
    processes: int = 1
    strategy: Strategy = Strategy.GUIDED
    history_days: float = 28.0
    unseen_days: float = 7.0


def sweep_own_history(system: System, plan: TunerPlan, progress: Progress | None = None) -> TuneReport | str:
    """Search on what ran here. A text says why there is nothing to search on. A sweep that was killed goes on."""
    now = system.clock.now()
    rows = system.store.history.rows(since=now - timedelta(days=plan.history_days), until=now)
    jobs = trace_of(rows)
    spec = cluster_of(system.cluster.inventory().nodes)
    if not jobs:
        return "nothing ran here in that time"
    try:
        scenarios: ScenarioSet = scenarios_of([jobs], spec, unseen_days=plan.unseen_days)
    except InputError as error:
        return str(error)
    folder = tuning_root(system) / scenarios.fingerprint()[:16]
    request = TuneRequest(
        plan.strategy,
        plan.trials,
        plan.processes,
        folder=folder,
        source=f"this cluster, {plan.history_days:g} days until {now:%Y-%m-%d}",
        model_versions=versions_in_service(system),
    )
    report = tune(scenarios, space_for(spec), request, now=now, progress=progress)
    newest = tuning_root(system) / _REPORT
    write_whole(newest, (folder / _REPORT).read_text(encoding="utf-8"))
    return report


def propose_newest(system: System) -> tuple[dict[str, Any] | None, Action | None]:
    """The newest report, and the proposal to apply what it recommends; ``None`` where there is none."""
    try:
        report: dict[str, Any] = json.loads((tuning_root(system) / _REPORT).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None, None
    values = report["recommended"]
    if not values:
        return report, None
    action = tuned.propose(
        system.store,
        values,
        policy=system.settings.scheduling.policy,
        why=report["reason"],
        now=system.clock.now(),
        sweep=report["sweep_id"],
    )
    return report, action


def tuning_root(system: System) -> Path:
    """Where sweeps and the newest report lie."""
    root = system.settings.artefacts / "tuning"
    root.mkdir(parents=True, exist_ok=True)
    return root


def versions_in_service(system: System) -> dict[str, str]:
    """Models in service, by kind."""
    registry = Registry(models_root(system.settings))
    return {kind.value: version for kind in ModelKind if (version := registry.in_service(kind)) is not None}


def trace_of(rows: Iterable[HistoryRow]) -> list[TraceJob]:
    """One trace job per job: its run time over all attempts, with the newest profile that was measured."""
    by_job: dict[str, list[HistoryRow]] = {}
    for row in rows:
        if row.duration_s is not None:
            by_job.setdefault(row.job_id, []).append(row)
    return sorted((_job(attempts) for attempts in by_job.values()), key=lambda job: job.submit_s)


def cluster_of(nodes: Sequence[Node]) -> ClusterSpec:
    """Nodes by virtual cluster, equal ones together."""
    groups: dict[str, Counter[tuple[int, float | None]]] = {}
    for node in nodes:
        if node.gpus:
            groups.setdefault(node.vc, Counter())[node.gpu_count, node.gpus[0].memory_mib] += 1
    return ClusterSpec(
        {
            vc: tuple(NodeGroup(count, gpus, None, memory_mib) for (gpus, memory_mib), count in kinds.items())
            for vc, kinds in groups.items()
        }
    )


def _job(attempts: Sequence[HistoryRow]) -> TraceJob:
    ordered = sorted(attempts, key=lambda row: row.number)
    last = ordered[-1]
    profile = next((row.profile for row in reversed(ordered) if row.profile is not None), None)
    return TraceJob(
        job_id=last.job_id,
        user=last.user,
        vc=last.vc,
        name=last.name,
        gpus=last.gpus,
        submit_s=last.submitted_at.timestamp(),
        duration_s=sum(row.duration_s or 0.0 for row in ordered),
        state=_STATES.get(last.outcome, TraceState.FAILED),
        gpu_util_pct=None if profile is None else profile.gpu_util_pct,
        memory_util_pct=None if profile is None else profile.memory_util_pct,
        memory_peak_mib=None if profile is None else profile.memory_peak_mib,
        end_s=last.ended_at.timestamp(),
        attempts=len(ordered),
    )
