"""The `lucid` command."""

from __future__ import annotations

from typing import Annotated

import typer

from lucid_pipelines import __version__
from lucid_pipelines.cli.lazy import LazyGroup

app = typer.Typer(
    cls=LazyGroup,
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    help="Lucid Pipelines: submit training jobs to a shared GPU cluster that explains itself.",
)


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
