"""How a job enters the state database: checked, once per idempotency key, many in one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlalchemy import select

from lucid_pipelines.domain.errors import InputError, StateError
from lucid_pipelines.domain.job import Job, JobSpec
from lucid_pipelines.domain.states import JobState
from lucid_pipelines.store import tables
from lucid_pipelines.store.codec import job_from_row, spec_from_json, spec_to_json
from lucid_pipelines.store.database import Transaction
from lucid_pipelines.store.ids import JobIds
from lucid_pipelines.store.records import EventKind

_JOBS = tables.jobs
_MAX_NAME_CHARS = 255
_MAX_GPUS = 1_000_000
_MAX_COMMAND_BYTES = 1 << 20
_SEALED_LATER = "snapshot_digest"


def check_spec(spec: JobSpec) -> None:
    """Raise ``InputError`` for a spec that the database must not hold."""
    for field, value in (("user", spec.user), ("vc", spec.vc), ("name", spec.name)):
        if not value.strip():
            raise InputError(f"a job needs a {field}; got {value!r}")
    for field, value in (
        ("user", spec.user),
        ("vc", spec.vc),
        ("name", spec.name),
        ("idempotency_key", spec.idempotency_key or ""),
    ):
        if len(value) > _MAX_NAME_CHARS:
            raise InputError(f"the {field} has at most {_MAX_NAME_CHARS} characters; got {len(value)}")
    if not 1 <= spec.gpus <= _MAX_GPUS:
        raise InputError(f"a job asks for 1 to {_MAX_GPUS} GPUs; got {spec.gpus}")
    if not spec.command:
        raise InputError("a job needs a command, e.g. -- python train.py; got none")
    size = sum(len(word.encode(errors="replace")) for word in spec.command)
    if size > _MAX_COMMAND_BYTES:
        raise InputError(f"the command is longer than {_MAX_COMMAND_BYTES} bytes; put it into a file; got {size}")


def insert_jobs(
    tx: Transaction, specs: Sequence[JobSpec], ids: JobIds, *, now: datetime, who: str | None
) -> list[tuple[Job, bool]]:
    """Insert every spec, or find the job that its key already stands for.

    Returns:
        For each spec, in order, the job and whether this call created it.

    Raises:
        StateError: a key stands for another spec; the message names the fields that differ. Nothing of the
            batch is kept.
    """
    return [_insert_one(tx, spec, ids, now=now, who=who or spec.user) for spec in specs]


def differing_fields(first: JobSpec, second: JobSpec) -> list[str]:
    """Names of the fields in which two specs differ; a snapshot that one has not sealed yet is no difference."""
    one, two = asdict(first), asdict(second)
    names = [name for name in one if one[name] != two[name]]
    if _SEALED_LATER in names and (first.snapshot_digest is None or second.snapshot_digest is None):
        names.remove(_SEALED_LATER)
    return names


def _insert_one(tx: Transaction, spec: JobSpec, ids: JobIds, *, now: datetime, who: str) -> tuple[Job, bool]:
    existing = _with_key(tx, spec)
    while existing is None:
        row = _new_row(spec, ids.next(now), now)
        if tx.insert_or_ignore(_JOBS, row) == 1:
            tx.event(row["job_id"], EventKind.SUBMITTED, None, JobState.SUBMITTED, at=now, who=who, why="submitted")
            return job_from_row(_DEFAULTS | row), True
        existing = _with_key(tx, spec)  # a rival took the key, or (None) another job has the id: draw again
    kept = spec_from_json(existing["spec"], existing["snapshot_digest"])
    different = differing_fields(kept, spec)
    if different:
        raise StateError(
            f"the idempotency key stands for job {existing['job_id']}, which differs in "
            f"{', '.join(different)}; use another key: {spec.idempotency_key!r}"
        )
    return job_from_row(existing), False


def _with_key(tx: Transaction, spec: JobSpec) -> dict[str, Any] | None:
    if spec.idempotency_key is None:
        return None
    same = (_JOBS.c.user == spec.user) & (_JOBS.c.idempotency_key == spec.idempotency_key)
    row = tx.execute(select(_JOBS).where(same)).mappings().first()
    return None if row is None else dict(row)


_DEFAULTS: dict[str, Any] = {column.name: None for column in _JOBS.columns}


def _new_row(spec: JobSpec, job_id: str, now: datetime) -> dict[str, Any]:
    return {
        "job_id": job_id,
        "user": spec.user,
        "vc": spec.vc,
        "name": spec.name,
        "gpus": spec.gpus,
        "idempotency_key": spec.idempotency_key,
        "spec": spec_to_json(spec),
        "snapshot_digest": spec.snapshot_digest,
        "state": JobState.SUBMITTED.value,
        "state_at": now,
        "submitted_at": now,
        "version": 1,
        "labels": [list(pair) for pair in spec.labels],
        "attempt_count": 0,
        "restart_count": 0,
        "ran_s": 0.0,
        "never_pack": False,
        "lock_tries": 0,
    }


def checked(specs: Iterable[JobSpec]) -> list[JobSpec]:
    """All specs as a list, each checked before any is written."""
    listed = list(specs)
    for spec in listed:
        check_spec(spec)
    return listed
