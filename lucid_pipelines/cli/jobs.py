"""`lucid jobs|show|cancel|explain`: look at jobs and end them."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from lucid_pipelines.cli.actions import action_json, action_table
from lucid_pipelines.cli.options import AsJson, Home, JobText, open_client, open_looking
from lucid_pipelines.cli.output import (
    console,
    facts_table,
    job_json,
    job_table,
    job_times_s,
    one_line,
    print_json,
    progress_facts,
    seconds,
    time_left,
)
from lucid_pipelines.control.failure_pages import read_page
from lucid_pipelines.control.known_ends import known_attempts
from lucid_pipelines.control.plain_words import tell
from lucid_pipelines.control.requests import current_user
from lucid_pipelines.domain.errors import InputError, did_you_mean
from lucid_pipelines.domain.job import Attempt, Estimate, Job
from lucid_pipelines.domain.states import JobState
from lucid_pipelines.store import Action, Event, Tracked

if TYPE_CHECKING:
    from lucid_pipelines.control.explaining import Explanation, Waiting


def jobs(
    state: Annotated[list[str] | None, typer.Option("--state", "-s", help="Only these states.")] = None,
    user: Annotated[str | None, typer.Option("--user", help="Only this user's.")] = None,
    vc: Annotated[str | None, typer.Option("--vc", help="Only this virtual cluster's.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many, newest first.")] = 1000,
    as_json: AsJson = False,
    home: Home = None,
) -> None:
    """List jobs, newest first."""
    states = _states(state)
    with open_client(home) as client:
        found = client.jobs(states=states, user=user, vc=vc, limit=limit)
        now, folder = client.system.clock.now(), client.settings.home
    if as_json:
        print_json([job_json(job, now) for job in found])
    elif found:
        console.print(job_table(found, now))
    elif state or user or vc:
        console.print("No job is like that; `lucid jobs` lists all.")
    else:
        console.print(one_line(f"No job yet in {folder}. Submit one: lucid submit -- python train.py"), soft_wrap=True)


def show(job: JobText, as_json: AsJson = False, home: Home = None) -> None:
    """Show one job: its attempts, its progress, and after a failure what went wrong and what is proposed."""
    with open_client(home) as client:
        found = client.job(job)
        attempts = known_attempts(client.system.store, found)
        tracked = next(iter(client.system.store.tracking.of_job(found.job_id)), None)
        pages = [page for attempt in attempts[-1:] if (page := read_page(client.system, attempt)) is not None]
        asked = client.system.store.actions.find(target=found.job_id)
        now = client.system.clock.now()
    if as_json:
        shown = None if tracked is None else {**tracked.progress, "as_of": tracked.at, "findings": tracked.findings}
        listed = [_attempt_json(attempt) for attempt in attempts]
        print_json({**job_json(found, now), "progress": shown, "attempt_list": listed, **_failure_json(pages, asked)})
        return
    console.print(job_table([found], now))
    console.print()
    console.print(facts_table(_facts(found)))
    if tracked is not None:
        console.print()
        console.print(facts_table(progress_facts(tracked, has_ended=found.state.is_terminal)))
    if attempts:
        console.print()
        console.print(_attempt_table(attempts))
    if asked:
        console.print()
        console.print(action_table(asked))
    for page in pages:
        console.print()
        from rich.markdown import Markdown  # takes a tenth of a second; most jobs did not fail

        console.print(Markdown(page))


def _failure_json(pages: list[str], asked: list[Action]) -> dict[str, Any]:
    return {"failure_report": pages[0] if pages else None, "actions": [action_json(action) for action in asked]}


def cancel(
    job: JobText,
    wait: Annotated[bool, typer.Option("--wait", "-w", help="Wait until it has ended.")] = False,
    as_json: AsJson = False,
    home: Home = None,
) -> None:
    """Cancel a job: at once while it waits; a running one gets TERM, its grace period, then KILL."""
    with open_client(home) as client:
        cancelled = client.cancel(job, who=current_user())
        if wait:
            cancelled = client.wait([cancelled.job_id])[0]
        now = client.system.clock.now()
    if as_json:
        print_json(job_json(cancelled, now))
    elif cancelled.state.is_terminal:
        console.print(f"{cancelled.job_id} is {cancelled.state.value}")
    else:
        grace = seconds(cancelled.spec.grace_s)
        console.print(f"{cancelled.job_id} is asked to stop; it has {grace} before it is killed")


def explain(
    job: JobText,
    as_json: AsJson = False,
    home: Home = None,
) -> None:
    """Why is my job where it is: state, position, what it waits for, the estimate and what that rests on."""
    client, _ = open_looking(home)
    with client:
        found = client.explain(job)
        tracked = next(iter(client.system.store.tracking.of_job(found.job.job_id)), None)
    if as_json:
        print_json(explanation_json(found))
        return
    console.print(one_line(found.summary), style="bold")
    console.print()
    facts = {
        **_estimate_facts(found.job.estimate),
        **_running_facts(found, tracked),
        **_waiting_facts(found.waiting, found.as_of),
    }
    if facts:
        console.print(facts_table(facts))
        console.print()
    console.print(_event_table(found.events))


def explanation_json(found: Explanation) -> dict[str, Any]:
    """An explanation as ``lucid explain --json`` shows it."""
    waiting = found.waiting
    estimate = found.job.estimate
    return {
        **job_json(found.job, found.as_of),
        "summary": found.summary,
        "policy": found.policy,
        "as_of": found.as_of,
        "position": waiting.position if waiting else None,
        "waits_for": waiting.cause if waiting else None,
        "gpus_free": waiting.gpus_free if waiting else None,
        "blocked_by": waiting.blocked_by if waiting else None,
        "predicted_start_at": waiting.predicted_start_at if waiting else None,
        "start_low_at": waiting.start_low_at if waiting else None,
        "start_high_at": waiting.start_high_at if waiting else None,
        "reasons": list(waiting.reasons) if waiting else [],
        "estimate": None
        if estimate is None
        else {
            "duration_s": estimate.duration_s,
            "low_s": estimate.low_s,
            "high_s": estimate.high_s,
            "coverage_frac": estimate.coverage_frac,
            "basis": estimate.basis,
            "sample_count": estimate.sample_count,
            "evidence_job_ids": list(estimate.evidence_job_ids),
        },
        "attempt_list": [_attempt_json(attempt) for attempt in found.attempts],
        "events": [_event_json(event) for event in found.events],
    }


def _states(texts: list[str] | None) -> list[JobState] | None:
    if not texts:
        return None
    known = [state.value for state in JobState]
    for text in texts:
        if text not in known:
            raise InputError(f"states are {', '.join(known)}{did_you_mean(text, known)}; not {text!r}")
    return [JobState(text) for text in texts]


def _facts(job: Job) -> dict[str, object]:
    return {
        "command": " ".join(job.spec.command),
        "workdir": job.spec.workdir,
        "source": job.spec.source_dir,
        "snapshot": job.spec.snapshot_digest,
        "submitted": _time(job.submitted_at),
        "started": _time(job.started_at),
        "ended": _time(job.ended_at),
        "exit code": job.exit_code,
        "cause": job.cause.value if job.cause else None,
        "detail": job.detail,
        **_estimate_facts(job.estimate),
    }


def _estimate_facts(estimate: Estimate | None) -> dict[str, object]:
    if estimate is None:
        return {}
    if estimate.duration_s is None:
        return {"estimate": "none yet: nothing like it has completed here"}
    text = f"{seconds(estimate.duration_s)} ({estimate.basis} of {estimate.sample_count} runs)"
    if estimate.low_s is not None and estimate.high_s is not None:
        coverage = f"{estimate.coverage_frac:.0%} " if estimate.coverage_frac is not None else ""
        text += f", {coverage}between {seconds(estimate.low_s)} and {seconds(estimate.high_s)}"
    return {"estimate": text, "rests on": ", ".join(estimate.evidence_job_ids) or None}


def _running_facts(found: Explanation, tracked: Tracked | None) -> dict[str, object]:
    """Where an active job runs and how long it may still take; nothing for other jobs."""
    job = found.job
    if not job.state.is_active or not found.attempts:
        return {}
    _, run_s = job_times_s(job, found.as_of)
    estimate_s = job.estimate.duration_s if job.estimate else None
    left = None
    if run_s is not None and estimate_s is not None:
        left = seconds(estimate_s - run_s) if run_s < estimate_s else "unknown: it has run longer than estimated"
    attempt = found.attempts[-1]
    facts: dict[str, object] = {"on": str(attempt.placement), "ran": seconds(run_s), "ends in about": left}
    if tracked is not None and tracked.attempt_id == attempt.attempt_id and (by_log := time_left(tracked)) is not None:
        facts["by its log, in"] = f"{by_log}, as of {_time(tracked.at)}"
    return facts


def _start_text(waiting: Waiting, as_of: datetime) -> str:
    start = waiting.predicted_start_at
    if start is None:
        return "unknown: an estimate is missing, or what it waits for has run longer than estimated"
    text = seconds(max(0.0, (start - as_of).total_seconds()))
    low, high = waiting.start_low_at, waiting.start_high_at
    if low is not None and high is not None:
        ends = [seconds(max(0.0, (end - as_of).total_seconds())) for end in (low, high)]
        text += f", between {ends[0]} and {ends[1]}"
    return text


def _waiting_facts(waiting: Waiting | None, as_of: datetime) -> dict[str, object]:
    if waiting is None:
        return {}
    facts: dict[str, object] = {
        "position": waiting.position,
        "needs GPUs": waiting.gpus_needed,
        "free GPUs": waiting.gpus_free,
        "behind": waiting.blocked_by,
        "starts in about": _start_text(waiting, as_of),
    }
    for reason in waiting.reasons:
        title, sentence = tell(reason)
        facts[title] = sentence
    return facts


def _attempt_table(attempts: list[Attempt]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("ATTEMPT", "STATE", "GPUS", "STARTED", "ENDED", "OUTCOME", "LOG"):
        table.add_column(name, overflow="fold")
    for attempt in attempts:
        table.add_row(
            str(attempt.number),
            attempt.state.value,
            str(attempt.placement),
            _time(attempt.started_at) or "–",
            _time(attempt.ended_at) or "–",
            attempt.outcome.value if attempt.outcome else "–",
            attempt.log_path or "–",
        )
    return table


def _event_table(events: tuple[Event, ...]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("WHEN", "STATE", "WHO", "WHY"):
        table.add_column(name, overflow="fold")
    for event in events:
        table.add_row(_time(event.at), event.to_state.value, one_line(event.who), one_line(event.why))
    return table


def _attempt_json(attempt: Attempt) -> dict[str, Any]:
    return {
        "attempt_id": attempt.attempt_id,
        "number": attempt.number,
        "state": attempt.state.value,
        "placement": attempt.placement.to_json(),
        "placed_at": attempt.placed_at,
        "started_at": attempt.started_at,
        "ended_at": attempt.ended_at,
        "outcome": attempt.outcome.value if attempt.outcome else None,
        "cause": attempt.cause.value if attempt.cause else None,
        "exit_code": attempt.exit.exit_code if attempt.exit else None,
        "signal": attempt.exit.signal if attempt.exit else None,
        "partner_job_id": attempt.partner_job_id,
        "log_path": attempt.log_path,
    }


def _event_json(event: Event) -> dict[str, Any]:
    return {
        "at": event.at,
        "kind": event.kind.value,
        "from_state": event.from_state.value if event.from_state else None,
        "to_state": event.to_state.value,
        "who": event.who,
        "why": event.why,
        "evidence": event.evidence,
        "as_of": event.as_of,
    }


def _time(at: datetime | None) -> str | None:
    return at.astimezone().strftime("%Y-%m-%d %H:%M:%S") if at else None
