"""``lucid traces``: convert, describe and generate traces."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.domain.trace import ClusterSpec
from lucid_pipelines.traces.clusters import GPUS_PER_NODE, fit_cluster
from lucid_pipelines.traces.conversion import convert as convert_trace
from lucid_pipelines.traces.conversion import write_cluster, write_quarantine
from lucid_pipelines.traces.description import describe as describe_trace
from lucid_pipelines.traces.files import MEMBER_SEPARATOR
from lucid_pipelines.traces.files import Progress as ReadProgress
from lucid_pipelines.traces.generator import DEFAULT_START
from lucid_pipelines.traces.generator import generate as generate_trace
from lucid_pipelines.traces.loaded import LoadedTrace
from lucid_pipelines.traces.loading import load
from lucid_pipelines.traces.registry import FORMATS
from lucid_pipelines.traces.render import render_description

app = typer.Typer(
    name="traces",
    help="Convert, describe and generate job traces.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

QUIET_S = 2.0
"""What takes less time shows no progress."""
LARGE_TRACE_JOBS = 300_000

TraceArgument = Annotated[
    str, typer.Argument(help="Trace file, folder with one trace, or ARCHIVE.tar.gz::MEMBER.", metavar="TRACE")
]
FormatOption = Annotated[str | None, typer.Option("--format", help=f"Overrides the detection: {', '.join(FORMATS)}.")]
FromOption = Annotated[str | None, typer.Option("--from", help="Keep jobs submitted at or after this time.")]
ToOption = Annotated[str | None, typer.Option("--to", help="Keep jobs submitted before this time.")]
VcOption = Annotated[list[str] | None, typer.Option("--vc", help="Keep this virtual cluster; may be repeated.")]
ScaleOption = Annotated[
    float | None,
    typer.Option(help="Offered load: below 1 leaves out users (seeded), above 1 compresses arrivals."),
]
WorkloadsOption = Annotated[
    str | None,
    typer.Option(help="Profile table that gives a workload to jobs without one; 'generated' for our own."),
]
SeedOption = Annotated[int, typer.Option(help="Seed of everything random.")]
ZoneOption = Annotated[str, typer.Option("--timezone", help="Zone of times that carry no offset.")]
ProfilesOption = Annotated[
    Path | None, typer.Option(help="Measured throughputs, for traces without run times (Sia, Gavel).")
]
ClusterOutOption = Annotated[
    Path | None, typer.Option("--cluster-out", help="Write the trace's cluster as a cluster file.")
]
FitLoadOption = Annotated[
    float | None,
    typer.Option(
        min=0.01,
        max=1.0,
        help="Size the cluster of --cluster-out so that the jobs occupy this share.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@app.command()
def convert(
    trace: TraceArgument,
    out: Annotated[Path, typer.Argument(help="File to write: .csv, .csv.gz or .parquet.")],
    format: FormatOption = None,
    start: FromOption = None,
    end: ToOption = None,
    vc: VcOption = None,
    scale: ScaleOption = None,
    workloads: WorkloadsOption = None,
    seed: SeedOption = 0,
    timezone: ZoneOption = "UTC",
    profiles: ProfilesOption = None,
    quarantine: Annotated[Path | None, typer.Option(help="Write the quarantined rows as CSV.")] = None,
    cluster_out: ClusterOutOption = None,
    fit_load: FitLoadOption = None,
    gpus_per_node: Annotated[int | None, typer.Option(min=1, help="With --fit-load: size of its nodes.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Write a trace of any supported format in our own."""
    _refuse_to_overwrite(trace, out, quarantine, cluster_out)
    if cluster_out is None and (fit_load is not None or gpus_per_node is not None):
        raise InputError("--fit-load and --gpus-per-node make a cluster; name its file with --cluster-out")
    if gpus_per_node is not None and fit_load is None:
        raise InputError("--gpus-per-node goes with --fit-load; without it the cluster is the trace's own")
    with late_progress("reading") as progress:
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
    if fit_load is not None:
        loaded = replace(loaded, cluster=_fitted(loaded, fit_load, gpus_per_node or GPUS_PER_NODE))
    written = convert_trace(loaded, out)
    if quarantine is not None:
        write_quarantine(loaded, quarantine)
    result = _result(loaded, written, None if cluster_out is None else write_cluster(loaded, cluster_out))
    if cluster_out is not None and result["cluster_out"] is None:
        result["notes"].append("the trace's files describe no cluster: none was written; --fit-load 0.7 makes one")
    _print(result, as_json=as_json)


@app.command()
def describe(
    trace: TraceArgument,
    format: FormatOption = None,
    start: FromOption = None,
    end: ToOption = None,
    vc: VcOption = None,
    scale: ScaleOption = None,
    workloads: WorkloadsOption = None,
    seed: SeedOption = 0,
    timezone: ZoneOption = "UTC",
    profiles: ProfilesOption = None,
    as_json: JsonOption = False,
) -> None:
    """Sum a trace up: sizes, run times, arrivals, states, recurrence, and what went to quarantine."""
    with late_progress("reading") as progress:
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
    description = describe_trace(loaded)
    if as_json:
        typer.echo(json.dumps(description.to_json()))
    else:
        Console().print(render_description(description))


