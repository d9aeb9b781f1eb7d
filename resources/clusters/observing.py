"""From what was seen of an attempt on its machine (``attempts.look``) to what may be said of it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from lucid_pipelines.ports import Observation, Sight
from lucid_pipelines.resources.clusters import attempts
from lucid_pipelines.resources.clusters.layout import Layout
from lucid_pipelines.resources.clusters.records import exit_record
from lucid_pipelines.resources.clusters.start_records import moment

_SOURCES = {Sight.EXITED: "exit_record", Sight.NOT_STARTED: "registry", Sight.UNOBSERVED: "error"}


def observe(layout: Layout, attempt_id: str, now: datetime) -> Observation:
    """What is known of one attempt of this machine; never raises for what the disk does."""
    return observation_of(attempt_id, attempts.look(layout, attempt_id), now, "local")


def observation_of(attempt_id: str, seen: Mapping[str, Any], now: datetime, where: str) -> Observation:
    """Judge what ``attempts.look`` returned; whatever cannot be understood leaves the attempt UNOBSERVED (R-1).

    Args:
        where: the kind of place, for the observation's source.
    """
    try:
        return _observation(attempt_id, seen, now, where)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        return Observation(attempt_id, Sight.UNOBSERVED, now, f"{where}:error", detail=f"cannot be observed: {error}")


def _observation(attempt_id: str, seen: Mapping[str, Any], now: datetime, where: str) -> Observation:
    sight = Sight(seen["sight"])
    source = f"{where}:{_SOURCES.get(sight, 'lock')}"
    if sight is Sight.EXITED:
        record = exit_record(seen["exit"])
        return Observation(attempt_id, sight, now, source, record.started_at, record, record.profile, record.detail)
    started_at = seen.get("started_at")
    return Observation(
        attempt_id, sight, now, source, None if started_at is None else moment(started_at), detail=seen.get("detail")
    )
