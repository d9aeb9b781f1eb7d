"""How jobs are submitted to Slurm, as a site sets it."""

from __future__ import annotations

from dataclasses import dataclass

from lucid_pipelines.resources.clusters.slurm_adoption import SlurmAdoption


@dataclass(frozen=True, slots=True)
class SlurmOptions:
    """How jobs are submitted.

    Attributes:
        partitions: partitions whose nodes are ours to place on; each is a virtual cluster. Empty = all.
        python: the interpreter on the nodes, 3.9 or newer.
        cpus_per_gpu, memory_mib_per_gpu: asked for with each GPU; ``None`` = the partition's default.
        adopt: which held jobs of users we place; ``None`` = none.
        share: ask for typed shards instead of whole GPUs, so that two jobs can be given one GPU.
        hold: where there are no typed shards, keep allocations open, so that a second job can run inside the first.
        submit_as_user: submit with ``--uid`` of the job's user; needs root or SlurmUser.
        extra: further arguments of every sbatch.
        dead_node_fence_s: how long after its node stopped answering Slurm a fenced attempt counts as dead.
    """

    partitions: tuple[str, ...] = ()
    account: str | None = None
    qos: str | None = None
    time_limit: str | None = None
    python: str = "python3"
    cpus_per_gpu: int | None = None
    memory_mib_per_gpu: int | None = None
    share: bool = True
    hold: bool = False
    adopt: SlurmAdoption | None = None
    submit_as_user: bool = False
    extra: tuple[str, ...] = ()
    dead_node_fence_s: float = 300.0
