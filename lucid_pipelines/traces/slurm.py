"""Slurm accounting: the output of ``sacct --parsable2`` (or ``--parsable``) with its header line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.domain.trace import ClusterSpec, TraceState
from lucid_pipelines.traces.cells import CellBlock
from lucid_pipelines.traces.contract import Column, Contract, Kind, Reason
from lucid_pipelines.traces.files import TraceFile, open_bytes
from lucid_pipelines.traces.frames import Floats, Objects, by_group, column, is_none, rows
from lucid_pipelines.traces.lines import line_blocks, read_header
from lucid_pipelines.traces.slurm_records import JOB_ID, SlurmRecords, separator_of
from lucid_pipelines.traces.slurm_units import elapsed_s, gpus_of, scaled_number
from lucid_pipelines.traces.table import ReadContext, block_of, durations

_ENDED: Mapping[str, TraceState] = {
    "COMPLETED": TraceState.COMPLETED,
    "FAILED": TraceState.FAILED,
    "TIMEOUT": TraceState.FAILED,
    "NODE_FAIL": TraceState.FAILED,
    "OUT_OF_MEMORY": TraceState.FAILED,
    "BOOT_FAIL": TraceState.FAILED,
    "DEADLINE": TraceState.FAILED,
    "CANCELLED": TraceState.CANCELLED,
    "PREEMPTED": TraceState.CANCELLED,
    "REVOKED": TraceState.CANCELLED,
    "REQUEUED": TraceState.CANCELLED,
}
_OPEN = ("RUNNING", "PENDING", "SUSPENDED", "RESIZING", "COMPLETING", "CONFIGURING", "REQUEUE_HOLD", "STOPPED")
_SHORT = (
    {"CD": "COMPLETED", "F": "FAILED", "TO": "TIMEOUT", "NF": "NODE_FAIL", "OOM": "OUT_OF_MEMORY"}
    | {"BF": "BOOT_FAIL", "DL": "DEADLINE", "CA": "CANCELLED", "PR": "PREEMPTED", "RV": "REVOKED", "RQ": "REQUEUED"}
    | {"R": "RUNNING", "PD": "PENDING", "S": "SUSPENDED", "CG": "COMPLETING", "CF": "CONFIGURING"}
)
_REPEATED = frozenset({"PREEMPTED", "NODE_FAIL", "REQUEUED", "BOOT_FAIL", "CANCELLED", "FAILED", "TIMEOUT"})

CONTRACT = Contract(
    format="slurm",
    title="Slurm sacct --parsable2",
    source="sacct -a --parsable2 --starttime … --format=JobID,User,Partition,JobName,State,Submit,Start,End,ElapsedRaw,"
    "AllocTRES,ReqTRES,AllocCPUS,NNodes",
    columns=(
        Column("JobID", Kind.TEXT, "job; 12_3 is an array task, 12+1 a component, 12.batch a step"),
        Column("User", Kind.TEXT, "user", required=False, aliases=("UID",)),
        Column("Partition", Kind.TEXT, "taken as the virtual cluster", required=False, aliases=("Account",)),
        Column("JobName", Kind.TEXT, "name", required=False),
        Column("State", Kind.TEXT, "final state"),
        Column("Submit", Kind.TIME, "submission"),
        Column("Start", Kind.TIME, "start; Unknown or None before it", nullable=True),
        Column("End", Kind.TIME, "end; Unknown while it runs", nullable=True),
        Column("ElapsedRaw", Kind.NUMBER, "run time", "s", required=False),
        Column("Elapsed", Kind.TEXT, "run time as [days-]hours:minutes:seconds", required=False),
        Column("AllocTRES", Kind.TEXT, "resources held, e.g. cpu=8,gres/gpu=2", required=False),
        Column("ReqTRES", Kind.TEXT, "resources asked for", required=False),
        Column("AllocGRES", Kind.TEXT, "GPUs per node (before Slurm 20.11)", required=False),
        Column("ReqGRES", Kind.TEXT, "GPUs per node (before Slurm 20.11)", required=False),
        Column("AllocCPUS", Kind.TEXT, "CPUs, with a unit suffix on large jobs", required=False, aliases=("NCPUS",)),
        Column("NNodes", Kind.TEXT, "nodes", required=False, aliases=("AllocNodes",)),
        Column("Restarts", Kind.NUMBER, "how often the job was requeued", required=False),
    ),
    clock="local time of the cluster without an offset, unless SLURM_TIME_FORMAT says otherwise",
    invariants=("submit <= start <= end", "elapsed = end - start - time suspended", "JobID is unique but for requeues"),
    oddities=(
        "a record may break over lines (job names, SubmitLine and comments may hold line ends); lines are rejoined",
        (
            "a job name may hold the separator; the surplus is joined where id and times then make sense, else the "
            "record goes to quarantine"
        ),
        "steps (12.batch, 12.extern, 12.0) are part of their job and are counted as merged",
        "with --duplicates a requeued job has one record per attempt: they become one job with its attempts",
        "components of a heterogeneous job (12+0, 12+1) become one job with the sum of their GPUs",
        "states come with a suffix (CANCELLED by 1001) or cut off (OUT_OF_ME+)",
        "times that do not exist yet read Unknown or None; large numbers carry K, M, G",
        "a pending array (12_[5-9]) is one record; it is set aside as not_ended",
        "CPU jobs are set aside as no_gpu",
    ),
    separator="|",
)


@dataclass(frozen=True, slots=True)
class SlurmLoader:
    contract: Contract = CONTRACT
    has_calendar: bool = True

    def read(self, context: ReadContext) -> None:
        """Read records, drop steps, merge attempts and components.

        Raises:
            InputError: the file is empty, damaged, or lacks a required column or any column with GPUs.
        """
        parts: list[pd.DataFrame] = []
        with open_bytes(context.file, context.progress) as source:
            line, blocks = read_header(line_blocks(source), context.file.label)
            separator = separator_of(line)
            names = [name.strip() for name in line.split(separator)]
            positions = CONTRACT.require(names, context.file.label)
            if not {"AllocTRES", "ReqTRES", "AllocGRES", "ReqGRES"} & set(positions):
                raise InputError(
                    "sacct output needs a column that counts GPUs: add AllocTRES or ReqTRES to --format; "
                    f"its columns are {', '.join(names)}"
                )
            reader = SlurmRecords([name.lower() for name in names], separator, line)
            for block in reader.blocks(blocks):
                context.collector.reject_all(block.rejected)
                if block.rows:
                    parts.append(_frame(block_of(block, CONTRACT, positions, context.zone), context))
            context.collector.repairs.update(reader.repairs)
        if context.collector.rows_read == 0:
            raise InputError(f"the trace file has no rows below its header: {context.file.label}")
        if parts:
            _merge(pd.concat(parts, ignore_index=True), context)

    def cluster(self, file: TraceFile) -> ClusterSpec | None:
        del file  # sacct says nothing about nodes; scontrol or sinfo would
        return None


def _frame(block: CellBlock, context: ReadContext) -> pd.DataFrame:
    """One row per job record; steps are counted and left out, faults are noted on the row."""
    context.collector.rows_read += len(block)
    ids = block.text("JobID")
    assert ids is not None
    is_step = np.array([text is not None and "." in text for text in ids], dtype=bool)
    block.fault(np.array([not JOB_ID.fullmatch(text or "") for text in ids], dtype=bool), Reason.MALFORMED_ROW)
    context.collector.merged["job_steps"] += int(is_step.sum())
    word = _state_words(block)
    submit, start, end = _times(block, "Submit"), _times(block, "Start"), _times(block, "End")
    is_open = np.isin(word.astype(str), _OPEN)
    block.fault(is_open, Reason.NOT_ENDED)
    block.fault(~is_open & ~np.isin(word.astype(str), list(_ENDED)), Reason.UNKNOWN_STATE)
    block.fault(np.isnan(start), Reason.NEVER_STARTED)
    block.fault(np.isnan(end), Reason.NOT_ENDED)
    gpus, gpu_type = _gpus(block)
    frame = pd.DataFrame(
        {
            "job_id": ids,
            "user": _default(block.text("User"), len(block)),
            "vc": _default(block.text("Partition"), len(block)),
            "name": _default(block.text("JobName"), len(block)),
            "word": word,
            "submit_s": submit,
            "start_s": start,
            "end_s": end,
            "duration_s": durations(block, context, _recorded_elapsed(block), start, end),
            "gpus": gpus,
            "gpu_type": gpu_type,
            "cpus": _scaled(block.text("AllocCPUS"), len(block)),
            "restarts": _or_nan(block.number("Restarts"), len(block)),
            "row": block.numbers,
            "reason": block.reasons,
            "raw": [None if ok else block.raw(i) for i, ok in enumerate(block.good)],
        }
    )
    return rows(frame, ~is_step)


def _merge(records: pd.DataFrame, context: ReadContext) -> None:
    """Attempts of one id become one job, then components of a heterogeneous job."""
    faulty = records["reason"].notna()
    later = _requeues(rows(records, ~faulty))
    records["base"] = records["job_id"].str.replace(r"\+\d+$", "", regex=True)
    attempts = records.loc[later.index]
    context.collector.merged["attempts_of_a_requeued_job"] += len(attempts)
    records = records.drop(index=attempts.index)
    records["attempts"] = records["restarts"] + 1.0
    if len(attempts):
        earlier = attempts.groupby("job_id").agg(
            n=("row", "size"), work=("duration_s", "sum"), first=("submit_s", "min"), start=("start_s", "min")
        )
        joined = earlier.reindex(records["job_id"])
        has = joined["n"].notna().to_numpy() & records["reason"].isna().to_numpy()
        records.loc[has, "attempts"] = joined["n"].to_numpy()[has] + 1
        records.loc[has, "duration_s"] += joined["work"].to_numpy()[has]
        records.loc[has, "submit_s"] = np.fmin(records["submit_s"].to_numpy(), joined["first"].to_numpy())[has]
        records.loc[has, "start_s"] = np.fmin(records["start_s"].to_numpy(), joined["start"].to_numpy())[has]
    is_component = (records["base"] != records["job_id"]) & records["reason"].isna()
    if bool(is_component.any()):
        first = ~records["base"].where(is_component).duplicated()
        keep, components = is_component & first, rows(records, is_component)
        for name in ("gpus", "cpus"):
            totals = by_group(column(components, name), column(components, "base"), "sum")
            records.loc[keep, name] = totals.reindex(records.loc[keep, "base"]).to_numpy()
        records.loc[keep, "job_id"] = records.loc[keep, "base"]
        context.collector.merged["components_of_a_job"] += int((is_component & ~first).to_numpy().sum())
        records = rows(records, ~(is_component & ~first))
    _take(records.reset_index(drop=True), context)


def _requeues(records: pd.DataFrame) -> pd.DataFrame:
    """Records that a later record of the same job and submitter follows without overlap."""
    order = records.sort_values(["job_id", "start_s", "row"], kind="stable")
    same = (order["job_id"] == order["job_id"].shift(-1)) & (order["user"] == order["user"].shift(-1))
    follows = order["start_s"].shift(-1) >= order["end_s"]
    return rows(order, same & follows & column(order, "word").isin(list(_REPEATED)))


def _take(records: pd.DataFrame, context: ReadContext) -> None:
    raws, ids = records["raw"].tolist(), records["job_id"].tolist()
    numbers = records["row"].to_numpy(np.int64)
    # Texts of sound records are not kept until here; a repeated id is named instead.
    block = CellBlock(CONTRACT, numbers, {}, lambda i: _raw_text(raws[i], ids[i]), context.zone)
    block.reasons[:] = [Reason(word) if isinstance(word, str) else None for word in records["reason"]]
    context.collector.rows_read -= len(block)  # counted when they were read
    start, submit = records["start_s"].to_numpy(np.float64), records["submit_s"].to_numpy(np.float64)
    context.collector.take(
        block,
        {
            "job_id": records["job_id"].to_numpy(object),
            "user": records["user"].to_numpy(object),
            "vc": records["vc"].to_numpy(object),
            "name": records["name"].to_numpy(object),
            "gpus": records["gpus"].to_numpy(np.float64),
            "cpus": records["cpus"].to_numpy(np.float64),
            "gpu_type": records["gpu_type"].to_numpy(object),
            "state": np.array([_ENDED.get(word) for word in records["word"]], dtype=object),
            "submit_s": submit,
            "start_s": start,
            "end_s": records["end_s"].to_numpy(np.float64),
            "duration_s": records["duration_s"].to_numpy(np.float64),
            "queue_s": start - submit,
            "attempts": records["attempts"].to_numpy(np.float64),
        },
    )


def _raw_text(raw: object, job_id: str) -> str:
    return raw if isinstance(raw, str) else f"JobID {job_id}"


def _state_words(block: CellBlock) -> Objects:
    """The state without its suffix; a word that was cut off is completed if only one state begins so."""
    texts = block.text("State")
    assert texts is not None
    known = (*_ENDED, *_OPEN)
    out = np.empty(len(block), dtype=object)
    for i, text in enumerate(texts):
        word = (text or "").upper().split(" ")[0]
        word = _SHORT.get(word, word)
        if word.endswith("+"):
            full = [name for name in known if name.startswith(word[:-1])]
            word = full[0] if len(full) == 1 or (full and word[:-1] in full) else word
        out[i] = word
    return out


def _times(block: CellBlock, name: str) -> Floats:
    texts = list(block.cells[name])
    if all(re.fullmatch(r"\d{9,}", text.strip()) for text in texts if text.strip() not in ("", "Unknown", "None")):
        numbers = block.number(name)  # SLURM_TIME_FORMAT=%s
        assert numbers is not None
        return numbers
    seconds = block.time(name)
    assert seconds is not None
    return seconds


def _recorded_elapsed(block: CellBlock) -> Floats | None:
    raw = block.number("ElapsedRaw")
    if raw is not None:
        return raw
    texts = block.text("Elapsed")
    if texts is None:
        return None
    seconds = np.array([np.nan if text is None else elapsed_s(text) for text in texts], dtype=np.float64)
    block.fault(np.isnan(seconds) & ~is_none(texts), Reason.BAD_TIME)
    return seconds


def _gpus(block: CellBlock) -> tuple[Floats, Objects]:
    """GPUs of each record from the first of the columns that tells: allocated, then requested."""
    columns = [block.text(name) for name in ("AllocTRES", "ReqTRES", "AllocGRES", "ReqGRES")]
    nodes = _scaled(block.text("NNodes"), len(block))
    counts, types = np.zeros(len(block)), np.full(len(block), None, dtype=object)
    bad = np.zeros(len(block), dtype=bool)
    for i in range(len(block)):
        for position, texts in enumerate(columns):
            text = None if texts is None else texts[i]
            if text is None:
                continue
            count, kind = gpus_of(text)
            bad[i] |= np.isnan(count)
            if count > 0:
                per_node = position >= 2 and "gres/" not in text
                counts[i] = count * (nodes[i] if per_node and nodes[i] > 0 else 1.0)
                types[i] = kind
                break
    block.fault(bad, Reason.BAD_GPU_COUNT)
    return counts, types


def _scaled(texts: Objects | None, length: int) -> Floats:
    if texts is None:
        return np.full(length, np.nan)
    return np.array([np.nan if text is None else scaled_number(text) for text in texts], dtype=np.float64)


def _or_nan(values: Floats | None, length: int) -> Floats:
    return np.full(length, np.nan) if values is None else values


def _default(values: Objects | None, length: int) -> Objects:
    return np.full(length, None, dtype=object) if values is None else values


LOADER = SlurmLoader()