@app.command()
def generate(
    out: Annotated[Path, typer.Argument(help="File to write: .csv, .csv.gz or .parquet.")],
    seed: SeedOption = 0,
    jobs: Annotated[int, typer.Option(help="How many jobs.")] = 25_000,
    days: Annotated[float, typer.Option(help="Length of the trace.")] = 30.0,
    vcs: Annotated[int, typer.Option(help="How many virtual clusters.")] = 6,
    users: Annotated[int | None, typer.Option(help="How many users; by default the root of the jobs.")] = None,
    load_frac: Annotated[float, typer.Option("--load", min=0.01, max=1.0, help="Load of the fitted cluster.")] = 0.7,
    drift: Annotated[float, typer.Option(help="Probability that code changed since its last run.")] = 0.1,
    start: Annotated[datetime, typer.Option(help="First moment, UTC.")] = DEFAULT_START,
    cluster_out: ClusterOutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a synthetic trace with the statistics of published ones, labelled as synthetic."""
    with _busy(f"generating {jobs:,} jobs", is_long=jobs >= LARGE_TRACE_JOBS):
        loaded = generate_trace(
            seed, jobs=jobs, days=days, vcs=vcs, users=users, load_frac=load_frac, drift=drift, start_at=start
        )
        written = convert_trace(loaded, out)
    cluster = None if cluster_out is None else write_cluster(loaded, cluster_out)
    _print(_result(loaded, written, cluster), as_json=as_json)


def _fitted(trace: LoadedTrace, load_frac: float, gpus_per_node: int) -> ClusterSpec:
    """A cluster that fits the load, of the trace's own kind of GPU where it tells a single one."""
    groups = trace.cluster.virtual_clusters.values() if trace.cluster is not None else ()
    kinds = {(group.gpu_type, group.gpu_memory_mib) for its in groups for group in its}
    gpu_type, memory_mib = kinds.pop() if len(kinds) == 1 else (None, None)
    return fit_cluster(trace.frame, load_frac, gpus_per_node, gpu_type=gpu_type, gpu_memory_mib=memory_mib)


def _refuse_to_overwrite(trace: str, *outs: Path | None) -> None:
    source, given = Path(trace.partition(MEMBER_SEPARATOR)[0]), [out for out in outs if out is not None]
    for out in given:
        if out.exists() and source.exists() and out.samefile(source):
            raise InputError(f"the trace would be replaced by what is made of it; write to another file than {out}")
    if len({out.absolute() for out in given}) < len(given):
        raise InputError(f"every output needs a file of its own; got {', '.join(map(str, given))}")


def _result(trace: LoadedTrace, out: Path, cluster: Path | None) -> dict[str, Any]:
    return {
        "out": str(out),
        "cluster_out": None if cluster is None else str(cluster),
        "format": trace.format,
        "source": trace.source,
        "synthetic": trace.is_synthetic,
        "rows_read": trace.rows_read,
        "jobs": trace.job_count,
        "quarantined": trace.quarantined_count,
        "quarantined_by_reason": trace.quarantined_by_reason,
        "merged": dict(trace.merged),
        "deselected": dict(trace.deselected),
        "repairs": dict(trace.repairs),
        "notes": list(trace.notes),
    }


def _print(result: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(result))
        return
    label = "synthetic " if result["synthetic"] else ""
    typer.echo(f"wrote {result['jobs']:,} {label}jobs to {result['out']}")
    if result["cluster_out"]:
        typer.echo(f"wrote the cluster to {result['cluster_out']}")
    for title in ("quarantined_by_reason", "merged", "deselected", "repairs"):
        for name, count in result[title].items():
            typer.echo(f"  {title.removesuffix('_by_reason')}: {count:,} {name}")
    for note in result["notes"]:
        typer.echo(f"  note: {note}")


@contextmanager
def late_progress(label: str) -> Iterator[ReadProgress]:
    """A progress bar on stderr that appears only once the work has taken two seconds."""
    began = time.monotonic()
    console = Console(stderr=True)
    bar = Progress(
        TextColumn(label), BarColumn(), TextColumn("{task.percentage:.0f} %"), TimeRemainingColumn(), console=console
    )
    task = bar.add_task(label, total=1.0)

    def update(done_frac: float) -> None:
        if not bar.live.is_started:
            if time.monotonic() - began < QUIET_S or not console.is_terminal:
                return
            bar.start()
        bar.update(task, completed=done_frac)

    try:
        yield update
    finally:
        if bar.live.is_started:  # stopping what never began prints an empty line
            bar.stop()


@contextmanager
def _busy(label: str, *, is_long: bool) -> Iterator[None]:
    console = Console(stderr=True)
    if is_long and console.is_terminal:
        with console.status(label):
            yield
    else:
        yield
