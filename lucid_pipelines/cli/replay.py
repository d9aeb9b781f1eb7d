"""`lucid replay`: a trace under several policies, on one cluster."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from lucid_pipelines import policies
from lucid_pipelines.cli.output import print_json
from lucid_pipelines.cli.traces import (
    FormatOption,
    FromOption,
    ProfilesOption,
    ScaleOption,
    SeedOption,
    ToOption,
    TraceArgument,
    VcOption,
    WorkloadsOption,
    ZoneOption,
    late_progress,
)
from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.domain.trace import ClusterSpec, TraceJob
from lucid_pipelines.domain.view import Forecast
from lucid_pipelines.simulation import Summary, notes_of, run_replay, text_table
from lucid_pipelines.simulation.estimators import HistoryEstimator
from lucid_pipelines.simulation.options import ReplayEstimator
from lucid_pipelines.simulation.run import EstimatorMaker
from lucid_pipelines.traces.files import TraceFile
from lucid_pipelines.traces.loaded import LoadedTrace
from lucid_pipelines.traces.loading import load
from lucid_pipelines.traces.predictions import read_predictions, read_throughput_forecast

STANDALONE = "standalone"


def replay(
    trace: TraceArgument,
    policy: Annotated[str, typer.Option("--policy", "-p", help="Policies, separated by commas.")] = "fifo,lucid",
    cluster: Annotated[
        Path | None, typer.Option("--cluster", "-c", help="Cluster file.", show_default="the trace's own, if it tells")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder for tables and report.html.")] = None,
    predictions: Annotated[Path | None, typer.Option(help="job_id,duration_s for every policy that predicts.")] = None,
    advisor: Annotated[
        bool, typer.Option("--advisor", help="Predict from similar jobs that have ended; standalone always does.")
    ] = False,
    forecast: Annotated[Path | None, typer.Option(help="Predicted submissions per ten minutes.")] = None,
    pairs: Annotated[Path | None, typer.Option(help="Measured speeds of packed pairs.")] = None,
    profile_table: Annotated[Path | None, typer.Option(help="Measured profiles, with --pairs.")] = None,
    scaling: Annotated[Path | None, typer.Option(help="Sia's app_traces.tar.gz, for pollux and sia.")] = None,
    format: FormatOption = None,
    start: FromOption = None,
    end: ToOption = None,
    vc: VcOption = None,
    scale: ScaleOption = None,
    workloads: WorkloadsOption = "generated",
    seed: SeedOption = 0,
    timezone: ZoneOption = "UTC",
    profiles: ProfilesOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per policy and line.")] = False,
) -> None:
    """Replay a trace under several policies and compare them."""
    names = list(dict.fromkeys(name.strip() for name in policy.split(",") if name.strip()))
    if not names:
        raise InputError(f"name at least one policy of {', '.join(policies.names())}; got {policy!r}")
    for name in names:
        policies.get(name)  # an unknown name is told before a large trace is read
    spec = ClusterSpec.from_yaml(_text(cluster)) if cluster is not None else None
    with late_progress("reading the trace") as progress:
        loaded = load(
            trace,
            format=format,
            start=start,
            end=end,
            vcs=vc,
            scale=scale,
            workloads=workloads,
            seed=seed,
            timezone=timezone,
            profiles=profiles,
            progress=progress,
        )
    _tell_quarantine(loaded)
    if not loaded.job_count:
        left_out = ", ".join(f"{reason}: {count}" for reason, count in loaded.deselected.items())
        raise InputError(
            f"{loaded.source} has no job to replay: {loaded.rows_read} rows read, "
            f"{loaded.quarantined_count} in quarantine, left out by the selection: {left_out or 'none'}"
        )
    if loaded.past_jobs and predictions is None:
        print(f"estimates begin with {len(loaded.past_jobs):,} jobs that had ended before --from", file=sys.stderr)
    summaries = _run(
        loaded, spec or _cluster_of(loaded), names, out, predictions, forecast, pairs, profile_table, scaling, advisor
    )
    if as_json:
        for summary in summaries:
            print_json(summary.to_json())
        return
    typer.echo(text_table(summaries))
    for line in notes_of(summaries):
        typer.echo(line)
    if out is not None:
        typer.echo(f"\nThe report is {out / 'report.html'}")


def _run(
    loaded: LoadedTrace,
    spec: ClusterSpec,
    names: list[str],
    out: Path | None,
    predictions: Path | None,
    forecast: Path | None,
    pairs: Path | None,
    profile_table: Path | None,
    scaling: Path | None,
    advisor: bool,
) -> list[Summary]:
    console = Console(stderr=True)
    with console.status(f"replaying {loaded.job_count} jobs under {', '.join(names)}"):
        report = run_replay(
            loaded.jobs,
            spec,
            names,
            out,
            predictions=read_predictions(predictions).duration_s if predictions is not None else None,
            history=loaded.past_jobs,
            estimator_of=_estimator_of(advisor) if advisor or STANDALONE in names else None,
            forecast=_forecast(forecast) if forecast is not None else None,
            pair_table=pairs,
            profile_table=profile_table,
            scaling=scaling,
            title=f"Replay of {loaded.source}",
        )
    return list(report.summaries)


def _estimator_of(for_all: bool) -> EstimatorMaker:
    from lucid_pipelines.resources.replay_advisor import replay_estimator  # brings the index and the embedder

    def make(policy: str, jobs: Sequence[TraceJob], history: Sequence[TraceJob]) -> ReplayEstimator:
        return replay_estimator(policy, jobs, history) if for_all or policy == STANDALONE else HistoryEstimator(history)

    return make


def _forecast(path: Path) -> Forecast:
    table = read_throughput_forecast(path)
    return Forecast(
        starts_s=table.time_s.tolist(), jobs=table.predicted_jobs.tolist(), gpus=table.predicted_gpus.tolist()
    )


def _cluster_of(loaded: LoadedTrace) -> ClusterSpec:
    if loaded.cluster is None:
        raise InputError(
            "the trace does not tell its cluster; write a cluster file with its virtual clusters "
            f"({', '.join(sorted({job.vc for job in loaded.jobs})[:10])}) and name it with --cluster: {loaded.source}"
        )
    return loaded.cluster


def _text(path: Path) -> str:
    TraceFile.of(path)
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the cluster file cannot be read: {path}: {error}") from error


def _tell_quarantine(loaded: LoadedTrace) -> None:
    if loaded.quarantined_count:
        counts = ", ".join(f"{reason}: {count}" for reason, count in loaded.quarantined_by_reason.items())
        print(f"quarantined {loaded.quarantined_count} of {loaded.rows_read} rows ({counts})", file=sys.stderr)
