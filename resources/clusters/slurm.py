"""A cluster that Slurm runs: what our policy decided becomes a batch job on exactly those nodes and GPUs.

The job's script is the wrapper, which runs in the foreground under slurmstepd and writes the same records as
anywhere, on a disk that the nodes share with the control plane. A pass costs two commands. The parts:

    slurm_view.py        what Slurm said last        slurm_following.py   looking at attempts
    slurm_inventory.py   its nodes                   slurm_ending.py      stopping and fencing them
    slurm_starting.py    starting attempts           slurm_drains.py      keeping off nodes
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from lucid_pipelines.domain.cluster import GpuSample, Inventory
from lucid_pipelines.domain.errors import ExternalError, UnreachableError
from lucid_pipelines.domain.job import Profile
from lucid_pipelines.ports import (
    Capabilities,
    CheckResult,
    HeldJob,
    LaunchRequest,
    LaunchResult,
    LogChunk,
    Observation,
)
from lucid_pipelines.resources.clusters import attempts, wrapper
from lucid_pipelines.resources.clusters.checks import CheckCommand, NodeChecks
from lucid_pipelines.resources.clusters.layout import Layout, checked_id
from lucid_pipelines.resources.clusters.logs import read_chunk
from lucid_pipelines.resources.clusters.nodes import LocalNode, require_node
from lucid_pipelines.resources.clusters.records import profile_of
from lucid_pipelines.resources.clusters.request import WrapperOptions, checked_grace
from lucid_pipelines.resources.clusters.slurm_adoption import held_job
from lucid_pipelines.resources.clusters.slurm_commands import SlurmCommands
from lucid_pipelines.resources.clusters.slurm_drains import SlurmDrains
from lucid_pipelines.resources.clusters.slurm_ending import SlurmEnding
from lucid_pipelines.resources.clusters.slurm_following import SlurmFollowing
from lucid_pipelines.resources.clusters.slurm_gres import node_gpus
from lucid_pipelines.resources.clusters.slurm_inventory import SlurmInventory
from lucid_pipelines.resources.clusters.slurm_json import SlurmNode
from lucid_pipelines.resources.clusters.slurm_options import SlurmOptions
from lucid_pipelines.resources.clusters.slurm_samples import last_samples
from lucid_pipelines.resources.clusters.slurm_starting import SlurmStarting
from lucid_pipelines.resources.clusters.slurm_submissions import read_submission
from lucid_pipelines.resources.clusters.slurm_view import FRESH_S, SlurmView


class SlurmCluster:
    """The ``Cluster`` port on Slurm.

    Args:
        root: the cluster's folder, on a disk that the nodes share; so are the folders of the jobs.
        gpus: ``virtual``: the GPUs are fakes of a test bed, jobs declare their load; else NVML reads them.
        checks: declared answers and the site's own tests, see ``LocalNode`` and ``CheckCommand``.

    Raises:
        ExternalError: the root cannot be used.
    """

    def __init__(
        self,
        root: Path,
        commands: SlurmCommands,
        *,
        slurm: SlurmOptions | None = None,
        options: WrapperOptions | None = None,
        gpus: str = "auto",
        declared: Mapping[str, LocalNode] | None = None,
        check_commands: Mapping[str, CheckCommand] | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.commands = commands
        self._slurm = slurm or SlurmOptions()
        options = options or WrapperOptions()
        self._declared = dict(declared or {})
        self._check_commands = dict(check_commands or {})
        self._now = now
        self._layout = Layout(root)
        self._view = SlurmView(commands, self._slurm, self._declared, is_virtual=gpus == "virtual")
        self._drains = SlurmDrains(self._layout.isolation, commands, now)
        self._inventory = SlurmInventory(self._view, self._layout, self._drains)
        self._following = SlurmFollowing(self._view, self._layout)
        self._ending = SlurmEnding(
            self._view, self._layout, options.sample_interval_s, self._slurm.dead_node_fence_s, now
        )
        try:
            self._layout.create()
            self._starting = SlurmStarting(self._view, self._layout, self._slurm, options, now)
        except OSError as error:
            raise ExternalError(f"the cluster's folder cannot be used: {root}: {error}") from error

    @property
    def capabilities(self) -> Capabilities:
        """How pairs can be made depends on the site's gres.conf; unknown while Slurm does not answer."""
        try:
            nodes = self._view.known_nodes().values()
        except ExternalError:
            nodes = ()
        layouts = [node_gpus(node.gres) for node in nodes]
        can_pack = self._slurm.share and bool(layouts)
        by_shards = all(gpus.can_share for gpus in layouts if gpus.types)
        pairs_by = None if not can_pack else "shards" if by_shards else "allocation"
        return Capabilities(
            can_pack=can_pack,
            can_isolate=True,
            can_check=True,
            can_adopt=self._slurm.adopt is not None,
            pairs_by=pairs_by,
        )

    def inventory(self) -> Inventory:
        """Every node of our partitions; GPUs that jobs which are not ours hold are taken."""
        return self._inventory.read(self._now())

    def launch(self, request: LaunchRequest) -> LaunchResult:
        """Submit the attempt once, whoever else tries at the same time or died on the way."""
        return self._starting.launch(request)

    def held_jobs(self) -> Sequence[HeldJob]:
        """Users' held jobs with the site's tag; one command."""
        adopt = self._slurm.adopt
        return [] if adopt is None else [held_job(job) for job in self._view.jobs(FRESH_S) if adopt.wants(job)]

    def poll(self, attempt_ids: Sequence[str]) -> Mapping[str, Observation]:
        """One command for all of them."""
        return self._following.poll(attempt_ids, self._now())

    def stop(self, attempt_id: str, grace_s: float, reason: str) -> None:
        request = {"grace_s": checked_grace(grace_s), "reason": reason, "requested_at": self._now().isoformat()}
        self._ending.stop(checked_id(attempt_id), request)

    def fence(self, attempt_id: str) -> int:
        """See the port, and ``SlurmEnding.fence``."""
        return self._ending.fence(checked_id(attempt_id))

    def read_log(self, attempt_id: str, offset: int, max_bytes: int) -> LogChunk:
        folder = attempts.folder_of(self._layout, attempt_id)
        try:
            noted = read_submission(folder)
        except (OSError, ValueError) as error:
            raise ExternalError(f"it cannot be read where the log is: {error}") from error
        output = None if noted is None else noted.adopted_output
        return read_chunk(folder / wrapper.LOG if output is None else Path(output), offset, max_bytes)

    def fetch_checkpoints(self, attempt_id: str, target: Path) -> None:
        """Nothing to do: jobs write their checkpoints on the shared disk."""

    def profile(self, attempt_id: str, since: datetime | None = None) -> Profile | None:
        """What a running attempt has shown so far, or since a moment; nothing of adopted jobs."""
        shown = attempts.shown(self._layout, attempt_id, None if since is None else since.timestamp())
        return None if shown is None else profile_of(shown)

    def sample(self) -> Sequence[GpuSample]:
        """What running wrappers measured last. Of GPUs without a job of ours nothing is known (no sample)."""
        return last_samples(self._view, self._layout, self._now())

    def check(self, node: str, test: str) -> CheckResult:
        """A declared answer, or the site's own command, run by ``srun`` on that node."""
        found = require_node(self._view.local_nodes(), node)

        def run(command: CheckCommand) -> tuple[bool | None, str]:
            minutes = max(1, int(command.timeout_s // 60) + 1)
            words = [f"--nodelist={node}", "--nodes=1", "--ntasks=1", f"--time={minutes}", "--immediate=30"]
            try:
                return True, self.commands.run("srun", *words, "--job-name=lucid-check", *command.argv)
            except UnreachableError as error:
                return None, str(error)
            except ExternalError as error:
                could_not = "Unable to allocate" in str(error) or "cannot be run" in str(error)
                return None if could_not else False, str(error)

        checks = NodeChecks(self._now, None, frozenset, self._check_commands, run)
        return checks.run(self._declared.get(node, found), test)

    def isolate(self, node: str, gpu_indices: Sequence[int], owner: str, reason: str) -> None:
        """Whole nodes are drained in Slurm too; single GPUs Slurm cannot keep free, so only we keep off them."""
        require_node(self._view.local_nodes(), node, gpu_indices)
        self._drains.isolate(node, gpu_indices, owner, reason)
        self._view.forget_nodes()

    def restore(self, node: str, gpu_indices: Sequence[int], owner: str) -> None:
        require_node(self._view.local_nodes(), node, gpu_indices)
        self._drains.restore(node, gpu_indices, owner)
        self._view.forget_nodes()

    def is_ours(self, node: SlurmNode) -> bool:
        """Whether a node has GPUs and lies in one of our partitions."""
        return self._view.is_ours(node)
