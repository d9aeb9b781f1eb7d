"""The user of the demonstration who changes their mind, as a process of its own.

`lucid up` cancels the job labelled ``demo: cancel`` while it shows the table. Where nobody watches (``--detach``,
or Ctrl-C closed the table) this process does it. It ends with the job, with the service, or after half an hour.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from lucid_pipelines.client import Client, is_settled
from lucid_pipelines.control.demonstration import asks_to_be_cancelled, cancel_what_asks_for_it
from lucid_pipelines.domain.job import Job
from lucid_pipelines.service.dagster_home import run_files
from lucid_pipelines.service.status import is_running

_PATIENCE_S = 1800.0
_LOOKS_EVERY_S = 2.0


def leave_a_user(client: Client, jobs: Sequence[Job]) -> int | None:
    """Start the process for the jobs among ``jobs`` that ask to be cancelled. Returns its id; ``None``: none asks."""
    ids = [job.job_id for job in jobs if asks_to_be_cancelled(job) and not is_settled(job)]
    if not ids:
        return None
    arguments = [sys.executable, "-m", __name__, str(client.settings.home), *ids]
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(arguments, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)
    return process.pid


def act_as_user(client: Client, ids: Sequence[str], patience_s: float = _PATIENCE_S) -> None:
    """Cancel each job once it has run for a few seconds; return when that is done or the service is gone."""
    files = run_files(client.settings)
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline and is_running(files):
        jobs = [job for job in client.jobs(ids=ids, limit=None) if not is_settled(job)]
        if all(job.cancel_requested_at is not None for job in jobs):
            return
        cancel_what_asks_for_it(client, jobs)
        time.sleep(_LOOKS_EVERY_S)


if __name__ == "__main__":
    with Client(Path(sys.argv[1])) as opened:
        act_as_user(opened, sys.argv[2:])
