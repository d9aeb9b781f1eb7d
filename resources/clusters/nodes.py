"""What a local cluster consists of: declared nodes with virtual GPUs, or this machine with real ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from lucid_pipelines.domain.cluster import Gpu, NodeShare, Placement
from lucid_pipelines.domain.errors import InputError, NotFoundError, did_you_mean


@dataclass(frozen=True, slots=True)
class DeclaredCheck:
    """What a diagnosis test on a virtual node shall answer."""

    passed: bool | None
    detail: str


@dataclass(frozen=True, slots=True)
class LocalNode:
    """One node of a local cluster.

    Attributes:
        checks: declared answers of diagnosis tests, by the test's name; virtual nodes only.
        default_check: the answer to every other test; ``None`` = such a test cannot be run.
    """

    name: str
    gpus: tuple[Gpu, ...]
    vc: str = "default"
    cpus: int | None = None
    checks: Mapping[str, DeclaredCheck] = field(default_factory=lambda: MappingProxyType({}))
    default_check: DeclaredCheck | None = None

    @classmethod
    def virtual(
        cls,
        name: str,
        gpu_count: int,
        *,
        vc: str = "default",
        gpu_type: str | None = None,
        memory_mib: float | None = None,
        checks: Mapping[str, DeclaredCheck] | None = None,
        default_check: DeclaredCheck | None = None,
    ) -> LocalNode:
        """A node that exists by declaration only."""
        gpus = tuple(Gpu(i, None, gpu_type, memory_mib, is_virtual=True) for i in range(gpu_count))
        return cls(name, gpus, vc, None, MappingProxyType(dict(checks or {})), default_check)

    @property
    def is_virtual(self) -> bool:
        return all(gpu.is_virtual for gpu in self.gpus)


def nodes_by_name(nodes: Iterable[LocalNode]) -> dict[str, LocalNode]:
    """Index the nodes; ``InputError`` when there are none or a name stands twice."""
    by_name: dict[str, LocalNode] = {}
    for node in nodes:
        if node.name in by_name:
            raise InputError(f"every node needs a name of its own; twice: {node.name!r}")
        by_name[node.name] = node
    if not by_name:
        raise InputError("a local cluster needs at least one node: declare one, or use a machine with GPUs")
    return by_name


def require_node(nodes: Mapping[str, LocalNode], name: str, gpu_indices: Sequence[int] = ()) -> LocalNode:
    """The node of that name; ``NotFoundError`` when it or one of the GPUs does not exist."""
    node = nodes.get(name)
    if node is None:
        raise NotFoundError(f"no node has this name{did_you_mean(name, nodes)}: {name!r}")
    known = [gpu.index for gpu in node.gpus]
    strange = [index for index in gpu_indices if index not in known]
    if strange:
        raise NotFoundError(f"node {name!r} has GPUs {known}; it has none with the numbers {strange}")
    return node


def placed_gpus(nodes: Mapping[str, LocalNode], placement: Placement) -> list[tuple[NodeShare, Gpu]]:
    """The GPUs of a placement in rank order.

    Raises:
        InputError: an empty placement.
        NotFoundError: a node or GPU does not exist.
    """
    if not placement.gpu_count:
        raise InputError("a placement names at least one GPU; got an empty one")
    found: list[tuple[NodeShare, Gpu]] = []
    for share in placement.shares:
        gpus = {gpu.index: gpu for gpu in require_node(nodes, share.node, share.gpu_indices).gpus}
        found += [(share, gpus[index]) for index in share.gpu_indices]
    return found


def visible_devices(nodes: Mapping[str, LocalNode], placement: Placement) -> str:
    """``CUDA_VISIBLE_DEVICES`` of a placement.

    On one node: its own GPU numbers. Over several (virtual) nodes, which here are one machine: numbers
    counted through all nodes in the order of declaration, so that no two GPUs share one.
    """
    if len(placement.shares) == 1:
        return ",".join(map(str, placement.shares[0].gpu_indices))
    first: dict[str, int] = {}
    count = 0
    for name, node in nodes.items():
        first[name] = count
        count += len(node.gpus)
    return ",".join(str(first[share.node] + index) for share in placement.shares for index in share.gpu_indices)
