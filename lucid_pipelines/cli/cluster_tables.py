"""Tables of `lucid nodes` and `lucid top`, and the same as rows for ``--json``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from rich.table import Table
from rich.text import Text

from lucid_pipelines.cli.output import job_json, one_line, seconds
from lucid_pipelines.control.picture import Picture
from lucid_pipelines.control.sampling import is_in_use
from lucid_pipelines.control.start_times import StartPrediction
from lucid_pipelines.domain.cluster import Gpu, GpuSample, Node, NodeCondition
from lucid_pipelines.domain.job import Job
from lucid_pipelines.domain.states import JobState


def node_rows(picture: Picture) -> list[dict[str, Any]]:
    """Nodes and GPUs as ``lucid nodes --json`` shows them."""
    return [_node_row(node, picture) for node in picture.inventory.nodes]


def node_table(rows: Sequence[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("NODE", "VC", "CONDITION", "GPU", "TYPE", "UTIL", "MEMORY", "JOBS"):
        table.add_column(name, no_wrap=True, justify="right" if name in ("GPU", "UTIL", "MEMORY") else "left")
    for row in rows:
        vc = row["vc"] if row["lent_by"] is None else f"{row['vc']} (lent by {row['lent_by']})"
        for number, gpu in enumerate(row["gpu_list"]):
            kind = gpu["gpu_type"] or "unknown"
            if gpu["virtual"] and kind != "virtual":
                kind += " (virtual)"
            table.add_row(
                row["node"] if number == 0 else "",
                vc if number == 0 else "",
                Text(row["condition"], style="green" if row["condition"] == "ready" else "red") if number == 0 else "",
                str(gpu["index"]),
                kind,
                "–" if gpu["gpu_util_pct"] is None else f"{gpu['gpu_util_pct']:.0f} %",
                "–" if gpu["memory_used_mib"] is None else f"{gpu['memory_used_mib']:.0f} MiB",
                _who(row, gpu),
            )
    return table


def pair_rows(picture: Picture) -> list[dict[str, Any]]:
    """Pairs as ``lucid top --json`` shows them."""
    return [
        {
            "gpus": pair.placement,
            "first_job_id": pair.first_job_id,
            "later_job_id": pair.later_job_id,
            "together_s": round(pair.together_s, 1),
            "speed_frac": dict(pair.speed_frac),
            "state": pair.state,
            "why": pair.why,
        }
        for pair in picture.pairs
    ]


def pair_table(picture: Picture) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("GPUS", "FIRST", "LATER", "TOGETHER", "SPEED", "STATE", "WHY"):
        table.add_column(name, no_wrap=name != "WHY", justify="right" if name == "TOGETHER" else "left")
    for pair in picture.pairs:
        speeds = [pair.speed_frac.get(job_id) for job_id in (pair.first_job_id, pair.later_job_id)]
        told = " / ".join("–" if speed is None else f"{speed:.0%}" for speed in speeds)
        style = "red" if pair.state == "to be split" else ""
        table.add_row(
            pair.placement,
            pair.first_job_id,
            pair.later_job_id,
            seconds(pair.together_s),
            told,
            Text(pair.state, style=style),
            one_line(pair.why or ""),
        )
    return table


def queue_rows(picture: Picture) -> list[dict[str, Any]]:
    """Waiting jobs in the policy's order, with their predicted starts."""
    rows: list[dict[str, Any]] = []
    for job in in_order(picture):
        start = picture.starts.get(job.job_id, StartPrediction(None))
        times = {"predicted_start_at": start.at, "start_low_at": start.low_at, "start_high_at": start.high_at}
        rows.append({**job_json(job, picture.at), **times})
    return rows


def queue_table(picture: Picture, limit: int) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("JOB", "NAME", "USER", "VC", "GPUS", "WAITS", "STARTS IN", "BETWEEN"):
        table.add_column(name, no_wrap=True, overflow="ellipsis", justify="right" if name == "GPUS" else "left")
    for job in in_order(picture)[:limit]:
        start = picture.starts.get(job.job_id, StartPrediction(None))
        waits = seconds((picture.at - (job.queued_at or job.submitted_at)).total_seconds())
        between = "–"
        if start.low_at is not None and start.high_at is not None:
            between = f"{_in(start.low_at, picture.at)} and {_in(start.high_at, picture.at)}"
        begins = "to be profiled first" if job.state is JobState.PROFILE_QUEUED else _in(start.at, picture.at)
        table.add_row(
            job.job_id,
            one_line(job.spec.name),
            one_line(job.spec.user),
            job.spec.vc,
            str(job.spec.gpus),
            waits,
            begins,
            between,
        )
    return table


