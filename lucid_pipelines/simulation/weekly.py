"""A trace replayed week by week: one stored result per week and policy, computed once.

Every week begins with an empty cluster on Monday 00:00 UTC (a trace without a calendar is cut every seven days from
its first submission). A policy that predicts may learn from the jobs that had ended before; the forecast rests on
the week before. Results lie below a folder that names what they were computed from, so that another trace, cluster
or table never answers for this one. A result is written to a temporary folder and renamed: a process may die at
any moment, and what was finished is found by the next.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from hashlib import file_digest, sha256
from pathlib import Path
from typing import IO

import numpy as np

from lucid_pipelines import __version__
from lucid_pipelines.domain.errors import InputError, NotFoundError, did_you_mean
from lucid_pipelines.domain.trace import ClusterSpec, ended_before
from lucid_pipelines.domain.view import Forecast
from lucid_pipelines.settings import ReplaySettings
from lucid_pipelines.simulation.forecasting import forecast_from_past
from lucid_pipelines.simulation.record import Replay
from lucid_pipelines.simulation.run import run_replay
from lucid_pipelines.traces.files import TraceFile
from lucid_pipelines.traces.generator import generate
from lucid_pipelines.traces.loaded import LoadedTrace
from lucid_pipelines.traces.loading import load
from lucid_pipelines.traces.predictions import read_predictions, read_throughput_forecast
from lucid_pipelines.traces.profiles import GENERATED

RESULT_VERSION = 1
"""Counts up when results of older code no longer answer for this one."""
WEEK_S = 7 * 86_400.0
_MONDAY_S = 4 * 86_400.0
"""1970-01-05 00:00 UTC, the first Monday."""
_CURVE_POINTS = 60
_PATIENCE_S = 0.5
_RESULT = "result.json"
_LEFT_AFTER_S = 86_400.0
"""A folder that nothing was put into for so long belongs to a process that was killed."""
_FILES = ("trace", "cluster", "predictions", "forecast", "pairs", "profile_table", "scaling", "profiles")
"""Settings that name files: their content counts, not their place."""


@dataclass(frozen=True, slots=True)
class Week:
    """Seven days of a trace.

    Attributes:
        key: date of its Monday, or ``week-0000`` and on for a trace without a calendar.
        start_s: on the clock of ``submit_s``; ``jobs`` were submitted in the 7 days from then.
    """

    key: str
    start_s: float
    jobs: int


@dataclass(frozen=True, slots=True)
class WeekResult:
    """One policy on one week.

    Attributes:
        summary: as ``Summary.to_json``.
        jct_s: quantiles of the JCT at equal steps from 0 to 1.
        held_frac: share of the GPUs held in equal spans of the replay.
        is_new: computed by this call; otherwise it was found.
    """

    week: str
    policy: str
    summary: Mapping[str, object]
    jct_s: tuple[float, ...]
    held_frac: tuple[float, ...]
    folder: Path
    is_new: bool

    def number(self, name: str) -> float:
        """A number of the summary; NaN when it is unknown."""
        value = self.summary.get(name)
        return float(value) if isinstance(value, int | float) else float("nan")


class WeeklyReplays:
    """The weeks of one trace and their results."""

    def __init__(self, settings: ReplaySettings, folder: Path) -> None:
        """Args:
        folder: root of all results.
        """
        self._settings = settings
        self._root = folder

    @cached_property
    def trace(self) -> LoadedTrace:
        """The trace; a generated month where the settings name none."""
        given = self._settings
        if given.trace is None:
            return generate(given.seed)
        return load(
            given.trace,
            format=given.format,
            workloads=given.workloads,
            seed=given.seed,
            timezone=given.timezone,
            profiles=given.profiles,
        )

    @cached_property
    def cluster(self) -> ClusterSpec:
        """The cluster of the settings, else the trace's own.

        Raises:
            InputError: there is none, or its file cannot be read.
        """
        path = self._settings.cluster
        if path is not None:
            try:
                return ClusterSpec.from_yaml(path.read_text(encoding="utf-8"))
            except (OSError, UnicodeDecodeError) as error:
                raise InputError(f"the cluster file of replay.cluster cannot be read: {path}: {error}") from error
        if self.trace.cluster is None:
            raise InputError(f"the trace does not tell its cluster; set replay.cluster: {self.trace.source}")
        return self.trace.cluster

    @cached_property
    def weeks(self) -> tuple[Week, ...]:
        """Every week in which a job was submitted, in order.

        Raises:
            InputError: the trace has no job.
        """
        submits = self.trace.frame["submit_s"].to_numpy(float)
        if not len(submits):
            raise InputError(f"a replay needs a trace with jobs; there is none in {self.trace.source}")
        origin_s = _MONDAY_S if self.trace.has_calendar else float(submits.min())
        numbers, counts = np.unique(np.floor((submits - origin_s) / WEEK_S).astype(int), return_counts=True)
        return tuple(
            Week(self._key(int(number), origin_s), origin_s + int(number) * WEEK_S, int(count))
            for number, count in zip(numbers, counts, strict=True)
        )

    @cached_property
    def folder(self) -> Path:
        """Where results of exactly these inputs lie."""
        given = self._settings
        inputs: dict[str, object] = {"result_version": RESULT_VERSION, "package": __version__}
        inputs |= given.model_dump(mode="json", exclude={"policies", "parallel", *_FILES})
        inputs |= {name: _digest(path) for name in _FILES if (path := getattr(given, name)) is not None}
        if given.workloads is not None and given.workloads != GENERATED:
            inputs["workloads"] = _digest(given.workloads)
        text = json.dumps(inputs, sort_keys=True)
        return self._root / sha256(text.encode()).hexdigest()[:16]

    def result(self, week: str, policy: str, *, again: bool = False) -> WeekResult:
        """The stored result, computed first where there is none.

        Args:
            again: compute it although there is one.

        Raises:
            NotFoundError: no such week or policy.
        """
        folder = self._folder_of(week, policy)
        if again:
            shutil.rmtree(folder, ignore_errors=True)
        found = None if again else self.stored(week, policy)
        if found is not None:
            return found
        with _one_of(self._root, self._settings.parallel or max((os.cpu_count() or 1) - 1, 1)):
            return self._compute(self._week(week), policy, folder)

    def stored(self, week: str, policy: str) -> WeekResult | None:
        """The stored result, if there is one."""
        folder = self._folder_of(week, policy)
        try:
            row = json.loads((folder / _RESULT).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        return WeekResult(
            week, policy, row["summary"], tuple(row["jct_s"]), tuple(row["held_frac"]), folder, is_new=False
        )

    def all_stored(self, policies: Sequence[str]) -> list[WeekResult]:
        """Every stored result of these policies, week by week."""
        found = (self.stored(week.key, policy) for week in self.weeks for policy in policies)
        return [result for result in found if result is not None]

    def _compute(self, week: Week, policy: str, folder: Path) -> WeekResult:
        given = self._settings
        partial = folder.with_name(f".{folder.name}.{os.getpid()}.writing")
        shutil.rmtree(partial, ignore_errors=True)
        _sweep(folder)
        partial.mkdir(parents=True)
        try:
            report = run_replay(
                [job for job in self.trace.jobs if week.start_s <= job.submit_s < week.start_s + WEEK_S],
                self.cluster,
                [policy],
                partial,
                predictions=self._predictions,
                history=ended_before(self.trace.jobs, week.start_s),
                forecast=self._forecast or self._forecast_for(week),
                pair_table=given.pairs,
                profile_table=given.profile_table,
                scaling=given.scaling,
                title=f"{policy}, week {week.key}: {self.trace.source}",
            )
            (replayed,) = report.replays
            row = {
                "summary": report.summaries[0].to_json(),
                "jct_s": _quantiles(replayed),
                "held_frac": _held_frac(replayed),
            }
            (partial / _RESULT).write_text(json.dumps(row), encoding="utf-8")
            _put_in_place(partial, folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        stored = self.stored(week.key, policy)
        assert stored is not None
        return WeekResult(
            stored.week, stored.policy, stored.summary, stored.jct_s, stored.held_frac, folder, is_new=True
        )

    def _forecast_for(self, week: Week) -> Forecast:
        near = [job for job in self.trace.jobs if week.start_s - WEEK_S <= job.submit_s < week.start_s + WEEK_S]
        return forecast_from_past(near)

    @cached_property
    def _predictions(self) -> Mapping[str, float] | None:
        path = self._settings.predictions
        return None if path is None else read_predictions(path).duration_s

    @cached_property
    def _forecast(self) -> Forecast | None:
        path = self._settings.forecast
        if path is None:
            return None
        table = read_throughput_forecast(path)
        return Forecast(table.time_s.tolist(), table.predicted_jobs.tolist(), table.predicted_gpus.tolist())

    def _key(self, number: int, origin_s: float) -> str:
        if not self.trace.has_calendar:
            return f"week-{number:04d}"
        return f"{datetime.fromtimestamp(origin_s, UTC) + timedelta(days=7 * number):%Y-%m-%d}"

    def _week(self, key: str) -> Week:
        for week in self.weeks:
            if week.key == key:
                return week
        known = [week.key for week in self.weeks]
        raise NotFoundError(f"the trace has the weeks {known[0]} to {known[-1]}{did_you_mean(key, known)}; not {key!r}")

    def _folder_of(self, week: str, policy: str) -> Path:
        return self.folder / week / policy.replace(":", "__")


@contextmanager
def _one_of(folder: Path, count: int) -> Iterator[None]:
    """Hold one of ``count`` places, waiting for it. The runs of a backfill all start at once; the locks are the
    system's, so that nobody who dies keeps a place."""
    folder.mkdir(parents=True, exist_ok=True)
    places = [(folder / f".place-{i}").open("a") for i in range(count)]
    try:
        while not any(_is_taken(place) for place in places):
            time.sleep(_PATIENCE_S)
        yield
    finally:
        for place in places:
            place.close()


