"""Machines reached by SSH: attempts run there under the same wrapper as on the local cluster.

What runs where is written down on the control plane's disk before it is sent (``placed.py``); everything else
is asked of the nodes, each of which keeps its own attempts (``node_agent.py``). A node that does not answer is
unobserved: its jobs keep their state, and nothing new is placed on it (R-1). To give a dead machine up for good,
take it out of the settings: that is the positive evidence after which its attempts count as lost.
"""

from __future__ import annotations

import io
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from lucid_pipelines.domain.cluster import Gpu, GpuSample, Inventory, Node, NodeCondition, NodeShare, Placement
from lucid_pipelines.domain.errors import ExternalError, InputError, LucidError, NotFoundError, UnreachableError
from lucid_pipelines.domain.job import Profile
from lucid_pipelines.ports import (
    Capabilities,
    CheckResult,
    HeldJob,
    LaunchRequest,
    LaunchResult,
    LogChunk,
    Observation,
    Sight,
)
from lucid_pipelines.resources.clusters.checks import CheckCommand, NodeChecks
from lucid_pipelines.resources.clusters.code_archives import CodeArchive, CodeArchives
from lucid_pipelines.resources.clusters.gpu_reading import GpuReading, gpu_sample
from lucid_pipelines.resources.clusters.isolation import IsolationLedger
from lucid_pipelines.resources.clusters.layout import Layout, checked_id
from lucid_pipelines.resources.clusters.loads import GpuLoad, virtual_samples
from lucid_pipelines.resources.clusters.logs import LARGEST_CHUNK_BYTES, checked_range
from lucid_pipelines.resources.clusters.node_archives import Body, unpack
from lucid_pipelines.resources.clusters.nodes import LocalNode, nodes_by_name, require_node
from lucid_pipelines.resources.clusters.observing import observation_of
from lucid_pipelines.resources.clusters.placed import PlacedAttempts, Sent
from lucid_pipelines.resources.clusters.ranks import failed_rank, rank_environment, together
from lucid_pipelines.resources.clusters.records import profile_of
from lucid_pipelines.resources.clusters.request import INHERITED, WrapperOptions, checked_grace, wrapper_spec
from lucid_pipelines.resources.clusters.ssh_connection import NodeConnection, SshOptions

FENCE_PATIENCE_S = 20.0
OBSERVED_FOR_S = 10.0
"""A node that answered anything within this time need not be asked whether it is there."""
_JOB_GRACE_S = 30.0
_log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SshNode:
    """One machine.

    Attributes:
        node: its name, declared GPUs and virtual cluster.
        user: overrides the cluster's user.
        internal_host: how other nodes reach it (MASTER_ADDR); default: ``host``.
        root: overrides the cluster's folder there.
    """

    node: LocalNode
    host: str
    port: int = 22
    user: str | None = None
    internal_host: str | None = None
    root: str | None = None


