"""How the command line prints: tables for people, one JSON value for scripts, errors with an exit code."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleDimensions
from rich.table import Table
from rich.text import Text

from lucid_pipelines.domain.job import Job
from lucid_pipelines.domain.states import JobState
from lucid_pipelines.duration_text import compact_text as seconds

if TYPE_CHECKING:
    from lucid_pipelines.store import Tracked

_PIPE_WIDTH = 180
_NARROW_BELOW = 110
"""Columns below which the table of jobs leaves out who submitted and why it ended."""


class _Terminal(Console):
    """A console whose width is asked for when it prints; a pipe has none, and 80 columns would cut ids."""

    @property
    def size(self) -> ConsoleDimensions:  # pyright: ignore[reportIncompatibleMethodOverride]  (nobody sets it here)
        if self.is_terminal:
            return super().size
        columns = os.environ.get("COLUMNS", "")
        return ConsoleDimensions(int(columns) if columns.isdigit() and int(columns) > 0 else _PIPE_WIDTH, 50)


console = _Terminal()
errors = _Terminal(stderr=True)

STATE_STYLES: dict[JobState, str] = {
    JobState.COMPLETED: "green",
    JobState.RUNNING: "cyan",
    JobState.PROFILING: "cyan",
    JobState.QUEUED: "yellow",
    JobState.PROFILE_QUEUED: "yellow",
    JobState.FAILED: "red",
    JobState.LOST: "red",
    JobState.CANCELLED: "magenta",
}


def print_json(value: object) -> None:
    """Print one JSON value on standard output."""
    sys.stdout.write(json.dumps(value, default=_plain, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def job_times_s(job: Job, now: datetime) -> tuple[float, float | None]:
    """Queue time and run time of a job so far; their sum is its age, or its JCT once it has ended (section 4).

    Returns:
        ``(queue_s, run_s)``; ``run_s`` is ``None`` while it has never run.
    """
    run_s = job.ran_s
    if job.state.is_active and job.started_at is not None:
        run_s += (now - job.started_at).total_seconds()
    end = job.ended_at if job.state.is_terminal and job.ended_at is not None else now
    queue_s = max(0.0, (end - job.submitted_at).total_seconds() - run_s)
    has_run = job.attempt_count > 0 and (run_s > 0 or job.started_at is not None)
    return queue_s, run_s if has_run else None


def job_json(job: Job, now: datetime | None = None) -> dict[str, Any]:
    """A job as ``lucid jobs --json`` shows it. Fields are added, never renamed."""
    queue_s, run_s = job_times_s(job, now or datetime.now(UTC))
    return {
        "job_id": job.job_id,
        "name": job.spec.name,
        "state": job.state.value,
        "user": job.spec.user,
        "vc": job.spec.vc,
        "gpus": job.spec.gpus,
        "queue_s": round(queue_s, 3),
        "run_s": None if run_s is None else round(run_s, 3),
        "exit_code": job.exit_code,
        "outcome": job.outcome.value if job.outcome else None,
        "cause": job.cause.value if job.cause else None,
        "detail": job.detail,
        "command": list(job.spec.command),
        "submitted_at": job.submitted_at,
        "started_at": job.started_at,
        "ended_at": job.ended_at,
        "attempts": job.attempt_count,
        "estimate_s": job.estimate.duration_s if job.estimate else None,
        "estimate_basis": job.estimate.basis if job.estimate else None,
        "profile": None if job.profile is None else asdict(job.profile),
        "never_pack": job.never_pack,
        "snapshot": job.spec.snapshot_digest,
        "labels": dict(job.spec.labels),
    }


def job_table(jobs: Sequence[Job], now: datetime, title: str | None = None, width: int | None = None) -> Table:
    """Jobs for people, one a line; on a narrow terminal the facts that tell jobs apart come first.

    Args:
        width: columns of the terminal; by default those of ``console``.
    """
    narrow = (console.width if width is None else width) < _NARROW_BELOW
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    table.collapse_padding = narrow
    table.add_column("JOB", no_wrap=True, min_width=15)
    for name in ("NAME", "VC") if narrow else ("NAME", "USER", "VC"):
        table.add_column(name, no_wrap=True, overflow="ellipsis", max_width=18 if narrow else 28)
    for name in ("GPUS", "QUEUE", "RUN"):
        table.add_column(name, justify="right", no_wrap=True, min_width=5 if name != "GPUS" else 4)
    table.add_column("STATE", no_wrap=True, min_width=9, overflow="ellipsis")
    if not narrow:
        table.add_column("OUTCOME", overflow="ellipsis", no_wrap=True, max_width=44)
    for job in jobs:
        queue_s, run_s = job_times_s(job, now)
        told = job.outcome if narrow and job.state is JobState.FAILED else None
        cells = [
            Text(job.job_id),
            one_line(job.spec.name),
            one_line(job.spec.user),
            one_line(job.spec.vc),
            Text(str(job.spec.gpus)),
            Text(seconds(queue_s)),
            Text(seconds(run_s)),
            Text((told or job.state).value, style=STATE_STYLES.get(job.state, "")),
            one_line(_outcome(job)),
        ]
        if narrow:
            del cells[8], cells[2]
        table.add_row(*cells)
    return table


def _outcome(job: Job) -> str:
    if job.outcome is None:
        return ""
    if job.state is JobState.COMPLETED:
        return job.outcome.value
    return f"{job.outcome.value}: {job.detail}" if job.detail else job.outcome.value


def print_error(text: str) -> None:
    """One line on standard error, with the head that every error of every command has."""
    errors.print("[bold red]error[/bold red]", one_line(text), soft_wrap=True)


def one_line(text: str) -> Text:
    """Text from a user, safe to print: no control characters, no markup, one line."""
    shown = "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
    return Text(shown)


def facts_table(facts: Mapping[str, object]) -> Table:
    """Names and values, two columns; unknown values are left out."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        if value is not None:
            table.add_row(name, value if isinstance(value, Text) else one_line(str(value)))
    return table


