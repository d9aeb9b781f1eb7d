"""``lucid history``: the past jobs that the advisor's estimates rest on."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Annotated

import typer
from rich.table import Table

from lucid_pipelines.advisor.advising import Advisor, vector_space
from lucid_pipelines.advisor.calibration import calibrate as choose_threshold
from lucid_pipelines.advisor.calibration import history_pairs
from lucid_pipelines.advisor.history_file import Refused, read_lines, write_lines
from lucid_pipelines.cli.advise import HISTORY_FILE, has_history, open_site_advisor, site_settings
from lucid_pipelines.cli.exit_statuses import ExitStatus
from lucid_pipelines.cli.options import AsJson, Home, open_client
from lucid_pipelines.cli.output import console, one_line, print_json, seconds
from lucid_pipelines.domain.errors import ExternalError, InputError, NotFoundError, did_you_mean
from lucid_pipelines.domain.similarity import HistoryFilter, PastJob, SimilarJobs
from lucid_pipelines.near_files import near_file
from lucid_pipelines.ports import Embedder, HistoryIndex
from lucid_pipelines.resources.advisors import open_embedder
from lucid_pipelines.resources.history_index import open_index
from lucid_pipelines.settings import load_settings

BATCH = 500
SHOWN_REFUSALS = 5

app = typer.Typer(
    name="history",
    help="Import, export, search and calibrate the history of past jobs.",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
IndexUrl = Annotated[
    str | None,
    typer.Option("--index", envvar="LUCID_HISTORY_INDEX", help="URL of the index.", show_default="history.db at home"),
]


@app.command("import")
def import_(
    files: Annotated[list[Path], typer.Argument(help="JSON lines, one past job each; - reads standard input.")],
    index: IndexUrl = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Add past jobs; those that are there already are replaced. Lines that are no past job are reported."""
    _require(index, home, create=True)
    advisor = open_site_advisor(index, home)
    new, read, refused = 0, 0, list[tuple[str, Refused]]()
    for file in files:
        with _reading(file) as stream:
            batch: list[PastJob] = []
            for found in read_lines(stream):
                if isinstance(found, Refused):
                    refused.append((str(file), found))
                    continue
                batch.append(found)
                read += 1
                if len(batch) == BATCH:
                    new += advisor.learn(batch)
                    batch = []
            new += _learned(advisor, batch)
    if as_json:
        told = [{"file": file, "line": each.line, "why": each.why} for file, each in refused]
        print_json({"read": read, "new": new, "refused": told})
    else:
        console.print(f"{read} past jobs read, {new} of them new, {len(refused)} lines refused")
        for file, each in refused[:SHOWN_REFUSALS]:
            console.print(one_line(f"  {file}:{each.line}: {each.why}"))
    if refused:
        raise typer.Exit(ExitStatus.WRONG_INPUT)


@app.command()
def export(
    out: Annotated[Path | None, typer.Option(help="File to write.", show_default="standard output")] = None,
    index: IndexUrl = None,
    home: Home = None,
) -> None:
    """Write every past job as JSON lines, in the form that `lucid history import` reads."""
    found, _ = _open(index, home)
    lines = write_lines(found.jobs())
    if out is None:
        sys.stdout.writelines(lines)
        return
    part = out.with_name(out.name + ".part")
    try:
        with part.open("w", encoding="utf-8") as stream:
            stream.writelines(lines)
        part.replace(out)
    except OSError as error:
        raise ExternalError(f"the file cannot be written: {out}: {error.strerror}") from error