def in_order(picture: Picture) -> list[Job]:
    """Every waiting job, those that the policy did not look at last."""
    seen = {job.job_id for job in picture.order}
    return [*picture.order, *(job for job in picture.queue.waiting if job.job_id not in seen)]


def _in(at: datetime | None, now: datetime) -> str:
    return "unknown" if at is None else str(seconds(max(0.0, (at - now).total_seconds())))


def node_notes(rows: Sequence[dict[str, Any]]) -> list[Text]:
    """What is wrong, in a line each: nodes that are not ready, and GPUs that are out of use, with the reasons."""
    notes: list[Text] = []
    for row in rows:
        if row["detail"]:
            notes.append(one_line(f"{row['node']} is {row['condition']}: {row['detail']}"))
        for reason in row["isolated"]:
            part = row["node"] if reason["gpu"] is None else f"GPU {reason['gpu']} of {row['node']}"
            notes.append(one_line(f"{part} is out of use ({reason['owner']}): {reason['reason']}"))
    return notes


def _who(row: dict[str, Any], gpu: dict[str, Any]) -> Text | str:
    is_out = any(reason["gpu"] in (None, gpu["index"]) for reason in row["isolated"])
    if gpu["jobs"]:
        jobs = " + ".join(gpu["jobs"])
        return Text(f"{jobs}, isolated", style="red") if is_out else jobs
    if is_out:
        return Text("isolated", style="red")
    if row["condition"] == NodeCondition.UNOBSERVED.value:
        return Text("unknown", style="red")
    return Text("in use by somebody else", style="red") if gpu["in_use_by_others"] else "free"


def _is_others(node: Node, gpu: Gpu, sample: GpuSample | None) -> bool:
    """Whether somebody else has it: by the word of the cluster's own scheduler, or because it is in use."""
    return gpu.index in node.taken_gpu_indices or (not gpu.is_virtual and is_in_use(sample, gpu.memory_mib))


def _isolated(node: Node, picture: Picture) -> list[dict[str, Any]]:
    """Reasons against GPUs, by our own books and by what the cluster itself sees, as a GPU that is lost."""
    ours = [reason for reason in picture.queue.isolated if reason.node == node.name]
    found = [
        {"gpu": reason.gpu_index, "owner": reason.owner, "reason": reason.reason, "deadline": reason.deadline}
        for reason in ours
    ]
    known = {(reason.gpu_index, reason.owner) for reason in ours}
    found += [
        {"gpu": index, "owner": seen.owner, "reason": seen.reason, "deadline": None}
        for seen in node.isolations
        for index in seen.gpu_indices or (None,)
        if (index, seen.owner) not in known
    ]
    return found


def _node_row(node: Node, picture: Picture) -> dict[str, Any]:
    jobs_on: dict[int, list[str]] = {}
    for item in picture.queue.active:
        for share in item.attempt.placement.shares:
            if share.node == node.name:
                for index in share.gpu_indices:
                    jobs_on.setdefault(index, []).append(item.job.job_id)
    gpus: list[dict[str, Any]] = []
    for gpu in node.gpus:
        sample = picture.samples.get((node.name, gpu.index))
        jobs = jobs_on.get(gpu.index, [])
        gpus.append(
            {
                "index": gpu.index,
                "gpu_type": gpu.gpu_type,
                "virtual": gpu.is_virtual,
                "memory_mib": gpu.memory_mib,
                "jobs": jobs,
                "gpu_util_pct": sample.gpu_util_pct if sample else None,
                "memory_used_mib": sample.memory_used_mib if sample else None,
                "in_use_by_others": not jobs and _is_others(node, gpu, sample),
            }
        )
    lent_by = next((loan.from_vc for loan in picture.loans if loan.node == node.name), None)
    return {
        "node": node.name,
        "vc": node.vc,
        "lent_by": lent_by,
        "condition": node.condition.value,
        "detail": node.detail,
        "gpus": node.gpu_count,
        "gpus_free": sum(1 for gpu in gpus if not gpu["jobs"] and not gpu["in_use_by_others"]),
        "isolated": _isolated(node, picture),
        "gpu_list": gpus,
    }
