"""``lucid tuner``: which tuned settings are in force; apply them, take them back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from lucid_pipelines.cli.options import AsJson, Home, open_client
from lucid_pipelines.cli.output import console, one_line, print_json
from lucid_pipelines.client import Client
from lucid_pipelines.control import tuned
from lucid_pipelines.control.requests import current_user
from lucid_pipelines.domain.errors import InputError, NotFoundError
from lucid_pipelines.near_files import near_file
from lucid_pipelines.store import Action, ActionState

app = typer.Typer(
    name="tuner",
    help="Tuned settings: show, apply, revert.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
Person = Annotated[str | None, typer.Option("--as", help="Your name.", show_default="the login name")]


@app.command()
def show(as_json: AsJson = False, home: Home = None) -> None:
    """What is in force, who applied it, and what is proposed."""
    with open_client(home) as client:
        store = client.system.store
        present = tuned.applied(store)
        history = store.actions.find(kind=tuned.KIND, limit=20)
    view = {
        "in_force": dict(present.values),
        "action": present.action_id,
        "person": present.person,
        "since": present.at,
        "sweep": present.sweep,
        "changes": [_row(action) for action in history],
    }
    if as_json:
        print_json(view)
        return
    if present.values:
        console.print(f"in force since {present.at:%Y-%m-%d %H:%M} UTC, applied by", one_line(present.person or "–"))
        console.print(_values(present.values))
    else:
        console.print("no tuned settings are in force; the policy's defaults are")
    for action in history:
        if action.state is ActionState.PROPOSED:
            console.print(f"proposed, action {action.action_id}:", one_line(action.why))
            console.print(_values(action.payload["values"]))


@app.command()
def apply(
    number: Annotated[
        int | None, typer.Argument(metavar="[NUMBER]", help="Proposed action; default the newest.")
    ] = None,
    source: Annotated[
        Path | None, typer.Option("--from", help="Report of `lucid tune` (tuned_settings.json) instead.")
    ] = None,
    person: Person = None,
    as_json: AsJson = False,
    home: Home = None,
) -> None:
    """Put tuned settings in force; the next scheduling window uses them."""
    with open_client(home) as client:
        store, now = client.system.store, client.system.clock.now()
        if source is not None and number is not None:
            raise InputError("give the number of a proposal or --from FILE, not both")
        if source is not None:
            number = _propose(client, source).action_id
        if number is None:
            number = tuned.latest_proposal(store).action_id
        action = tuned.apply(store, number, person=person or current_user(), now=now)
    _done(action, as_json=as_json)


@app.command()
def revert(
    why: Annotated[str, typer.Option(help="Why, for the record.")] = "by hand",
    person: Person = None,
    as_json: AsJson = False,
    home: Home = None,
) -> None:
    """Put back what was in force before; again goes one further, to the defaults at last."""
    with open_client(home) as client:
        action = tuned.revert(
            client.system.store, person=person or current_user(), why=why, now=client.system.clock.now()
        )
    _done(action, as_json=as_json)


def _propose(client: Client, path: Path) -> Action:
    if not path.exists():
        raise NotFoundError(f"there is no report of `lucid tune`{near_file(path)}: {path}")
    try:
        report: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"the report cannot be read: {path}: {error}") from error
    if not isinstance(report, dict) or "recommended" not in report or "sweep_id" not in report:
        raise InputError(f"this is no report of `lucid tune`: {path}")
    values = report["recommended"]
    if not isinstance(values, dict):
        raise InputError(f"the report recommends nothing ({report.get('reason', 'no reason given')}): {path}")
    if not all(isinstance(value, int | float) for value in values.values()):
        raise InputError(f"settings are numbers; the report holds others: {path}")
    return tuned.propose(
        client.system.store,
        values,
        policy=client.settings.scheduling.policy,
        why=str(report.get("reason", "")),
        now=client.system.clock.now(),
        sweep=str(report["sweep_id"]),
    )


def _done(action: Action, *, as_json: bool) -> None:
    if as_json:
        print_json(_row(action))
        return
    if action.state is ActionState.FAILED:
        console.print(f"action {action.action_id} was not carried out:", one_line(str(dict(action.result or {}))))
        return
    values = action.payload["values"]
    console.print(f"in force (action {action.action_id}):" if values else "the policy's defaults are in force")
    if values:
        console.print(_values(values))


def _values(values: Mapping[str, Any]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, value in values.items():
        table.add_row(one_line(name), f"{value:g}" if isinstance(value, int | float) else one_line(str(value)))
    return table


def _row(action: Action) -> dict[str, Any]:
    return {
        "action": action.action_id,
        "state": action.state.value,
        "person": action.person,
        "why": action.why,
        "proposed_at": action.proposed_at,
        "executed_at": action.executed_at,
        "values": dict(action.payload["values"]),
        "previous": dict(action.payload["previous"]),
        "sweep": action.payload.get("sweep"),
        "reverts": action.payload.get("reverts"),
    }
