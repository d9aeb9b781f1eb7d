"""What ``squeue --json`` and the list of nodes say, in the shapes of Slurm 22.05 to 24.11.

From 23.02 on numbers are objects (``{"set": true, "infinite": false, "number": 7}``), states are lists and the
nodes come from ``scontrol show nodes --json``; before, numbers are plain (huge ones mean "not set"), states are
words and the nodes come from ``sinfo --json``. Whatever cannot be understood raises ``ValueError``: it is no
evidence of anything. Nor is an answer with ``errors``, however well the rest of it looks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

_NOT_SET = 0xFFFFFFFE  # and the infinite one above it, as 32-bit numbers
_FAR = 4_000_000_000  # a start time beyond any date: not known
_MARKS = {
    "*": "NOT_RESPONDING",
    "~": "POWERED_DOWN",
    "#": "POWERING_UP",
    "!": "POWER_DOWN",
    "%": "POWERING_DOWN",
    "$": "MAINT",
    "@": "REBOOT_REQUESTED",
    "^": "REBOOT_ISSUED",
    "-": "PLANNED",
}
"""What a sign behind a node's state stands for, where it is written as one word (``idle~``)."""
_RANGE = re.compile(r"([^,\[]+)(?:\[([^\]]*)\])?([^,\[]*)(?:,|$)")


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """One job as the controller knows it; unknown is ``None``.

    Attributes:
        state: base state, e.g. ``RUNNING``, ``NODE_FAIL``.
        flags: further states that lie on it, e.g. ``COMPLETING``, ``REQUEUED``.
        gres_detail: what it holds on each of its nodes, in their order, e.g. ``gpu:g3:1(IDX:3)``.
        gres_request: what it asked for on each node.
        exit_code, exit_signal: of its batch script, once it has ended.
        restart_count: how often Slurm has started it again.
        source: which command told of it.
    """

    job_id: int
    state: str
    flags: frozenset[str]
    name: str
    user: str
    uid: int | None
    comment: str
    partition: str
    qos: str
    reason: str
    nodes: tuple[str, ...]
    gres_detail: tuple[str, ...]
    gres_request: str
    node_count: int
    exit_code: int | None
    exit_signal: int | None
    submitted_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    restart_count: int
    is_held: bool
    time_limit_s: float | None
    work_dir: str
    output: str
    command: str
    is_array: bool
    source: str = "squeue"


@dataclass(frozen=True, slots=True)
class SlurmNode:
    """One node; ``states`` holds every state that lies on it, e.g. ``IDLE`` and ``DRAIN``."""

    name: str
    states: frozenset[str]
    gres: str
    gres_used: str
    partitions: tuple[str, ...]
    cpus: int | None
    reason: str
    reason_by: str | None
    reason_at: datetime | None
    booted_at: datetime | None


def parse_jobs(text: str) -> list[SlurmJob]:
    """Every job of a ``squeue --json``. Raises ``ValueError``."""
    return [_job(row) for row in _rows(text, "jobs")]


def parse_nodes(text: str) -> list[SlurmNode]:
    """Every node of ``sinfo --json`` (22.05) or ``scontrol show nodes --json`` (23.02 and later)."""
    return [_node(row) for row in _rows(text, "nodes")]


def expand(names: str) -> tuple[str, ...]:
    """A host list in full: ``n[1-3,07],m2`` -> n1, n2, n3, n07, m2. Raises ``ValueError``."""
    found: list[str] = []
    rest = names.strip()
    while rest:
        match = _RANGE.match(rest)
        if match is None:
            raise ValueError(f"not a list of hosts: {names[:80]!r}")
        rest = rest[match.end() :]
        if match[2] is None:
            found.append(match[1])
            continue
        for part in match[2].split(","):
            low, dash, high = part.partition("-")
            last = high if dash else low
            if int(last) - int(low) > 100_000:
                raise ValueError(f"not a list of hosts: {names[:80]!r}")
            found += [f"{match[1]}{n:0{len(low)}d}{match[3]}" for n in range(int(low), int(last) + 1)]
    return tuple(found)


