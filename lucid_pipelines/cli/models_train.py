"""What ``lucid models train`` does: get the data, train a candidate, show how far it is.

Training needs interpret and scikit-learn, which take seconds to import; data that cannot be used is refused before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from lucid_pipelines.client import Client
from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.domain.history import HistoryRow
from lucid_pipelines.models.additive.schema import MIN_ROWS
from lucid_pipelines.models.duration.from_trace import history_from_trace
from lucid_pipelines.models.duration.selecting import Teaching
from lucid_pipelines.models.kinds import ModelKind
from lucid_pipelines.models.packing import PairTable, read_pair_table
from lucid_pipelines.models.throughput import SubmissionSeries, count_submissions, read_series

if TYPE_CHECKING:
    from lucid_pipelines.models.additive.fitting import FitProgress, ProgressCallback
    from lucid_pipelines.models.additive.monotone import Direction
    from lucid_pipelines.models.updating import Candidate
    from lucid_pipelines.traces.loaded import LoadedTrace


@dataclass(frozen=True, slots=True)
class TrainRequest:
    """What the command line asked for.

    Attributes:
        as_of: ``None`` = now, or for a trace or table the end of its submissions.
    """

    kind: ModelKind
    as_of: datetime | None
    window: timedelta
    trace: str | None
    table: Path | None
    pairs: Path | None
    profiles: Path | None
    teaching: Teaching
    monotone: tuple[str, ...]
    source: str | None


@dataclass(frozen=True)
class _Data:
    """What is learned from: one of the three, and the moment up to which it reaches."""

    as_of: datetime | None
    source: str
    rows: list[HistoryRow] = field(default_factory=list)
    series: SubmissionSeries | None = None
    pairs: PairTable | None = None
    left_out: Mapping[str, int] = field(default_factory=dict)


def train_candidate(client: Client, request: TrainRequest, serving: Mapping[str, Any] | None) -> Candidate:
    """Train and evaluate; nothing is kept yet.

    Raises:
        InputError: data is missing or too little.
    """
    with _progress(f"reading the data of the {request.kind} model") as show:
        data = _read(client, request)
        _require_some(data, request)
        show(f"training the {request.kind} model")
        from lucid_pipelines.models.duration.training import DurationSettings
        from lucid_pipelines.models.updating import duration_candidate, packing_candidate, throughput_candidate

        if data.pairs is not None:
            return packing_candidate(data.pairs, in_service=serving, source=data.source, as_of=data.as_of)
        assert data.as_of is not None
        progress = _reporter(f"training the {request.kind} model", show)
        if data.series is not None:
            return throughput_candidate(
                data.series,
                data.as_of,
                window=request.window,
                in_service=serving,
                source=data.source,
                progress=progress,
            )
        return duration_candidate(
            data.rows,
            data.as_of,
            window=request.window,
            in_service=serving,
            settings=DurationSettings(teaching=request.teaching, monotone=_directions(request.monotone)),
            source=data.source,
            progress=progress,
            left_out=data.left_out,
        )


def _require_some(data: _Data, request: TrainRequest) -> None:
    """Refuse too little data before the libraries that train are imported; they count the reasons more finely."""
    if data.pairs is not None or data.series is not None or data.as_of is None:
        return
    begin = data.as_of - request.window
    usable = sum(row.ended_at <= begin for row in data.rows)
    if usable < MIN_ROWS:
        others = {**data.left_out, "after_as_of": len(data.rows) - usable}
        left_out = ", ".join(f"{count:,} {reason}" for reason, count in others.items() if count) or "none"
        raise InputError(
            f"a duration model needs at least {MIN_ROWS} usable runs before {begin:%Y-%m-%d %H:%M} UTC; got {usable} "
            f"(left out: {left_out}). The newest {request.window / timedelta(days=1):g} days are kept for the "
            "evaluation: see --window-days and --as-of"
        )


def _read(client: Client, request: TrainRequest) -> _Data:
    if request.kind is ModelKind.PACKING:
        if request.pairs is None or request.profiles is None:
            raise InputError("a packing model needs --pairs FILE and --profiles FILE")
        pairs = read_pair_table(request.pairs, request.profiles)
        return _Data(request.as_of, request.source or request.pairs.name, pairs=pairs)
    if request.kind is ModelKind.THROUGHPUT and request.table is not None:
        series = read_series(request.table)
        end = datetime.fromtimestamp(series.end_s, UTC)
        return _Data(request.as_of or end, request.source or request.table.name, series=series)
    return _read_jobs(client, request)


def _read_jobs(client: Client, request: TrainRequest) -> _Data:
    """From a trace, or from this cluster's own records."""
    source = request.source or ("this cluster" if request.trace is None else Path(request.trace).name)
    trace = None if request.trace is None else _loaded(request.trace)
    if request.kind is ModelKind.DURATION and trace is None:
        rows = client.system.store.history.rows()
        return _Data(request.as_of or client.system.clock.now(), source, rows)
    if trace is None:
        found = client.system.store.jobs.find(limit=None)
        submissions = [(job.submitted_at, job.spec.gpus) for job in found]
        if not submissions:
            raise InputError("nothing was ever submitted here; give --table FILE or --trace TRACE")
        as_of = request.as_of or client.system.clock.now()
    else:
        submissions = [(datetime.fromtimestamp(job.submit_s, UTC), int(job.gpus)) for job in trace.jobs]
        as_of = request.as_of or max(at for at, _ in submissions) + timedelta(seconds=1)
    if request.kind is ModelKind.DURATION:
        assert trace is not None
        left_out: Counter[str] = Counter({f"trace: {k}": v for k, v in trace.quarantined_by_reason.items()})
        return _Data(as_of, source, history_from_trace(trace.jobs, left_out), left_out=left_out)
    series = count_submissions(submissions, begin=min(at for at, _ in submissions), until=as_of)
    return _Data(as_of, source, series=series)


def _loaded(trace: str) -> LoadedTrace:
    from lucid_pipelines.traces.loading import load  # pandas; a cluster's own history needs none

    loaded = load(trace)
    if not loaded.job_count:
        why = ", ".join(f"{count:,} {reason}" for reason, count in loaded.quarantined_by_reason.items())
        raise InputError(f"{trace} holds no job that can be used" + (f" (left out: {why})" if why else ""))
    return loaded


def _directions(texts: tuple[str, ...]) -> dict[str, Direction]:
    from lucid_pipelines.models.additive.monotone import Direction

    found: dict[str, Direction] = {}
    for text in texts:
        name, _, direction = text.partition("=")
        if direction not in {d.value for d in Direction}:
            raise InputError(f"say FEATURE=increasing or FEATURE=decreasing; got {text!r}")
        found[name] = Direction(direction)
    return found


@contextmanager
def _progress(label: str) -> Iterator[Callable[[str], None]]:
    """A line on stderr that says what is done; nothing where nobody looks."""
    errors = Console(stderr=True)
    if not errors.is_terminal:
        yield lambda text: None
        return
    with errors.status(label) as status:
        yield status.update


def _reporter(label: str, show: Callable[[str], None]) -> ProgressCallback:
    """Says which bag is trained and how far it is."""

    def report(at: FitProgress) -> None:
        show(f"{label}: bag {at.bag + 1} of {at.bags}, {at.steps:,} steps, validation error {at.score:.4g}")

    return report