def progress_facts(tracked: Tracked, *, has_ended: bool = False) -> dict[str, object]:
    """What a job's log tells, for a table of facts; what it does not tell is left out, with the reason.

    Args:
        tracked: the row of its newest attempt.
        has_ended: whether that attempt has ended; then nothing is left of it.
    """
    told = tracked.progress
    unit = "epoch" if told.get("step_unit") == "epoch" else "step"
    per = told.get("step_time_unit") or unit
    left = None if has_ended else time_left(tracked)
    pace, loss, throughput = told.get("step_time_s"), told.get("loss"), told.get("throughput")
    facts: dict[str, object] = {
        unit: _how_far(told),
        "epoch": None if unit == "epoch" or told.get("epoch") is None else f"{told['epoch']:g}",
        "time left": left,
        f"time per {per}": None if pace is None else f"{pace:.4g} s ({told.get('step_time_source')})",
        "loss": None if loss is None else f"{loss:.5g}",
        "throughput": None if throughput is None else f"{throughput:.5g} {told.get('throughput_unit') or ''}".strip(),
        "not told": told.get("fallback_reason"),
        "as of": f"{tracked.at.astimezone():%Y-%m-%d %H:%M:%S}",
    }
    for finding in tracked.findings:
        facts[f"{finding['kind']}?"] = f"{finding['text']} (since {finding['since']}; advice only)"
    return facts


def time_left(tracked: Tracked) -> str | None:
    """How long a job still takes as its log tells it, as of the row's time; ``None`` where it does not."""
    remaining = tracked.progress.get("remaining") or {}
    if not remaining:
        return None
    low, high = seconds(remaining["low_s"]), seconds(remaining["high_s"])
    return f"{seconds(remaining['remaining_s'])}, between {low} and {high} ({remaining['basis']})"


def _how_far(told: Mapping[str, Any]) -> str | None:
    """``1,200 of 10,000 (12%)``; without a share where the steps may be one epoch's only."""
    step, total, epoch = told.get("step"), told.get("total_steps"), told.get("epoch")
    if told.get("global_step") is not None:
        step, total = told["global_step"], told.get("global_total_steps")
    elif total and epoch is not None and told.get("step_unit") != "epoch" and told.get("steps_left") is None:
        return f"{step:,} of {total:,}, of this epoch or of all"
    if step is None:
        return None
    return f"{step:,}" + (f" of {total:,} ({step / total:.0%})" if total else "")


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, set | frozenset | tuple):
        return list(value)
    return str(value)
