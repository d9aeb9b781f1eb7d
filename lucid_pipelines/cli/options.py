"""Options that many commands share, and the client that they open.

The client and the settings are loaded where they are used: `lucid track FILE` must not wait for the state database.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lucid_pipelines.domain.errors import NotFoundError

if TYPE_CHECKING:
    from lucid_pipelines.client import Client
    from lucid_pipelines.settings import Settings

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]
Home = Annotated[
    Path | None, typer.Option("--home", envvar="LUCID_HOME", help="State folder.", show_default="./.lucid")
]


def open_client(home: Path | None, *, create: bool = False) -> Client:
    """The client of the home folder that the user meant.

    Args:
        create: make the folder when it is new, for commands that begin something. The others must not: a mistyped
            ``LUCID_HOME`` would answer "no job" and leave a folder behind.

    Raises:
        NotFoundError: there is no such folder, and nothing in the settings says that the state lies elsewhere.
    """
    from lucid_pipelines.client import Client
    from lucid_pipelines.settings import load_settings

    settings = load_settings(home)
    if not create:
        _require_state(settings)
    return Client(settings=settings)


def _require_state(settings: Settings) -> None:
    if not has_state(settings):
        raise NotFoundError(
            "there is no state folder yet; `lucid submit` and `lucid up` make it, and LUCID_HOME or --home name "
            f"another: {settings.home}"
        )


def has_state(settings: Settings) -> bool:
    """Whether there is anything to look at: the home folder, or a state database elsewhere."""
    return settings.state.url is not None or settings.home.is_dir()


def open_looking(home: Path | None) -> tuple[Client, list[str]]:
    """A client that tells what the running service does: with the service's modes in place of this shell's.

    Returns:
        The client, and each mode that this shell's settings have otherwise, in words.

    Raises:
        NotFoundError: as ``open_client``.
    """
    from lucid_pipelines.client import Client
    from lucid_pipelines.service.status import modes_in_force
    from lucid_pipelines.settings import load_settings

    settings = load_settings(home)
    _require_state(settings)
    modes = modes_in_force(settings)
    theirs, mine = dict(modes), dict(settings.modes)
    otherwise = [
        f"{name.replace('_', ' ')} {mine[name].value}, not {mode.value}"
        for name, mode in theirs.items()
        if mode is not mine[name]
    ]
    return Client(settings=settings.model_copy(update={"modes": modes})), otherwise


def complete_job(incomplete: str) -> list[tuple[str, str]]:
    """Job ids and names for shell completion; nothing when there is no state yet."""
    from lucid_pipelines.settings import load_settings

    if not has_state(load_settings()):
        return []
    with open_client(None) as client:
        jobs = client.jobs(limit=50)
    return [(job.job_id, f"{job.spec.name} ({job.state.value})") for job in jobs if job.job_id.startswith(incomplete)]


JobText = Annotated[
    str,
    typer.Argument(metavar="JOB", help="Job id, its unique beginning, or a unique name.", autocompletion=complete_job),
]
