"""``lucid advise``: what a job's code says of it, which past jobs resemble it, and what they took."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from lucid_pipelines.advisor.advice_json import advice_to_json
from lucid_pipelines.advisor.box import BoxLimits, extract_quickly
from lucid_pipelines.advisor.description import ExtractionLimits, LaunchDescription
from lucid_pipelines.advisor.estimates import AdvisedEstimate, Fallback
from lucid_pipelines.advisor.fingerprint import Fingerprint, Surroundings, fingerprint
from lucid_pipelines.advisor.metadata import JobMetadata
from lucid_pipelines.advisor.target import find_target
from lucid_pipelines.cli.options import AsJson, Home
from lucid_pipelines.cli.output import console, one_line, print_json, seconds
from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.domain.similarity import SimilarJobs

if TYPE_CHECKING:
    from lucid_pipelines.advisor.advising import Advisor
    from lucid_pipelines.settings import Settings

HISTORY_FILE = "history.db"
_PANEL = "Reading"


def advise(
    path: Annotated[Path, typer.Argument(help="Folder of the code, or a file in it.", show_default=False)],
    command: Annotated[
        list[str], typer.Argument(metavar="-- COMMAND...", help="How the job is started.", show_default=False)
    ],
    as_json: AsJson = False,
    gpus: Annotated[int | None, typer.Option(help="GPUs that the job asks for in all.", min=1)] = None,
    nodes: Annotated[int | None, typer.Option(help="Nodes that it asks for.", min=1)] = None,
    gpu_type: Annotated[str | None, typer.Option(help="Type of those GPUs, e.g. A100.")] = None,
    env: Annotated[list[str] | None, typer.Option("--env", help="NAME=VALUE that the submission sets.")] = None,
    workdir: Annotated[
        str | None, typer.Option(help="Where the command starts, relative to the top of the code.")
    ] = None,
    index: Annotated[
        str | None,
        typer.Option(
            envvar="LUCID_HISTORY_INDEX", help="URL of the history index.", show_default="history.db in the home folder"
        ),
    ] = None,
    as_of: Annotated[str | None, typer.Option(help="Look at the history as it was then (ISO 8601).")] = None,
    k: Annotated[int, typer.Option(help="Similar jobs to look at.", min=1, max=1000)] = 20,
    threshold: Annotated[
        float | None, typer.Option(help="Similarity from which a job counts.", show_default="the embedder's")
    ] = None,
    time_box_s: Annotated[
        float, typer.Option("--time-box", help="Seconds for reading the code.", min=1, rich_help_panel=_PANEL)
    ] = 15.0,
    in_process: Annotated[
        bool,
        typer.Option("--in-process", help="Read in this process: faster, no memory limit.", rich_help_panel=_PANEL),
    ] = False,
    home: Home = None,
) -> None:
    """Read a job's settings out of its code, and estimate its run time from similar past jobs.

    Nothing is run. A value that cannot be determined is missing, with the reason; it is never guessed.
    """
    if not any(word.strip() for word in command):
        raise InputError("the command is empty: write how the job is started after --")
    target = find_target(path, command)
    if workdir is not None and not _is_inside(target.root, workdir):
        raise InputError(f"give a folder inside the code as --workdir: {workdir!r} is none of {target.root}")
    launch = LaunchDescription(
        tuple(command), _variables(env or ()), target.workdir if workdir is None else workdir, gpus, nodes, target.entry
    )
    metadata = _read(target.root, launch, time_box_s, in_process)
    mark = fingerprint(metadata, Surroundings(gpu_type, gpus))
    advised, similar = _look_up(mark, index, home, _moment(as_of), k, threshold)
    if as_json:
        print_json(advice_to_json(metadata, mark, advised, similar))
    else:
        _show(metadata, advised, similar)


def _is_inside(root: Path, folder: str) -> bool:
    found = (root / folder).resolve()
    return found.is_relative_to(root) and found.is_dir()


def _read(root: Path, launch: LaunchDescription, time_box_s: float, in_process: bool) -> JobMetadata:
    if not in_process:
        return extract_quickly(root, launch, BoxLimits(wall_s=time_box_s))
    from lucid_pipelines.advisor.extract import extract_metadata

    return extract_metadata(root, launch, ExtractionLimits(wall_s=time_box_s))


def _look_up(
    mark: Fingerprint, index: str | None, home: Path | None, as_of: datetime, k: int, threshold: float | None
) -> tuple[AdvisedEstimate, SimilarJobs | None]:
    if not has_history(index, home):
        detail = "there is no history here yet; fill it with lucid history import, or name one with --index"
        return AdvisedEstimate(None, Fallback.NO_HISTORY, detail), None
    return open_site_advisor(index, home, k, threshold).look_up(mark, as_of)


def site_settings(index: str | None, home: Path | None) -> Settings:
    """The site's settings, with another history index where one is named."""
    from lucid_pipelines.settings import load_settings

    settings = load_settings(home)
    if index is None:
        return settings
    return settings.model_copy(update={"advisor": settings.advisor.model_copy(update={"index": index})})


