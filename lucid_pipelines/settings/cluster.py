"""Nodes and how they are reached: declared, by SSH, or through Slurm."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator, model_validator

from lucid_pipelines.settings.section import Section


class NodeSettings(Section):
    """One declared node: its (virtual) GPUs, and how it is reached where that matters."""

    name: str = Field(min_length=1, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    gpus: int = Field(ge=1, le=64)
    vc: str = Field(default="default", min_length=1)
    gpu_type: str = "virtual"
    memory_mib: float = Field(default=24_576.0, gt=0)
    failing_checks: tuple[str, ...] = Field(default=(), description="Diagnosis tests that this virtual node fails.")
    host: str | None = Field(default=None, min_length=1, description="SSH: name or address; default: the node's name.")
    port: int = Field(default=22, ge=1, le=65535, description="SSH.")
    user: str | None = Field(default=None, min_length=1, description="SSH: another user than cluster.ssh.user.")
    internal_host: str | None = Field(default=None, min_length=1, description="SSH: how other nodes reach it.")
    ssh_root: str | None = Field(default=None, min_length=1, description="SSH: another folder than cluster.ssh.root.")


DEFAULT_NODES = (
    NodeSettings(name="node-1", gpus=4, vc="vision"),
    NodeSettings(name="node-2", gpus=4, vc="nlp"),
)


class SshSettings(Section):
    """How nodes are reached; the nodes themselves stand in ``cluster.nodes``."""

    user: str | None = Field(default=None, min_length=1, description="Default: the user of the control plane.")
    key_file: Path | None = Field(default=None, description="Default: the agent's keys and the usual files.")
    known_hosts: tuple[Path, ...] = (Path("~/.ssh/known_hosts"), Path("/etc/ssh/ssh_known_hosts"))
    root: str = Field(default="~/.lucid-node", min_length=1, description="Our folder on every node.")
    python: str = Field(default="python3", min_length=1, description="Python 3.9 or newer on the nodes.")
    connect_timeout_s: float = Field(default=10.0, gt=0)
    call_timeout_s: float = Field(default=60.0, gt=0)
    keepalive_s: float = Field(default=15.0, ge=1)
    parallel: int = Field(default=16, ge=1, le=256, description="Nodes asked at once.")
    unreachable_grace_s: float = Field(default=120.0, gt=0, description="Silence that is not yet a fault.")
    max_checkpoint_mib: float = Field(default=512.0, ge=0, description="Moved for a restart on another node.")


class AdoptSettings(Section):
    """Which held jobs of users are ours to place (``modes.adopt``): one of these must fit."""

    comment: str | None = Field(default="lucid", min_length=1)
    qos: str | None = Field(default=None, min_length=1)
    partition: str | None = Field(default=None, min_length=1)


class SlurmSettings(Section):
    """How jobs are handed to Slurm; nodes and GPUs are read from Slurm itself."""

    conf: Path | None = Field(default=None, description="slurm.conf; default: SLURM_CONF, else Slurm's own.")
    bin_dir: Path | None = Field(default=None, description="Where sbatch lies; default: the PATH.")
    partitions: tuple[str, ...] = Field(default=(), description="Whose nodes we place on; each is a VC. Empty: all.")
    account: str | None = None
    qos: str | None = None
    time_limit: str | None = Field(default=None, description="As sbatch --time; default: the partition's.")
    python: str = Field(default="python3", min_length=1, description="Python 3.9 or newer on the nodes.")
    cpus_per_gpu: int | None = Field(default=None, ge=1)
    memory_mib_per_gpu: int | None = Field(default=None, ge=1)
    share: bool = Field(
        default=True, description="Let two jobs have one GPU: by typed shards, else inside one allocation."
    )
    submit_as_user: bool = Field(default=False, description="sbatch --uid of the job's user; needs root or SlurmUser.")
    extra: tuple[str, ...] = Field(default=(), description="Further arguments of every sbatch.")
    adopt: AdoptSettings = AdoptSettings()
    command_timeout_s: float = Field(default=30.0, gt=0)
    dead_node_fence_s: float = Field(
        default=300.0, ge=0, description="Silence after which a node's job counts as dead."
    )


class CheckSettings(Section):
    """A site's own diagnosis test: passes when it ends with status 0."""

    command: tuple[str, ...] = Field(min_length=1)
    timeout_s: float = Field(default=300.0, gt=0)


class ClusterSettings(Section):
    """Where jobs run."""

    kind: Literal["local", "ssh", "slurm"] = "local"
    gpus: Literal["auto", "virtual", "real"] = Field(
        default="auto", description="auto: real GPUs where NVML finds some, else the declared virtual ones."
    )
    nodes: tuple[NodeSettings, ...] = DEFAULT_NODES
    default_vc: str | None = Field(default=None, description="VC of a job that names none; default: the first.")
    sample_interval_s: float = Field(default=2.0, gt=0)
    dcgm_url: str | None = Field(default=None, description="dcgm-exporter: asked for what NVML does not tell.")
    warmup_s: float = Field(default=10.0, ge=0, description="A job's first seconds, which its profile leaves out.")
    job_env: dict[str, str] = Field(default_factory=dict, description="What every job's environment begins with.")
    checks: dict[str, CheckSettings] = Field(default_factory=dict, description="Diagnosis tests of the site, by name.")
    ssh: SshSettings = SshSettings()
    slurm: SlurmSettings = SlurmSettings()

    @field_validator("nodes")
    @classmethod
    def _names_once(cls, nodes: tuple[NodeSettings, ...]) -> tuple[NodeSettings, ...]:
        names = [node.name for node in nodes]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"node names must differ; twice: {', '.join(twice)}")
        if not nodes:
            raise ValueError("declare at least one node")
        return nodes

    @model_validator(mode="after")
    def _default_vc_exists(self) -> ClusterSettings:
        known = sorted({node.vc for node in self.nodes})
        if self.kind != "slurm" and self.default_vc is not None and self.default_vc not in known:
            raise ValueError(f"default_vc {self.default_vc!r} has no node; known: {', '.join(known)}")
        return self
