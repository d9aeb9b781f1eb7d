"""`lucid nodes|top`: the cluster and who is on it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from lucid_pipelines.cli.options import AsJson, Home, open_client
from lucid_pipelines.cli.output import console, facts_table, job_json, job_table, one_line, print_json
from lucid_pipelines.client import Client
from lucid_pipelines.domain.cluster import GpuSample, Node
from lucid_pipelines.domain.errors import ExternalError
from lucid_pipelines.domain.states import JobState
from lucid_pipelines.store import QueueView

_RECENT = 8


def nodes(as_json: AsJson = False, home: Home = None) -> None:
    """Show every node, its GPUs, and the jobs on them."""
    with open_client(home) as client:
        rows = node_rows(client)
    if as_json:
        print_json(rows)
    else:
        console.print(_node_table(rows))


def top(
    once: Annotated[bool, typer.Option("--once", help="Print one picture and end.")] = False,
    every_s: Annotated[float, typer.Option("--every", min=0.2, help="Seconds between pictures.")] = 1.0,
    as_json: AsJson = False,
    home: Home = None,
) -> None:
    """Nodes, GPUs, running and waiting jobs, refreshed in place; Ctrl-C ends it."""
    with open_client(home) as client:
        if as_json:
            print_json(_picture_json(client))
            return
        if once or not console.is_terminal:
            console.print(_picture(client))
            return
        with Live(_picture(client), console=console, auto_refresh=False, screen=True) as live:
            while True:
                time.sleep(every_s)
                live.update(_picture(client), refresh=True)


def node_rows(client: Client) -> list[dict[str, Any]]:
    """Nodes and GPUs as ``lucid nodes --json`` shows them."""
    queue = client.system.store.queue.view()
    inventory = client.system.cluster.inventory()
    samples = {(sample.node, sample.gpu_index): sample for sample in _samples(client)}
    return [_node_row(node, queue, samples) for node in inventory.nodes]


def _samples(client: Client) -> Sequence[GpuSample]:
    try:
        return client.system.cluster.sample()
    except ExternalError:
        return ()  # shown as unknown


def _node_row(node: Node, queue: QueueView, samples: dict[tuple[str, int], GpuSample]) -> dict[str, Any]:
    jobs_on: dict[int, list[str]] = {}
    for item in queue.active:
        for share in item.attempt.placement.shares:
            if share.node == node.name:
                for index in share.gpu_indices:
                    jobs_on.setdefault(index, []).append(item.job.job_id)
    gpus: list[dict[str, Any]] = []
    for gpu in node.gpus:
        sample = samples.get((node.name, gpu.index))
        gpus.append(
            {
                "index": gpu.index,
                "gpu_type": gpu.gpu_type,
                "virtual": gpu.is_virtual,
                "memory_mib": gpu.memory_mib,
                "jobs": jobs_on.get(gpu.index, []),
                "gpu_util_pct": sample.gpu_util_pct if sample else None,
                "memory_used_mib": sample.memory_used_mib if sample else None,
            }
        )
    return {
        "node": node.name,
        "vc": node.vc,
        "condition": node.condition.value,
        "gpus": node.gpu_count,
        "gpus_free": sum(1 for gpu in gpus if not gpu["jobs"]),
        "isolated": [
            {"gpu": reason.gpu_index, "owner": reason.owner, "reason": reason.reason, "deadline": reason.deadline}
            for reason in queue.isolated
            if reason.node == node.name
        ],
        "gpu_list": gpus,
    }


def _node_table(rows: Sequence[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("NODE", "VC", "CONDITION", "GPU", "TYPE", "UTIL", "MEMORY", "JOBS"):
        table.add_column(name, no_wrap=True, justify="right" if name in ("GPU", "UTIL", "MEMORY") else "left")
    for row in rows:
        for number, gpu in enumerate(row["gpu_list"]):
            isolated = any(reason["gpu"] in (None, gpu["index"]) for reason in row["isolated"])
            kind = gpu["gpu_type"] or "unknown"
            if gpu["virtual"] and kind != "virtual":
                kind += " (virtual)"
            table.add_row(
                row["node"] if number == 0 else "",
                row["vc"] if number == 0 else "",
                Text(row["condition"], style="green" if row["condition"] == "ready" else "red") if number == 0 else "",
                str(gpu["index"]),
                kind,
                "–" if gpu["gpu_util_pct"] is None else f"{gpu['gpu_util_pct']:.0f} %",
                "–" if gpu["memory_used_mib"] is None else f"{gpu['memory_used_mib']:.0f} MiB",
                Text("isolated", style="red") if isolated and not gpu["jobs"] else ", ".join(gpu["jobs"]) or "free",
            )
    return table


def _picture_json(client: Client) -> dict[str, Any]:
    now = client.system.clock.now()
    queue = client.system.store.queue.view()
    return {
        "at": now,
        "policy": client.system.policy.name,
        "counts": {state.value: count for state, count in client.system.store.jobs.counts().items() if count},
        "running": [job_json(item.job, now) for item in queue.active],
        "waiting": [job_json(job, now) for job in queue.waiting],
        "nodes": node_rows(client),
    }


def _picture(client: Client) -> Group:
    now = client.system.clock.now()
    queue = client.system.store.queue.view()
    counts = client.system.store.jobs.counts()
    modes = client.settings.modes
    head = facts_table(
        {
            "time": now.astimezone().strftime("%Y-%m-%d %H:%M:%S"),
            "policy": client.system.policy.name,
            "jobs": ", ".join(f"{count} {state.value}" for state, count in counts.items() if count) or "none",
            "modes": f"restart {modes.restart.value}, isolate {modes.isolate.value}",
        }
    )
    recent = client.jobs(states=[state for state in JobState if state.is_terminal], limit=_RECENT)
    parts: list[Any] = [head, "", _node_table(node_rows(client)), ""]
    for title, jobs in (
        ("Running", [item.job for item in queue.active]),
        ("Waiting", list(queue.waiting)),
        ("Ended last", recent),
    ):
        if jobs:
            parts += [one_line(title).append(f" ({len(jobs)})"), job_table(jobs[:20], now), ""]
    return Group(*parts)
