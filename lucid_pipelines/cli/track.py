"""``lucid track``: step, step time, loss and progress out of any training log."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from lucid_pipelines.domain.errors import LucidError
from lucid_pipelines.tracker.tracking import track_file


def track(
    files: Annotated[list[Path], typer.Argument(help="Log files; compressed ones are read as they are.")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line and file, in order.")] = False,
) -> None:
    """Read training logs and report how far the jobs have come."""
    for file in files:
        progress = track_file(file)
        if as_json:
            sys.stdout.write(json.dumps(progress.to_json(str(file))) + "\n")


def main() -> None:
    """Run the command on its own: ``python -m lucid_pipelines.cli.track``."""
    try:
        typer.run(track)
    except LucidError as error:
        sys.stderr.write(f"error: {error}\n")
        raise SystemExit(error.exit_code) from error


if __name__ == "__main__":
    main()
