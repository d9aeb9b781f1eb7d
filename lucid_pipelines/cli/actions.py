"""`lucid actions`: what automations proposed, and a person's yes or no."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any

import typer
from rich.table import Table

from lucid_pipelines.cli.options import AsJson, Home, open_client, open_looking
from lucid_pipelines.cli.output import console, one_line, print_json
from lucid_pipelines.control.requests import current_user
from lucid_pipelines.domain.errors import InputError, did_you_mean
from lucid_pipelines.store import Action, ActionState

app = typer.Typer(
    name="actions",
    help="What automations proposed (restart, pack, lend, …), and a person's yes or no.",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Number = Annotated[int, typer.Argument(metavar="NUMBER", help="Number of the action, from `lucid actions list`.")]
Person = Annotated[str | None, typer.Option("--as", help="Your name.", show_default="the login name")]


@app.command("list")
def list_actions(
    state: Annotated[list[str] | None, typer.Option("--state", "-s", help="Only these states.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1)] = 100,
    as_json: AsJson = False,
    home: Home = None,
) -> None:
    """List actions, newest first."""
    from lucid_pipelines.control import approvals  # with the models; `lucid show` needs this file without them

    states = _states(state)
    with open_client(home) as client:
        found = client.system.store.actions.find(states=states, limit=limit)
        over = {action.action_id: why for action in found if (why := approvals.why_over(client.system, action))}
    if as_json:
        print_json([action_json(action) | {"over": over.get(action.action_id)} for action in found])
    elif found:
        console.print(action_table(found, over))
    else:
        console.print("No action was proposed.")


@app.command()
def approve(number: Number, person: Person = None, as_json: AsJson = False, home: Home = None) -> None:
    """Say yes: the action is carried out when its time has come."""
    _decide(number, person, as_json, home, yes=True)


@app.command()
def reject(number: Number, person: Person = None, as_json: AsJson = False, home: Home = None) -> None:
    """Say no: the action is never carried out."""
    _decide(number, person, as_json, home, yes=False)


def _decide(number: int, person: str | None, as_json: bool, home: Any, *, yes: bool) -> None:
    from lucid_pipelines.control import approvals

    client, _ = open_looking(home)
    with client:
        name = current_user() if person is None else person
        action = approvals.decide(client.system, number, approve=yes, person=name)
    if as_json:
        print_json(action_json(action))
    else:
        console.print(f"action {action.action_id} ({action.kind} {action.target}) is {action.state.value}")


def _states(texts: list[str] | None) -> list[ActionState] | None:
    if not texts:
        return None
    known = [state.value for state in ActionState]
    for text in texts:
        if text not in known:
            raise InputError(f"states are {', '.join(known)}{did_you_mean(text, known)}; not {text!r}")
    return [ActionState(text) for text in texts]


def action_json(action: Action) -> dict[str, Any]:
    """One action as ``--json`` shows it."""
    return {
        "action": action.action_id,
        "kind": action.kind,
        "target": action.target,
        "mode": action.mode.value,
        "state": action.state.value,
        "why": action.why,
        "person": action.person,
        "proposed_at": action.proposed_at,
        "decided_at": action.decided_at,
        "executed_at": action.executed_at,
        "payload": dict(action.payload),
        "result": dict(action.result) if action.result else None,
    }


def action_table(found: Sequence[Action], over: Mapping[int, str] = MappingProxyType({})) -> Table:
    """Actions as rows.

    Args:
        over: why those that nobody need decide any more have come to nothing, by number.
    """
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("ACTION", "KIND", "TARGET", "MODE", "STATE", "PERSON", "WHY"):
        table.add_column(name, overflow="fold")
    for action in found:
        table.add_row(
            str(action.action_id),
            action.kind,
            one_line(action.target),
            action.mode.value,
            f"{action.state.value}, over" if action.action_id in over else action.state.value,
            one_line(action.person or "–"),
            one_line(action.why),
        )
    return table
