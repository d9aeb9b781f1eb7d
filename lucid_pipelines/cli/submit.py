"""`lucid submit`: one job from the command line, or one or many from a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.live import Live

from lucid_pipelines.cli.exit_statuses import ExitStatus
from lucid_pipelines.cli.options import AsJson, Home, open_client
from lucid_pipelines.cli.output import console, errors, job_json, job_table, one_line, print_error, print_json
from lucid_pipelines.client import Client, Submitted
from lucid_pipelines.control.requests import JobRequest, parse_request, read_job_file
from lucid_pipelines.domain.errors import InputError, TimedOutError
from lucid_pipelines.domain.job import Job
from lucid_pipelines.domain.states import JobState
from lucid_pipelines.service.dagster_home import run_files
from lucid_pipelines.service.status import is_running
from lucid_pipelines.snapshots import SealProgress


def submit(
    command: Annotated[list[str] | None, typer.Argument(metavar="[--] COMMAND...", help="What to run.")] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="YAML file with one job or many.")] = None,
    gpus: Annotated[int | None, typer.Option("--gpus", "-g", help="GPUs that the job needs.", show_default="1")] = None,
    vc: Annotated[str | None, typer.Option("--vc", help="Virtual cluster.")] = None,
    name: Annotated[str | None, typer.Option("--name", "-n", help="Name of the job.")] = None,
    user: Annotated[str | None, typer.Option("--user", envvar="LUCID_USER", help="On whose behalf.")] = None,
    source: Annotated[
        Path | None, typer.Option("--source", help="Folder whose code is sealed.", show_default=".")
    ] = None,
    workdir: Annotated[str | None, typer.Option("--workdir", help="Start in this folder of the source.")] = None,
    env: Annotated[list[str] | None, typer.Option("--env", "-e", help="NAME=VALUE; may be given many times.")] = None,
    label: Annotated[list[str] | None, typer.Option("--label", help="NAME=VALUE; may be given many times.")] = None,
    key: Annotated[str | None, typer.Option("--idempotency-key", help="Submitting twice gives one job.")] = None,
    amp: Annotated[bool | None, typer.Option("--amp/--no-amp", help="Mixed precision, if you know.")] = None,
    never_restart: Annotated[bool, typer.Option("--never-restart", help="Never restart it automatically.")] = False,
    long_cold_start: Annotated[bool, typer.Option("--long-cold-start", help="It starts slowly.")] = False,
    grace_s: Annotated[float | None, typer.Option("--grace", help="Seconds between TERM and KILL.")] = None,
    wait: Annotated[bool, typer.Option("--wait", "-w", help="Wait until all jobs have ended.")] = False,
    timeout_s: Annotated[float | None, typer.Option("--timeout", help="With --wait: at most so many seconds.")] = None,
    as_json: AsJson = False,
    home: Home = None,
) -> None:
    """Seal the code and submit a job: lucid submit --gpus 2 -- python train.py --epochs 3"""
    options: dict[str, Any] = {
        "gpus": gpus,
        "vc": vc,
        "name": name,
        "user": user,
        "workdir": workdir,
        "env": _pairs(env, "--env"),
        "labels": _pairs(label, "--label"),
        "idempotency_key": key,
        "amp": amp,
        "never_restart": never_restart or None,
        "long_cold_start": long_cold_start or None,
        "grace_s": grace_s,
        "source_dir": source.absolute() if source else None,
    }
    given = {option: value for option, value in options.items() if value is not None}
    if timeout_s is not None and not wait:
        raise InputError("--timeout says how long --wait waits; give both, or neither")
    requests = _requests(command, file, given)
    with open_client(home, create=True) as client:
        submitted = _seal_and_submit(client, requests, quiet=as_json)
        if not as_json:
            tell_submitted(submitted)
        tell_whether_it_waits(client)
        status = _wait(client, submitted, timeout_s, quiet=as_json) if wait else ExitStatus.DONE
        if as_json:
            jobs = client.jobs(ids=[item.job.job_id for item in submitted], limit=None) if wait else []
            by_id = {job.job_id: job for job in jobs}
            rows = [submitted_json(item, by_id.get(item.job.job_id, item.job)) for item in submitted]
            print_json(rows[0] if file is None or len(rows) == 1 else rows)
    raise typer.Exit(status)


def _requests(command: Sequence[str] | None, file: Path | None, given: dict[str, Any]) -> list[JobRequest]:
    if file is not None:
        if command:
            raise InputError(f"give a command or --file, not both; got {file} and {command[0]!r}")
        read = read_job_file(file)
        if "idempotency_key" in given and len(read) > 1:
            raise InputError("a key names one job; put idempotency_key into the file of many jobs")
        return [parse_request({**one.model_dump(exclude_unset=True), **given}) for one in read]
    if not command:
        raise InputError("give the training command after --, for example: lucid submit -- python train.py")
    return [parse_request({"command": tuple(command), "source_dir": Path.cwd(), **given})]


def _seal_and_submit(client: Client, requests: Sequence[JobRequest], *, quiet: bool) -> list[Submitted]:
    if quiet or not console.is_terminal:
        return client.submit_requests(requests)
    with console.status("reading the source tree") as status:

        def show(progress: SealProgress) -> None:
            total = progress.files_total or "?"
            status.update(f"sealing the code: {progress.files_done}/{total} files, {progress.bytes_done >> 20} MiB")

        return client.submit_requests(requests, progress=show)


def tell_submitted(submitted: Sequence[Submitted]) -> None:
    """Say what was submitted, and what of its code was kept out or looks odd."""
    for item in submitted:
        verb = "submitted" if item.created else "submitted before"
        console.print(f"{verb} [bold]{item.job.job_id}[/bold]", one_line(item.job.spec.name), f"({item.job.spec.vc})")
    for snapshot in {item.snapshot.digest: item.snapshot for item in submitted if item.snapshot}.values():
        for finding in snapshot.secrets:
            line = f":{finding.line}" if finding.line else ""
            errors.print(f"[yellow]kept out[/yellow] {finding.path}{line} ({finding.rule}); {finding.advice}")
        for warning in snapshot.warnings:
            errors.print("[yellow]note[/yellow]", one_line(warning))


def tell_whether_it_waits(client: Client) -> None:
    """Say that nothing will happen to a submitted job as long as no service runs."""
    if not is_running(run_files(client.settings)):
        errors.print("[yellow]note[/yellow] the service of this home folder is not running: jobs wait for `lucid up`")


def _wait(client: Client, submitted: Sequence[Submitted], timeout_s: float | None, *, quiet: bool) -> ExitStatus:
    ids = [item.job.job_id for item in submitted]
    jobs = [item.job for item in submitted]
    try:
        if quiet or not console.is_terminal:
            jobs = client.wait(ids, timeout_s)
        else:
            with Live(console=console, auto_refresh=False) as live:
                for jobs in client.watch(ids, timeout_s, every_s=1.0):
                    live.update(job_table(jobs, client.system.clock.now()), refresh=True)
    except TimedOutError as error:
        print_error(str(error))  # not raised: the caller still prints the jobs as JSON
        return ExitStatus.TIMED_OUT
    if not quiet and not console.is_terminal:
        console.print(job_table(jobs, client.system.clock.now()))
    completed = all(job.state is JobState.COMPLETED for job in jobs)
    return ExitStatus.DONE if completed else ExitStatus.NOT_COMPLETED


def submitted_json(item: Submitted, job: Job) -> dict[str, Any]:
    """A submitted job as ``--json`` shows it."""
    row = {**job_json(job), "created": item.created}
    if item.snapshot is not None:
        row["secrets_kept_out"] = [finding.path for finding in item.snapshot.secrets]
    return row


def _pairs(texts: Sequence[str] | None, option: str) -> dict[str, str] | None:
    if not texts:
        return None
    pairs: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise InputError(f"{option} takes NAME=VALUE; got {text!r}")
        pairs[name] = value
    return pairs
