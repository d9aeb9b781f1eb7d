"""What is in a trace: counts, sizes, run times, arrivals, states, recurrence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from lucid_pipelines.traces.frames import Floats, by_group, column, floats
from lucid_pipelines.traces.loaded import LoadedTrace

QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999)
RECURRING_RUNS = 5
"""PAI's paper calls work recurring from five runs on."""
DAY_S = 86_400.0
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


@dataclass(frozen=True, slots=True)
class Share:
    """A part of the jobs: their number, and their share of all GPU time."""

    jobs: int
    gpu_time_frac: float


@dataclass(frozen=True, slots=True)
class Recurrence:
    """How much of the work comes again. Unknown is ``None``: the trace has no names or no fingerprints.

    Attributes:
        repeated_frac: share of jobs with an earlier job of the same user and name.
        recurring_frac: share of jobs whose user and name occur at least five times.
        same_code_frac: share of jobs with an earlier job of the same code fingerprint.
        names, fingerprints: how many different ones there are.
    """

    repeated_frac: float | None
    recurring_frac: float | None
    same_code_frac: float | None
    names: int
    fingerprints: int


@dataclass(frozen=True, slots=True)
class Description:
    """Facts about a trace. Quantities of an empty trace are ``None``.

    Attributes:
        first_submit_at: UTC, ISO 8601; ``None`` without a calendar.
        gpus: jobs by number of GPUs asked for.
        jobs_by_hour, jobs_by_weekday: on the clock on which the trace was read; weekdays (Monday first) are
            ``None`` without a calendar.
        load_frac: share of the known cluster's GPUs that the jobs would occupy over the span.
    """

    format: str
    source: str
    is_synthetic: bool
    clock: str
    rows_read: int
    jobs: int
    quarantined: int
    quarantined_by_reason: Mapping[str, int]
    merged: Mapping[str, int]
    deselected: Mapping[str, int]
    repairs: Mapping[str, int]
    notes: tuple[str, ...]
    first_submit_at: str | None
    span_days: float | None
    users: int
    gpu_hours: float
    mean_gpus: float | None
    single_node_frac: float | None
    fractional_gpu_jobs: int
    gpus: Mapping[str, Share]
    mean_duration_s: float | None
    max_duration_s: float | None
    duration_quantiles_s: Mapping[str, float]
    queue_quantiles_s: Mapping[str, float]
    states: Mapping[str, Share]
    virtual_clusters: Mapping[str, Share]
    models: Mapping[str, Share]
    recurrence: Recurrence
    jobs_by_hour: tuple[int, ...]
    jobs_by_weekday: tuple[int, ...] | None
    cluster_gpus: int | None
    load_frac: float | None

    def to_json(self) -> dict[str, Any]:
        """Plain types only."""
        return asdict(self)


def describe(trace: LoadedTrace) -> Description:
    """Sum a trace up."""
    frame = trace.frame
    gpus, duration, submit = floats(frame, "gpus"), floats(frame, "duration_s"), floats(frame, "submit_s")
    work = gpus * duration
    span_s = float(submit.max() - submit.min()) if len(frame) else None
    cluster_gpus = None if trace.cluster is None else trace.cluster.gpus
    first = trace.first_submit_at
    return Description(
        format=trace.format,
        source=trace.source,
        is_synthetic=trace.is_synthetic,
        clock=trace.clock,
        rows_read=trace.rows_read,
        jobs=len(frame),
        quarantined=trace.quarantined_count,
        quarantined_by_reason=trace.quarantined_by_reason,
        merged=dict(trace.merged),
        deselected=dict(trace.deselected),
        repairs=dict(trace.repairs),
        notes=trace.notes,
        first_submit_at=None if first is None else first.isoformat(),
        span_days=None if span_s is None else span_s / DAY_S,
        users=len(set(column(frame, "user").unique()) - {""}),
        gpu_hours=float(work.sum() / 3600.0),
        mean_gpus=_mean(gpus),
        single_node_frac=_mean((gpus <= 8).astype(np.float64)),
        fractional_gpu_jobs=int((gpus != np.floor(gpus)).sum()),
        gpus={f"{size:g}": share for size, share in sorted(_shares(column(frame, "gpus"), work).items())},
        mean_duration_s=_mean(duration),
        max_duration_s=float(duration.max()) if len(frame) else None,
        duration_quantiles_s=_quantiles(duration),
        queue_quantiles_s=_quantiles(_queue(frame)),
        states=_named(_shares(column(frame, "state"), work)),
        virtual_clusters=_named(_shares(column(frame, "vc"), work)),
        models=_named(_shares(column(frame, "model"), work)),
        recurrence=_recurrence(frame),
        jobs_by_hour=_counts((submit // 3600.0) % 24, 24),
        jobs_by_weekday=_counts((submit // DAY_S + 3) % 7, 7) if trace.has_calendar else None,
        cluster_gpus=cluster_gpus,
        load_frac=float(work.sum()) / (span_s * cluster_gpus) if span_s and cluster_gpus else None,
    )


def _mean(values: Floats) -> float | None:
    return float(values.mean()) if len(values) else None


def _queue(frame: pd.DataFrame) -> Floats:
    """What the trace recorded; where it has only the start, start minus submission."""
    queue = floats(frame, "queue_s")
    return np.where(np.isnan(queue), floats(frame, "start_s") - floats(frame, "submit_s"), queue)


def _quantiles(values: Floats) -> dict[str, float]:
    known = values[~np.isnan(values)]
    if not len(known):
        return {}
    return {f"p{100 * q:g}": float(v) for q, v in zip(QUANTILES, np.quantile(known, QUANTILES), strict=True)}


def _shares(keys: pd.Series, work: Floats) -> dict[Any, Share]:
    total = float(work.sum())
    series = pd.Series(work)
    counts, sums = (
        by_group(series, keys.reset_index(drop=True), "count"),
        by_group(series, keys.reset_index(drop=True), "sum"),
    )
    return {
        key: Share(int(count), float(part) / total if total else 0.0)
        for key, count, part in zip(counts.index, counts.to_numpy(), sums.to_numpy(), strict=True)
    }


def _named(shares: Mapping[Any, Share]) -> dict[str, Share]:
    """The most frequent first."""
    return {str(key): share for key, share in sorted(shares.items(), key=lambda item: (-item[1].jobs, str(item[0])))}


def _recurrence(frame: pd.DataFrame) -> Recurrence:
    name = column(frame, "name")
    code = column(frame, "code_fingerprint").dropna()
    has_names = bool((name != "").any())
    keys = frame.groupby(["user", "name"], observed=True).ngroup() if has_names else None
    return Recurrence(
        repeated_frac=None if keys is None else float(keys.duplicated().mean()),
        recurring_frac=None if keys is None else float((keys.map(keys.value_counts()) >= RECURRING_RUNS).mean()),
        same_code_frac=float(code.duplicated().sum()) / len(frame) if len(code) else None,
        names=len(set(name.unique()) - {""}),
        fingerprints=int(code.nunique()),
    )


def _counts(values: Floats, size: int) -> tuple[int, ...]:
    return tuple(np.bincount(values.astype(np.int64), minlength=size).tolist())
