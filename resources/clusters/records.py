"""Reading what the wrapper wrote. A record that cannot be understood is no evidence, so it raises."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lucid_pipelines.domain.job import ExitRecord, Profile
from lucid_pipelines.resources.clusters import wrapper
from lucid_pipelines.resources.clusters.start_records import moment, read_record

_REASONS = frozenset({"exited", "stopped", "spawn_failed", "fenced"})


def read_exit(folder: Path) -> ExitRecord | None:
    """``None`` when there is no exit record. Raises ``OSError`` or ``ValueError``."""
    data = read_record(folder, wrapper.EXIT)
    return None if data is None else exit_record(data)


def profile_of(data: Mapping[str, Any]) -> Profile:
    """A profile as the wrapper sums it up."""
    source = data.get("source")
    return Profile(
        gpu_util_pct=wrapper.within(data.get("gpu_util_pct"), 100.0),
        memory_util_pct=wrapper.within(data.get("memory_util_pct"), 100.0),
        memory_peak_mib=wrapper.within(data.get("memory_peak_mib"), None),
        window_s=wrapper.within(data.get("window_s"), None),
        sample_count=int(data.get("sample_count") or 0),
        source=None if source is None else str(source),
        unknown_because=None if data.get("unknown_because") is None else str(data["unknown_because"]),
    )


def exit_record(data: Mapping[str, Any]) -> ExitRecord:
    """An exit record as the wrapper writes it. Raises ``ValueError`` when it cannot be understood."""
    try:
        return _exit_record(data)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"the exit record of attempt {data.get('attempt_id')!r} cannot be understood: {error!r}"
        ) from error


def _exit_record(data: Mapping[str, Any]) -> ExitRecord:
    reason = data["reason"]
    if reason not in _REASONS:
        raise ValueError(f"an exit record has a reason of {sorted(_REASONS)}; got {reason!r}")
    leftovers = data.get("leftovers")
    profile = data.get("profile")
    detail = [text for text in (data.get("detail"), data.get("declared_problem")) if text]
    return ExitRecord(
        exit_code=_whole(data["exit_code"]),
        signal=_whole(data["signal"]),
        reason=reason,
        started_at=None if data["started_at"] is None else moment(data["started_at"]),
        ended_at=moment(data["ended_at"]),
        detail="; ".join(detail) or None,
        profile=None if profile is None else profile_of(profile),
        declared=tuple(sorted((str(k), str(v)) for k, v in (data.get("declared") or {}).items())),
        leftover_count=None if leftovers is None else _whole(leftovers["found"]),
    )


def _whole(value: Any) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise TypeError(f"a whole number or null; got {value!r}")
