"""What is known when an attempt has ended badly: its own facts, its neighbours', and what was done before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from lucid_pipelines.control.checkpoints import find_checkpoints
from lucid_pipelines.control.fetching import local_log
from lucid_pipelines.control.intake import job_dir
from lucid_pipelines.control.system import System
from lucid_pipelines.domain.job import Attempt, Job
from lucid_pipelines.domain.states import Cause, Mode, Outcome
from lucid_pipelines.failures.evidence import Suspect
from lucid_pipelines.failures.facts import FailureFacts, PastFailure, PeerState, SchedulerEnd, gather
from lucid_pipelines.failures.recovery import (
    IsolationRecord,
    OpenFailure,
    RecoverySettings,
    RecoveryState,
    RestartRecord,
)
from lucid_pipelines.failures.vocabulary import Category, Component
from lucid_pipelines.failures.xid import load_xids
from lucid_pipelines.logs import rank_from_path
from lucid_pipelines.store import ActionState, Exit, NodeReason

RESTART, ISOLATE, STOP = "restart", "isolate", "stop"
_HISTORY = timedelta(days=7)
_STEPPED_WITHIN = timedelta(minutes=10)
_MAX_RANK_LOGS, _MAX_DEPTH, _MAX_ENTRIES = 64, 5, 5000
_SCHEDULER_ENDS = {
    "time_limit": SchedulerEnd.TIME_LIMIT,
    "timeout": SchedulerEnd.TIME_LIMIT,
    "preempted": SchedulerEnd.PREEMPTED,
    "node_failed": SchedulerEnd.NODE_FAILED,
    "node_fail": SchedulerEnd.NODE_FAILED,
}
"""Reasons of an exit record that come from the cluster's own scheduler (R-34)."""
_CAUSES = {
    Cause.USER: Category.USER_SCRIPT,
    Cause.FRAMEWORK: Category.FRAMEWORK,
    Cause.INFRASTRUCTURE: Category.INFRASTRUCTURE,
}


def failure_facts(system: System, job: Job, attempt: Attempt, exit: Exit) -> FailureFacts:
    """Everything that bears on one abnormal exit, as of now."""
    now = system.clock.now()
    folder = job_dir(system, job.job_id)
    log = local_log(system, attempt)
    own = [log] if log is not None and log.is_file() else []
    system.cluster.fetch_checkpoints(attempt.attempt_id, folder / "checkpoints")
    reason = attempt.exit.reason if attempt.exit is not None else ""
    return gather(
        job,
        attempt,
        now,
        load_xids(),
        exit_record=attempt.exit,
        is_vanished=exit.outcome is Outcome.LOST,
        scheduler_end=_SCHEDULER_ENDS.get(reason),
        logs=[*own, *rank_logs(folder / "outputs", attempt)],
        samples=system.store.metrics.gpu_samples(attempt.attempt_id),
        peers=_peers(system, attempt, now),
        failures=_past_failures(system, exit, now),
        checkpoints=find_checkpoints(folder / "checkpoints", now),
    )


def rank_logs(folder: Path, attempt: Attempt) -> list[Path]:
    """Logs that a launcher wrote for each rank of this attempt below the job's outputs, the newest 64 at most.

    Only plain files whose names say a rank and that were written to since the attempt began; links lead nowhere.
    """
    if not folder.is_dir():
        return []
    begin = (attempt.started_at or attempt.placed_at).timestamp()
    found: list[tuple[float, Path]] = []
    for path in _files(folder):
        try:
            status = path.lstat()
        except OSError:
            continue
        is_log = path.suffix in (".log", ".out", ".err", ".txt", "") and rank_from_path(path) is not None
        if is_log and status.st_size and status.st_mtime >= begin:
            found.append((status.st_mtime, path))
    return [path for _, path in sorted(found, reverse=True)[:_MAX_RANK_LOGS]]


def recovery_settings(system: System) -> RecoverySettings:
    """The site's limits of what the handler may do by itself."""
    modes, chosen = system.settings.modes, system.settings.recovery
    return RecoverySettings(
        restart_mode=modes.restart,
        isolate_mode=modes.isolate,
        max_restarts_per_job=chosen.max_restarts_per_job,
        max_restarts_per_cause=chosen.max_restarts_per_cause,
        max_restarts_per_hour=chosen.max_restarts_per_hour,
        backoff_base_s=chosen.backoff_base_s,
        isolation_s=chosen.isolation_h * 3600.0,
        quota_frac=chosen.isolation_quota_frac,
        quota_count=chosen.isolation_quota_nodes,
    )


