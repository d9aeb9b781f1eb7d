"""Between database rows and the words of the domain.

Readers ignore keys they do not know and fill in defaults for missing ones, so that two versions of the
program can share a database during an upgrade.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from datetime import datetime
from typing import Any

from lucid_pipelines.domain.cluster import GpuSample, Placement
from lucid_pipelines.domain.history import HistoryRow
from lucid_pipelines.domain.job import Attempt, Estimate, ExitRecord, Job, JobSpec, Profile
from lucid_pipelines.domain.states import AttemptState, Cause, JobState, Mode, Outcome
from lucid_pipelines.store.records import (
    Action,
    ActionState,
    Event,
    EventKind,
    Exit,
    Intent,
    IntentKind,
    Loan,
    NodeReason,
    Pair,
    PairVerdict,
)

Row = Mapping[Any, Any]
_SPEC_FIELDS = frozenset(field.name for field in fields(JobSpec))
_ESTIMATE_FIELDS = frozenset(field.name for field in fields(Estimate))
_PROFILE_FIELDS = frozenset(field.name for field in fields(Profile))
_EXIT_FIELDS = frozenset(field.name for field in fields(ExitRecord))
_SAMPLE_FIELDS = frozenset(field.name for field in fields(GpuSample))


def spec_to_json(spec: JobSpec) -> dict[str, Any]:
    return asdict(spec)


def spec_from_json(data: Row, snapshot_digest: str | None) -> JobSpec:
    known = {key: value for key, value in data.items() if key in _SPEC_FIELDS}
    known["command"] = tuple(data["command"])
    known["env"] = _pairs(data.get("env"))
    known["labels"] = _pairs(data.get("labels"))
    known["declared_load"] = tuple((str(k), float(v)) for k, v in data.get("declared_load") or ())
    known["snapshot_digest"] = snapshot_digest
    return JobSpec(**known)


def estimate_to_json(estimate: Estimate | None) -> dict[str, Any] | None:
    return None if estimate is None else asdict(estimate)


def estimate_from_json(data: Row | None) -> Estimate | None:
    if data is None:
        return None
    known = {key: value for key, value in data.items() if key in _ESTIMATE_FIELDS}
    known["evidence_job_ids"] = tuple(data.get("evidence_job_ids") or ())
    return Estimate(**known)


def profile_to_json(profile: Profile | None) -> dict[str, Any] | None:
    return None if profile is None else asdict(profile)


def profile_from_json(data: Row | None) -> Profile | None:
    return None if data is None else Profile(**{k: v for k, v in data.items() if k in _PROFILE_FIELDS})


def exit_to_json(record: ExitRecord | None) -> dict[str, Any] | None:
    return None if record is None else asdict(record)


def exit_from_json(data: Row | None) -> ExitRecord | None:
    if data is None:
        return None
    known = {key: value for key, value in data.items() if key in _EXIT_FIELDS}
    known["started_at"] = _moment(data.get("started_at"))
    known["ended_at"] = _moment(data["ended_at"])
    known["profile"] = profile_from_json(data.get("profile"))
    known["declared"] = _pairs(data.get("declared"))
    return ExitRecord(**known)


def sample_to_json(sample: GpuSample) -> dict[str, Any]:
    return asdict(sample)


def sample_from_json(data: Row) -> GpuSample:
    known = {key: value for key, value in data.items() if key in _SAMPLE_FIELDS}
    known["sampled_at"] = _moment(data["sampled_at"])
    known["xid_errors"] = tuple(data.get("xid_errors") or ())
    return GpuSample(**known)


def job_from_row(row: Row) -> Job:
    return Job(
        job_id=row["job_id"],
        spec=spec_from_json(row["spec"], row["snapshot_digest"]),
        state=JobState(row["state"]),
        state_at=row["state_at"],
        submitted_at=row["submitted_at"],
        version=row["version"],
        queued_at=row["queued_at"],
        started_at=row["started_at"],
        ended_at=row["ended_at"],
        outcome=_outcome(row["outcome"]),
        cause=_cause(row["cause"]),
        exit_code=row["exit_code"],
        detail=row["detail"],
        estimate=estimate_from_json(row["estimate"]),
        profile=profile_from_json(row["profile"]),
        attempt_count=row["attempt_count"],
        never_pack=row["never_pack"],
        cancel_requested_at=row["cancel_requested_at"],
        labels=_pairs(row["labels"]),
        ran_s=row["ran_s"],
        restart_count=row["restart_count"],
        avoid_nodes=tuple(row["avoid_nodes"] or ()),
    )


def attempt_from_row(row: Row) -> Attempt:
    return Attempt(
        attempt_id=row["attempt_id"],
        job_id=row["job_id"],
        number=row["number"],
        state=AttemptState(row["state"]),
        placement=Placement.from_json(row["placement"]),
        placed_at=row["placed_at"],
        started_at=row["started_at"],
        ended_at=row["ended_at"],
        outcome=_outcome(row["outcome"]),
        cause=_cause(row["cause"]),
        exit=exit_from_json(row["exit_record"]),
        partner_job_id=row["partner_job_id"],
        log_path=row["log_path"],
        stop_requested_at=row["stop_requested_at"],
        stop_reason=row["stop_reason"],
        stop_requeue=row["stop_requeue"],
        stop_never_pack=row["stop_never_pack"],
        profiling=row["profiling"],
        gpu_sharing=row["gpu_sharing"],
    )


def event_from_row(row: Row) -> Event:
    return Event(
        event_id=row["id"],
        job_id=row["job_id"],
        at=row["at"],
        kind=EventKind(row["kind"]),
        from_state=JobState(row["from_state"]) if row["from_state"] else None,
        to_state=JobState(row["to_state"]),
        who=row["who"],
        why=row["why"],
        evidence=row["evidence"],
        as_of=row["as_of"],
    )


def intent_from_row(row: Row) -> Intent:
    return Intent(
        intent_id=row["id"],
        key=row["key"],
        kind=IntentKind(row["kind"]),
        payload=row["payload"],
        job_id=row["job_id"],
        attempt_id=row["attempt_id"],
        created_at=row["created_at"],
        available_at=row["available_at"],
        tries=row["lock_tries"],
        claimed_by=row["locked_by"],
        claimed_until=row["locked_until"],
        done_at=row["done_at"],
        failed=row["failed"],
        result=row["result"],
        last_error=row["last_error"],
    )


def exit_entry_from_row(row: Row) -> Exit:
    return Exit(
        exit_id=row["id"],
        attempt_id=row["attempt_id"],
        job_id=row["job_id"],
        at=row["at"],
        outcome=Outcome(row["outcome"]),
        cause=_cause(row["cause"]),
        abnormal=row["abnormal"],
        tries=row["lock_tries"],
        handled_at=row["handled_at"],
        result=row["result"],
        last_error=row["last_error"],
    )


def history_from_row(row: Row) -> HistoryRow:
    placement = row["placement"]
    known = {field.name: row[field.name] for field in fields(HistoryRow)}
    known["outcome"] = Outcome(row["outcome"])
    known["cause"] = _cause(row["cause"])
    known["profile"] = profile_from_json(row["profile"])
    known["placement"] = None if placement is None else Placement.from_json(placement)
    return HistoryRow(**known)


def reason_from_row(row: Row) -> NodeReason:
    known = {field.name: row[field.name] for field in fields(NodeReason) if field.name != "reason_id"}
    return NodeReason(reason_id=row["id"], **known)


def action_from_row(row: Row) -> Action:
    known = {field.name: row[field.name] for field in fields(Action) if field.name != "action_id"}
    known["mode"] = Mode(row["mode"])
    known["state"] = ActionState(row["state"])
    return Action(action_id=row["id"], **known)


def pair_from_row(row: Row) -> Pair:
    return Pair(
        pair_id=row["id"],
        first_attempt_id=row["first_attempt_id"],
        later_attempt_id=row["later_attempt_id"],
        placement=Placement.from_json(row["placement"]),
        formed_at=row["formed_at"],
        planned=row["planned"],
        measured=row["measured"],
        verdict=PairVerdict(row["verdict"]),
        verdict_at=row["verdict_at"],
        why=row["why"],
        ended_at=row["ended_at"],
    )


def loan_from_row(row: Row) -> Loan:
    return Loan(
        loan_id=row["id"],
        node=row["node"],
        from_vc=row["from_vc"],
        to_vc=row["to_vc"],
        since=row["since"],
        reasons=row["reasons"],
        returned_at=row["returned_at"],
        return_reasons=row["return_reasons"],
    )


def _pairs(data: Iterable[Iterable[str]] | None) -> tuple[tuple[str, str], ...]:
    return tuple((first, second) for first, second in data or ())


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _outcome(text: str | None) -> Outcome | None:
    return None if text is None else Outcome(text)


def _cause(text: str | None) -> Cause | None:
    return None if text is None else Cause(text)
