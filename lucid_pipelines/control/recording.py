"""Keep what the policy saw and decided, pass by pass, so that a day can be played again (``replaying``).

One file a UTC day, one JSON object a line. A line with ``policy`` begins a section: the name and settings of the
policy and the whole state. The lines behind it carry what changed, and what was decided. A section whose policy never
decided anything is not written. A last line that is cut short (the process died) is left out when it is read.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lucid_pipelines.control.facts import Facts
from lucid_pipelines.control.live_state import Operation, Verb
from lucid_pipelines.domain.cluster import Gpu, Node, NodeCondition, Placement
from lucid_pipelines.domain.decision import Continue, Decision, Hold, LendNodes, Pack, Resize, Stage, Start, Stop
from lucid_pipelines.domain.job import Estimate, Profile
from lucid_pipelines.domain.view import Forecast, QueuedJob, RunningJob

_log = logging.getLogger(__name__)
Json = dict[str, Any]
_MAX_WAITING_LINES = 2000
"""More than so many passes without a decision are not held back: the section is written."""


class Recorder:
    """Writes one loop's passes. A disk that refuses never stops the loop: it is counted by the caller."""

    def __init__(self, folder: Path, policy: str, settings: Mapping[str, object]) -> None:
        self._folder = folder
        self._head: Json = {"policy": policy, "settings": dict(settings)}
        self._held: list[str] = []
        self._is_open = False
        self._forecast: Forecast | None = None
        self._day = ""

    def note(
        self, now: datetime, operations: Sequence[Operation], forecast: Forecast | None, decisions: Sequence[Decision]
    ) -> bool:
        """Keep one pass. Returns ``False`` when the disk refused; the next section begins anew."""
        day = f"{now.astimezone(UTC):%Y-%m-%d}"
        begins = any(operation.verb is Verb.RESET for operation in operations)
        if begins or day != self._day:
            if not begins:
                return True  # a new day begins with the next section
            self._held, self._is_open, self._day, self._forecast = [], False, day, None
        line: Json = {"at": now.timestamp()}
        if begins:
            line |= self._head
        if operations:
            line["changes"] = [operation_to_json(operation) for operation in operations]
        if begins or forecast is not self._forecast:
            line["forecast"] = None if forecast is None else asdict(forecast)
            self._forecast = forecast
        line["decisions"] = [decision_to_json(d) for d in decisions if not isinstance(d, Hold)]
        self._held.append(json.dumps(line, separators=(",", ":")))
        if not (line["decisions"] or self._is_open or len(self._held) > _MAX_WAITING_LINES):
            return True
        return self._write()

    def _write(self) -> bool:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with (self._folder / f"{self._day}.jsonl").open("a", encoding="utf-8") as file:
                file.write("".join(f"{line}\n" for line in self._held))
        except OSError as error:
            _log.warning("decisions cannot be recorded: %s", error)
            self._day = ""  # what follows would miss this part
            return False
        self._held, self._is_open = [], True
        return True


def operation_to_json(operation: Operation) -> Json:
    row: Json = {"verb": operation.verb.value}
    if operation.queued is not None:
        row["queued"] = queued_to_json(operation.queued)
    elif operation.running is not None:
        row["running"] = running_to_json(operation.running)
    elif operation.facts is not None:
        row["facts"] = facts_to_json(operation.facts)
    else:
        row["job_id"] = operation.job_id
    return row


def operation_from_json(row: Mapping[str, Any]) -> Operation:
    return Operation(
        Verb(row["verb"]),
        row.get("job_id"),
        queued_from_json(row["queued"]) if "queued" in row else None,
        running_from_json(row["running"]) if "running" in row else None,
        facts_from_json(row["facts"]) if "facts" in row else None,
    )


def facts_to_json(facts: Facts) -> Json:
    return {
        "nodes": [
            {
                "name": node.name,
                "vc": node.vc,
                "condition": node.condition.value,
                "gpus": [[gpu.index, gpu.gpu_type, gpu.memory_mib, gpu.is_virtual] for gpu in node.gpus],
            }
            for node in facts.nodes
        ],
        "queued": [queued_to_json(job) for job in facts.queued.values()],
        "running": [running_to_json(job) for job in facts.running.values()],
        "unusable": {node: sorted(indices) for node, indices in facts.unusable.items()},
        "lent": dict(facts.lent),
    }


def facts_from_json(row: Mapping[str, Any]) -> Facts:
    from_row = [queued_from_json(item) for item in row["queued"]]
    running = [running_from_json(item) for item in row["running"]]
    return Facts(
        tuple(_node(item) for item in row["nodes"]),
        {job.job_id: job for job in from_row},
        {job.job.job_id: job for job in running},
        {node: frozenset(indices) for node, indices in row["unusable"].items()},
        row["lent"],
    )


def queued_to_json(job: QueuedJob) -> Json:
    row = {key: value for key, value in job._asdict().items() if value != QueuedJob._field_defaults.get(key, ...)}
    for key in ("estimate", "profile"):
        if key in row:
            row[key] = asdict(row[key])
    return row


def queued_from_json(row: Mapping[str, Any]) -> QueuedJob:
    values = dict(row)
    if "estimate" in values:
        evidence = tuple(values["estimate"].pop("evidence_job_ids", ()))
        values["estimate"] = Estimate(**values["estimate"], evidence_job_ids=evidence)
    if "profile" in values:
        values["profile"] = Profile(**values["profile"])
    if "avoid_nodes" in values:
        values["avoid_nodes"] = tuple(values["avoid_nodes"])
    return QueuedJob(**values)


def running_to_json(running: RunningJob) -> Json:
    return running._asdict() | {
        "job": queued_to_json(running.job),
        "placement": running.placement.to_json(),
        "slots": (),
        "stage": running.stage.value,
    }


def running_from_json(row: Mapping[str, Any]) -> RunningJob:
    values = dict(row)
    values["job"] = queued_from_json(values["job"])
    values["placement"] = Placement.from_json(values["placement"])
    values["slots"] = ()
    values["partners"] = tuple(values["partners"])
    values["stage"] = Stage(values["stage"])
    return RunningJob(**values)


def decision_to_json(decision: Decision) -> Json:
    """A decision and its reasons."""
    row: Json = {"kind": type(decision).__name__.lower()}
    match decision:
        case Start():
            row |= {"job_id": decision.job_id, "placement": decision.placement.to_json(), "stage": decision.stage.value}
        case Pack():
            row |= {"job_id": decision.job_id, "partner_job_id": decision.partner_job_id}
            row |= {"placement": decision.placement.to_json()}
        case Stop():
            row |= {"job_id": decision.job_id, "cause": decision.cause.value, "requeue": decision.requeue}
            row |= {"never_pack": decision.never_pack}
        case LendNodes():
            row |= {"from_vc": decision.from_vc, "to_vc": decision.to_vc, "nodes": list(decision.nodes)}
        case Resize():
            row |= {"job_id": decision.job_id, "placement": decision.placement.to_json()}
        case Continue() | Hold():
            row |= {"job_id": decision.job_id}
    row["reasons"] = [reason.to_json() for reason in decision.reasons]
    return row


def _node(row: Mapping[str, Any]) -> Node:
    gpus = tuple(Gpu(index, None, kind, mib, is_virtual) for index, kind, mib, is_virtual in row["gpus"])
    return Node(row["name"], gpus, row["vc"], NodeCondition(row["condition"]))