def open_site_advisor(
    index: str | None, home: Path | None, k: int | None = None, threshold: float | None = None
) -> Advisor:
    """The advisor that the settings name; index, ``k`` and threshold may be others."""
    from lucid_pipelines.resources.advisors import open_advisor

    settings = site_settings(index, home)
    given = {name: value for name, value in (("k", k), ("threshold", threshold)) if value is not None}
    chosen = settings.advisor.model_copy(update=given)
    return open_advisor(settings.model_copy(update={"advisor": chosen}))


def has_history(index: str | None, home: Path | None) -> bool:
    """Whether there is an index to ask: a named one, one in the settings, or the file in the home folder."""
    if index is not None:
        return True
    if ((home or Path(".lucid")).expanduser().absolute() / HISTORY_FILE).is_file():
        return True
    return site_settings(None, home).advisor.index is not None


def _variables(pairs: list[str] | tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise InputError(f"write variables as NAME=VALUE: {pair!r}")
        found[name] = value
    return found


def _moment(text: str | None) -> datetime:
    if text is None:
        return datetime.now(UTC)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f"write a time as 2026-01-31T12:00: {text!r}") from None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


# ---------------------------------------------------------------------- for people


def _show(metadata: JobMetadata, advised: AdvisedEstimate, similar: SimilarJobs | None) -> None:
    table = _table("FIELD", "VALUE", "FROM")
    for name, value in metadata.fields.items():
        places = "; ".join(str(place) for place in value.evidence[:2])
        source = f"{value.formula}  ({places})" if value.formula else places
        table.add_row(name.value, one_line(_shown(value.value)), one_line(source[:160]))
    for name, why in metadata.missing.items():
        table.add_row(f"[dim]{name.value}[/dim]", "[dim]–[/dim]", one_line(why.reason))
    console.print(table)
    for note in metadata.report.notes:
        if not note.startswith("not followed: "):
            console.print("[dim]note:[/dim]", one_line(note))
    if metadata.report.stopped_early is not None:
        console.print("[yellow]not read to the end[/yellow]:", one_line(metadata.report.stopped_early))
    for what, count in metadata.report.skipped.items():
        console.print("[dim]left out:[/dim]", one_line(f"{what} ({count})"))
    for each in metadata.disagreements:
        console.print(
            one_line(f"{each.field_name}: {each.kept} ({each.kept_source}) was kept, {each.rejected} was not")
        )
    if advised.evidence:
        console.print()
        console.print(_similar_table(advised))
    console.print()
    _show_estimate(advised, similar)


def _similar_table(advised: AdvisedEstimate) -> Table:
    table = _table("SIMILAR JOB", "SIMILARITY", "RAN", "OUTCOME", "AGE", "GPUS", "SOFTWARE", "USED")
    for item in advised.evidence:
        job = item.job
        table.add_row(
            one_line(job.job_id),
            f"{item.similarity:.3f}",
            seconds(job.duration_s),
            job.outcome.value,
            seconds(item.age.total_seconds()),
            one_line(" × ".join(str(part) for part in (job.gpus, job.gpu_type) if part is not None)),
            one_line(", ".join(f"{name} {version}" for name, version in job.software)),
            f"weight {item.weight:.2f}" if item.unused is None else f"no: {item.unused.value.replace('_', ' ')}",
        )
    return table


def _show_estimate(advised: AdvisedEstimate, similar: SimilarJobs | None) -> None:
    made = advised.estimate
    if made is None:
        reason = "" if advised.fallback is None else advised.fallback.value.replace("_", " ")
        console.print(f"[yellow]no estimate[/yellow] ({reason}):", one_line(advised.detail))
    else:
        within = ""
        if made.low_s is not None and made.high_s is not None and made.coverage_frac is not None:
            within = f", {seconds(made.low_s)} to {seconds(made.high_s)} in {made.coverage_frac:.0%} of cases"
        console.print(f"[bold]estimate[/bold] {seconds(made.duration_s)}{within}:", one_line(advised.detail))
    if len(advised.modes) > 1:
        for mode in advised.modes:
            console.print(f"  {mode.weight_frac:.0%} of the evidence: {seconds(mode.center_s)}")
    if advised.profile is not None:
        util, memory = advised.profile.gpu_util_pct, advised.profile.memory_peak_mib
        parts = [f"GPU {util:.0f} %" if util is not None else "", f"memory {memory:.0f} MiB" if memory else ""]
        console.print("similar jobs used:", ", ".join(part for part in parts if part))
    if similar is not None and similar.reason is not None and advised.estimate is not None:
        console.print("fewer than asked for:", one_line(similar.reason))


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) and math.isfinite(value) else str(value)


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table