class SshCluster:
    """The ``Cluster`` port on machines reached by SSH.

    Args:
        root: the cluster's folder on the control plane's disk.
        gpus: ``virtual``: as declared; ``real``: read through NVML there; ``auto``: real where the node has a driver.
        unreachable_grace_s: how long a node may be silent before that is reported as a fault.
        max_checkpoint_mib: the most that is moved between nodes for a restart elsewhere (compressed).
        parallel: how many nodes are asked at once.
        job_env: variables that every job's environment begins with, beside what a login there has.

    Raises:
        InputError: no node, or two of one name.
        ExternalError: the root cannot be used.
    """

    def __init__(
        self,
        root: Path,
        nodes: Sequence[SshNode],
        *,
        ssh: SshOptions | None = None,
        options: WrapperOptions | None = None,
        gpus: str = "auto",
        unreachable_grace_s: float = 120.0,
        max_checkpoint_mib: float = 512.0,
        parallel: int = 16,
        job_env: Mapping[str, str] | None = None,
        check_commands: Mapping[str, CheckCommand] | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._nodes = nodes_by_name([node.node for node in nodes])
        self._hosts = {node.node.name: node for node in nodes}
        self._ssh = ssh or SshOptions()
        self._options = options or WrapperOptions(base_env={})
        self._gpu_source = gpus
        self._grace_s = unreachable_grace_s
        self._parallel = parallel
        self._checkpoint_bytes = int(max_checkpoint_mib * (1 << 20))
        self._job_env = dict(job_env or {})
        self._check_commands = dict(check_commands or {})
        self._now = now
        self._layout = Layout(root)
        self._isolations = IsolationLedger(self._layout.isolation, now)
        self._archives = CodeArchives(root / "archives")
        try:
            self._layout.create()
        except OSError as error:
            raise ExternalError(f"the cluster's folder cannot be used: {root}: {error}") from error
        self._placed = PlacedAttempts(self._layout)
        self._connections = {
            name: NodeConnection(name, host.host, host.port, host.user, _for_node(self._ssh, host))
            for name, host in self._hosts.items()
        }
        self._guard = threading.Lock()
        self._hello: dict[str, dict[str, Any]] = {}
        self._seen_at: dict[str, datetime] = {}
        self._asked_at: dict[str, float] = {}
        self._silent_since: dict[str, datetime] = {}

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(can_pack=True, can_isolate=True, can_check=True, can_adopt=False, pairs_by="devices")

    def inventory(self) -> Inventory:
        """Every declared node; one that does not answer is UNOBSERVED, with the reason and since when."""
        now = self._now()
        stale = [name for name in self._nodes if time.monotonic() - self._asked_at.get(name, -1e9) > OBSERVED_FOR_S]
        self._each(stale, self._greet)
        return Inventory(tuple(self._node(name, now) for name in self._nodes), now)

    def launch(self, request: LaunchRequest) -> LaunchResult:
        """Start one wrapper on every node of the placement; returns once each command runs or is known not to."""
        self._check(request)
        sent = self._placed.record(
            Sent(request.attempt_id, request.job_id, request.attempt_number, request.placement.node_names)
        )
        if sent is None:
            return LaunchResult(request.attempt_id, "", already=True)
        if sent.nodes != request.placement.node_names:  # the first launch's placement stands
            request = replace(request, placement=_moved(request.placement, sent.nodes))
        archive = self._archives.of(request.code_dir)
        self._bring_checkpoints(request, sent)
        results = self._each(
            range(len(sent.nodes)), lambda rank: self._launch_rank(request, rank, archive), must_succeed=True
        )
        first = results[0]
        return LaunchResult(
            request.attempt_id, f"{sent.nodes[0]}:{first['log_path']}", all(result["already"] for result in results)
        )

    def held_jobs(self) -> Sequence[HeldJob]:
        return ()

    def poll(self, attempt_ids: Sequence[str]) -> Mapping[str, Observation]:
        now = self._now()
        seen: dict[str, Observation] = {}
        sent: dict[str, Sent] = {}
        for attempt_id in attempt_ids:
            try:
                found = self._placed.find(checked_id(attempt_id))
            except ExternalError as error:
                seen[attempt_id] = Observation(attempt_id, Sight.UNOBSERVED, now, "ssh:error", detail=str(error))
                continue
            if found is None:
                seen[attempt_id] = observation_of(attempt_id, self._placed.look(attempt_id), now, "ssh:register")
            else:
                sent[attempt_id] = found
        by_node: dict[str, list[str]] = {}
        for attempt_id, one in sent.items():
            for node in one.nodes:
                by_node.setdefault(node, []).append(attempt_id)
        answers = dict(
            zip(by_node, self._each(by_node, lambda node: self._poll_node(node, by_node[node])), strict=True)
        )
        for attempt_id, one in sent.items():
            parts = [observation_of(attempt_id, answers[node][attempt_id], now, "ssh") for node in one.nodes]
            self._stop_survivors(one, parts)
            seen[attempt_id] = together(attempt_id, one.nodes, parts, now)
        return {attempt_id: seen[attempt_id] for attempt_id in attempt_ids}

    def stop(self, attempt_id: str, grace_s: float, reason: str) -> None:
        request = {"grace_s": checked_grace(grace_s), "reason": reason, "requested_at": self._now().isoformat()}
        if self._placed.stop_unsent(checked_id(attempt_id), request):
            return
        self._each(
            self._where(attempt_id),
            lambda node: self._call(node, "stop", {"id": attempt_id, "request": request}),
            must_succeed=True,
        )

    def fence(self, attempt_id: str) -> int:
        if self._placed.fence_unsent(checked_id(attempt_id)):
            return 0
        nodes = self._where(attempt_id)
        keys = {"id": attempt_id, "patience_s": FENCE_PATIENCE_S}
        found = self._each(nodes, lambda node: int(self._call(node, "fence", keys)["found"]), must_succeed=True)
        sent = self._placed.find(attempt_id)
        if sent is not None and len(nodes) < len(sent.nodes):
            gone = [node for node in sent.nodes if node not in nodes]
            self._placed.end(attempt_id, f"taken out of the cluster while it was there: {', '.join(gone)}")
        return sum(found)

    def read_log(self, attempt_id: str, offset: int, max_bytes: int) -> LogChunk:
        """Bytes of the log; of a job on several nodes, rank 0's."""
        checked_range(offset, max_bytes)
        sent = self._placed.find(attempt_id)
        if sent is None:
            if not self._placed.known(attempt_id):
                raise NotFoundError(f"no attempt of this name was launched here: {attempt_id!r}")
            return LogChunk(b"", 0, 0, 0, restarted=offset > 0)
        if sent.nodes[0] not in self._nodes:
            raise ExternalError(f"the log is on a node that was taken out of the cluster: {sent.nodes[0]}")
        keys = {"id": attempt_id, "offset": offset, "max_bytes": min(max_bytes, LARGEST_CHUNK_BYTES)}
        answer, data = self._connections[sent.nodes[0]].call("read_log", keys)
        begin, end = int(answer["begin"]), int(answer["begin"]) + len(data)
        return LogChunk(data, begin, end, max(int(answer["size"]), end), begin != offset, answer["identity"])

    def profile(self, attempt_id: str, since: datetime | None = None) -> Profile | None:
        """What rank 0 of a running attempt has shown so far, or since a moment."""
        sent = self._placed.find(attempt_id)
        if sent is None:
            raise NotFoundError(f"no attempt of this name was launched here: {attempt_id!r}")
        if sent.nodes[0] not in self._nodes:
            return None
        keys = {"id": attempt_id, "since_s": None if since is None else since.timestamp()}
        shown = self._call(sent.nodes[0], "profile", keys)["shown"]
        return None if shown is None else profile_of(shown)

    def sample(self) -> Sequence[GpuSample]:
        """One sample a GPU of every node that answers."""
        now = self._now()
        answers = self._each(self._nodes, self._sample_node)
        samples: list[GpuSample] = []  # of a node whose driver does not answer there is none: unknown, not idle
        for name, answer in zip(self._nodes, answers, strict=True):
            if answer is None:
                continue
            node = self._current(name)
            if node.is_virtual:
                loads = [GpuLoad(name, int(load[0]), (load[1], load[2], load[3])) for load in answer["loads"]]
                samples += virtual_samples([node], loads, now)
            else:
                samples += [gpu_sample(name, reading, now) for reading in _readings(answer["gpus"] or [])]
        return samples

    def check(self, node: str, test: str) -> CheckResult:
        require_node(self._nodes, node)
        self._greet(node)

        def run(command: CheckCommand) -> tuple[bool | None, str]:
            keys = {"argv": list(command.argv), "timeout_s": command.timeout_s}
            answer, _ = self._connections[node].call("run", keys, timeout_s=command.timeout_s + 10.0)
            return (None if answer["status"] is None else answer["status"] == 0), str(answer["output"])

        checks = NodeChecks(
            self._now,
            lambda: _readings(self._call(node, "hello", {"read_gpus": True})["gpus"] or []),
            lambda: frozenset(map(int, self._call(node, "processes", {})["pids"])),
            self._check_commands,
            run,
        )
        try:
            return checks.run(self._current(node), test)
        except UnreachableError as error:
            return CheckResult(node, test, None, str(error), self._now())

    def isolate(self, node: str, gpu_indices: Sequence[int], owner: str, reason: str) -> None:
        require_node(self._nodes, node, gpu_indices)
        self._isolations.add(node, gpu_indices, owner, reason)

    def restore(self, node: str, gpu_indices: Sequence[int], owner: str) -> None:
        require_node(self._nodes, node, gpu_indices)
        self._isolations.remove(node, gpu_indices, owner)

    def fetch_checkpoints(self, attempt_id: str, target: Path) -> None:
        """Rank 0's checkpoints, unless they are larger than is allowed: then nothing is fetched, with a warning."""
        sent = self._placed.find(attempt_id)
        if sent is None or sent.nodes[0] not in self._nodes:
            return
        data = self._pack_checkpoints(sent)
        if data:
            try:
                unpack(Body(io.BytesIO(data), len(data)), target)
            except OSError as error:
                raise ExternalError(f"the checkpoints cannot be written: {error}: {target}") from error

    def close(self) -> None:
        """End every connection; what runs on the nodes goes on."""
        for connection in self._connections.values():
            connection.close()

    # --- launching ---

    def _check(self, request: LaunchRequest) -> None:
        wrapper_spec(request, self._nodes, self._options)  # refuses what can never run, before anything is sent
        checked_id(request.job_id)

    def _launch_rank(self, request: LaunchRequest, rank: int, archive: CodeArchive) -> dict[str, Any]:
        share = request.placement.shares[rank]
        self._greet(share.node)
        node = self._current(share.node)
        own = replace(request, placement=Placement((share,)))
        spec = wrapper_spec(own, {share.node: node}, self._options)
        master = self._hosts[request.placement.node_names[0]]
        ranks = rank_environment(request.placement, rank, master.internal_host or master.host, request.attempt_id)
        spec.update(placement=request.placement.to_json(), env={**spec["env"], **ranks})
        keys = {
            "spec": spec,
            "workdir": str(PurePosixPath(request.workdir)),
            "digest": archive.digest,
            "inherited": INHERITED.pattern,
            "base_env": self._job_env,
            "timeout_s": self._options.launch_timeout_s,
        }
        limit_s = self._options.launch_timeout_s + self._ssh.call_timeout_s
        connection = self._connections[share.node]
        answer, _ = connection.call("launch", keys, timeout_s=limit_s)
        if answer.get("needs_code"):
            slow_s = archive.path.stat().st_size / (1 << 20)  # at least 1 MiB a second
            connection.call("store", {"digest": archive.digest}, archive.path, self._ssh.call_timeout_s + slow_s)
            answer, _ = connection.call("launch", keys, timeout_s=limit_s)
            if answer.get("needs_code"):
                raise ExternalError(f"node {share.node} lost the code that it was sent; launch again")
        self._heard(share.node)
        return answer

    def _bring_checkpoints(self, request: LaunchRequest, sent: Sent) -> None:
        """A restart elsewhere finds the checkpoints of the attempt before, unless the nodes share a disk.

        A node that cannot give them is no reason against the start: the job then begins anew, which is counted
        against it by the check of its first step (R-32).
        """
        before = self._placed.latest_of(request.job_id, request.attempt_number) if request.attempt_number > 1 else None
        if before is None or before.nodes[0] not in self._nodes:
            return
        target, source = sent.nodes[0], before.nodes[0]
        if target == source or self._placed_before(request.attempt_id):
            return
        try:
            if self._greet(source)["disk"] == self._greet(target)["disk"]:
                return
            data = self._pack_checkpoints(before)
            if data:
                slow_s = self._ssh.call_timeout_s + len(data) / (1 << 20)
                self._connections[target].call("unpack_checkpoints", {"job_id": request.job_id}, data, slow_s)
        except UnreachableError as error:
            if self._connections[target].fault is not None:
                raise
            _log.warning("the checkpoints of job %s stay behind on %s: %s", request.job_id, source, error)

    def _pack_checkpoints(self, sent: Sent) -> bytes:
        keys = {"job_id": sent.job_id, "max_bytes": self._checkpoint_bytes}
        slow_s = self._ssh.call_timeout_s + self._checkpoint_bytes / (1 << 20)
        answer, data = self._connections[sent.nodes[0]].call("pack_checkpoints", keys, timeout_s=slow_s)
        if answer["is_too_large"]:
            _log.warning("the checkpoints of job %s are larger than may be moved; they stay behind", sent.job_id)
        return data

    def _placed_before(self, attempt_id: str) -> bool:
        """Whether a call before this one has started it: then its checkpoints are its own."""
        seen = self.poll([attempt_id])[attempt_id].sight
        return seen not in (Sight.NOT_STARTED, Sight.UNOBSERVED)

    # --- looking ---

    def _poll_node(self, node: str, attempt_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        if node not in self._connections:
            return {attempt_id: self._seen_on_gone(node, attempt_id) for attempt_id in attempt_ids}
        try:
            seen = self._call(node, "poll", {"ids": list(attempt_ids)})["seen"]
            return {attempt_id: seen[attempt_id] for attempt_id in attempt_ids}
        except (LucidError, KeyError, TypeError) as error:
            return {attempt_id: {"sight": "unobserved", "detail": str(error)} for attempt_id in attempt_ids}

    def _seen_on_gone(self, node: str, attempt_id: str) -> dict[str, Any]:
        found = self._placed.look(attempt_id)
        if found["sight"] == "exited":
            return found
        return {"sight": "vanished", "detail": f"its node is no longer part of the cluster: {node}"}

    def _stop_survivors(self, sent: Sent, parts: Sequence[Observation]) -> None:
        """When one rank has failed, the others wait for it for ever: they are told to end."""
        rank = failed_rank(parts)
        alive = [node for node, part in zip(sent.nodes, parts, strict=True) if part.sight is Sight.RUNNING]
        if rank is None or not alive:
            return
        request = {
            "grace_s": _JOB_GRACE_S,
            "reason": f"rank {rank} on {sent.nodes[rank]} failed",
            "requested_at": self._now().isoformat(),
        }
        self._each(alive, lambda node: self._call(node, "stop", {"id": sent.attempt_id, "request": request}))

    def _where(self, attempt_id: str) -> list[str]:
        sent = self._placed.find(attempt_id)
        return [] if sent is None else [node for node in sent.nodes if node in self._nodes]

    def _sample_node(self, node: str) -> dict[str, Any]:
        self._greet(node)
        return self._call(node, "sample", {"read_gpus": not self._current(node).is_virtual})

    def _greet(self, node: str) -> dict[str, Any]:
        """What the node says of itself; asked again when it has been silent for a while."""
        known = self._hello.get(node)
        if known is not None and time.monotonic() - self._asked_at.get(node, -1e9) <= OBSERVED_FOR_S:
            return known
        answer = self._call(node, "hello", {"read_gpus": self._gpu_source != "virtual"})
        if known is not None and known["has_nvml"] and (answer["gpus"] is None or not answer["has_nvml"]):
            # It had a driver before: what it shows without one are not its GPUs, real or declared.
            problem = answer["gpu_problem"] or "NVIDIA's driver is gone"
            answer = {**answer, "has_nvml": True, "gpus": known["gpus"], "gpu_problem": problem}
        with self._guard:
            self._hello[node] = answer
        return answer

    def _current(self, name: str) -> LocalNode:
        """The node with the GPUs that it showed last, or the declared ones."""
        declared, hello = self._nodes[name], self._hello.get(name)
        if self._gpu_source == "virtual":
            return declared
        if hello is None:
            return replace(declared, gpus=tuple(replace(gpu, is_virtual=False) for gpu in declared.gpus))
        if self._gpu_source == "auto" and not hello["has_nvml"]:
            return declared
        found = [
            Gpu(r.index, r.uuid, r.gpu_type, r.memory_total_mib)
            for r in _readings(hello["gpus"] or [])
            if r.problem is None
        ]
        return replace(declared, gpus=tuple(found))

    def _node(self, name: str, now: datetime) -> Node:
        current = self._current(name)
        hello = self._hello.get(name)
        node = Node(
            name, current.gpus, current.vc, observed_at=now, cpus=current.cpus or (hello["cpus"] if hello else None)
        )
        try:
            node = replace(node, isolations=self._isolations.of(name))
        except ExternalError as error:
            return replace(
                node, condition=NodeCondition.UNOBSERVED, observed_at=self._seen_at.get(name), detail=str(error)
            )
        silent = self._silent_since.get(name)
        if silent is not None:
            why = self._why_silent(name, silent, now)
            return replace(node, condition=NodeCondition.UNOBSERVED, observed_at=self._seen_at.get(name), detail=why)
        problem = hello["gpu_problem"] if hello is not None and hello["has_nvml"] else None
        if problem is not None and not current.is_virtual:
            detail = f"its GPUs cannot be read: {problem}"
            return replace(node, condition=NodeCondition.UNOBSERVED, observed_at=self._seen_at.get(name), detail=detail)
        return node if node.usable_gpus else replace(node, condition=NodeCondition.DRAINED)

    def _why_silent(self, name: str, since: datetime, now: datetime) -> str:
        fault = self._connections[name].fault
        seconds = max(0.0, (now - since).total_seconds())
        over = f", longer than the {self._grace_s:.0f} s that are allowed" if seconds > self._grace_s else ""
        return f"silent for {seconds:.0f} s{over}: {fault or 'it gave no answer'}"

    # --- calling ---

    def _call(self, node: str, op: str, keys: Mapping[str, Any]) -> dict[str, Any]:
        try:
            answer, _ = self._connections[node].call(op, keys)
        except UnreachableError:
            with self._guard:
                self._silent_since.setdefault(node, self._seen_at.get(node) or self._now())
                self._asked_at[node] = time.monotonic()
            raise
        self._heard(node)
        return answer

    def _heard(self, node: str) -> None:
        with self._guard:
            self._seen_at[node] = self._now()
            self._asked_at[node] = time.monotonic()
            self._silent_since.pop(node, None)

    def _each(self, items: Iterable[Any], work: Callable[[Any], T], *, must_succeed: bool = False) -> list[Any]:
        """Do the work for every item, several at once. A node that fails leaves ``None``, or raises for all."""
        items = list(items)

        def one(item: Any) -> T | LucidError:
            try:
                return work(item)
            except LucidError as error:
                return error

        if len(items) <= 1:
            done = [one(item) for item in items]
        else:
            with ThreadPoolExecutor(max_workers=min(self._parallel, len(items))) as pool:
                done = list(pool.map(one, items))
        faults = [result for result in done if isinstance(result, LucidError)]
        if faults and must_succeed:
            raise faults[0]
        return [None if isinstance(result, LucidError) else result for result in done]


def _for_node(options: SshOptions, node: SshNode) -> SshOptions:
    return options if node.root is None else replace(options, root=node.root)


def _moved(placement: Placement, nodes: Sequence[str]) -> Placement:
    if len(placement.shares) != len(nodes):
        raise InputError(f"an attempt has one placement; it was launched on {', '.join(nodes)}, not on {placement}")
    return Placement(
        tuple(NodeShare(node, share.gpu_indices) for node, share in zip(nodes, placement.shares, strict=True))
    )


def _readings(rows: Iterable[Mapping[str, Any]]) -> list[GpuReading]:
    """What ``nvml_probe`` read on a node; a row that cannot be understood is a GPU that cannot be read."""
    readings: list[GpuReading] = []
    for number, row in enumerate(rows):
        try:
            pids = row.get("process_ids")
            readings.append(GpuReading(**{**row, "process_ids": None if pids is None else tuple(map(int, pids))}))
        except (TypeError, ValueError, AttributeError):
            readings.append(GpuReading(number, problem="its reading cannot be understood"))
    return readings


__all__ = ["SshCluster", "SshNode", "SshOptions"]
