"""`lucid metrics`: loss and step time of a job over time, drawn in the terminal."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from lucid_pipelines.cli.options import AsJson, Home, JobText, open_client
from lucid_pipelines.cli.output import console, facts_table, print_json, progress_facts
from lucid_pipelines.client import Client
from lucid_pipelines.control.following import Follower
from lucid_pipelines.control.live_metrics import Curves, curves_of
from lucid_pipelines.domain.errors import NotFoundError
from lucid_pipelines.domain.job import Attempt, Job
from lucid_pipelines.duration_text import span_text
from lucid_pipelines.store import ActiveAttempt, Tracked
from lucid_pipelines.tracker.curves import Points, curve_lines

_REFRESH_S = 2.0
_HEIGHT = 8


def metrics(
    job: JobText,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job has ended.")] = False,
    attempt: Annotated[int | None, typer.Option("--attempt", "-a", help="Its number.", show_default="newest")] = None,
    as_json: AsJson = False,
    home: Home = None,
) -> None:
    """Show how a job learns: progress, loss and seconds per step over time, as its log tells them."""
    with open_client(home) as client:
        found = client.job(job)
        if as_json:
            print_json(_json(client, found, client.attempt(found.job_id, attempt)))
            return
        if not follow:
            console.print(_view(client, found, client.attempt(found.job_id, attempt)))
            return
        with Live(console=console, auto_refresh=False, transient=False) as live:
            while True:
                found = client.job(found.job_id)
                live.update(_view(client, found, client.attempt(found.job_id, attempt)), refresh=True)
                if found.state.is_terminal:
                    return
                time.sleep(_REFRESH_S)


def _tracked(client: Client, job: Job, attempt: Attempt | None) -> Tracked | None:
    """What the log tells. The service looks every half minute: what a job printed after that is read now."""
    if attempt is None:
        return None
    found = client.system.store.tracking.find([attempt.attempt_id]).get(attempt.attempt_id)
    if attempt.ended_at is None or (found is not None and found.at >= attempt.ended_at):
        return found
    (look,) = Follower().look(client.system, [ActiveAttempt(job, attempt, ())], compare=False)
    return look.tracked


def _view(client: Client, job: Job, attempt: Attempt | None) -> RenderableType:
    if attempt is None:
        how = "never started" if job.state.is_terminal else "has not started yet"
        return Text(f"{job.job_id} is {job.state.value} and {how}")
    tracked = _tracked(client, job, attempt)
    head = Text(f"{job.job_id} {job.state.value}, attempt {attempt.number}", style="bold")
    if tracked is None:
        return Group(head, Text("its log has not been looked at yet; the service looks while the job runs"))
    curves = curves_of(client.system, job, attempt)
    return Group(
        head,
        facts_table(progress_facts(tracked, has_ended=attempt.ended_at is not None)),
        *_curve("loss", curves.loss),
        *_curve("seconds per step", curves.step_time_s),
    )


def _curve(title: str, points: Points) -> list[RenderableType]:
    if not points:
        return []
    if len(points) == 1:
        ((at_s, value),) = points
        return [Text(), Text(f"{title}: {value:.4g}, after {span_text(at_s)}; one look makes no curve", style="dim")]
    lines = curve_lines(points, min(console.width, 110), _HEIGHT)
    return [Text(), Text(title, style="bold"), *(Text(line, no_wrap=True, overflow="crop") for line in lines)]


def _json(client: Client, job: Job, attempt: Attempt | None) -> dict[str, Any]:
    if attempt is None:
        raise NotFoundError(f"the job has not started, so it has no metrics: {job.job_id}")
    tracked = _tracked(client, job, attempt)
    curves = curves_of(client.system, job, attempt)
    return {
        "job_id": job.job_id,
        "attempt": attempt.number,
        "as_of": tracked.at if tracked else None,
        "progress": dict(tracked.progress) if tracked else None,
        "findings": [dict(finding) for finding in tracked.findings] if tracked else [],
        **_series(curves),
    }


def _series(curves: Curves) -> dict[str, Any]:
    return {
        "loss": [{"run_s": round(x, 3), "value": y} for x, y in curves.loss],
        "step_time_s": [{"run_s": round(x, 3), "value": y} for x, y in curves.step_time_s],
    }
