"""`lucid sbatch`: an existing batch script with its ``#SBATCH`` lines, as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from lucid_pipelines.cli.options import AsJson, Home, open_client
from lucid_pipelines.cli.output import errors, one_line, print_json
from lucid_pipelines.cli.submit import submitted_json, tell_submitted, tell_whether_it_waits
from lucid_pipelines.control.batch_scripts import read_batch_script
from lucid_pipelines.control.requests import parse_request


def sbatch(
    script: Annotated[Path, typer.Argument(metavar="SCRIPT", help="Batch script.")],
    arguments: Annotated[list[str] | None, typer.Argument(metavar="[ARGUMENT...]", help="For the script.")] = None,
    gpus: Annotated[int | None, typer.Option("--gpus", "-g", help="Instead of what the script asks for.")] = None,
    vc: Annotated[str | None, typer.Option("--vc", help="Virtual cluster; default: the script's partition.")] = None,
    name: Annotated[str | None, typer.Option("--name", "-n", help="Instead of the script's --job-name.")] = None,
    as_json: AsJson = False,
    home: Home = None,
) -> None:
    """Submit a batch script: its #SBATCH lines say the GPUs, the name and the partition. Slurm need not be there."""
    read = read_batch_script(script, arguments or (), Path.cwd())
    given: dict[str, Any] = {"gpus": gpus, "vc": vc, "name": name}
    values = {**read.values, **{key: value for key, value in given.items() if value is not None}}
    request = parse_request(values, f"the batch script {script}")
    with open_client(home, create=True) as client:
        item = client.submit_requests([request])[0]
        if as_json:
            print_json({**submitted_json(item, item.job), "not_carried_over": list(read.not_carried_over)})
            tell_whether_it_waits(client)
            return
        tell_submitted([item])
        tell_whether_it_waits(client)
        if read.not_carried_over:
            errors.print("[yellow]note[/yellow] these mean nothing here:", one_line(" ".join(read.not_carried_over)))
