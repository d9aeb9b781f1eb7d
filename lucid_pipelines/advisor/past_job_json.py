"""A past job as JSON and back: rows of the index, export and import."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.domain.job import Profile
from lucid_pipelines.domain.similarity import PastJob, ThroughputPoint
from lucid_pipelines.domain.states import Outcome

RECORD_VERSION = 1


def past_job_to_json(job: PastJob) -> dict[str, Any]:
    """A past job as plain data. Keys are added, never renamed; unknown values are left out."""
    data: dict[str, Any] = {
        "record_version": RECORD_VERSION,
        "job_id": job.job_id,
        "fingerprint": job.fingerprint,
        "submitted_at": job.submitted_at.isoformat(),
        "ended_at": job.ended_at.isoformat(),
        "outcome": job.outcome.value,
        "duration_s": job.duration_s,
        "task_type": job.task_type,
        "gpu_type": job.gpu_type,
        "gpus": job.gpus,
        "profile": None if job.profile is None else asdict(job.profile),
        "throughput": [asdict(point) for point in job.throughput] or None,
        "software": dict(job.software) or None,
    }
    return {name: value for name, value in data.items() if value is not None}


def past_job_from_json(data: Mapping[str, Any]) -> PastJob:
    """The past job that ``past_job_to_json`` wrote.

    Raises:
        InputError: a key is missing, or a value is not of its kind.
    """
    version = data.get("record_version", RECORD_VERSION)
    if version != RECORD_VERSION:
        raise InputError(f"this version reads past jobs of record version {RECORD_VERSION}; got {version!r}")
    try:
        profile = data.get("profile")
        return PastJob(
            job_id=_text(data["job_id"]),
            fingerprint=_text(data["fingerprint"]),
            submitted_at=_moment(data["submitted_at"]),
            ended_at=_moment(data["ended_at"]),
            outcome=Outcome(data["outcome"]),
            duration_s=_number(data.get("duration_s")),
            task_type=_maybe(data.get("task_type")),
            gpu_type=_maybe(data.get("gpu_type")),
            gpus=_count(data.get("gpus")),
            profile=None if profile is None else Profile(**profile),
            throughput=tuple(ThroughputPoint(**point) for point in data.get("throughput") or ()),
            software=tuple(sorted((str(name), str(value)) for name, value in (data.get("software") or {}).items())),
        )
    except KeyError as error:
        raise InputError(f"a past job needs the key {error.args[0]!r}") from error
    except (TypeError, ValueError, AttributeError) as error:
        raise InputError(f"this is no past job: {error}") from error


LONGEST_S = 10 * 365 * 86_400.0
"""No job runs longer: such a duration is a mistake in its unit, and one of them would mislead every average."""


def check_times(job: PastJob) -> PastJob:
    """Look over what comes from elsewhere before it is kept; what is kept already stays readable.

    Raises:
        InputError: times that cannot be.
    """
    if job.ended_at < job.submitted_at:
        raise InputError(f"this is no past job: it ended at {job.ended_at.isoformat()}, before it was submitted")
    if job.duration_s is not None and job.duration_s > LONGEST_S:
        raise InputError(f"this is no past job: duration_s is in seconds, at most ten years: {job.duration_s:g}")
    return job


def _count(value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"a whole number of GPUs, not below 0, is wanted: {value!r}")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"a text is wanted: {value!r}")
    return value


def _maybe(value: object) -> str | None:
    return None if value is None else _text(value)


def _number(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise ValueError(f"a finite number, not below 0, is wanted: {value!r}")
    return float(value)


def _moment(value: object) -> datetime:
    moment = datetime.fromisoformat(_text(value))
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
