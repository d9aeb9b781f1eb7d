"""Delete what is past its retention, in bounded batches."""

from __future__ import annotations

from datetime import datetime, timedelta

from lucid_pipelines import snapshots
from lucid_pipelines.control.system import System
from lucid_pipelines.domain.states import JobState

_SNAPSHOT_DAYS = 7.0
_INTENTS_DAYS = 7.0


def prune_state(system: System) -> dict[str, int]:
    """Prune events, metrics and done intents by age, and snapshots that no unfinished job needs.

    Returns:
        Deletions by kind.
    """
    now = system.clock.now()
    retention = system.settings.retention
    deleted = dict(
        system.store.prune(
            events_before=now - timedelta(days=retention.events_days),
            metrics_before=now - timedelta(days=retention.samples_days),
            intents_before=now - timedelta(days=_INTENTS_DAYS),
            exits_before=now - timedelta(days=retention.events_days),  # the weekly reports rest on them
        )
    )
    deleted["recordings"] = _prune_recordings(system, now)
    unfinished = [state for state in JobState if not state.is_terminal]
    needed = {job.spec.snapshot_digest for job in system.store.jobs.find(states=unfinished, limit=None)} - {None}
    if system.settings.snapshots.is_dir():
        collected = snapshots.garbage_collect(
            system.settings.snapshots,
            keep={digest for digest in needed if digest is not None},
            older_than=timedelta(days=_SNAPSHOT_DAYS),
            now=now,
        )
        deleted["snapshots"] = collected.manifests_removed
    return deleted


def _prune_recordings(system: System, now: datetime) -> int:
    """Delete recorded days of decisions that are past their retention; their names are their dates."""
    folder = system.settings.decisions
    oldest = f"{now - timedelta(days=system.settings.retention.decisions_days):%Y-%m-%d}"
    if not folder.is_dir():
        return 0
    old = [path for path in folder.glob("????-??-??.jsonl") if path.stem < oldest]
    for path in old:
        path.unlink(missing_ok=True)
    return len(old)
