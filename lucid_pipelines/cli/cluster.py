"""`lucid nodes|top`: the cluster and who is on it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.live import Live

from lucid_pipelines.cli.cluster_tables import (
    node_notes,
    node_rows,
    node_table,
    pair_rows,
    pair_table,
    queue_rows,
    queue_table,
)
from lucid_pipelines.cli.options import AsJson, Home, open_looking
from lucid_pipelines.cli.output import console, facts_table, job_json, job_table, one_line, print_json, seconds
from lucid_pipelines.client import Client
from lucid_pipelines.control.explaining import packing_mode
from lucid_pipelines.control.picture import Picture, PoolFacts, take_picture
from lucid_pipelines.control.plain_words import tell
from lucid_pipelines.domain.job import Job
from lucid_pipelines.domain.states import JobState

_RECENT = 6
_SHOWN = 20


def nodes(as_json: AsJson = False, home: Home = None) -> None:
    """Show every node, its GPUs, and the jobs on them."""
    client, _ = open_looking(home)
    with client:
        rows = node_rows(take_picture(client.system, with_order=False))
    if as_json:
        print_json(rows)
    else:
        console.print(node_table(rows))
        for note in node_notes(rows):
            console.print(note)


def top(
    once: Annotated[bool, typer.Option("--once", help="Print one picture and end.")] = False,
    every_s: Annotated[float, typer.Option("--every", min=0.2, help="Seconds between pictures.")] = 1.0,
    as_json: AsJson = False,
    home: Home = None,
) -> None:
    """Nodes, GPUs, pairs, profiling pool, queue with predicted starts, refreshed in place; Ctrl-C ends it."""
    client, otherwise = open_looking(home)
    with client:
        if as_json:
            print_json(_as_json(client, otherwise))
            return
        if once or not console.is_terminal:
            console.print(_shown(client, otherwise))
            return
        with Live(_shown(client, otherwise), console=console, auto_refresh=False, screen=True) as live:
            while True:
                time.sleep(every_s)
                live.update(_shown(client, otherwise), refresh=True)


def _as_json(client: Client, otherwise: Sequence[str]) -> dict[str, Any]:
    picture = take_picture(client.system)
    modes = client.system.settings.modes
    return {
        "at": picture.at,
        "policy": client.system.policy.name,
        "modes": {name: mode.value for name, mode in modes},
        "modes_of_this_shell_otherwise": list(otherwise),
        "sharing": {key: value for key, value in picture.sharing.items() if key != "rule"},
        "counts": {state.value: count for state, count in client.system.store.jobs.counts().items() if count},
        "running": [job_json(item.job, picture.at) for item in picture.queue.active],
        "waiting": queue_rows(picture),
        "pairs": pair_rows(picture),
        "profiling_pool": None if picture.pool is None else _pool_json(picture.pool),
        "lent": [
            {"node": loan.node, "from": loan.from_vc, "to": loan.to_vc, "since": loan.since} for loan in picture.loans
        ],
        "nodes": node_rows(picture),
    }


def _pool_json(pool: PoolFacts) -> dict[str, Any]:
    return {
        "nodes": list(pool.nodes),
        "gpus": pool.gpus,
        "gpus_busy": pool.gpus_busy,
        "waiting": pool.waiting,
        "profiling": pool.profiling,
        "window_s": pool.window_s,
        "max_gpus": pool.max_gpus,
    }


def _shown(client: Client, otherwise: Sequence[str]) -> Group:
    picture = take_picture(client.system)
    counts = client.system.store.jobs.counts()
    head = facts_table(
        {
            "time": picture.at.astimezone().strftime("%Y-%m-%d %H:%M:%S"),
            "policy": client.system.policy.name,
            "jobs": ", ".join(f"{count} {state.value}" for state, count in counts.items() if count) or "none",
            "modes": ", ".join(f"{name.replace('_', ' ')} {mode.value}" for name, mode in client.system.settings.modes),
            "by this shell": "; ".join(otherwise) or None,
            "sharing": f"{tell(picture.sharing)[1]}; {tell(packing_mode(client.system))[1]}",
            "profiling": _pool_text(picture.pool),
            "lent": ", ".join(f"{loan.node} by {loan.from_vc} to {loan.to_vc}" for loan in picture.loans) or None,
        }
    )
    recent = client.jobs(states=[state for state in JobState if state.is_terminal], limit=_RECENT)
    rows = node_rows(picture)
    parts: list[Any] = [head, "", node_table(rows), *node_notes(rows), ""]
    if picture.pairs:
        parts += [one_line("Pairs").append(f" ({len(picture.pairs)})"), pair_table(picture), ""]
    parts += _jobs("Running", [item.job for item in picture.queue.active], picture)
    if picture.queue.waiting:
        parts += [one_line("Waiting").append(f" ({len(picture.queue.waiting)})"), queue_table(picture, _SHOWN), ""]
    parts += _jobs("Ended last", recent, picture)
    return Group(*parts)


def _jobs(title: str, jobs: Sequence[Job], picture: Picture) -> list[Any]:
    if not jobs:
        return []
    return [one_line(title).append(f" ({len(jobs)})"), job_table(jobs[:_SHOWN], picture.at), ""]


def _pool_text(pool: PoolFacts | None) -> str:
    if pool is None:
        return "no nodes of its own; jobs are looked at while they run"
    where = f"{pool.gpus_busy} of {pool.gpus} GPUs of {', '.join(pool.nodes)} in use"
    return f"{where}; {pool.waiting} wait; jobs of up to {pool.max_gpus} GPUs, for at most {seconds(pool.window_s)}"
