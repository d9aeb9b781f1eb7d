"""What ``lucid models train`` does: get the data, train a candidate, show how far it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from rich.console import Console

from lucid_pipelines.client import Client
from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.domain.history import HistoryRow
from lucid_pipelines.models.additive.fitting import FitProgress, ProgressCallback
from lucid_pipelines.models.additive.monotone import Direction
from lucid_pipelines.models.artefacts import ModelKind
from lucid_pipelines.models.duration.from_trace import history_from_trace
from lucid_pipelines.models.duration.selecting import Teaching
from lucid_pipelines.models.duration.training import DurationSettings
from lucid_pipelines.models.packing import read_pair_table
from lucid_pipelines.models.throughput import SubmissionSeries, count_submissions, read_series
from lucid_pipelines.models.updating import Candidate, duration_candidate, packing_candidate, throughput_candidate
from lucid_pipelines.traces.loading import load


@dataclass(frozen=True, slots=True)
class TrainRequest:
    """What the command line asked for; ``dated`` says whether the model's data ends at a moment."""

    kind: ModelKind
    as_of: datetime
    dated: bool
    window: timedelta
    trace: str | None
    table: Path | None
    pairs: Path | None
    profiles: Path | None
    teaching: Teaching
    monotone: tuple[str, ...]
    source: str | None


def train_candidate(client: Client, request: TrainRequest, serving: Mapping[str, Any] | None) -> Candidate:
    """Train and evaluate; nothing is kept yet.

    Raises:
        InputError: data is missing or too little.
    """
    with _progress(f"training the {request.kind} model") as progress:
        if request.kind is ModelKind.PACKING:
            if request.pairs is None or request.profiles is None:
                raise InputError("a packing model needs --pairs FILE and --profiles FILE")
            return packing_candidate(
                read_pair_table(request.pairs, request.profiles),
                in_service=serving,
                source=request.source or request.pairs.name,
                as_of=request.as_of if request.dated else None,
            )
        if request.kind is ModelKind.THROUGHPUT:
            table = request.table.name if request.table else None
            return throughput_candidate(
                _series(client, request),
                request.as_of,
                window=request.window,
                in_service=serving,
                source=request.source or table or _trace_name(request) or "this cluster",
                progress=progress,
            )
        return duration_candidate(
            _history(client, request.trace),
            request.as_of,
            window=request.window,
            in_service=serving,
            settings=DurationSettings(teaching=request.teaching, monotone=_directions(request.monotone)),
            source=request.source or _trace_name(request) or "this cluster",
            progress=progress,
        )


def _history(client: Client, trace: str | None) -> list[HistoryRow]:
    return client.system.store.history.rows() if trace is None else history_from_trace(load(trace).jobs)


def _series(client: Client, request: TrainRequest) -> SubmissionSeries:
    if request.table is not None:
        return read_series(request.table)
    if request.trace is not None:
        jobs = load(request.trace).jobs
        submissions = [(datetime.fromtimestamp(job.submit_s, UTC), int(job.gpus)) for job in jobs]
    else:
        found = client.system.store.jobs.find(limit=None)
        submissions = [(job.submitted_at, job.spec.gpus) for job in found]
    if not submissions:
        raise InputError("nothing was ever submitted here; give --table FILE or --trace TRACE")
    return count_submissions(submissions, begin=min(at for at, _ in submissions), until=request.as_of)


def _directions(texts: tuple[str, ...]) -> dict[str, Direction]:
    found: dict[str, Direction] = {}
    for text in texts:
        name, _, direction = text.partition("=")
        if direction not in {d.value for d in Direction}:
            raise InputError(f"say FEATURE=increasing or FEATURE=decreasing; got {text!r}")
        found[name] = Direction(direction)
    return found


@contextmanager
def _progress(label: str) -> Iterator[ProgressCallback | None]:
    """A line on stderr that says which bag is trained and how far it is; nothing where nobody looks."""
    errors = Console(stderr=True)
    if not errors.is_terminal:
        yield None
        return
    with errors.status(label) as status:
        update: Callable[[FitProgress], None] = lambda p: status.update(  # noqa: E731
            f"{label}: bag {p.bag + 1} of {p.bags}, {p.steps:,} steps, validation error {p.score:.4g}"
        )
        yield update


def _trace_name(request: TrainRequest) -> str | None:
    return None if request.trace is None else Path(request.trace).name
