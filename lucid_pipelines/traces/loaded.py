"""What a load returns: the jobs as columns and as objects, the quarantine, and where everything went."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from lucid_pipelines.domain.trace import ClusterSpec, TraceJob, TraceState, ended_before
from lucid_pipelines.traces.collector import CATEGORY_COLUMNS

JOB_FIELDS = tuple(field.name for field in fields(TraceJob))


@dataclass(frozen=True)
class LoadedTrace:
    """Jobs of one trace file, ordered by submission.

    Every row of the file is accounted for:
    ``rows_read == job_count + quarantined_count + sum(merged) + sum(deselected)``.

    Attributes:
        frame: one row per job, the fields of ``TraceJob`` as columns; floats are NaN where unknown, texts
            missing. ``jobs`` gives the same as objects.
        quarantine: columns ``row_number`` (from 1, the header counts), ``reason``, ``raw`` (shortened; kept
            for the first 10,000 rows).
        merged: rows that describe a part of a job which another row stands for (steps, tasks, attempts).
        deselected: sound rows that the caller's selection left out, by which part of it.
        repairs: accepted rows that needed a stated correction, by correction.
        notes: facts about the whole file that a reader should know.
        clock: what times mean, and the zone in which they were read.
        has_calendar: whether ``submit_s`` counts from 1970-01-01 UTC; otherwise from the trace's own zero.
        cluster: the cluster that the trace was recorded on, where the files beside it tell.
        metadata: facts for the header of converted files; ``synthetic`` is true for generated traces.
        starts_s, before: begin of the selected window, and rows like those of ``frame`` from before it; ``None``
            without one.
    """

    format: str
    source: str
    frame: pd.DataFrame
    quarantine: pd.DataFrame
    rows_read: int
    clock: str
    has_calendar: bool = True
    merged: Mapping[str, int] = field(default_factory=dict)
    deselected: Mapping[str, int] = field(default_factory=dict)
    repairs: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    cluster: ClusterSpec | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    starts_s: float | None = None
    before: pd.DataFrame | None = None

    @cached_property
    def jobs(self) -> tuple[TraceJob, ...]:
        """The jobs as objects, built on first use."""
        return jobs_of(self.frame)

    @cached_property
    def past_jobs(self) -> tuple[TraceJob, ...]:
        """What had ended when the selected window began; empty without one."""
        if self.before is None or self.starts_s is None:
            return ()
        return ended_before(jobs_of(self.before), self.starts_s)

    @property
    def job_count(self) -> int:
        return len(self.frame)

    @property
    def quarantined_count(self) -> int:
        return len(self.quarantine)

    @property
    def quarantined_by_reason(self) -> dict[str, int]:
        """Counts by reason, the most frequent first."""
        counts = self.quarantine["reason"].value_counts()
        return {str(reason): int(count) for reason, count in counts.items()}

    @property
    def is_synthetic(self) -> bool:
        return bool(self.metadata.get("synthetic", False))

    @property
    def first_submit_at(self) -> datetime | None:
        """UTC time of the first submission; ``None`` for an empty trace or one without a calendar."""
        if not self.job_count or not self.has_calendar:
            return None
        return datetime.fromtimestamp(float(self.frame["submit_s"].iloc[0]), UTC)

    @property
    def balances(self) -> bool:
        """Whether every row read is accounted for."""
        return self.rows_read == (
            self.job_count + self.quarantined_count + sum(self.merged.values()) + sum(self.deselected.values())
        )


def jobs_of(frame: pd.DataFrame) -> tuple[TraceJob, ...]:
    """Build the objects of a frame's rows."""
    columns = [_values(frame, name) for name in JOB_FIELDS]
    # A million new objects without a cycle among them: the collector would walk them again and again.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return tuple(map(TraceJob, *columns))
    finally:
        if was_enabled:
            gc.enable()


def _values(frame: pd.DataFrame, name: str) -> list[Any]:
    column = frame[name]
    if name in CATEGORY_COLUMNS:
        words: list[Any] = [str(word) for word in column.cat.categories]
        if name == "state":
            words = [TraceState(word) for word in words]
        lookup = np.array([*words, None], dtype=object)
        return lookup[column.cat.codes.to_numpy()].tolist()
    known = column.notna().to_numpy()
    if name in ("batch_size", "attempts"):
        return [int(v) if ok else None for v, ok in zip(column.tolist(), known, strict=True)]
    if name == "amp":
        return [bool(v) if ok else None for v, ok in zip(column.tolist(), known, strict=True)]
    if known.all():
        return column.tolist()
    if not known.any():
        return [None] * len(column)
    return [v if ok else None for v, ok in zip(column.tolist(), known, strict=True)]