def _rows(text: str, key: str) -> list[Mapping[str, Any]]:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"Slurm's answer is not JSON: {text[:120]!r}") from error
    faults = content.get("errors") if isinstance(content, dict) else None
    if faults:  # a silent controller yields an empty list of jobs, an exit status of 0, and this
        raise ValueError(f"Slurm reports errors: {' '.join(str(faults).split())[:300]}")
    rows = content.get(key) if isinstance(content, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError(f"Slurm's answer has no list of {key}: {text[:120]!r}")
    return rows


def _job(row: Mapping[str, Any]) -> SlurmJob:
    try:
        states = _words(row["job_state"])
        reason = str(row.get("state_reason") or "")
        code, signal = _exit(row.get("exit_code"))
        detail = row.get("gres_detail") or ()
        return SlurmJob(
            job_id=int(row["job_id"]),
            state=states[0],
            flags=frozenset(states[1:]) | frozenset(_words(row.get("state_flags"))),
            name=str(row.get("name") or ""),
            user=str(row.get("user_name") or ""),
            uid=None if (uid := _number(row.get("user_id"))) is None else int(uid),
            comment=_comment(row.get("comment")),
            partition=str(row.get("partition") or ""),
            qos=str(row.get("qos") or ""),
            reason=reason,
            nodes=expand(str(row.get("nodes") or "")),
            gres_detail=tuple(map(str, detail)),
            gres_request=",".join(str(row[k]) for k in ("tres_per_node", "tres_per_job") if row.get(k)),
            node_count=int(_number(row.get("node_count")) or 1),
            exit_code=code,
            exit_signal=signal,
            submitted_at=_time(row.get("submit_time")),
            started_at=_time(row.get("start_time")),
            ended_at=_time(row.get("end_time")),
            restart_count=int(_number(row.get("restart_cnt")) or 0),
            is_held=reason.startswith("JobHeld") or row.get("hold") is True,
            time_limit_s=None if (limit := _number(row.get("time_limit"))) is None else limit * 60.0,
            work_dir=str(row.get("current_working_directory") or ""),
            output=str(row.get("standard_output") or ""),
            command=str(row.get("command") or ""),
            is_array=any(_number(row.get(key)) for key in ("array_job_id", "het_job_id"))
            or bool(row.get("array_task_string")),
        )
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise ValueError(f"a job in Slurm's answer cannot be understood ({error!r}): {str(row)[:120]}") from error


def _node(row: Mapping[str, Any]) -> SlurmNode:
    try:
        states = [*_words(row["state"]), *_words(row.get("state_flags"))]
        partitions = row.get("partitions") or ()
        reason_by = row.get("reason_set_by_user")
        return SlurmNode(
            name=str(row["name"]),
            states=frozenset(states),
            gres=str(row.get("gres") or ""),
            gres_used=str(row.get("gres_used") or ""),
            partitions=tuple(map(str, partitions)),
            cpus=None if (cpus := _number(row.get("cpus"))) is None else int(cpus),
            reason=str(row.get("reason") or ""),
            reason_by=None if reason_by is None else str(reason_by),
            reason_at=_time(row.get("reason_changed_at")),
            booted_at=_time(row.get("boot_time")),
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ValueError(f"a node in Slurm's answer cannot be understood ({error!r}): {str(row)[:120]}") from error


def _words(value: Any) -> list[str]:
    """States as upper-case words, the base state first: from a list, or from one word (``down*``, ``idle+drain``)."""
    if value is None:
        return []
    parts: Iterable[Any] = value if isinstance(value, list) else re.split(r"[+\s]+", str(value))
    words: list[str] = []
    marks: list[str] = []
    for part in parts:
        word = str(part).upper()
        while word and word[-1] in _MARKS:
            marks.append(_MARKS[word[-1]])
            word = word[:-1]
        if word:
            words.append(word)
    return [*words, *marks]


def _number(value: Any) -> float | None:
    if isinstance(value, dict):
        return float(value["number"]) if value.get("set") and not value.get("infinite") else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return None if value >= _NOT_SET else float(value)


def _time(value: Any) -> datetime | None:
    seconds = _number(value)
    return datetime.fromtimestamp(seconds, UTC) if seconds and 0 < seconds < _FAR else None


def _exit(value: Any) -> tuple[int | None, int | None]:
    """Exit code and signal: from a wait status, or from an object."""
    if isinstance(value, dict):
        signal = value.get("signal")
        number = _number(signal.get("id", signal.get("signal_id"))) if isinstance(signal, dict) else None
        code = _number(value.get("return_code"))
        return (None, int(number)) if number else (None if code is None else int(code), None)
    status = _number(value)
    if status is None:
        return None, None
    signal_number, code_number = int(status) & 0x7F, int(status) >> 8
    return (None, signal_number) if signal_number else (code_number, None)


def _comment(value: Any) -> str:
    return str(value.get("job") or "") if isinstance(value, dict) else str(value or "")
