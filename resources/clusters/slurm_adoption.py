"""Jobs that users submitted held with plain ``sbatch``: found by the site's tag, pinned to our placement, released.

Only held jobs with the tag are ever touched, and of them only the comment, the nodes, the GPUs and the permission to
be requeued by Slurm itself: a job that Slurm started again while its old processes live would write its checkpoints
twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lucid_pipelines.domain.errors import InputError, StateError
from lucid_pipelines.ports import HeldJob
from lucid_pipelines.resources.clusters.slurm_commands import SlurmCommands
from lucid_pipelines.resources.clusters.slurm_gres import asked_gpus
from lucid_pipelines.resources.clusters.slurm_json import SlurmJob
from lucid_pipelines.resources.clusters.slurm_states import WAITING, is_over

_NAME_CHARS = 100


@dataclass(frozen=True, slots=True)
class SlurmAdoption:
    """How the site tags jobs for us: one of these must fit.

    Attributes:
        comment: the job's whole comment.
    """

    comment: str | None = "lucid"
    qos: str | None = None
    partition: str | None = None

    def wants(self, job: SlurmJob) -> bool:
        """Whether a job waits for us: held, tagged, with GPUs, and no array or heterogeneous job."""
        tagged = (
            (self.comment is not None and job.comment == self.comment)
            or (self.qos is not None and job.qos == self.qos)
            or (self.partition is not None and job.partition == self.partition)
        )
        is_whole = not job.is_array and job.submitted_at is not None
        return tagged and is_whole and job.state == "PENDING" and job.is_held and asked_gpus(job.gres_request) > 0


def held_job(job: SlurmJob) -> HeldJob:
    """The job as the control plane takes it in."""
    assert job.submitted_at is not None, "see SlurmAdoption.wants"
    return HeldJob(
        key=_key(job),
        name=_one_line(job.name) or f"slurm-{job.job_id}",
        user=job.user,
        vc=job.partition,
        gpus=asked_gpus(job.gres_request) * job.node_count,
        work_dir=job.work_dir,
        script=job.command or None,
        submitted_at=job.submitted_at,
    )


def find_held(jobs: Sequence[SlurmJob], key: str, tag: str) -> tuple[SlurmJob, bool]:
    """The held job of that key, and whether it was released for this attempt before.

    Raises:
        InputError: Slurm has no such job any more, or it has ended.
        StateError: somebody else released it.
    """
    job = next((job for job in jobs if job.submitted_at is not None and _key(job) == key), None)
    if job is None or (is_over(job) and job.comment != tag):
        state = "does not know it any more" if job is None else f"has ended it as {job.state}"
        raise InputError(f"an adopted job is started once, and Slurm {state}; submit it again: {key}")
    if job.comment == tag and (is_over(job) or not job.is_held):
        return job, True
    if job.state not in WAITING or not job.is_held:
        raise StateError(f"somebody else released the job, so it is left alone: {key} is {job.state}")
    return job, False


def release(commands: SlurmCommands, job: SlurmJob, tag: str, nodes: Sequence[str], gres: str | None) -> None:
    """Pin and release. ``gres`` is set where GPUs can be asked for one by one; else Slurm chooses on the node."""
    named = f"JobId={job.job_id}"
    if gres is not None:
        commands.run("scontrol", "update", named, "TresPerNode=")  # a second request would be added to the first
        commands.run("scontrol", "update", named, f"Gres={gres}")
    count = len(nodes)
    commands.run(
        "scontrol", "update", named, f"ReqNodeList={','.join(nodes)}", f"NumNodes={count}-{count}", "Requeue=0",
        f"Comment={tag}",
    )  # fmt: skip
    commands.run("scontrol", "release", str(job.job_id))


def _one_line(name: str) -> str:
    """Users may put anything into a name."""
    return " ".join("".join(c if c.isprintable() else " " for c in name).split())[:_NAME_CHARS]


def _key(job: SlurmJob) -> str:
    """Job numbers begin anew when a site wipes its controller's state; the time of submission tells them apart."""
    assert job.submitted_at is not None
    return f"{job.job_id}-{int(job.submitted_at.timestamp())}"
