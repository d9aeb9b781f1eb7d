"""Options that many commands share, and the client that they open."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lucid_pipelines.client import Client

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]
Home = Annotated[
    Path | None, typer.Option("--home", envvar="LUCID_HOME", help="State folder.", show_default="./.lucid")
]


def open_client(home: Path | None) -> Client:
    """The client of the home folder that the user meant."""
    return Client(home)


def complete_job(incomplete: str) -> list[tuple[str, str]]:
    """Job ids and names for shell completion; nothing when there is no state yet."""
    from lucid_pipelines.settings import load_settings

    settings = load_settings()
    if not (settings.home / "state.db").exists() and settings.state.url is None:
        return []
    with Client(settings=settings) as client:
        jobs = client.jobs(limit=50)
    return [(job.job_id, f"{job.spec.name} ({job.state.value})") for job in jobs if job.job_id.startswith(incomplete)]


JobText = Annotated[
    str,
    typer.Argument(metavar="JOB", help="Job id, its unique beginning, or a unique name.", autocompletion=complete_job),
]
