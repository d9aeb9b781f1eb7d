"""Philly (Microsoft, ATC'19): ``cluster_job_log``, a JSON list of jobs with their attempts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from lucid_pipelines.domain.trace import ClusterSpec
from lucid_pipelines.traces.cells import CellBlock, seconds_of
from lucid_pipelines.traces.clusters import cluster_from_nodes
from lucid_pipelines.traces.contract import Column, Contract, Kind, Reason
from lucid_pipelines.traces.files import TraceFile, open_bytes
from lucid_pipelines.traces.helios_venus import STATES
from lucid_pipelines.traces.json_objects import JsonRow, json_objects
from lucid_pipelines.traces.table import ReadContext, read_states

CONTRACT = Contract(
    format="philly_json",
    title="Philly cluster_job_log",
    source="github.com/msr-fiddle/philly-traces (CC-BY-4.0); Jeon et al., ATC'19",
    columns=(
        Column("jobid", Kind.TEXT, "id"),
        Column("vc", Kind.TEXT, "hashed virtual cluster", nullable=True),
        Column("user", Kind.TEXT, "hashed user", nullable=True),
        Column("status", Kind.TEXT, "Pass, Killed, Failed"),
        Column("submitted_time", Kind.TIME, "submission"),
        Column("attempts", Kind.TEXT, "list of attempts: start_time, end_time, detail (server, GPUs)", nullable=True),
    ),
    clock="local time of the cluster (US Pacific) without an offset",
    invariants=(
        "GPUs = largest number of GPUs over the attempts",
        "run time = sum of end - start over the attempts",
        "queue = first start - submission",
        "jobid is unique",
    ),
    oddities=(
        "a job may have no attempt; it is set aside as never_started",
        "an attempt may lack its start or end (a logging error): it is left out of the sum and counted as a repair",
        "a job whose last attempt has no end was still running at the snapshot; it is set aside as not_ended",
        "attempts of one job may differ in GPUs: the largest counts, and such jobs are counted as a repair",
        "missing times occur as null, as an empty text and as the word None",
        (
            "cluster_machine_list contradicts the jobs: servers listed with 2 GPUs ran 8-GPU jobs (philly-traces#8); "
            "it is not used"
        ),
        "daylight saving ends on 2017-11-05: the hour from 01:00 occurs twice on the local clock",
    ),
)


@dataclass(frozen=True, slots=True)
class _Attempts:
    """What the attempts of a job say, times as texts."""

    starts: list[str]
    ends: list[str]
    gpus: float | None
    count: int
    incomplete: int
    is_open: bool
    differs: bool


@dataclass(frozen=True, slots=True)
class PhillyJsonLoader:
    contract: Contract = CONTRACT
    has_calendar: bool = True

    def read(self, context: ReadContext) -> None:
        """Read the objects one by one, never the whole document.

        Raises:
            InputError: the text is not a list of JSON objects, or is cut off.
        """
        with open_bytes(context.file, context.progress) as source:
            for rows in json_objects(source):
                _take(rows, context)

    def cluster(self, file: TraceFile) -> ClusterSpec | None:
        return cluster_from_nodes(file, "philly_vc_nodes.csv", "philly_vc.csv")


def _take(rows: Sequence[JsonRow], context: ReadContext) -> None:
    block = CellBlock(
        contract=CONTRACT,
        numbers=np.array([row.number for row in rows], dtype=np.int64),
        cells={
            name: cast("Sequence[str]", [row.value.get(name) for row in rows])
            for name in ("jobid", "vc", "user", "status", "submitted_time")
        },
        raw=lambda i: rows[i].text,
        zone=context.zone,
    )
    block.fault(np.array([not row.is_utf8 for row in rows], dtype=bool), Reason.NOT_UTF8)
    attempts = [_attempts(row.value.get("attempts")) for row in rows]
    block.fault(np.array([a is None for a in attempts], dtype=bool), Reason.MALFORMED_ROW)
    known = [a or _NO_ATTEMPT for a in attempts]
    submit = block.time("submitted_time")
    columns = _times(known, block, context)
    block.fault(np.array([a.count == 0 or not a.starts for a in known], dtype=bool), Reason.NEVER_STARTED)
    block.fault(np.array([a.is_open for a in known], dtype=bool), Reason.NOT_ENDED)
    good = block.good
    repairs = context.collector.repairs
    repairs["attempts_without_times_left_out"] += int(
        sum(a.incomplete for a, ok in zip(known, good, strict=True) if ok)
    )
    repairs["attempts_differ_in_gpus"] += int(sum(a.differs for a, ok in zip(known, good, strict=True) if ok))
    context.collector.take(
        block,
        {
            "job_id": block.text("jobid"),
            "user": block.text("user"),
            "vc": block.text("vc"),
            "state": read_states(block, "status", STATES),
            "submit_s": submit,
            "queue_s": columns["start_s"] - submit if submit is not None else None,
            **columns,
        },
    )


def _times(known: Sequence[_Attempts], block: CellBlock, context: ReadContext) -> Mapping[str, Any]:
    owner = np.repeat(np.arange(len(known)), [len(a.starts) for a in known])
    start = seconds_of([text for a in known for text in a.starts], context.zone)
    end = seconds_of([text for a in known for text in a.ends], context.zone)
    bad = np.zeros(len(known), dtype=bool)
    bad[owner[np.isnan(start) | np.isnan(end)]] = True
    block.fault(bad, Reason.BAD_TIME)
    reversed_ = np.zeros(len(known), dtype=bool)
    reversed_[owner[end < start]] = True
    block.fault(reversed_, Reason.END_BEFORE_START)
    first, last = np.full(len(known), np.inf), np.full(len(known), -np.inf)
    np.fmin.at(first, owner, start)
    np.fmax.at(last, owner, end)
    total = np.bincount(owner, np.nan_to_num(end - start), len(known))
    has_any = np.array([bool(a.starts) for a in known], dtype=bool)
    return {
        "gpus": np.array([np.nan if a.gpus is None else a.gpus for a in known], dtype=np.float64),
        "start_s": np.where(has_any, first, np.nan),
        "end_s": np.where(has_any, last, np.nan),
        "duration_s": np.where(has_any, total, np.nan),
        "attempts": np.array([a.count for a in known], dtype=np.float64),
    }


def _attempts(value: object) -> _Attempts | None:
    """Read the list of attempts; ``None`` when it is not of the documented shape."""
    if value is None:
        return _NO_ATTEMPT
    if not isinstance(value, list):
        return None
    rows = cast("list[object]", value)
    if not all(isinstance(row, dict) for row in rows):
        return None
    starts: list[str] = []
    ends: list[str] = []
    sizes: list[int] = []
    incomplete = 0
    is_open = False
    for position, row in enumerate(cast("list[dict[str, object]]", rows)):
        size = _gpu_count(row.get("detail"))
        if size is None:
            return None
        if size:
            sizes.append(size)
        start, end = _time_text(row.get("start_time")), _time_text(row.get("end_time"))
        if start and end:
            starts.append(start)
            ends.append(end)
        else:
            incomplete += 1
            is_open = is_open or (position == len(rows) - 1 and bool(start) and not end)
    return _Attempts(
        starts, ends, float(max(sizes)) if sizes else None, len(rows), incomplete, is_open, len(set(sizes)) > 1
    )


def _gpu_count(detail: object) -> int | None:
    if detail is None:
        return 0
    if not isinstance(detail, list):
        return None
    total = 0
    for server in cast("list[object]", detail):
        gpus = cast("dict[str, object]", server).get("gpus") if isinstance(server, dict) else None
        if not isinstance(gpus, list):
            return None
        total += len(cast("list[object]", gpus))
    return total


def _time_text(value: object) -> str | None:
    return None if value is None or str(value).strip() in ("", "None", "null") else str(value)


_NO_ATTEMPT = _Attempts([], [], None, 0, 0, False, False)
LOADER = PhillyJsonLoader()
