"""The `lucid` command."""

from __future__ import annotations

from typing import Annotated

import typer

from lucid_pipelines import __version__
from lucid_pipelines.cli import actions, cluster, doctor, jobs, logs, metrics, sbatch, service, submit
from lucid_pipelines.cli.lazy import LazyGroup

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
