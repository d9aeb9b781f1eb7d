"""``lucid tune``: search the policy's settings by replays of a trace."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markdown import Markdown

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
from lucid_pipelines.domain.trace import ClusterSpec
from lucid_pipelines.traces.loaded import LoadedTrace
from lucid_pipelines.traces.loading import load
from lucid_pipelines.tuning.pages import markdown, response_plots
from lucid_pipelines.tuning.proposing import Strategy
from lucid_pipelines.tuning.scenarios import Predictions, ScenarioSet, scenarios_of
from lucid_pipelines.tuning.space import space_for
from lucid_pipelines.tuning.tune import TuneReport, TuneRequest, tune
from lucid_pipelines.whole_files import write_whole

_WARMUP_FRAC = 0.25
_DAY_S = 86_400.0


def tune_command(
    trace: TraceArgument,
    cluster: Annotated[
        Path | None, typer.Option("--cluster", "-c", help="Cluster file.", show_default="the trace's own, if it tells")
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder of the journal and the report; the same one goes on.")
    ] = Path("lucid-tuning"),
    strategy: Annotated[Strategy, typer.Option(help="How points are chosen.")] = Strategy.GUIDED,
    trials: Annotated[int, typer.Option(min=1, help="Points besides the default one.")] = 40,
    search: Annotated[str | None, typer.Option(help="Only these settings, separated by commas.")] = None,
    retraining: Annotated[
        bool, typer.Option("--retraining", help="Search the period of retraining too; trains models, which takes long.")
    ] = False,
    processes: Annotated[int | None, typer.Option(min=1, help="Worker processes.", show_default="all cores")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Draws of what the trace does not tell (workloads).")] = 2,
    pieces: Annotated[int, typer.Option(min=1, help="Stretches that the searched days are cut into.")] = 2,
    unseen_days: Annotated[float, typer.Option(min=0.1, help="Newest days, kept from the search.")] = 7.0,
    format: FormatOption = None,
    start: FromOption = None,
    end: ToOption = None,
    vc: VcOption = None,
    scale: ScaleOption = None,
    workloads: WorkloadsOption = "generated",
    seed: SeedOption = 0,
    timezone: ZoneOption = "UTC",
    profiles: ProfilesOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Search settings on a trace, and recommend what wins on days that the search did not see.

    Killed and started again it goes on where it was. `lucid tuner apply --from lucid-tuning/tuned_settings.json`
    puts the recommendation in force.
    """
    variants: list[LoadedTrace] = []
    for number in range(seeds):
        with late_progress("reading the trace") as reading:
            variants.append(
                load(
                    trace,
                    format=format,
                    start=start,
                    end=end,
                    vcs=vc,
                    scale=scale,
                    workloads=workloads,
                    seed=seed + number,
                    timezone=timezone,
                    profiles=profiles,
                    progress=reading,
                )
            )
    spec = _cluster(cluster, variants[0])
    space = space_for(
        spec, None if search is None else [n.strip() for n in search.split(",") if n.strip()], retraining=retraining
    )
    request = TuneRequest(strategy, trials, processes or os.cpu_count() or 1, seed, out, Path(trace).name)
    errors = Console(stderr=True)
    with errors.status("preparing") as status:
        scenarios = _scenarios(variants, spec, unseen_days, pieces, errors if retraining else None)
        report = tune(
            scenarios,
            space,
            request,
            now=datetime.now(UTC),
            progress=lambda done, dropped: status.update(f"{done} replays made, {dropped} points dropped early"),
        )
    text = markdown(report)
    write_whole(out / "report.md", _with_plots(report, text, out))
    if as_json:
        print_json(report.to_json())
    else:
        Console().print(Markdown(text))
        typer.echo(f"The report is {out / 'report.md'}, the settings are in {out / 'tuned_settings.json'}")


def _scenarios(
    variants: list[LoadedTrace], spec: ClusterSpec, unseen_days: float, pieces: int, errors: Console | None
) -> ScenarioSet:
    jobs = [variant.jobs for variant in variants]
    warmup_days, predictions = 0.0, None
    if errors is not None:
        warmup_days, predictions = _predictions(variants[0], errors)
    return scenarios_of(
        jobs, spec, unseen_days=unseen_days, pieces=pieces, warmup_days=warmup_days, predictions=predictions
    )


def _predictions(trace: LoadedTrace, errors: Console) -> tuple[float, Predictions]:
    # Training needs interpret and scikit-learn, which take seconds to import.
    from lucid_pipelines.tuning.retraining import predictions_by_period

    if not trace.has_calendar:
        raise InputError("the period of retraining needs a trace with a calendar; leave --retraining out")
    first, last = trace.jobs[0].submit_s, trace.jobs[-1].submit_s
    warmup_s = _WARMUP_FRAC * (last - first)
    errors.print(f"training models over {(last - first) / _DAY_S:.0f} days for each period of retraining")
    found = predictions_by_period(
        trace.jobs, first + warmup_s, progress=lambda days: errors.print(f"done: every {days:g} days")
    )
    return warmup_s / _DAY_S, found


def _cluster(path: Path | None, trace: LoadedTrace) -> ClusterSpec:
    if path is not None:
        try:
            return ClusterSpec.from_yaml(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"the cluster file cannot be read: {path}: {error}") from error
    if trace.cluster is None:
        raise InputError(
            "the trace does not tell its cluster; give one with --cluster, or let "
            f"`lucid traces describe --cluster-out` fit one: {trace.source}"
        )
    return trace.cluster


def _with_plots(report: TuneReport, text: str, out: Path) -> str:
    lines: list[str] = []
    for number, (name, svg) in enumerate(response_plots(report)):
        path = out / f"response-{number:02d}.svg"
        write_whole(path, svg)
        lines.append(f"![{name}]({path.name})")
    return text + ("\n" + "\n".join(lines) + "\n" if lines else "")
