"""``lucid diagnose``: find the first true error of a log, and say what failed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from lucid_pipelines.cli.options import AsJson, Home, has_state, open_client
from lucid_pipelines.cli.output import console, errors, one_line, print_json
from lucid_pipelines.domain.errors import NotFoundError
from lucid_pipelines.domain.states import JobState
from lucid_pipelines.failures.diagnosis import Diagnosis, diagnose_log, shipped_tools
from lucid_pipelines.logs import require_log_file
from lucid_pipelines.near_files import near_file

TargetArgument = Annotated[
    list[str],
    typer.Argument(metavar="FILE_OR_JOB...", help="Log files (plain or compressed), or jobs: their newest attempt."),
]


def diagnose(targets: TargetArgument, as_json: AsJson = False, home: Home = None) -> None:
    """Say where a failed run's first true error stands, who is to blame, and what to do."""
    tools = shipped_tools()
    for target in targets:
        log, of_job = _log_of(target, home)
        found = diagnose_log(log, tools)
        if as_json:
            print_json({**found.to_json(), **of_job})
        else:
            _print(found)


def _log_of(target: str, home: Path | None) -> tuple[Path, dict[str, Any]]:
    """The log file that is meant, and of which job's attempt it is, if it is one's."""
    path = Path(target)
    if path.exists() or len(path.parts) > 1:
        require_log_file(path)
        return path, {}
    from lucid_pipelines.control.fetching import local_log
    from lucid_pipelines.settings import load_settings

    if not has_state(load_settings(home)):
        raise NotFoundError(f"there is no file {target!r} here{near_file(path)}, and no state folder to find a job in")
    with open_client(home) as client:
        try:
            job = client.job(target)
        except NotFoundError as error:
            raise NotFoundError(f"there is no file {target!r} here{near_file(path)}, and {error}") from error
        attempt = client.attempt(job.job_id)
        log = local_log(client.system, attempt) if attempt is not None else None
    if attempt is None or log is None or not log.is_file():
        raise NotFoundError(f"the job has no log: {job.job_id} is {job.state.value}")
    if job.state is not JobState.FAILED and job.state is not JobState.LOST:
        errors.print("[yellow]note[/yellow]", one_line(f"{job.job_id} has not failed: it is {job.state.value}"))
    return log, {"job_id": job.job_id, "attempt": attempt.number}


def _print(found: Diagnosis) -> None:
    c = found.classified
    blame = (
        "nothing to blame"
        if c.category is None
        else c.category.value + (f" ({c.component.value})" if c.component else "")
    )
    console.print(
        f"[bold]{escape(found.file)}[/bold]: {found.ending.value}, {blame}, confidence {c.confidence:.2f}",
        highlight=False,
    )
    if found.root_text is not None:
        where = f"line {found.root_line}" if found.root_line is not None else f"byte {found.root_offset}"
        rank = f", rank {found.root_rank}" if found.root_rank is not None else ""
        console.print(f"  first true error: {where}{rank}", highlight=False)
    table = Table("line", "text", "why", box=None, pad_edge=False)
    for row in found.evidence:
        table.add_row(Text(str(row.line or "")), one_line(row.text[:160]), one_line(row.why))
    if found.evidence:
        console.print(table)
    console.print(
        f"  restart: {'sensible' if found.is_restart_advised else 'no'}. {found.advice}", highlight=False, markup=False
    )
