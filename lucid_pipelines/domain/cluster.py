"""Nodes, GPUs, virtual clusters and placements: frozen facts, no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import cast

from lucid_pipelines.domain.errors import InputError

MOST_MIB = 1e9
"""No GPU has so much memory: a larger number is a driver's way to say that it does not know."""


def drop_invalid(reading: object, names: Iterable[str], most: float) -> None:
    """Make what cannot be (not a number, below 0, above ``most``) unknown in a frozen reading that is being made.

    Readings come from drivers, exporters and files of other programs: an invalid one must stop nobody (R-25).
    """
    for name in names:
        value = getattr(reading, name)
        if value is not None and not 0.0 <= value <= most:
            object.__setattr__(reading, name, None)


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU of a node.

    Attributes:
        index: position on its node, as in ``CUDA_VISIBLE_DEVICES``.
        uuid: the driver's stable name; ``None`` for a virtual GPU.
        memory_mib: memory size; ``None`` when unknown.
    """

    index: int
    uuid: str | None = None
    gpu_type: str | None = None
    memory_mib: float | None = None
    is_virtual: bool = False


class NodeCondition(StrEnum):
    """What is known of a node. ``UNOBSERVED`` is a state of knowledge, not a fault (R-1)."""

    READY = "ready"
    DRAINED = "drained"
    UNOBSERVED = "unobserved"


@dataclass(frozen=True, slots=True)
class Isolation:
    """One reason not to use a node or some of its GPUs; several may lie on one another (R-17).

    Attributes:
        gpu_indices: the GPUs concerned; empty = the whole node.
        owner: who set it, and alone may lift it.
    """

    gpu_indices: tuple[int, ...]
    owner: str
    reason: str
    since: datetime


@dataclass(frozen=True, slots=True)
class Node:
    """One machine and the GPUs that it offers.

    Attributes:
        isolations: every reason that stands against using it, oldest first.
        detail: why it is not ready, for people to read.
        taken_gpu_indices: GPUs that are held by somebody who is not managed by us.
    """

    name: str
    gpus: tuple[Gpu, ...]
    vc: str = "default"
    condition: NodeCondition = NodeCondition.READY
    observed_at: datetime | None = None
    cpus: int | None = None
    isolations: tuple[Isolation, ...] = ()
    detail: str | None = None
    taken_gpu_indices: frozenset[int] = frozenset()

    @property
    def gpu_count(self) -> int:
        return len(self.gpus)

    @property
    def isolated_gpu_indices(self) -> frozenset[int]:
        """GPUs that no new job may be placed on."""
        if any(not isolation.gpu_indices for isolation in self.isolations):
            return frozenset(gpu.index for gpu in self.gpus)
        return frozenset(index for isolation in self.isolations for index in isolation.gpu_indices)

    @property
    def usable_gpus(self) -> tuple[Gpu, ...]:
        """GPUs that a new job may be placed on: none of a node that is drained or unobserved."""
        if self.condition is not NodeCondition.READY:
            return ()
        unusable = self.isolated_gpu_indices | self.taken_gpu_indices
        return tuple(gpu for gpu in self.gpus if gpu.index not in unusable)


@dataclass(frozen=True, slots=True)
class VirtualCluster:
    """A share of the cluster with nodes of its own."""

    name: str
    node_names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Inventory:
    """What a cluster consists of at one moment."""

    nodes: tuple[Node, ...]
    observed_at: datetime

    @property
    def virtual_clusters(self) -> tuple[VirtualCluster, ...]:
        names: dict[str, list[str]] = {}
        for node in self.nodes:
            names.setdefault(node.vc, []).append(node.name)
        return tuple(VirtualCluster(vc, tuple(nodes)) for vc, nodes in names.items())

    def gpu_count(self, vc: str) -> int:
        return sum(node.gpu_count for node in self.nodes if node.vc == vc)


@dataclass(frozen=True, slots=True)
class NodeShare:
    """The GPUs that a job uses on one node."""

    node: str
    gpu_indices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a job runs: for each node its GPU indices, ascending; nodes in rank order."""

    shares: tuple[NodeShare, ...]

    @classmethod
    def of(cls, gpus_by_node: Mapping[str, Iterable[int]]) -> Placement:
        """Build a placement from ``{node: gpu indices}``.

        Raises:
            InputError: a GPU is named twice, or a node has none.
        """
        shares: list[NodeShare] = []
        for node, indices in gpus_by_node.items():
            ordered = tuple(sorted(indices))
            if not ordered or len(set(ordered)) != len(ordered):
                raise InputError(f"a placement names each GPU of a node once; got {node}: {ordered}")
            shares.append(NodeShare(node, ordered))
        return cls(tuple(shares))

    @property
    def gpu_count(self) -> int:
        return sum(len(share.gpu_indices) for share in self.shares)

    @property
    def node_names(self) -> tuple[str, ...]:
        return tuple([share.node for share in self.shares])

    def to_json(self) -> list[dict[str, object]]:
        return [{"node": share.node, "gpus": list(share.gpu_indices)} for share in self.shares]

    @classmethod
    def from_json(cls, rows: Iterable[Mapping[str, object]]) -> Placement:
        """The inverse of ``to_json``."""
        return cls(tuple(NodeShare(str(row["node"]), _indices(row["gpus"])) for row in rows))

    def __str__(self) -> str:
        return " + ".join(f"{s.node}[{','.join(map(str, s.gpu_indices))}]" for s in self.shares)


def _indices(value: object) -> tuple[int, ...]:
    if not isinstance(value, list):
        raise InputError(f"the GPUs of a placement are a list of numbers; got {value!r}")
    return tuple(int(item) for item in cast("list[int]", value))


@dataclass(frozen=True, slots=True)
class GpuSample:
    """One reading of one GPU. Unknown or invalid is ``None`` (R-25).

    Attributes:
        gpu_util_pct: share of time in which at least one kernel ran, 0 to 100.
        memory_util_pct: share of time in which memory was read or written, 0 to 100.
        memory_used_mib: memory in use.
        source: ``nvml``, ``declared`` (virtual GPUs) or ``dcgm``.
    """

    node: str
    gpu_index: int
    sampled_at: datetime
    source: str
    gpu_util_pct: float | None = None
    memory_util_pct: float | None = None
    memory_used_mib: float | None = None
    uuid: str | None = None
    process_count: int | None = None
    xid_errors: tuple[int, ...] = field(default=())

    def __post_init__(self) -> None:
        drop_invalid(self, ("gpu_util_pct", "memory_util_pct"), 100.0)
        drop_invalid(self, ("memory_used_mib",), MOST_MIB)