@app.command()
def search(
    job_id: Annotated[str, typer.Argument(metavar="JOB", help="A past job whose likes are looked for.")],
    k: Annotated[int, typer.Option(min=1, max=1000)] = 10,
    threshold: Annotated[float, typer.Option(min=-1, max=1)] = 0.0,
    any_kind: Annotated[bool, typer.Option("--any", help="Also other tasks, GPU types and counts.")] = False,
    index: IndexUrl = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Show the past jobs that are most like one of them."""
    found, embedder = _open(index, home)
    job = _job(found, job_id, home)
    facets = (None, None, None) if any_kind else (job.task_type, job.gpu_family, job.gpu_count_class)
    where = HistoryFilter(*facets, exclude_job_ids=frozenset({job.job_id}))
    answer = found.search(embedder.embed([job.fingerprint])[0], k, datetime.now(UTC), where, threshold)
    if as_json:
        print_json(_search_json(answer))
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("JOB", "SIMILARITY", "RAN", "OUTCOME", "ENDED"):
        table.add_column(column)
    for match in answer.matches:
        ended = match.job.ended_at.strftime("%Y-%m-%d %H:%M")
        ran, outcome = seconds(match.job.duration_s), match.job.outcome.value
        table.add_row(one_line(match.job.job_id), f"{match.similarity:.3f}", ran, outcome, ended)
    console.print(table)
    if answer.reason is not None:
        console.print(one_line(answer.reason))


@app.command()
def calibrate(
    precision: Annotated[float, typer.Option(help="Share of pairs whose durations must agree.", min=0.5, max=1)] = 0.8,
    limit: Annotated[int, typer.Option(help="Newest jobs to ask for.", min=1)] = 2_000,
    index: IndexUrl = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Find the similarity from which past jobs took about as long (within a factor of two)."""
    found, embedder = _open(index, home)
    chosen = choose_threshold(history_pairs(found, embedder, limit), precision)
    if as_json:
        print_json(
            {
                "embedder": embedder.name,
                "threshold": chosen.threshold,
                "precision_frac": chosen.precision_frac,
                "kept_frac": chosen.kept_frac,
                "pairs": chosen.pairs,
                "reason": chosen.reason,
            }
        )
    elif chosen.threshold is None:
        console.print("[yellow]no threshold[/yellow]:", one_line(chosen.reason or ""))
    else:
        console.print(
            f"{embedder.name}: from {chosen.threshold:.3f} on, {chosen.precision_frac:.0%} of the pairs agree "
            f"({chosen.kept_frac:.0%} of {chosen.pairs} pairs)"
        )
    if chosen.threshold is None:
        raise typer.Exit(ExitStatus.ANSWER_IS_NO)


def _open(index: str | None, home: Path | None) -> tuple[HistoryIndex, Embedder]:
    _require(index, home)
    settings = site_settings(index, home)
    embedder = open_embedder(settings)
    return open_index(settings.history_index_url, vector_space(embedder)), embedder


def _require(index: str | None, home: Path | None, *, create: bool = False) -> None:
    """See that there is an index to ask, or a folder to make one in."""
    if has_history(index, home):
        return
    folder = (home or Path(".lucid")).expanduser().absolute()
    if create:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ExternalError(f"the home folder cannot be made: {folder}: {error.strerror}") from error
        return
    raise NotFoundError(f"there is no history yet; fill it with lucid history import: {folder / HISTORY_FILE}")


def _job(index: HistoryIndex, job_id: str, home: Path | None) -> PastJob:
    names: list[str] = []
    named = _named(job_id, home)
    for job in index.jobs():
        if job.job_id in (job_id, named):
            return job
        names.append(job.job_id)
    raise NotFoundError(f"no such past job{did_you_mean(job_id, names[-10_000:])}: {job_id!r}")


def _named(text: str, home: Path | None) -> str | None:
    """The id of the job of this site that the text names, as in other commands; imported jobs have their id alone."""
    settings = load_settings(home)
    if settings.state.url is None and not (settings.home / "state.db").exists():
        return None
    with open_client(home) as client:
        try:
            return client.job(text).job_id
        except InputError:
            return None


def _learned(advisor: Advisor, batch: list[PastJob]) -> int:
    return advisor.learn(batch) if batch else 0


@contextmanager
def _reading(file: Path) -> Iterator[IO[str]]:
    if str(file) == "-":
        yield sys.stdin
        return
    try:
        stream = file.open(encoding="utf-8", errors="replace")
    except FileNotFoundError as error:
        raise NotFoundError(f"there is no file{near_file(file)}: {file}") from error
    except OSError as error:
        raise InputError(f"the file cannot be read: {file}: {error.strerror}") from error
    with stream:
        yield stream


def _search_json(answer: SimilarJobs) -> dict[str, object]:
    return {
        "matches": [
            {
                "job_id": match.job.job_id,
                "similarity": round(match.similarity, 6),
                "duration_s": match.job.duration_s,
                "outcome": match.job.outcome.value,
                "ended_at": match.job.ended_at,
            }
            for match in answer.matches
        ],
        "total": answer.total_count,
        "eligible": answer.eligible_count,
        "fewer_because": answer.reason,
    }
