"""How a job enters the state database: checked, once per idempotency key, many in one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlalchemy import select, tuple_

from lucid_pipelines.domain.errors import InputError, StateError
from lucid_pipelines.domain.job import Job, JobSpec
from lucid_pipelines.domain.states import JobState
from lucid_pipelines.store import tables
from lucid_pipelines.store.codec import job_from_row, spec_from_json, spec_to_json
from lucid_pipelines.store.database import Transaction
from lucid_pipelines.store.ids import JobIds
from lucid_pipelines.store.records import EventKind
from lucid_pipelines.store.types import KEY_CHARS

_JOBS = tables.jobs
_MAX_GPUS = 1_000_000
_MAX_COMMAND_BYTES = 1 << 20
_CHUNK = 500
_SEALED_LATER = "snapshot_digest"
_EMPTY: dict[str, Any] = {column.name: None for column in _JOBS.columns}
UserKey = tuple[str, str]


def checked(specs: Iterable[JobSpec]) -> list[JobSpec]:
    """All specs as a list, each checked before any is written. Raises ``InputError``."""
    listed = list(specs)
    for spec in listed:
        _check(spec)
    return listed


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
    found: dict[int, tuple[dict[str, Any], bool]] = {}
    waiting = list(range(len(specs)))
    while waiting:  # once, and again for keys that stand twice in the batch or that a rival took meanwhile
        known = _jobs_by_key(tx, [key for at in waiting if (key := _key(specs[at])) is not None])
        fresh: dict[str, int] = {}
        rows: list[dict[str, Any]] = []
        for at in waiting:
            key = _key(specs[at])
            if key is None or key not in known:
                rows.append(_new_row(specs[at], ids.next(now), now))
                fresh[rows[-1]["job_id"]] = at
            else:
                _refuse_other(known[key], specs[at])
                found[at] = (known[key], False)
        inserted = set(_insert(tx, rows))
        found |= {fresh[row["job_id"]]: (_EMPTY | row, True) for row in rows if row["job_id"] in inserted}
        waiting = [at for at in waiting if at not in found]
    for at in range(len(specs)):
        row, created = found[at]
        if created:
            _tell(tx, row, now, who)
    return [(job_from_row(row), created) for row, created in (found[at] for at in range(len(specs)))]


def differing_fields(first: JobSpec, second: JobSpec) -> list[str]:
    """Names of the fields in which two specs differ; a snapshot that one has not sealed yet is no difference."""
    one, two = asdict(first), asdict(second)
    names = [name for name in one if one[name] != two[name]]
    if _SEALED_LATER in names and (first.snapshot_digest is None or second.snapshot_digest is None):
        names.remove(_SEALED_LATER)
    return names


def _check(spec: JobSpec) -> None:
    for field, value in (("user", spec.user), ("vc", spec.vc), ("name", spec.name)):
        if not value.strip():
            raise InputError(f"a job needs a {field}; got {value!r}")
        if len(value) > KEY_CHARS:
            raise InputError(f"the {field} of a job has at most {KEY_CHARS} characters; got {len(value)}")
    if spec.idempotency_key is not None and not 1 <= len(spec.idempotency_key) <= KEY_CHARS:
        raise InputError(f"an idempotency key has 1 to {KEY_CHARS} characters; got {len(spec.idempotency_key)}")
    if not 1 <= spec.gpus <= _MAX_GPUS:
        raise InputError(f"a job asks for 1 to {_MAX_GPUS} GPUs; got {spec.gpus}")
    if not spec.command:
        raise InputError("a job needs a command, e.g. -- python train.py; got none")
    size = sum(len(word.encode(errors="replace")) for word in spec.command)
    if size > _MAX_COMMAND_BYTES:
        raise InputError(f"a command has at most {_MAX_COMMAND_BYTES} bytes; put it into a file; got {size}")


def _key(spec: JobSpec) -> UserKey | None:
    return None if spec.idempotency_key is None else (spec.user, spec.idempotency_key)


def _jobs_by_key(tx: Transaction, keys: Sequence[UserKey]) -> dict[UserKey, dict[str, Any]]:
    known: dict[UserKey, dict[str, Any]] = {}
    for start in range(0, len(keys), _CHUNK):
        wanted = tuple_(_JOBS.c.user, _JOBS.c.idempotency_key).in_(keys[start : start + _CHUNK])
        for row in tx.execute(select(_JOBS).where(wanted)).mappings():
            known[row["user"], row["idempotency_key"]] = dict(row)
    return known


def _refuse_other(first: dict[str, Any], spec: JobSpec) -> None:
    kept = spec_from_json(first["spec"], first["snapshot_digest"])
    different = differing_fields(kept, spec)
    if different:
        raise StateError(
            f"the idempotency key stands for job {first['job_id']}, which differs in "
            f"{', '.join(different)}; use another key: {spec.idempotency_key!r}"
        )


def _insert(tx: Transaction, rows: list[dict[str, Any]]) -> list[str]:
    """Insert in the order of the keys, so that two rivals wait for each other in one direction only."""
    ordered = sorted(rows, key=lambda row: (row["user"], row["idempotency_key"] or ""))
    return tx.insert_new(_JOBS, ordered)


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


def _tell(tx: Transaction, row: dict[str, Any], now: datetime, who: str | None) -> None:
    author = who or row["user"]
    tx.event(row["job_id"], EventKind.SUBMITTED, None, JobState.SUBMITTED, at=now, who=author, why="submitted")
