"""Commands that are imported when they are used: `lucid jobs` must not wait for what `lucid replay` needs."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

_PANEL = "Tools"


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """Where a command lives. ``attribute`` names a Typer app, or a function that becomes a command."""

    module: str
    attribute: str
    help: str


TOOLS: dict[str, LazyCommand] = {
    "track": LazyCommand("lucid_pipelines.cli.track", "track", "Read step, step time and loss out of training logs."),
    "diagnose": LazyCommand(
        "lucid_pipelines.cli.diagnose", "diagnose", "Find the first true error of a failed job's log."
    ),
    "advise": LazyCommand(
        "lucid_pipelines.cli.advise", "advise", "Say what a job is and how long such jobs ran, from its code."
    ),
    "history": LazyCommand("lucid_pipelines.cli.history", "app", "Import, export, search and calibrate past jobs."),
    "replay": LazyCommand("lucid_pipelines.cli.replay", "replay", "Replay a trace under several policies."),
    "replay-weeks": LazyCommand(
        "lucid_pipelines.cli.replay_weeks", "replay_weeks", "Replay a trace week by week, as a backfill."
    ),
    "models": LazyCommand("lucid_pipelines.cli.models", "app", "Train, list, explain, promote and roll back models."),
    "decisions": LazyCommand(
        "lucid_pipelines.cli.decisions", "app", "Play a recorded day of scheduling again; how proposals fared."
    ),
    "tune": LazyCommand("lucid_pipelines.cli.tune", "tune_command", "Search the policy's settings by replays."),
    "tuner": LazyCommand("lucid_pipelines.cli.tuner", "app", "Tuned settings: show, apply, revert."),
    "traces": LazyCommand("lucid_pipelines.cli.traces", "app", "Convert, describe and generate job traces."),
}


class LazyGroup(TyperGroup):
    """The root command: its own commands, and those of ``TOOLS``, which the help shows without importing them."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*super().list_commands(ctx), *TOOLS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return super().get_command(ctx, cmd_name) or (_placeholder(cmd_name) if cmd_name in TOOLS else None)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return name, load(name) if name in TOOLS else command, rest


def load(name: str) -> Any:
    """Import a lazy command and make it a command of that name."""
    lazy = TOOLS[name]
    found = getattr(import_module(lazy.module), lazy.attribute)
    return _command(name, found if isinstance(found, typer.Typer) else _single(name, found))


def _placeholder(name: str) -> Any:
    def nothing() -> None:
        """Stands for the command in the help only."""

    return _command(name, _single(name, nothing, help=TOOLS[name].help, rich_help_panel=_PANEL))


def _single(name: str, function: Any, **settings: Any) -> typer.Typer:
    single = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    single.command(name, context_settings={"help_option_names": ["-h", "--help"]}, **settings)(function)
    return single


def _command(name: str, app: typer.Typer) -> Any:
    command = typer.main.get_command(app)
    command.name = name
    return command
