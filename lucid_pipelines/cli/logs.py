"""`lucid logs`: what a job printed, byte for byte."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Annotated

import typer

from lucid_pipelines.cli.options import AsJson, Home, JobText, open_client
from lucid_pipelines.cli.output import errors, print_json
from lucid_pipelines.client import Client
from lucid_pipelines.domain.errors import NotFoundError
from lucid_pipelines.domain.job import Attempt

_CHUNK_BYTES = 1 << 20
_POLL_S = 0.3


def logs(
    job: JobText,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job has ended.")] = False,
    attempt: Annotated[int | None, typer.Option("--attempt", "-a", help="Its number.", show_default="newest")] = None,
    tail_bytes: Annotated[int | None, typer.Option("--tail-bytes", min=0, help="Only the last so many bytes.")] = None,
    as_json: AsJson = False,
    home: Home = None,
) -> None:
    """Print a job's stdout and stderr; bytes that are no UTF-8 are shown as replacement characters on a terminal."""
    with open_client(home) as client:
        found = client.job(job)
        chosen = client.attempt(found.job_id, attempt)
        if chosen is None:
            if not follow:
                wait = "" if found.state.is_terminal else "; add --follow to wait"
                raise NotFoundError(f"the job has not started, so it has printed nothing{wait}: {job}")
            chosen = _first_attempt(client, found.job_id)
            if chosen is None:
                return
        start = 0 if tail_bytes is None else max(0, _size(client, chosen) - tail_bytes)
        if as_json:
            text = b"".join(_read(client, chosen, start)).decode("utf-8", errors="replace")
            print_json({"job_id": found.job_id, "attempt": chosen.number, "log_path": chosen.log_path, "text": text})
            return
        offset = _copy(client, chosen, start)
        while follow and not client.job(found.job_id).state.is_terminal:
            time.sleep(_POLL_S)
            newest = client.attempts(found.job_id)[-1]
            if attempt is None and newest.attempt_id != chosen.attempt_id:
                errors.print(f"[dim]attempt {newest.number}[/dim]")
                chosen, offset = newest, 0
            offset = _copy(client, chosen, offset)
        if follow:
            _copy(client, chosen, offset)


def _first_attempt(client: Client, job_id: str) -> Attempt | None:
    while not client.job(job_id).state.is_terminal:
        attempt = client.attempt(job_id)
        if attempt is not None:
            return attempt
        time.sleep(_POLL_S)
    return client.attempt(job_id)


def _size(client: Client, attempt: Attempt) -> int:
    return client.read_log(attempt.attempt_id, 0, 1).size


def _read(client: Client, attempt: Attempt, offset: int) -> Iterator[bytes]:
    while True:
        try:
            chunk = client.read_log(attempt.attempt_id, offset, _CHUNK_BYTES)
        except NotFoundError:
            return  # placed, and not launched yet
        if not chunk.data:
            return
        offset = chunk.next_offset
        yield chunk.data


def _copy(client: Client, attempt: Attempt, offset: int) -> int:
    for data in _read(client, attempt, offset):
        if sys.stdout.isatty():
            sys.stdout.write(data.decode("utf-8", errors="replace"))
        else:
            sys.stdout.buffer.write(data)
        offset += len(data)
    sys.stdout.flush()
    return offset
