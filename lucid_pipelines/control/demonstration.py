"""The demonstration that `lucid up` submits: real training programs from ``examples/``, once per home folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lucid_pipelines.control.requests import JobRequest, read_job_file
from lucid_pipelines.domain.errors import NotFoundError
from lucid_pipelines.domain.job import Job
from lucid_pipelines.domain.states import JobState

if TYPE_CHECKING:
    from lucid_pipelines.client import Client, Submitted

_CANCEL_AFTER_S = 5.0
_LABEL = ("demo", "cancel")


def find_demo(folder: Path) -> Path:
    """The job file of the demonstration: beside the source tree that this package is run from, or below ``folder``.

    Raises:
        NotFoundError: neither has one (an installed wheel ships no examples).
    """
    for root in (Path(__file__).parents[2], folder):
        candidate = root / "examples" / "demo.yaml"
        if candidate.is_file():
            return candidate
    raise NotFoundError(f"the examples are not here; run from a clone, or give --no-demo: {folder}")


def submit_demo(client: Client, path: Path) -> list[Submitted]:
    """Submit the demonstration; a second call finds the jobs of the first.

    On a cluster without the demonstration's virtual clusters its jobs go to the default one, with fewer GPUs.
    """
    requests = [
        _fitted(client, request).model_copy(update={"idempotency_key": f"demo-{number:02d}"})
        for number, request in enumerate(read_job_file(path), start=1)
    ]
    return client.submit_requests(requests)


def asks_to_be_cancelled(job: Job) -> bool:
    """Whether this is the job that its user gives up (label ``demo: cancel``)."""
    return _LABEL in job.spec.labels


def cancel_what_asks_for_it(client: Client, jobs: Sequence[Job]) -> None:
    """Cancel the job labelled ``demo: cancel`` once it has run for a few seconds: somebody changed their mind."""
    now = client.system.clock.now()
    for job in jobs:
        if (
            asks_to_be_cancelled(job)
            and job.state is JobState.RUNNING
            and job.cancel_requested_at is None
            and job.started_at is not None
            and (now - job.started_at).total_seconds() > _CANCEL_AFTER_S
        ):
            client.cancel(job.job_id, who=job.spec.user)


def _fitted(client: Client, request: JobRequest) -> JobRequest:
    inventory = client.system.cluster.inventory()
    vcs = {vc.name for vc in inventory.virtual_clusters}
    if request.vc in vcs:
        return request
    vc = client.settings.default_vc if client.settings.default_vc in vcs else sorted(vcs)[0]
    return request.model_copy(update={"vc": vc, "gpus": min(request.gpus, inventory.gpu_count(vc))})
