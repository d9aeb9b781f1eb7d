"""`lucid up|down`: start and stop the service, with a demonstration on the way."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.live import Live

from lucid_pipelines.cli.exit_statuses import ExitStatus
from lucid_pipelines.cli.options import AsJson, Home, has_state
from lucid_pipelines.cli.output import console, errors, job_json, job_table, one_line, print_json
from lucid_pipelines.client import Client, is_settled
from lucid_pipelines.control.demonstration import cancel_what_asks_for_it, find_demo, submit_demo
from lucid_pipelines.domain.errors import LucidError
from lucid_pipelines.domain.job import Job
from lucid_pipelines.service.control import UpResult, bring_up, take_down
from lucid_pipelines.service.demo_user import leave_a_user
from lucid_pipelines.settings import Settings, load_settings


def up(
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Return as soon as the service is ready.")] = False,
    port: Annotated[int | None, typer.Option("--port", "-p", min=1, max=65535, help="Port of the UI.")] = None,
    demo: Annotated[
        bool | None,
        typer.Option("--demo/--no-demo", help="Submit the demonstration; default: only where cluster.kind is local."),
    ] = None,
    as_json: AsJson = False,
    home: Home = None,
) -> None:
    """Start the control plane and the Dagster UI; return when the UI answers and the sensors tick."""
    settings = load_settings(home)
    if port is not None:
        settings = settings.model_copy(update={"dagster": settings.dagster.model_copy(update={"port": port})})
    try:
        result = _bring_up(settings, quiet=as_json)
    except KeyboardInterrupt:
        errors.print("interrupted: everything that was started is stopped again")
        raise typer.Exit(ExitStatus.INTERRUPTED) from None
    jobs: list[Job] = []
    if settings.cluster.kind == "local" if demo is None else demo:  # a site's own machines are for its own jobs
        try:
            jobs = _demonstrate(settings, follow=not detach, quiet=as_json)
        except KeyboardInterrupt:
            errors.print(
                f"the table is closed; the service and its jobs go on at {result.url}; stop it with: lucid down"
            )
            raise typer.Exit(ExitStatus.INTERRUPTED) from None
        except LucidError as error:
            errors.print("[yellow]no demonstration[/yellow]", one_line(str(error)))
    if as_json:
        row = {"url": result.url, "pid": result.pid, "already_up": result.already, "ready_s": round(result.ready_s, 1)}
        print_json({**row, "demo": [job_json(job) for job in jobs]})
    else:
        console.print(f"\nThe Dagster UI is at [bold]{result.url}[/bold]. Stop everything with: lucid down")


def down(
    cancel_jobs: Annotated[bool, typer.Option("--cancel-jobs", help="Cancel every job first.")] = False,
    as_json: AsJson = False,
    home: Home = None,
) -> None:
    """Stop the control plane and the UI. Training jobs go on and are found again by the next `lucid up`."""
    settings = load_settings(home)
    was_up, running = _take_down(settings, cancel_jobs=cancel_jobs) if has_state(settings) else (False, [])
    if as_json:
        print_json({"stopped": was_up, "running_jobs": [job.job_id for job in running]})
        return
    console.print("stopped" if was_up else "nothing was running")
    if running:
        go_on = "1 training job goes on" if len(running) == 1 else f"{len(running)} training jobs go on"
        console.print(f"{go_on}: {', '.join(job.job_id for job in running)}")
        console.print("The next `lucid up` finds what still runs; `lucid down --cancel-jobs` ends it.")


def _take_down(settings: Settings, *, cancel_jobs: bool) -> tuple[bool, list[Job]]:
    """Whether the service was up, and the jobs that go on."""
    with Client(settings=settings) as client:
        if cancel_jobs:
            _cancel_all(client)
        return take_down(settings), [item.job for item in client.system.store.queue.view().active]


def _bring_up(settings: Settings, *, quiet: bool) -> UpResult:
    if quiet:
        return bring_up(settings)
    if not console.is_terminal:
        result = bring_up(settings, console.print)
    else:
        with console.status("starting") as status:
            result = bring_up(settings, status.update)
    if result.already:
        console.print(f"It is up already at {result.url} (supervisor process {result.pid}).")
    else:
        console.print(f"Up after {result.ready_s:.0f} s: the UI answers at {result.url} and the sensors tick.")
    return result


def _demonstrate(settings: Settings, *, follow: bool, quiet: bool) -> list[Job]:
    demo = find_demo(Path.cwd())
    with Client(settings=settings) as client:
        submitted = submit_demo(client, demo)
        if any(item.created for item in submitted) and not quiet:
            console.print(f"Submitted {len(submitted)} demonstration jobs from {demo}.")
        ids = [item.job.job_id for item in submitted]
        jobs = [item.job for item in submitted]
        if not follow:
            leave_a_user(client, jobs)
            return jobs
        try:
            if quiet or not console.is_terminal:
                return _follow_quietly(client, ids, quiet=quiet)
            with Live(console=console, auto_refresh=False) as live:
                for jobs in client.watch(ids, every_s=1.0):
                    cancel_what_asks_for_it(client, jobs)
                    live.update(job_table(jobs, client.system.clock.now(), _title(jobs)), refresh=True)
        except KeyboardInterrupt:
            leave_a_user(client, jobs)
            raise
        return jobs


def _follow_quietly(client: Client, ids: list[str], *, quiet: bool) -> list[Job]:
    jobs: list[Job] = []
    told = time.monotonic()
    for jobs in client.watch(ids, every_s=1.0):
        cancel_what_asks_for_it(client, jobs)
        if not quiet and time.monotonic() - told > 10.0:
            told = time.monotonic()
            console.print(_title(jobs))
    if not quiet:
        console.print(job_table(jobs, client.system.clock.now(), _title(jobs)))
    return jobs


def _title(jobs: list[Job]) -> str:
    ended = sum(1 for job in jobs if is_settled(job))
    running = sum(1 for job in jobs if job.state.is_active)
    return f"{ended} of {len(jobs)} jobs have ended, {running} run"


def _cancel_all(client: Client) -> None:
    unfinished = [job for job in client.jobs(limit=None) if not is_settled(job)]
    for job in unfinished:
        client.cancel(job.job_id, who="lucid down")
    with console.status(f"cancelling {len(unfinished)} jobs"):
        client.wait([job.job_id for job in unfinished], timeout_s=120.0)
