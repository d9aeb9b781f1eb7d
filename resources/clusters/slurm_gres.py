"""GPUs in Slurm's words: what a node has, what a placement asks for, what a job holds."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from lucid_pipelines.domain.cluster import NodeShare
from lucid_pipelines.domain.errors import InputError

_ITEM = re.compile(r"(?:gres[:/])?(?P<kind>[A-Za-z]\w*)(?::(?P<type>[A-Za-z_][\w.-]*))?(?:[:=](?P<count>\d+))?")
_HELD = re.compile(r"(?P<kind>[A-Za-z]\w*)(?::(?P<type>[A-Za-z_][\w.-]*))?:(?P<count>\d+)(?:\((?P<inside>[^)]*)\))?")


@dataclass(frozen=True, slots=True)
class NodeGpus:
    """A node's GPUs.

    Attributes:
        types: the type of each GPU by its number; ``None`` without one.
        shards: how many jobs may share each GPU through typed shards; 0 = none.
    """

    types: tuple[str | None, ...]
    shards: tuple[int, ...]

    @property
    def can_pin(self) -> bool:
        """Whether a GPU can be asked for by its number: each one has a type of its own."""
        return None not in self.types and len(set(self.types)) == len(self.types)

    @property
    def can_share(self) -> bool:
        """Whether two jobs can be given the same GPU, of our choice."""
        return self.can_pin and bool(self.shards) and min(self.shards) >= 2


def node_gpus(gres: str) -> NodeGpus:
    """From a node's ``Gres``: ``gpu:g0:1,gpu:g1:1,shard:g0:2`` or ``gpu:a100:8(S:0-1)``."""
    types: list[str | None] = []
    shards: dict[str, int] = {}
    for kind, gpu_type, count in _items(gres):
        if kind == "gpu":
            types += [gpu_type] * count
        elif kind == "shard" and gpu_type is not None:
            shards[gpu_type] = shards.get(gpu_type, 0) + count
    return NodeGpus(tuple(types), tuple(shards.get(t, 0) if t is not None else 0 for t in types))


def gres_request(gpus: NodeGpus, share: NodeShare, *, is_shared: bool) -> str:
    """What one node's part of a placement asks Slurm for.

    Raises:
        InputError: a shared GPU where Slurm cannot be asked for one.
    """
    if is_shared:
        if not gpus.can_share:
            raise InputError(f"two jobs on one GPU need typed shards in gres.conf; {share.node} has none")
        return ",".join(f"shard:{gpus.types[index]}:1" for index in share.gpu_indices)
    if gpus.can_pin:
        return ",".join(f"gpu:{gpus.types[index]}:1" for index in share.gpu_indices)
    return f"gpu:{len(share.gpu_indices)}"


def held_indices(gpus: NodeGpus, detail: str) -> frozenset[int] | None:
    """GPUs that a job holds on one node, from its ``gres_detail``; ``None`` when it does not say which."""
    held: set[int] = set()
    numbers = {gpu_type: index for index, gpu_type in enumerate(gpus.types)} if gpus.can_pin else {}
    for match in _HELD.finditer(detail):
        if match["kind"] not in ("gpu", "shard") or not int(match["count"]):
            continue
        inside = match["inside"] or ""
        if match["type"] in numbers:
            held.add(numbers[match["type"]])
        elif match["kind"] == "gpu" and inside.startswith("IDX:") and inside != "IDX:N/A":
            held |= _numbers(inside.removeprefix("IDX:"))
        else:
            return None
    return frozenset(index for index in held if index < len(gpus.types))


def beside(gpus: NodeGpus, taken: set[int], ours: set[int]) -> set[int]:
    """GPUs that others hold, in our numbers: where Slurm chooses, only how many they are has a meaning for us.

    Slurm's number of a GPU that another job holds may be the one by which we call a GPU of ours.
    """
    if gpus.can_pin:
        return taken
    free = [index for index in range(len(gpus.types)) if index not in taken | ours]
    return (taken - ours) | set(free[: len(taken & ours)])


def asked_gpus(request: str) -> int:
    """How many GPUs a job asks for on a node: ``gres:gpu:2``, ``gres:gpu:g3:1,gres:gpu:g5:1``, ``gres/gpu=4``."""
    return sum(count for kind, _, count in _items(request) if kind == "gpu")


def _items(text: str) -> Iterable[tuple[str, str | None, int]]:
    for part in re.sub(r"\([^)]*\)", "", text).split(","):
        match = _ITEM.fullmatch(part.strip())
        if match is not None:
            yield match["kind"], match["type"], int(match["count"] or 1)


def _numbers(text: str) -> set[int]:
    found: set[int] = set()
    for part in text.split(","):
        low, dash, high = part.partition("-")
        if low.isdigit() and (not dash or high.isdigit()):
            found |= set(range(int(low), int(high if dash else low) + 1))
    return found
