"""Give a job its GPUs: attempt, slots, launch intent and event in one transaction, or nothing at all."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, delete, select, tuple_

from lucid_pipelines.domain.cluster import Placement
from lucid_pipelines.domain.errors import InputError, StateError
from lucid_pipelines.domain.job import Attempt, Estimate
from lucid_pipelines.domain.states import AttemptState, JobState
from lucid_pipelines.store import ids, tables
from lucid_pipelines.store.changing import JobRow, change_job, lock_job, move_job, note
from lucid_pipelines.store.codec import attempt_from_row, estimate_to_json
from lucid_pipelines.store.database import Transaction
from lucid_pipelines.store.estimates import insert_estimate
from lucid_pipelines.store.intents import insert_intent
from lucid_pipelines.store.pairs import insert_pair
from lucid_pipelines.store.records import EventKind, IntentKind
from lucid_pipelines.store.statements import key_values, select_by

_SLOTS = tables.gpu_slots
_ATTEMPTS = tables.attempts
_CONDITIONS = tables.node_conditions
_BOTH = (0, 1)
_MAX_INDEX = 1 << 16
GpuKey = tuple[str, int]
_IN_FORCE = select(_CONDITIONS).where(
    _CONDITIONS.c.lifted_at.is_(None), _CONDITIONS.c.node.in_(bindparam("nodes", expanding=True))
)
_OPEN = (
    select(_ATTEMPTS)
    .where(_ATTEMPTS.c.job_id == bindparam("job_id"), _ATTEMPTS.c.state != AttemptState.ENDED.value)
    .with_for_update()
)
_SECOND_HALF = delete(_SLOTS).where(
    _SLOTS.c.node == bindparam("in_node"),
    _SLOTS.c.gpu_index == bindparam("of_gpu"),
    _SLOTS.c.slot == 1,
    _SLOTS.c.attempt_id == bindparam("of"),
)


def place(
    tx: Transaction,
    job_id: str,
    placement: Placement,
    *,
    partner_job_id: str | None,
    profiling: bool,
    who: str,
    why: str,
    reasons: object,
    now: datetime,
    estimate: Estimate | None,
    expected_version: int | None,
    gpu_sharing: str | None,
) -> Attempt:
    """See ``Attempts.place``."""
    rows = {job: lock_job(tx, job) for job in sorted({job_id, partner_job_id or job_id})}
    row = rows[job_id]
    _check(row, placement, partner_job_id, profiling, expected_version)
    gpus = _gpus(placement)
    _refuse_isolated(tx, placement, gpus)
    number = row["attempt_count"] + 1
    attempt = {
        "attempt_id": ids.attempt_id(job_id, number),
        "job_id": job_id,
        "number": number,
        "state": AttemptState.PLACED.value,
        "placement": placement.to_json(),
        "placed_at": now,
        "partner_job_id": partner_job_id,
        "profiling": profiling,
        "stop_never_pack": False,
        "gpu_sharing": gpu_sharing,
    }
    tx.insert(_ATTEMPTS, attempt)
    if partner_job_id is None:
        _take_slots(tx, attempt["attempt_id"], [(gpu, slot) for gpu in gpus for slot in _BOTH])
    else:
        _share_slots(tx, attempt, rows[partner_job_id], gpus, who=who, now=now, reasons=reasons)
    insert_intent(
        tx,
        key=f"launch:{attempt['attempt_id']}",
        kind=IntentKind.LAUNCH,
        payload={"placement": attempt["placement"], "attempt_number": number, "profiling": profiling},
        job_id=job_id,
        attempt_id=attempt["attempt_id"],
        now=now,
    )
    values: dict[str, Any] = {"attempt_count": number}
    if estimate is not None:
        values["estimate"] = estimate_to_json(estimate)
        insert_estimate(tx, job_id, estimate, now)
    move_job(
        tx,
        row,
        JobState.PROFILING if profiling else JobState.RUNNING,
        who=who,
        why=why,
        now=now,
        kind=EventKind.PLACED,
        evidence={
            "attempt_id": attempt["attempt_id"],
            "placement": attempt["placement"],
            "partner_job_id": partner_job_id,
            "reasons": reasons,
        },
        values=values,
    )
    return attempt_from_row(_EMPTY | attempt)


_EMPTY: dict[str, Any] = {column.name: None for column in _ATTEMPTS.columns}


def _check(
    row: JobRow, placement: Placement, partner: str | None, profiling: bool, expected_version: int | None
) -> None:
    job_id, state = row["job_id"], JobState(row["state"])
    wanted = JobState.PROFILE_QUEUED if profiling else JobState.QUEUED
    if state is not wanted:
        raise StateError(f"only a {wanted} job is placed here; {job_id} is {state}")
    if expected_version is not None and row["version"] != expected_version:
        raise StateError(f"expected version {expected_version}; read the job again: {job_id} has {row['version']}")
    if not placement.shares:
        raise InputError(f"a placement names at least one GPU; got none for {job_id}")
    if partner == job_id:
        raise InputError(f"a job cannot be its own partner: {job_id}")
    if partner is not None and row["never_pack"]:
        raise StateError(f"the job must not share its GPUs (never_pack): {job_id}")


def _gpus(placement: Placement) -> list[GpuKey]:
    gpus = [(share.node, index) for share in placement.shares for index in share.gpu_indices]
    if len(set(gpus)) != len(gpus) or any(not 0 <= index < _MAX_INDEX for _, index in gpus):
        raise InputError(f"a placement names each GPU once, by an index from 0 to {_MAX_INDEX - 1}; got {placement}")
    return sorted(gpus)


def _refuse_isolated(tx: Transaction, placement: Placement, gpus: list[GpuKey]) -> None:
    for reason in tx.execute(_IN_FORCE, {"nodes": placement.node_names}).mappings():
        if reason["gpu_index"] is None or (reason["node"], reason["gpu_index"]) in gpus:
            where = reason["node"] if reason["gpu_index"] is None else f"{reason['node']}[{reason['gpu_index']}]"
            raise StateError(f"the GPUs are isolated ({reason['reason']}, by {reason['owner']}): {where}")


def _take_slots(tx: Transaction, attempt_id: str, wanted: list[tuple[GpuKey, int]]) -> None:
    rows = [
        {"node": node, "gpu_index": index, "slot": slot, "attempt_id": attempt_id} for (node, index), slot in wanted
    ]
    if len(tx.insert_new(_SLOTS, rows)) == len(rows):
        return
    holders = tx.execute(
        select(_SLOTS.c.node, _SLOTS.c.gpu_index, _SLOTS.c.attempt_id).where(
            tuple_(_SLOTS.c.node, _SLOTS.c.gpu_index).in_([gpu for gpu, _ in wanted]),
            _SLOTS.c.attempt_id != attempt_id,
        )
    ).first()
    held = f"{holders.node}[{holders.gpu_index}] by {holders.attempt_id}" if holders else "taken by a rival"
    raise StateError(f"a GPU of the placement is in use: {held}")


def _share_slots(
    tx: Transaction,
    attempt: dict[str, Any],
    partner: JobRow,
    gpus: list[GpuKey],
    *,
    who: str,
    now: datetime,
    reasons: object,
) -> None:
    """Let the partner keep one half of each GPU and take the other half."""
    partner_id = partner["job_id"]
    if partner["never_pack"]:
        raise StateError(f"the partner must not share its GPUs (never_pack): {partner_id}")
    host = tx.execute(_OPEN, {"job_id": partner_id}).mappings().first()
    if host is None:
        raise StateError(f"the partner holds no GPU; it is {partner['state']}: {partner_id}")
    if host["state"] == AttemptState.STOPPING:
        raise StateError(f"the partner is being stopped; nothing is packed beside it: {partner_id}")
    host_id = host["attempt_id"]
    held: dict[GpuKey, list[int]] = {}
    for slot in tx.execute(select_by(_SLOTS, "attempt_id"), key_values({"attempt_id": host_id})).mappings():
        held.setdefault((slot["node"], slot["gpu_index"]), []).append(slot["slot"])
    missing = [f"{node}[{index}]" for node, index in gpus if (node, index) not in held]
    if missing:
        raise StateError(f"the partner {partner_id} does not hold every GPU of the placement: {', '.join(missing)}")
    whole = [gpu for gpu in gpus if len(held[gpu]) == len(_BOTH)]
    if whole:
        tx.execute(_SECOND_HALF, [{"in_node": node, "of_gpu": index, "of": host_id} for node, index in whole])
    for gpu in whole:
        held[gpu].remove(1)
    _take_slots(tx, attempt["attempt_id"], [(gpu, 1 - held[gpu][0]) for gpu in gpus])
    tx.change(_ATTEMPTS, {"partner_job_id": attempt["job_id"]}, attempt_id=host_id)
    insert_pair(tx, host_id, attempt, reasons, now)
    evidence = {"attempt_id": host_id, "partner_job_id": attempt["job_id"], "reasons": reasons}
    note(tx, change_job(tx, partner, {}), EventKind.PAIRED, who=who, why="shares its GPUs", now=now, evidence=evidence)
