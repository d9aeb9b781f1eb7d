"""The local cluster: attempts are processes of this machine, on declared virtual GPUs or on real ones.

Nothing is kept in memory that a restart would miss: everything is found again by attempt id below ``root``
(see ``layout.py`` and ``wrapper.py``), so any number of processes may use one cluster at the same time.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from lucid_pipelines.domain.cluster import GpuSample, Inventory, Isolation, Node, NodeCondition
from lucid_pipelines.domain.errors import ExternalError, InputError
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
from lucid_pipelines.resources.clusters import attempts, wrapper
from lucid_pipelines.resources.clusters.checks import CheckCommand, NodeChecks
from lucid_pipelines.resources.clusters.dcgm import DcgmSource
from lucid_pipelines.resources.clusters.isolation import IsolationLedger
from lucid_pipelines.resources.clusters.launcher import install_wrapper
from lucid_pipelines.resources.clusters.layout import Layout, checked_id
from lucid_pipelines.resources.clusters.loads import GpuLoad, attempt_load, virtual_samples
from lucid_pipelines.resources.clusters.logs import read_chunk
from lucid_pipelines.resources.clusters.nodes import LocalNode, nodes_by_name, require_node
from lucid_pipelines.resources.clusters.nvml import NvmlSource
from lucid_pipelines.resources.clusters.observing import observe
from lucid_pipelines.resources.clusters.processes import attempt_of
from lucid_pipelines.resources.clusters.records import profile_of
from lucid_pipelines.resources.clusters.request import WrapperOptions, checked_grace, wrapper_spec

FENCE_PATIENCE_S = 20.0
NVML_OWNER = "nvml"
_log = logging.getLogger(__name__)


class LocalCluster:
    """The ``Cluster`` port on one machine.

    Args:
        root: the cluster's own folder, on a local disk; made when missing.
        nodes: what it consists of; see ``real_nodes`` for the GPUs of this machine.
        nvml: reads real GPUs; needed when a node has some.
        dcgm: asked for what NVML leaves unknown.
        options: how wrappers work.
        check_commands: the site's own diagnosis tests for real nodes, by name.
        now: the clock.

    Raises:
        InputError: no node, two nodes of one name, or real GPUs without ``nvml``.
        ExternalError: the root cannot be used.
    """

    def __init__(
        self,
        root: Path,
        nodes: Sequence[LocalNode],
        *,
        nvml: NvmlSource | None = None,
        dcgm: DcgmSource | None = None,
        options: WrapperOptions | None = None,
        check_commands: Mapping[str, CheckCommand] | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._nodes = nodes_by_name(nodes)
        real = [node.name for node in nodes if not node.is_virtual]
        if real and nvml is None:
            raise InputError(f"real GPUs are read through NVML; give its source for the nodes {real}")
        self._nvml, self._dcgm = nvml, dcgm
        self._options = options or WrapperOptions()
        self._now = now
        self._layout = Layout(root)
        self._isolations = IsolationLedger(self._layout.isolation, now)
        self._checks = NodeChecks(
            now, None if nvml is None else nvml.readings, self._our_processes, dict(check_commands or {})
        )
        self._seen_at: dict[str, datetime] = {}
        try:
            self._layout.create()
            self._wrapper = install_wrapper(self._layout.wrapper)
        except OSError as error:
            raise ExternalError(f"the local cluster's folder cannot be used: {root}: {error}") from error

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(can_pack=True, can_isolate=True, can_check=True, can_adopt=False, pairs_by="devices")

    def inventory(self) -> Inventory:
        """Every node with its GPUs and the reasons against using them.

        A real GPU that does not answer is isolated by ``nvml`` for as long as that lasts; a node whose GPUs
        or isolations cannot be read is UNOBSERVED.
        """
        now = self._now()
        return Inventory(tuple(self._node(node, now) for node in self._nodes.values()), now)

    def launch(self, request: LaunchRequest) -> LaunchResult:
        """Start an attempt under a wrapper of its own; returns once its command runs or is known not to run."""
        spec = wrapper_spec(request, self._nodes, self._options)
        if self._nvml is not None and self._nvml.is_renumbered:  # a number would mean another GPU to CUDA than to us
            spec["cuda_visible_devices"] = ",".join(gpu["uuid"] or str(gpu["index"]) for gpu in spec["gpus"])
        log_path, already = attempts.launch(
            self._layout,
            spec,
            request.job_dir,
            self._wrapper,
            self._options.base_env,
            self._options.launch_timeout_s,
        )
        return LaunchResult(request.attempt_id, log_path, already)

    def held_jobs(self) -> Sequence[HeldJob]:
        return ()

    def poll(self, attempt_ids: Sequence[str]) -> Mapping[str, Observation]:
        now = self._now()
        seen = {attempt_id: observe(self._layout, checked_id(attempt_id), now) for attempt_id in attempt_ids}
        for attempt_id, observation in seen.items():
            if observation.sight is Sight.EXITED:
                self._layout.unmark_live(attempt_id)
        return seen

    def stop(self, attempt_id: str, grace_s: float, reason: str) -> None:
        request = {"grace_s": checked_grace(grace_s), "reason": reason, "requested_at": self._now().isoformat()}
        attempts.stop(self._layout, checked_id(attempt_id), request)

    def fence(self, attempt_id: str) -> int:
        return attempts.fence(self._layout, checked_id(attempt_id), FENCE_PATIENCE_S)

    def read_log(self, attempt_id: str, offset: int, max_bytes: int) -> LogChunk:
        return read_chunk(attempts.folder_of(self._layout, attempt_id) / wrapper.LOG, offset, max_bytes)

    def fetch_checkpoints(self, attempt_id: str, target: Path) -> None:
        """Nothing to do: jobs of this machine write their checkpoints where the control plane reads them."""

    def sample(self) -> Sequence[GpuSample]:
        """One sample a GPU. Raises ``ExternalError`` when real GPUs cannot be read at all."""
        now = self._now()
        samples: list[GpuSample] = []
        if any(node.is_virtual for node in self._nodes.values()):
            samples += virtual_samples(self._nodes.values(), self._declared_loads(now), now)
        if self._nvml is not None:
            for node in self._nodes.values():
                if not node.is_virtual:
                    samples += self._completed(self._nvml.sample(node.name))
        return samples

    def profile(self, attempt_id: str, since: datetime | None = None) -> Profile | None:
        """What a running attempt has shown so far, or since a moment; ``None`` before its first sample.

        Raises:
            NotFoundError: no such attempt was ever launched here.
            ExternalError: its samples cannot be read.
        """
        shown = attempts.shown(self._layout, attempt_id, None if since is None else since.timestamp())
        return None if shown is None else profile_of(shown)

    def check(self, node: str, test: str) -> CheckResult:
        return self._checks.run(require_node(self._nodes, node), test)

    def isolate(self, node: str, gpu_indices: Sequence[int], owner: str, reason: str) -> None:
        require_node(self._nodes, node, gpu_indices)
        self._isolations.add(node, gpu_indices, owner, reason)

    def restore(self, node: str, gpu_indices: Sequence[int], owner: str) -> None:
        require_node(self._nodes, node, gpu_indices)
        self._isolations.remove(node, gpu_indices, owner)

    def _completed(self, samples: Sequence[GpuSample]) -> Sequence[GpuSample]:
        if self._dcgm is None:
            return samples
        try:
            return self._dcgm.complete(samples)
        except ExternalError as error:
            _log.warning("what NVML does not tell stays unknown: %s", error)
            return samples

    def _node(self, declared: LocalNode, now: datetime) -> Node:
        node = Node(declared.name, declared.gpus, declared.vc, observed_at=now, cpus=declared.cpus or os.cpu_count())
        lost: list[Isolation] = []
        try:
            isolations = self._isolations.of(declared.name)
            if not declared.is_virtual and self._nvml is not None:
                readings = self._nvml.readings()
                node = replace(node, gpus=self._nvml.gpus(readings))
                lost = [
                    Isolation((reading.index,), NVML_OWNER, reading.problem, now)
                    for reading in readings
                    if reading.problem and reading.holds_index
                ]
        except ExternalError as error:
            _log.warning("node %s is unobserved: %s", declared.name, error)
            seen_at = self._seen_at.get(declared.name)
            return replace(node, condition=NodeCondition.UNOBSERVED, observed_at=seen_at, detail=str(error))
        self._seen_at[declared.name] = now
        node = replace(node, isolations=(*isolations, *lost))
        return node if node.usable_gpus else replace(node, condition=NodeCondition.DRAINED)

    def _declared_loads(self, now: datetime) -> list[GpuLoad]:
        loads: list[GpuLoad] = []
        for attempt_id, sight in self._live(now).items():
            folder = self._layout.attempts / attempt_id
            try:
                if sight is Sight.RUNNING:
                    loads += attempt_load(folder)
                else:  # whether its processes still use the GPUs is not known
                    unknown = (None, None, None)
                    loads += [replace(load, load=unknown) for load in attempt_load(folder)]
            except (OSError, ValueError) as error:
                _log.warning("the load of attempt %s cannot be read: %s", attempt_id, error)
        return loads

    def _live(self, now: datetime) -> dict[str, Sight]:
        """Attempts that may be using GPUs."""
        ids = attempts.live_ids(self._layout)
        seen = {attempt_id: observe(self._layout, attempt_id, now).sight for attempt_id in ids}
        for attempt_id, sight in seen.items():
            if sight is Sight.EXITED:
                self._layout.unmark_live(attempt_id)
        return {name: sight for name, sight in seen.items() if sight not in (Sight.EXITED, Sight.NOT_STARTED)}

    def _our_processes(self) -> frozenset[int]:
        live = self._live(self._now())
        return frozenset(pid for pid in wrapper.process_table() if attempt_of(pid) in live)


def real_nodes(nvml: NvmlSource, vc: str = "default", name: str | None = None) -> tuple[LocalNode, ...]:
    """This machine as one node with the GPUs that NVML shows.

    Raises:
        ExternalError: there is no driver, it does not answer, or it shows no GPU, and none was seen here before.
    """
    try:
        gpus = nvml.gpus()
    except ExternalError:
        gpus = nvml.known_gpus()  # the driver is away for a while: what runs is still there to be looked at
        if not gpus:
            raise
    if not gpus:
        raise ExternalError("NVML shows no GPU; declare virtual ones instead")
    return (LocalNode(name or socket.gethostname(), gpus, vc, os.cpu_count()),)
