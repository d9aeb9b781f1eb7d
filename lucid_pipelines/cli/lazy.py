"""Commands that are imported when they are used: `lucid jobs` must not wait for what `lucid replay` needs."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any, cast

import typer
from typer.core import TyperCommand, TyperGroup

from lucid_pipelines.domain.errors import did_you_mean

JOBS, SERVICE, TOOLS = "Jobs", "Cluster and service", "Tools"
"""Panels of the help, in its order."""


_UsageError: type[Exception] = typer.BadParameter.__bases__[0]
"""What a wrong command line raises. Typer names it nowhere, and has a copy of click of its own or uses click."""


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """Where a command lives. ``attribute`` names a Typer app, or a function that becomes a command.

    Attributes:
        help: what the list of commands says; the first paragraph of the command's own help.
    """

    panel: str
    module: str
    attribute: str
    help: str


def _at(panel: str, place: str, help: str) -> LazyCommand:
    module, _, attribute = place.partition(":")
    return LazyCommand(panel, f"lucid_pipelines.cli.{module}", attribute, help)


COMMANDS: dict[str, LazyCommand] = {
    "submit": _at(
        JOBS, "submit:submit", "Seal the code and submit a job: lucid submit --gpus 2 -- python train.py --epochs 3"
    ),
    "sbatch": _at(
        JOBS,
        "sbatch:sbatch",
        "Submit a batch script: its #SBATCH lines say the GPUs, the name and the partition. Slurm need not be there.",
    ),
    "jobs": _at(JOBS, "jobs:jobs", "List jobs, newest first."),
    "show": _at(
        JOBS,
        "jobs:show",
        "Show one job: its attempts, its progress, and after a failure what went wrong and what is proposed.",
    ),
    "logs": _at(
        JOBS,
        "logs:logs",
        "Print a job's stdout and stderr; bytes that are no UTF-8 are shown as replacement characters on a terminal.",
    ),
    "metrics": _at(
        JOBS,
        "metrics:metrics",
        "Show how a job learns: progress, loss and seconds per step over time, as its log tells them.",
    ),
    "cancel": _at(
        JOBS,
        "jobs:cancel",
        "Cancel a job: at once while it waits; a running one gets TERM, its grace period, then KILL.",
    ),
    "explain": _at(
        JOBS,
        "jobs:explain",
        "Why is my job where it is: state, position, what it waits for, the estimate and what that rests on.",
    ),
    "nodes": _at(SERVICE, "cluster:nodes", "Show every node, its GPUs, and the jobs on them."),
    "top": _at(
        SERVICE,
        "cluster:top",
        "Nodes, GPUs, pairs, profiling pool, queue with predicted starts, refreshed in place; Ctrl-C ends it.",
    ),
    "doctor": _at(
        SERVICE,
        "doctor:doctor",
        "Check the installation and the running service; exit status 9 when something needs attention.",
    ),
    "up": _at(
        SERVICE,
        "service:up",
        "Start the control plane and the Dagster UI; return when the UI answers and the sensors tick.",
    ),
    "down": _at(
        SERVICE,
        "service:down",
        "Stop the control plane and the UI. Training jobs go on and are found again by the next `lucid up`.",
    ),
    "actions": _at(
        SERVICE,
        "actions:app",
        "What automations proposed (restart, pack, lend, …), and a person's yes or no.",
    ),
    "track": _at(TOOLS, "track:track", "Read step, step time and loss out of training logs."),
    "diagnose": _at(TOOLS, "diagnose:diagnose", "Find the first true error of a failed job's log."),
    "advise": _at(TOOLS, "advise:advise", "Say what a job is and how long such jobs ran, from its code."),
    "history": _at(TOOLS, "history:app", "Import, export, search and calibrate past jobs."),
    "replay": _at(TOOLS, "replay:replay", "Replay a trace under several policies."),
    "replay-weeks": _at(TOOLS, "replay_weeks:replay_weeks", "Replay a trace week by week, as a backfill."),
    "models": _at(TOOLS, "models:app", "Train, list, explain, promote and roll back models."),
    "decisions": _at(TOOLS, "decisions:app", "Play a recorded day of scheduling again; how proposals fared."),
    "tune": _at(TOOLS, "tune:tune_command", "Search the policy's settings by replays."),
    "tuner": _at(TOOLS, "tuner:app", "Tuned settings: show, apply, revert."),
    "traces": _at(TOOLS, "traces:app", "Convert, describe and generate job traces."),
}


class HintedCommand(TyperCommand):
    """A command that may take another one, with options of its own: those belong behind ``--``."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        taker = next((str(param.name) for param in self.params if param.nargs == -1 and param.name in _TAKEN), None)
        if taker is None or "--" in args or ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        behind = self._behind(ctx, list(args), taker)
        try:
            rest = super().parse_args(ctx, args)
        except _UsageError as error:
            if hasattr(error, "possibilities"):  # no such option: only that error has similar ones
                told = cast("Any", error)
                told.message += f". Put -- before {_TAKEN[taker]}."
                if behind:
                    told.possibilities = []  # the option stands behind the command: it is hardly a misspelt one
            raise
        if behind and (mine := [word for word in behind if word.startswith("-")]):
            from lucid_pipelines.cli.output import errors, one_line

            text = f"{' '.join(mine)}: taken as lucid's own; to hand it on, put -- before {_TAKEN[taker]}"
            errors.print("[yellow]note[/yellow]", one_line(text))
        return rest

    def _behind(self, ctx: Any, args: list[str], taker: str) -> list[str] | None:
        """The words from the command on; ``None`` when what stands before it is wrong already."""
        parser = self.make_parser(ctx)
        parser.allow_interspersed_args = False
        try:
            return list(parser.parse_args(args)[0].get(taker) or ())
        except _UsageError:
            return None  # the command's own parsing tells what is wrong


_TAKEN = {"command": "the command that starts the job", "arguments": "the arguments of the script"}
"""What may have options of its own, by the name of the parameter that takes it."""


class LazyGroup(TyperGroup):
    """The root command: the help lists ``COMMANDS`` without importing them."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return _placeholder(cmd_name) if cmd_name in COMMANDS else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        try:
            name, command, rest = super().resolve_command(ctx, args)
        except _UsageError as error:
            if type(error) is _UsageError:  # no such command
                told = cast("Any", error)
                told.message = told.message.rstrip(".") + did_you_mean(args[0], COMMANDS) + "."
            raise
        return name, load(name) if name in COMMANDS else command, rest


def load(name: str) -> Any:
    """Import a command and make it a command of that name."""
    lazy = COMMANDS[name]
    found = getattr(import_module(lazy.module), lazy.attribute)
    return _command(name, found if isinstance(found, typer.Typer) else _single(name, found))


def _placeholder(name: str) -> Any:
    def nothing() -> None:
        """Stands for the command in the help only."""

    lazy = COMMANDS[name]
    return _command(name, _single(name, nothing, help=lazy.help, rich_help_panel=lazy.panel))


def _single(name: str, function: Any, **settings: Any) -> typer.Typer:
    single = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    single.command(name, cls=HintedCommand, context_settings={"help_option_names": ["-h", "--help"]}, **settings)(
        function
    )
    return single


def _command(name: str, app: typer.Typer) -> Any:
    command = typer.main.get_command(app)
    command.name = name
    return command
