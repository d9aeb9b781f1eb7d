"""Jobs on several nodes: what each rank is told, and what all of them together mean for the attempt."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from lucid_pipelines.domain.cluster import Placement
from lucid_pipelines.domain.job import ExitRecord
from lucid_pipelines.ports import Observation, Sight

FIRST_PORT, PORT_COUNT = 20000, 12000


def rank_environment(placement: Placement, rank: int, master_addr: str, attempt_id: str) -> dict[str, str]:
    """What ``torchrun`` and its like ask for; empty on one node, where nothing has to be agreed upon.

    The port is drawn from the attempt's id, so that two jobs on one node rarely meet and a restart of the same
    attempt finds it again.
    """
    if len(placement.shares) == 1:
        return {}
    drawn = int.from_bytes(hashlib.sha256(attempt_id.encode()).digest()[:4], "big")
    return {
        "MASTER_ADDR": master_addr,
        "MASTER_PORT": str(FIRST_PORT + drawn % PORT_COUNT),
        "NNODES": str(len(placement.shares)),
        "NODE_RANK": str(rank),
    }


def failed_rank(parts: Sequence[Observation]) -> int | None:
    """The rank that failed first of those that ended; ``None`` when none did."""
    failed = [
        (part.exit.ended_at, rank)
        for rank, part in enumerate(parts)
        if part.exit is not None and part.exit.reason in ("exited", "spawn_failed") and part.exit.exit_code != 0
    ]
    return min(failed)[1] if failed else None


def together(attempt_id: str, nodes: Sequence[str], parts: Sequence[Observation], now: datetime) -> Observation:
    """One observation for all ranks.

    One part that cannot be seen leaves the whole unobserved; one that vanished makes the whole vanish (the
    fence reaches the others); it has ended when every part has, as the rank that failed first ended.
    """
    if len(parts) == 1:
        return parts[0]
    by_sight: dict[Sight, list[int]] = {}
    for rank, part in enumerate(parts):
        by_sight.setdefault(part.sight, []).append(rank)
    starts = [part.started_at for part in parts if part.started_at is not None]
    started_at = min(starts, default=None)
    for sight in (Sight.UNOBSERVED, Sight.VANISHED):
        if sight in by_sight:
            rank = by_sight[sight][0]
            detail = f"rank {rank} on {nodes[rank]}: {parts[rank].detail}"
            return Observation(attempt_id, sight, now, parts[rank].source, started_at, detail=detail)
    if len(by_sight.get(Sight.EXITED, ())) == len(parts):
        record = _record(nodes, [part.exit for part in parts if part.exit is not None])
        return Observation(
            attempt_id, Sight.EXITED, now, parts[0].source, started_at, record, record.profile, record.detail
        )
    if len(by_sight.get(Sight.NOT_STARTED, ())) == len(parts):
        return replace(parts[0], as_of=now)
    counts: Mapping[str, int] = {sight.value: len(ranks) for sight, ranks in by_sight.items()}
    detail = ", ".join(f"{count} of {len(parts)} ranks {sight}" for sight, count in sorted(counts.items()))
    return Observation(attempt_id, Sight.RUNNING, now, parts[0].source, started_at, detail=detail)


def _record(nodes: Sequence[str], records: Sequence[ExitRecord]) -> ExitRecord:
    """The record of the rank that failed first; else that of one that was fenced or stopped; else rank 0's."""
    failed = [r for r in records if r.reason in ("exited", "spawn_failed") and r.exit_code != 0]
    told = min(failed, key=lambda record: record.ended_at) if failed else None
    told = told or next((r for r in records if r.reason == "fenced"), None)
    told = told or next((r for r in records if r.reason == "stopped"), None) or records[0]
    rank = records.index(told)
    starts = [record.started_at for record in records if record.started_at is not None]
    said = f"rank {rank} on {nodes[rank]}" + (f": {told.detail}" if told.detail else "")
    return replace(
        told,
        started_at=min(starts, default=None),
        ended_at=max(record.ended_at for record in records),
        detail=told.detail if told is records[0] and told.exit_code == 0 else said,
        profile=told.profile or records[0].profile,
        leftover_count=sum(record.leftover_count or 0 for record in records),
    )