def recovery_state(system: System, job: Job) -> RecoveryState:
    """What was done before, what stands isolated, and what else failed just now."""
    now = system.clock.now()
    window = timedelta(seconds=recovery_settings(system).mass_window_s)
    inventory = system.cluster.inventory()
    return RecoveryState(
        now=now,
        restarts=_restarts(system),
        isolations=isolation_records(system.store.nodes.isolated()),
        open_failures=tuple(_open_failures(system, now - window)),
        node_gpus={node.name: node.gpu_count for node in inventory.nodes},
        node_vc={node.name: node.vc for node in inventory.nodes},
        avoid=tuple(Suspect(node) for node in job.avoid_nodes),
    )


def isolation_records(reasons: Iterable[NodeReason]) -> tuple[IsolationRecord, ...]:
    """Isolations, ours and others', as the policy takes them."""
    return tuple(IsolationRecord(Suspect(r.node, r.gpu_index), r.owner, r.reason, r.since, r.deadline) for r in reasons)


def _restarts(system: System) -> tuple[RestartRecord, ...]:
    """Restarts that were made, or in shadow would have been: the budgets count both. Questions to people count not."""
    records: list[RestartRecord] = []
    for action in system.store.actions.find(kind=RESTART, limit=500):
        is_shadow = action.mode is Mode.SHADOW and not action.payload.get("asks")
        made = action.executed_at or (action.proposed_at if is_shadow else None)
        if made is None or action.state in (ActionState.REJECTED, ActionState.FAILED):
            continue
        payload = action.payload
        component, category = payload.get("component"), payload.get("category")
        records.append(
            RestartRecord(
                job_id=action.target,
                component=Component(component) if component else None,
                category=Category(category) if category else None,
                signature=str(payload.get("signature", "")),
                restarted_at=made,
            )
        )
    return tuple(records)


def _open_failures(system: System, since: datetime) -> Iterator[OpenFailure]:
    """What failed since, with what its diagnosis said where there is one already."""
    for exit in system.store.exits.find(since=since):
        if exit.outcome is Outcome.CONTROL_PLANE_ERROR:
            continue
        said = exit.result or {}
        cause = said.get("cause") or (exit.cause.value if exit.cause else None)
        component = said.get("component")
        yield OpenFailure(
            exit.job_id,
            system.store.attempts.get(exit.attempt_id).placement.node_names,
            _CAUSES.get(Cause(cause)) if cause else None,
            Component(component) if component else None,
            exit.at,
        )


def _past_failures(system: System, own: Exit, now: datetime) -> Iterator[PastFailure]:
    """Failures of the last week that were diagnosed, one entry for each part that was suspected."""
    for exit in system.store.exits.find(since=now - _HISTORY):
        said: dict[str, Any] = dict(exit.result or {})
        if exit.attempt_id == own.attempt_id or "signature" not in said:
            continue
        cause, component = said.get("cause"), said.get("component")
        for node, gpu_index in said.get("suspects") or [(None, None)]:
            yield PastFailure(
                job_id=exit.job_id,
                user=str(said.get("user", "")),
                node=node,
                gpu_index=gpu_index,
                category=_CAUSES.get(Cause(cause)) if cause else None,
                component=Component(component) if component else None,
                signature=str(said["signature"]),
                failed_at=exit.at,
            )


def _peers(system: System, attempt: Attempt, now: datetime) -> Iterator[PeerState]:
    """Other jobs on the attempt's nodes: those whose step moved just now are well, of the others nothing is known."""
    nodes = set(attempt.placement.node_names)
    others = [
        item
        for item in system.store.queue.view().active
        if item.attempt.job_id != attempt.job_id and nodes & set(item.attempt.placement.node_names)
    ]
    rows = system.store.tracking.find([item.attempt.attempt_id for item in others])
    for item in others:
        row = rows.get(item.attempt.attempt_id)
        stepped_at = row.pulse.get("step_at") if row is not None else None
        if row is None or stepped_at is None:
            continue
        is_well = now - datetime.fromisoformat(stepped_at) <= _STEPPED_WITHIN and not row.findings
        for node in sorted(nodes & set(item.attempt.placement.node_names)):
            yield PeerState(node, item.job.job_id, True if is_well else None, row.at)


def _files(folder: Path) -> Iterator[Path]:
    """Plain files below a folder, a bounded number, links left out."""
    left = _MAX_ENTRIES
    waiting = [(folder, 0)]
    while waiting and left > 0:
        place, depth = waiting.pop()
        try:
            entries = sorted(place.iterdir())
        except OSError:
            continue
        for entry in entries:
            left -= 1
            if left <= 0:
                return
            if entry.is_symlink():
                continue
            if entry.is_dir():
                if depth < _MAX_DEPTH:
                    waiting.append((entry, depth + 1))
            elif entry.is_file():
                yield entry
