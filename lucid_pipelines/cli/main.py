"""The `lucid` command."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from lucid_pipelines import __version__
from lucid_pipelines.cli import actions, cluster, doctor, jobs, logs, metrics, sbatch, service, submit
from lucid_pipelines.cli.lazy import LazyGroup
from lucid_pipelines.cli.output import errors, one_line
from lucid_pipelines.domain.errors import LucidError

app = typer.Typer(
    cls=LazyGroup,
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    help="Lucid Pipelines: submit training jobs to a shared GPU cluster that explains itself.",
)

JOBS, SERVICE = "Jobs", "Cluster and service"
app.command(rich_help_panel=JOBS)(submit.submit)
app.command(rich_help_panel=JOBS)(sbatch.sbatch)
app.command(rich_help_panel=JOBS)(jobs.jobs)
app.command(rich_help_panel=JOBS)(jobs.show)
app.command(rich_help_panel=JOBS)(logs.logs)
app.command(rich_help_panel=JOBS)(metrics.metrics)
app.command(rich_help_panel=JOBS)(jobs.cancel)
app.command(rich_help_panel=JOBS)(jobs.explain)
app.command(rich_help_panel=SERVICE)(cluster.nodes)
app.command(rich_help_panel=SERVICE)(cluster.top)
app.add_typer(actions.app, rich_help_panel=SERVICE)
app.command(rich_help_panel=SERVICE)(doctor.doctor)
app.command(rich_help_panel=SERVICE)(service.up)
app.command(rich_help_panel=SERVICE)(service.down)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"lucid {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    del version


def main() -> None:
    """Run the command line. Exit status: 0 done, 2 wrong input, 4 not found, 5 wrong state, 6 something outside."""
    try:
        app()
    except LucidError as error:
        errors.print("[bold red]error[/bold red]", one_line(str(error)))
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # `lucid logs JOB | head`: nobody listens any more; keep Python from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)


if __name__ == "__main__":
    main()
