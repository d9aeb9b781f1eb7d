"""A recorded (or generated) job and the cluster it is replayed on: the input of every replay, no I/O."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import cast

import yaml

from lucid_pipelines.domain.cluster import Gpu, Node
from lucid_pipelines.domain.errors import InputError, did_you_mean

MAX_GPUS = 1_000_000
"""More is a slip of the pen, and would fill the memory."""


class TraceState(StrEnum):
    """How the recorded job ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class TraceJob:
    """One job of a trace. Unknown is ``None``.

    Attributes:
        gpus: GPUs asked for. A fraction (Alibaba) is kept as it is; a replay quarantines it for policies
            that give whole GPUs only.
        submit_s: seconds since 1970-01-01 UTC, or since the trace's own zero where it has no calendar.
        duration_s: run time on exclusive GPUs, all attempts together.
        memory_peak_mib: peak memory on one GPU.
        start_s, end_s: what the trace recorded, on the clock of ``submit_s``.
        queue_s: the waiting time that the trace recorded.
        attempts: how many times the trace says that the job was started.
        code_fingerprint: equal for runs of the same code, where the trace knows.
        workload_source: ``recorded``, ``mapped`` (assigned from a profile table, seeded) or ``generated``.
    """

    job_id: str
    user: str
    vc: str
    name: str
    gpus: float
    submit_s: float
    duration_s: float
    state: TraceState = TraceState.COMPLETED
    cpus: float | None = None
    gpu_type: str | None = None
    model: str | None = None
    dataset: str | None = None
    batch_size: int | None = None
    amp: bool | None = None
    gpu_util_pct: float | None = None
    memory_util_pct: float | None = None
    memory_peak_mib: float | None = None
    start_s: float | None = None
    queue_s: float | None = None
    end_s: float | None = None
    attempts: int | None = None
    code_fingerprint: str | None = None
    workload_source: str | None = None

    @property
    def ended_s(self) -> float:
        """When it ended, as the trace recorded it, or else by its queue and run times."""
        if self.end_s is not None:
            return self.end_s
        return self.submit_s + (self.queue_s or 0.0) + max(self.duration_s, 0.0)


def ended_before(jobs: Iterable[TraceJob], moment_s: float) -> tuple[TraceJob, ...]:
    """What a policy that learns had seen by then, as far as a trace tells."""
    return tuple(job for job in jobs if job.submit_s < moment_s and job.ended_s <= moment_s)


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Equal nodes of one virtual cluster."""

    nodes: int
    gpus_per_node: int
    gpu_type: str | None = None
    gpu_memory_mib: float | None = None
    cpus_per_node: int | None = None

    @property
    def gpus(self) -> int:
        return self.nodes * self.gpus_per_node


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """Virtual clusters and the groups of nodes that each owns."""

    virtual_clusters: Mapping[str, tuple[NodeGroup, ...]]

    @classmethod
    def uniform(cls, nodes_by_vc: Mapping[str, int], gpus_per_node: int = 8) -> ClusterSpec:
        """A cluster of equal nodes, as most public traces describe theirs."""
        return cls({vc: (NodeGroup(nodes, gpus_per_node),) for vc, nodes in nodes_by_vc.items()})

    @classmethod
    def from_yaml(cls, text: str) -> ClusterSpec:
        """Read the text of a cluster file.

        ``virtual_clusters: {NAME: {nodes: 4, gpus_per_node: 8, gpu_type: V100, gpu_memory_mib: 32768}}``;
        a virtual cluster with unequal nodes gives a list of such groups.

        Raises:
            InputError: not YAML, an unknown key (the nearest valid one is named) or an impossible number.
        """
        try:
            document: object = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise InputError(f"the cluster file must be YAML: {' '.join(str(error).split())}") from error
        return cls.from_mapping(document)

    @classmethod
    def from_mapping(cls, document: object) -> ClusterSpec:
        """As ``from_yaml``, from what a YAML parser returned."""
        top = _table(document, "the cluster file", ("virtual_clusters",))
        clusters = _mapping(top.get("virtual_clusters"), "virtual_clusters")
        if not clusters:
            raise InputError("a cluster file needs at least one virtual cluster; got none")
        spec = cls({name: _groups(name, value) for name, value in clusters.items()})
        if spec.gpus > MAX_GPUS:
            raise InputError(f"a cluster has at most {MAX_GPUS:,} GPUs; got {spec.gpus:,}")
        return spec

    @property
    def gpus(self) -> int:
        return sum(self.gpus_of(vc) for vc in self.virtual_clusters)

    def gpus_of(self, vc: str) -> int:
        return sum(group.gpus for group in self.virtual_clusters[vc])

    def nodes(self) -> tuple[Node, ...]:
        """Every node, in the order of the file, named ``VC/NUMBER``."""
        return tuple(node for vc, groups in self.virtual_clusters.items() for node in _nodes(vc, groups))


def _nodes(vc: str, groups: Iterable[NodeGroup]) -> Iterable[Node]:
    number = 0
    for group in groups:
        gpus = tuple(
            Gpu(i, None, group.gpu_type, group.gpu_memory_mib, is_virtual=True) for i in range(group.gpus_per_node)
        )
        for _ in range(group.nodes):
            yield Node(f"{vc}/{number}", gpus, vc, cpus=group.cpus_per_node)
            number += 1


_GROUP_KEYS = ("nodes", "gpus_per_node", "gpu_type", "gpu_memory_mib", "cpus_per_node")


def _groups(vc: str, value: object) -> tuple[NodeGroup, ...]:
    rows = cast("list[object]", value) if isinstance(value, list) else [value]
    groups = tuple(_group(f"virtual_clusters.{vc}", row) for row in rows)
    if not groups:
        raise InputError(f"a virtual cluster needs at least one group of nodes; got none for {vc!r}")
    return groups


def _group(where: str, value: object) -> NodeGroup:
    row = _table(value, where, _GROUP_KEYS)
    for key in ("nodes", "gpus_per_node"):
        if key not in row:
            raise InputError(f"{where} needs the key {key!r}; it has {', '.join(row) or 'none'}")
    gpu_type = row.get("gpu_type")
    cpus = row.get("cpus_per_node")
    memory = row.get("gpu_memory_mib")
    return NodeGroup(
        nodes=_whole(f"{where}.nodes", row["nodes"]),
        gpus_per_node=_whole(f"{where}.gpus_per_node", row["gpus_per_node"]),
        gpu_type=None if gpu_type is None else str(gpu_type),
        gpu_memory_mib=None if memory is None else _positive(f"{where}.gpu_memory_mib", memory),
        cpus_per_node=None if cpus is None else _whole(f"{where}.cpus_per_node", cpus),
    )


def _table(value: object, where: str, known: tuple[str, ...]) -> dict[str, object]:
    row = _mapping(value, where)
    for key in row:
        if key not in known:
            hint = did_you_mean(key, known)
            raise InputError(f"{where} takes the keys {', '.join(known)}{hint}; not {key!r}")
    return row


def _mapping(value: object, where: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise InputError(f"{where} must be a table of keys and values; got {reprlib.repr(value)}")
    return {str(key): item for key, item in cast("dict[object, object]", value).items()}


def _whole(where: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError(f"{where} must be a whole number of at least 1; got {value!r}")
    return value


def _positive(where: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise InputError(f"{where} must be a number above 0; got {value!r}")
    return float(value)