def _is_taken(place: IO[str]) -> bool:
    try:
        fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _sweep(folder: Path) -> None:
    """Remove what processes that were killed have left of this result."""
    before_s = time.time() - _LEFT_AFTER_S
    for left in folder.parent.glob(f".{folder.name}.*.writing"):
        with suppress(OSError):
            if left.stat().st_mtime < before_s:
                shutil.rmtree(left, ignore_errors=True)


def _put_in_place(partial: Path, folder: Path) -> None:
    try:
        partial.rename(folder)
    except OSError:
        # Another process has just stored the same result; theirs is as good.
        if not (folder / _RESULT).is_file():
            raise


def _digest(path: str | Path) -> str:
    file = TraceFile.of(path).path
    if file.is_dir():
        return sha256("".join(_digest(part) for part in sorted(file.iterdir()) if part.is_file()).encode()).hexdigest()
    with file.open("rb") as data:
        return file_digest(data, "sha256").hexdigest()


def _quantiles(replayed: Replay) -> list[float]:
    jct_s = replayed.jct_s[~np.isnan(replayed.jct_s)]
    return np.quantile(jct_s, np.linspace(0, 1, _CURVE_POINTS)).round(3).tolist() if len(jct_s) else []


def _held_frac(replayed: Replay) -> list[float]:
    times, used = replayed.used_from_s, replayed.used_gpus
    if len(times) < 2:
        return []
    edges = np.linspace(times[0], times[-1], _CURVE_POINTS + 1)
    total = np.concatenate([[0.0], np.cumsum(np.diff(times) * used[:-1])])
    spans = np.diff(np.interp(edges, times, total)) / np.maximum(np.diff(edges), 1e-9)
    return (spans / replayed.input.gpus).round(4).tolist()
