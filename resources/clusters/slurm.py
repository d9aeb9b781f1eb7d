"""A cluster that Slurm runs: what our policy decided becomes a batch job on exactly those nodes and GPUs.

The job's script is the wrapper, which runs in the foreground under slurmstepd and writes the same records as
anywhere, on a disk that the nodes share with the control plane. The attempt's id is the job's comment: whoever finds
it again, after a crash between submission and note, finds it by that tag. A pass costs two commands.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import pwd
import shlex
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from lucid_pipelines.domain.cluster import Gpu, GpuSample, Inventory, Isolation, Node, NodeCondition, Placement
from lucid_pipelines.domain.errors import ExternalError, InputError, NotFoundError, UnreachableError
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
from lucid_pipelines.resources.clusters import attempts, fencing, holder, wrapper
from lucid_pipelines.resources.clusters.checks import CheckCommand, NodeChecks
from lucid_pipelines.resources.clusters.launcher import wrapper_digest, wrapper_source
from lucid_pipelines.resources.clusters.layout import SPEC_BYTES, Layout, checked_id, replace_json
from lucid_pipelines.resources.clusters.loads import GpuLoad, attempt_load, virtual_samples
from lucid_pipelines.resources.clusters.logs import read_chunk
from lucid_pipelines.resources.clusters.nodes import LocalNode, require_node
from lucid_pipelines.resources.clusters.ranks import rank_environment
from lucid_pipelines.resources.clusters.records import exit_record, profile_of
from lucid_pipelines.resources.clusters.request import WrapperOptions, checked_grace, wrapper_spec
from lucid_pipelines.resources.clusters.slurm_accounting import SlurmAccounting
from lucid_pipelines.resources.clusters.slurm_adoption import SlurmAdoption, find_held, held_job, release
from lucid_pipelines.resources.clusters.slurm_commands import SlurmCommands
from lucid_pipelines.resources.clusters.slurm_drains import SlurmDrains
from lucid_pipelines.resources.clusters.slurm_gres import (
    NodeGpus,
    asked_gpus,
    beside,
    gres_request,
    held_indices,
    node_gpus,
)
from lucid_pipelines.resources.clusters.slurm_holding import host_of, open_allocation, placement_of
from lucid_pipelines.resources.clusters.slurm_json import SlurmJob, SlurmNode
from lucid_pipelines.resources.clusters.slurm_states import WAITING, OnDisk, asks_slurm, is_over, observation, own_stop
from lucid_pipelines.resources.clusters.slurm_submissions import (
    SUBMITTED,
    TAG,
    KnownJobs,
    Submission,
    read_submission,
    submission_of,
)
from lucid_pipelines.resources.clusters.start_records import read_record, read_started

DOWN_STATES = frozenset({"DOWN", "NOT_RESPONDING", "FAIL", "ERROR", "POWERED_DOWN", "POWERING_DOWN", "FUTURE"})
SLEEPING = "POWERED_DOWN"
"""A node that saves power: Slurm wakes it for the job that is placed on it."""
KEPT_FREE_STATES = frozenset({"DRAIN", "MAINT", "REBOOT_ISSUED", "REBOOT_REQUESTED"})
FRESH_S = 1.0
"""An inventory may use the list of jobs that the poll of the same pass read."""
_log = logging.getLogger(__name__)


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
        self._options = options or WrapperOptions()
        self._is_virtual = gpus == "virtual"
        self._declared = dict(declared or {})
        self._check_commands = dict(check_commands or {})
        self._now = now
        self._layout = Layout(root)
        self._accounting = SlurmAccounting(commands)
        self._drains = SlurmDrains(self._layout.isolation, commands, now)
        self._guard = threading.Lock()
        self._jobs: tuple[float, list[SlurmJob]] | None = None
        self._nodes: tuple[float, dict[str, SlurmNode]] | None = None
        self._started: dict[str, datetime] = {}
        self._placements: dict[str, Placement] = {}
        self._unsettled: dict[str, datetime] = {}
        try:
            self._layout.create()
            self._wrapper = _install(wrapper_source(), self._layout.wrapper, wrapper_digest())
            self._holder = _install(Path(holder.__file__), self._layout.wrapper, _digest(Path(holder.__file__)))
        except OSError as error:
            raise ExternalError(f"the cluster's folder cannot be used: {root}: {error}") from error

    @property
    def capabilities(self) -> Capabilities:
        """How pairs can be made depends on the site's gres.conf; unknown while Slurm does not answer."""
        try:
            nodes = self._known_nodes().values()
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
        now = self._now()
        jobs, nodes = self._fresh_jobs(FRESH_S), self._fresh_nodes()
        strangers = [job for job in jobs if job.nodes and not is_over(job) and not self._is_ours(job)]
        ours = self._placed_gpus() if any(not node_gpus(node.gres).can_pin for node in nodes.values()) else {}
        return Inventory(tuple(self._node(node, strangers, ours, now) for node in nodes.values()), now)

    def launch(self, request: LaunchRequest) -> LaunchResult:
        """Submit the attempt once, whoever else tries at the same time or died on the way."""
        nodes = {name: self._local_node(node) for name, node in self._known_nodes().items()}
        spec = self._spec(request, nodes)
        if request.adopted is not None:
            return self._start_adopted(request, spec)
        try:
            folder = self._layout.place(request.attempt_id, request.job_dir, spec)
            for output in (spec["output_dir"], spec["checkpoint_dir"]):
                Path(output).mkdir(parents=True, exist_ok=True)
            self._layout.mark_live(request.attempt_id, folder)
            holds = self._holds(request)
            if holds:
                open_allocation(folder)
            if self._slurm.submit_as_user:
                _hand_over(request)
            log_path = str(folder / wrapper.LOG)
            with self._submitting(folder) as lock:
                names = (wrapper.EXIT, wrapper.STARTED, wrapper.FENCED, SUBMITTED)
                if any(os.path.lexists(folder / name) for name in names):
                    return LaunchResult(request.attempt_id, log_path, already=True)
                owner = folder.stat().st_uid
                known = KnownJobs.of(self.commands.jobs()).find(request.attempt_id, None, owner)
                already = known is not None
                if known is not None:
                    submission_of(known, holds=holds).note(folder)
                elif not holds or not self._join(request, folder, owner):
                    number = self._submit(request, folder, lock, holds=holds)
                    Submission(number, self._now(), owner, holds=holds).note(folder)
        except (OSError, ValueError) as error:
            raise ExternalError(
                f"attempt {request.attempt_id!r} cannot be submitted; launch it again: {error}"
            ) from error
        self._forget_jobs()
        return LaunchResult(request.attempt_id, log_path, already)

    def held_jobs(self) -> Sequence[HeldJob]:
        """Users' held jobs with the site's tag; one command."""
        adopt = self._slurm.adopt
        return [] if adopt is None else [held_job(job) for job in self._fresh_jobs(FRESH_S) if adopt.wants(job)]

    def poll(self, attempt_ids: Sequence[str]) -> Mapping[str, Observation]:
        """One command for all of them."""
        now = self._now()
        fault = None
        jobs: list[SlurmJob] = []
        if attempt_ids:
            try:
                jobs = self._fresh_jobs(0.0)
            except ExternalError as error:
                fault = str(error)
        known = KnownJobs.of(jobs)
        disks = {attempt_id: self._on_disk(checked_id(attempt_id)) for attempt_id in attempt_ids}
        found = {one: known.find(one, disk.submission, disk.owner_uid) for one, disk in disks.items()}
        faults = dict.fromkeys(disks, fault)
        if fault is None:
            self._ask_accounting(disks, found, faults)
        seen: dict[str, Observation] = {}
        for attempt_id, disk in disks.items():
            waited = self._awaiting_record(attempt_id, disk, found[attempt_id], now)
            seen[attempt_id] = observation(attempt_id, disk, found[attempt_id], faults[attempt_id], now, waited)
            if seen[attempt_id].sight is Sight.EXITED:
                self._layout.unmark_live(attempt_id)
                self._unsettled.pop(attempt_id, None)
        return seen

    def _awaiting_record(self, attempt_id: str, disk: OnDisk, job: SlurmJob | None, now: datetime) -> timedelta:
        """How long disk and Slurm have disagreed about an end, by our own clock: theirs may be wrong."""
        if job is None or (is_over(job) if disk.exit is None else not is_over(job)):
            return now - self._unsettled.setdefault(attempt_id, now)
        self._unsettled.pop(attempt_id, None)
        return timedelta(0)

    def _ask_accounting(
        self, disks: Mapping[str, OnDisk], found: dict[str, SlurmJob | None], faults: dict[str, str | None]
    ) -> None:
        """Fill in how jobs ended that the controller has forgotten."""
        forgotten = {
            one: disk.submission
            for one, disk in disks.items()
            if found[one] is None and disk.submission is not None and asks_slurm(disk)
        }
        accounted = self._accounting.ended({noted.job_id for noted in forgotten.values()})
        for attempt_id, noted in forgotten.items():
            job = accounted.jobs.get(noted.job_id)
            if job is not None and noted.is_it(job):
                found[attempt_id] = job
            else:
                faults[attempt_id] = accounted.fault

    def stop(self, attempt_id: str, grace_s: float, reason: str) -> None:
        request = {"grace_s": checked_grace(grace_s), "reason": reason, "requested_at": self._now().isoformat()}
        try:
            folder = self._layout.bury(checked_id(attempt_id))
            if os.path.lexists(folder / wrapper.EXIT):
                return
            replace_json(folder / wrapper.STOP, request)
            with self._submitting(folder):
                job, noted = self._find(attempt_id, folder), read_submission(folder)
                if job is None or (is_over(job) and not os.path.lexists(folder / wrapper.STARTED)):
                    if not os.path.lexists(folder / wrapper.STARTED):
                        fencing.record_end(folder, attempt_id, "stopped", f"before it started: {reason}", None)
                    return
                if noted is not None and noted.is_shared and (job.state not in WAITING or noted.host_attempt):
                    return  # its wrapper reads the request; a signal would reach its partner too
                if job.state in WAITING:
                    self.commands.cancel(job.job_id, "--state=PENDING")
                    if self._wait_over(job.job_id, 2.0) and not os.path.lexists(folder / wrapper.STARTED):
                        fencing.record_end(folder, attempt_id, "stopped", f"before it started: {reason}", None)
                    return
        except (OSError, ValueError) as error:
            raise ExternalError(f"attempt {attempt_id!r} cannot be stopped now; call again: {error}") from error
        finally:
            self._forget_jobs()
        if _adopted_output(folder) is not None:
            self.commands.cancel(job.job_id)
        elif not is_over(job):  # its wrapper reads the request; without the signal, within a sampling interval
            self.commands.cancel(job.job_id, "--batch", "--signal=TERM")

    def fence(self, attempt_id: str) -> int:
        """See the port. What counts here are the wrapper's findings, or 1 for a Slurm job that was killed.

        On a node that answers neither Slurm nor us, the attempt's own wrapper obeys the marker as long as it
        reaches the shared disk; when that does not show either, the fence fails until the node has restarted,
        or has been silent for ``dead_node_fence_s`` since the marker was set.
        """
        try:
            folder = self._layout.bury(checked_id(attempt_id))
            if os.path.lexists(folder / wrapper.EXIT):
                return 0
            if not os.path.lexists(folder / wrapper.FENCED):
                (folder / wrapper.FENCED).touch()
                now_s = self._now().timestamp()  # by our clock, not by that of the disk's server
                os.utime(folder / wrapper.FENCED, (now_s, now_s))
            with self._submitting(folder):
                job = self._find(attempt_id, folder)
            found = self._end(attempt_id, folder, job)
        except (OSError, ValueError) as error:
            raise ExternalError(f"attempt {attempt_id!r} cannot be fenced; call again: {error}") from error
        finally:
            self._forget_jobs()
        self._layout.unmark_live(attempt_id)
        return found

    def read_log(self, attempt_id: str, offset: int, max_bytes: int) -> LogChunk:
        folder = self._folder(attempt_id)
        try:
            output = _adopted_output(folder)
        except (OSError, ValueError) as error:
            raise ExternalError(f"it cannot be read where the log is: {error}") from error
        return read_chunk(folder / wrapper.LOG if output is None else Path(output), offset, max_bytes)

    def fetch_checkpoints(self, attempt_id: str, target: Path) -> None:
        """Nothing to do: jobs write their checkpoints on the shared disk."""

    def profile(self, attempt_id: str, since: datetime | None = None) -> Profile | None:
        """What a running attempt has shown so far, or since a moment; nothing of adopted jobs."""
        shown = attempts.shown(self._folder(attempt_id), None if since is None else since.timestamp())
        return None if shown is None else profile_of(shown)

    def sample(self) -> Sequence[GpuSample]:
        """What running wrappers measured last. Of GPUs without a job of ours nothing is known (no sample)."""
        now = self._now()
        nodes = [self._local_node(node) for node in self._known_nodes().values()]
        loads: list[GpuLoad] = []
        samples: list[GpuSample] = []
        try:
            live = self._layout.live_ids()
        except OSError as error:
            raise ExternalError(f"the cluster's folder cannot be read: {error}") from error
        for attempt_id in live:
            folder = self._layout.attempts / attempt_id
            if os.path.lexists(folder / wrapper.EXIT):
                self._layout.unmark_live(attempt_id)
                continue
            with suppress(OSError, ValueError, KeyError, TypeError, IndexError):
                if not os.path.lexists(folder / wrapper.STARTED):
                    continue
                if self._is_virtual:
                    loads += attempt_load(folder)
                else:
                    samples += _last_samples(folder, now)
        return virtual_samples(nodes, loads, now) if self._is_virtual else samples

    def check(self, node: str, test: str) -> CheckResult:
        """A declared answer, or the site's own command, run by ``srun`` on that node."""
        found = self._known_nodes().get(node)
        if found is None:
            require_node({name: self._local_node(n) for name, n in self._known_nodes().items()}, node)
            raise AssertionError("unreachable: an unknown node is refused above")

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
        return checks.run(self._declared.get(node, self._local_node(found)), test)

    def isolate(self, node: str, gpu_indices: Sequence[int], owner: str, reason: str) -> None:
        """Whole nodes are drained in Slurm too; single GPUs Slurm cannot keep free, so only we keep off them."""
        self._require(node, gpu_indices)
        self._drains.isolate(node, gpu_indices, owner, reason)
        self._forget_nodes()

    def restore(self, node: str, gpu_indices: Sequence[int], owner: str) -> None:
        self._require(node, gpu_indices)
        self._drains.restore(node, gpu_indices, owner)
        self._forget_nodes()

    # --- submitting ---

    def _spec(self, request: LaunchRequest, nodes: Mapping[str, LocalNode]) -> dict[str, Any]:
        spec = wrapper_spec(request, nodes, self._options)
        first = request.placement.shares[0]
        devices = {share.node: ",".join(map(str, share.gpu_indices)) for share in request.placement.shares}
        ranks = {
            share.node: rank_environment(request.placement, rank, first.node, request.attempt_id)
            for rank, share in enumerate(request.placement.shares)
        }
        own = [gpu for gpu in spec["gpus"] if gpu["node"] == first.node]
        spec.update(
            inherit_env=[*sorted(self._options.base_env), "SLURM_*"],
            keep_devices=not self._is_virtual or self._pins(request),
            cuda_visible_devices=devices[first.node],
            devices=devices,
            gpus=own if not self._is_virtual else spec["gpus"],
        )
        if len(devices) > 1:
            count = str(len(devices))
            spec["ranks"], spec["user_command"] = ranks, spec["command"]
            spec["launcher"] = [
                "srun", f"--nodes={count}", f"--ntasks={count}", "--ntasks-per-node=1", "--kill-on-bad-exit=1",
                "--label", "--export=ALL", *(["--overlap"] if self._holds(request) else []),
                self._slurm.python, "-I", "-S", "-X", "utf8", str(self._wrapper), "--rank",
            ]  # fmt: skip
        return spec

    def _start_adopted(self, request: LaunchRequest, spec: Mapping[str, Any]) -> LaunchResult:
        """Pin a user's held job to the placement and release it; repeated after a crash it ends the same."""
        known = self._known_nodes()
        asked = {gres_request(node_gpus(known[s.node].gres), s, is_shared=False) for s in request.placement.shares}
        if len(asked) > 1:
            raise InputError(
                f"a job on several nodes gets GPUs of the same numbers on each of them; {request.placement}"
            )
        try:
            folder = self._layout.place(request.attempt_id, request.job_dir, spec)
            self._layout.mark_live(request.attempt_id, folder)
            with self._submitting(folder):
                if os.path.lexists(folder / wrapper.EXIT) or os.path.lexists(folder / wrapper.FENCED):
                    return LaunchResult(request.attempt_id, str(folder / wrapper.LOG), already=True)
                job, already = find_held(self.commands.jobs(), str(request.adopted), TAG + request.attempt_id)
                output = self.commands.output_of(job.job_id)
                submission_of(job, adopted_output=output or "/dev/null").note(folder)
                if not already:
                    gres = next(iter(asked)) if self._pins(request) else None
                    release(self.commands, job, TAG + request.attempt_id, request.placement.node_names, gres)
        except (OSError, ValueError) as error:
            raise ExternalError(f"the held job {request.adopted} cannot be started; call again: {error}") from error
        finally:
            self._forget_jobs()
        return LaunchResult(request.attempt_id, output or str(folder / wrapper.LOG), already)

    def _pins(self, request: LaunchRequest) -> bool:
        nodes = self._known_nodes()
        return all(node_gpus(nodes[share.node].gres).can_pin for share in request.placement.shares)

    def _holds(self, request: LaunchRequest) -> bool:
        """Whether a second job could only run inside this one's allocation, and shall be able to."""
        known = self._known_nodes()
        by_shards = all(node_gpus(known[share.node].gres).can_share for share in request.placement.shares)
        return self._slurm.hold and self._slurm.share and not by_shards

    def _join(self, request: LaunchRequest, folder: Path, owner: int) -> bool:
        """Run it inside the allocation that holds its GPUs already, where there is one of the same user."""
        ours = {(share.node, gpu) for share in request.placement.shares for gpu in share.gpu_indices}
        for attempt_id in self._layout.live_ids():
            if attempt_id == request.attempt_id:
                continue
            try:
                theirs = placement_of(self._layout.attempts / attempt_id)
                if not ours <= {(share.node, gpu) for share in theirs.shares for gpu in share.gpu_indices}:
                    continue
                host = host_of(attempt_id, self._layout.attempts, owner)
                if host is None or not host.let_in(request.attempt_id, folder / wrapper.SPEC, request.placement):
                    continue
            except (FileNotFoundError, ValueError) as error:
                _log.info("attempt %s cannot join %s: %s", request.attempt_id, attempt_id, error)
                continue
            replace(host.noted, holds=False, host_attempt=host.attempt_id).note(folder)
            return True
        return False

    def _submit(self, request: LaunchRequest, folder: Path, lock: int, *, holds: bool) -> int:
        words = [self._slurm.python, "-I", "-S", "-X", "utf8"]
        words += [str(self._holder), str(self._wrapper)] if holds else [str(self._wrapper), "--foreground"]
        script = f"#!/bin/sh\nexec {shlex.join([*words, str(folder / wrapper.SPEC)])}\n"
        try:
            return self.commands.sbatch(self._arguments(request, folder), script, lock)
        except InputError as error:
            who = f" as user {request.user!r}" if self._slurm.submit_as_user else ""
            raise InputError(f"attempt {request.attempt_id!r} cannot be submitted{who}: {error}") from error

    def _arguments(self, request: LaunchRequest, folder: Path) -> list[str]:
        slurm, placement, known = self._slurm, request.placement, self._known_nodes()
        asked = {
            gres_request(gpus, share, is_shared=slurm.share and gpus.can_share)
            for share in placement.shares
            for gpus in (node_gpus(known[share.node].gres),)
        }
        if len(asked) > 1:
            raise InputError(
                "a job on several nodes gets GPUs of the same numbers on each of them where GPUs are pinned by type; "
                f"got {placement}"
            )
        gpu_count = max(len(share.gpu_indices) for share in placement.shares)
        arguments = [
            f"--job-name={_job_name(request)}",
            f"--comment={TAG}{request.attempt_id}",
            f"--nodes={len(placement.shares)}",
            "--ntasks-per-node=1",
            f"--nodelist={','.join(placement.node_names)}",
            f"--gres={next(iter(asked))}",
            "--no-requeue",
            f"--output={folder / 'slurm.out'}",
            f"--chdir={folder}",
            f"--partition={self._partition(placement.node_names[0])}",
        ]
        for option, value in (
            ("account", slurm.account),
            ("qos", slurm.qos),
            ("time", slurm.time_limit),
            ("cpus-per-task", slurm.cpus_per_gpu and slurm.cpus_per_gpu * gpu_count),
            ("mem", slurm.memory_mib_per_gpu and f"{slurm.memory_mib_per_gpu * gpu_count}M"),
            ("uid", request.user if slurm.submit_as_user else None),
        ):
            if value is not None:
                arguments.append(f"--{option}={value}")
        return [*arguments, *slurm.extra]

    def _partition(self, node: str) -> str:
        names = self._known_nodes()[node].partitions
        ours = [name for name in names if not self._slurm.partitions or name in self._slurm.partitions]
        return ours[0]

    @contextmanager
    def _submitting(self, folder: Path) -> Iterator[int]:
        """One at a time; held on by an sbatch that outlives its caller, because it inherits the descriptor."""
        fd = os.open(folder / ".submit", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            deadline = time.monotonic() + self.commands.timeout_s
            while True:
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError as error:
                    if time.monotonic() > deadline:
                        raise ExternalError("another submission of this attempt is still under way") from error
                    time.sleep(0.01)
            yield fd
        finally:
            os.close(fd)

    # --- ending ---

    def _end(self, attempt_id: str, folder: Path, job: SlurmJob | None) -> int:
        if job is not None and not is_over(job):
            noted = read_submission(folder)
            if job.state in WAITING and noted is not None and noted.host_attempt is not None:
                fencing.record_end(folder, attempt_id, "fenced", "it had not started", 0)
                return 0
            if job.state in WAITING:
                self.commands.cancel(job.job_id)
            else:
                inside = self._fence_inside(attempt_id, folder) if noted is not None and noted.is_shared else None
                if inside is not None:
                    return inside
                self.commands.cancel(job.job_id, "--batch", "--signal=TERM")
                if self._wait_record(folder, FENCE_GENTLY_S):
                    return 1 + _leftovers(folder)
                self.commands.cancel(job.job_id, "--signal=KILL", "--full")
                self.commands.cancel(job.job_id)
            if not self._wait_over(job.job_id, FENCE_PATIENCE_S):
                raise ExternalError(f"Slurm job {job.job_id} of attempt {attempt_id!r} does not end; call again")
            fencing.record_end(folder, attempt_id, "fenced", f"Slurm job {job.job_id} was cancelled", 0)
            return 1 if os.path.lexists(folder / wrapper.STARTED) else 0
        started = read_started(folder)
        if started is None:
            fencing.record_end(folder, attempt_id, "fenced", "it had not started", 0)
            return 0
        names = job.nodes if job is not None and job.nodes else _placed_nodes(folder)
        silent = self._silent(names, started.started_at)
        if not silent:  # Slurm ended it and cleaned up, or its machine has started anew since
            obeys_within_s = max(FENCE_GENTLY_S, 3 * self._options.sample_interval_s)
            patience_s = RECORD_PATIENCE_S if job is not None else obeys_within_s  # forgotten is not yet ended
            if self._wait_record(folder, patience_s):
                return _leftovers(folder)
            fencing.record_end(folder, attempt_id, "fenced", "its Slurm job had ended", 0)
            return 0
        if self._wait_record(folder, max(FENCE_GENTLY_S, 3 * self._options.sample_interval_s)):
            return 1 + _leftovers(folder)
        marked_at = datetime.fromtimestamp((folder / wrapper.FENCED).stat().st_mtime, UTC)
        waited = self._now() - marked_at
        limit = timedelta(seconds=self._slurm.dead_node_fence_s)
        if waited < limit:
            raise ExternalError(
                f"attempt {attempt_id!r} may still run on {', '.join(silent)}, which answers neither Slurm nor us; it "
                f"counts as dead once the node has restarted, or in {(limit - waited).total_seconds():.0f} s"
            )
        detail = f"{', '.join(silent)} has been silent for {waited.total_seconds():.0f} s"
        fencing.record_end(folder, attempt_id, "fenced", detail, None)
        return 0

    def _fence_inside(self, attempt_id: str, folder: Path) -> int | None:
        """Wait until an attempt inside an open allocation has obeyed, or its holder has killed it.

        Returns how many were found, as ``fence``; ``None`` when neither shows in time: then the allocation must end,
        with all who are in it.
        """
        deadline = time.monotonic() + max(FENCE_PATIENCE_S, 5 * self._options.sample_interval_s)
        while time.monotonic() < deadline:
            if os.path.lexists(folder / wrapper.EXIT):
                return 1 + _leftovers(folder)
            gone = read_record(folder, holder.GONE)
            if gone is not None:
                fencing.record_end(folder, attempt_id, "fenced", "its wrapper was gone or was killed", 0)
                return int(gone.get("was_fenced") is True)
            time.sleep(0.05)
        _log.warning("attempt %s does not end; the allocation that it shares is cancelled", attempt_id)
        return None

    def _silent(self, names: Sequence[str], started_at: datetime) -> list[str]:
        """Nodes that do not answer Slurm and have not been restarted since."""
        known = self._fresh_nodes()
        found: list[str] = []
        for name in names:
            node = known.get(name)
            if node is None or not node.states & DOWN_STATES:
                continue
            if node.booted_at is None or node.booted_at <= started_at:
                found.append(name)
        return found

    def _wait_record(self, folder: Path, patience_s: float) -> bool:
        deadline = time.monotonic() + patience_s
        while not os.path.lexists(folder / wrapper.EXIT):
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.02)
        return True

    def _wait_over(self, job_id: int, patience_s: float) -> bool:
        deadline = time.monotonic() + patience_s
        while True:
            job = next((job for job in self.commands.jobs() if job.job_id == job_id), None)
            if job is None or is_over(job):
                return True
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.1)

    # --- looking ---

    def _find(self, attempt_id: str, folder: Path) -> SlurmJob | None:
        return KnownJobs.of(self._fresh_jobs(0.0)).find(attempt_id, read_submission(folder), folder.stat().st_uid)

    def _is_ours(self, job: SlurmJob) -> bool:
        """Whether a job is one of our attempts: its tag alone anybody can write."""
        if not job.comment.startswith(TAG):
            return False
        try:
            folder = self._layout.attempts / checked_id(job.comment.removeprefix(TAG))
            owner = folder.stat().st_uid
            if owner == job.uid:
                return True
            noted = read_submission(folder)
            return noted is not None and noted.is_it(job)
        except (InputError, OSError, ValueError):
            return False

    def _on_disk(self, attempt_id: str) -> OnDisk:
        folder = self._layout.attempts / attempt_id
        try:
            raw = read_record(folder, wrapper.EXIT)
            if raw is not None:
                self._started.pop(attempt_id, None)
                disk = OnDisk(True, exit_record(raw), own_stop(raw) or raw.get("started_at") is None)
                if not asks_slurm(disk):
                    return disk
                return replace(disk, owner_uid=folder.stat().st_uid, submission=read_submission(folder))
            if attempt_id not in self._started:
                started = read_started(folder)
                if started is not None:
                    self._started[attempt_id] = started.started_at
            known = self._layout.find(attempt_id)
            if known is None:
                return OnDisk(is_placed=False)
            owner = known.stat().st_uid  # a folder that has gone away says nothing
            noted, stopped = read_submission(known), os.path.lexists(known / wrapper.STOP)
            adopted = noted is not None and noted.adopted_output is not None
            started_at = self._started.get(attempt_id)
            return OnDisk(
                is_placed=True,
                started_at=started_at,
                is_adopted=adopted,
                is_stopped=stopped,
                is_gone=noted is not None and noted.is_shared and os.path.lexists(known / holder.GONE),
                owner_uid=owner,
                submission=noted,
            )
        except (OSError, ValueError) as error:
            return OnDisk(True, problem=f"cannot be observed: {error}")

    def _folder(self, attempt_id: str) -> Path:
        try:
            folder = self._layout.find(attempt_id)
        except OSError as error:
            raise ExternalError(f"the cluster's folder cannot be read: {error}") from error
        if folder is None:
            raise NotFoundError(f"no attempt of this name was launched here: {attempt_id!r}")
        return folder

    def _require(self, node: str, gpu_indices: Sequence[int]) -> None:
        require_node({name: self._local_node(n) for name, n in self._known_nodes().items()}, node, gpu_indices)

    def _local_node(self, node: SlurmNode) -> LocalNode:
        types = node_gpus(node.gres).types
        declared = self._declared.get(node.name)
        size = declared.gpus[0].memory_mib if declared is not None and declared.gpus else None
        gpus = tuple(Gpu(index, None, kind, size, is_virtual=self._is_virtual) for index, kind in enumerate(types))
        vc = next((name for name in node.partitions if name in self._slurm.partitions), None)
        return LocalNode(node.name, gpus, vc or (node.partitions[0] if node.partitions else "default"), node.cpus)

    def _placed_gpus(self) -> dict[str, set[int]]:
        """GPUs of every node that living attempts were placed on, by our own numbers."""
        ours: dict[str, set[int]] = {}
        try:
            live = self._layout.live_ids()
        except OSError as error:
            raise ExternalError(f"the cluster's folder cannot be read: {error}") from error
        self._placements = {one: placement for one, placement in self._placements.items() if one in set(live)}
        for attempt_id in live:
            with suppress(OSError, ValueError):
                if attempt_id not in self._placements:
                    self._placements[attempt_id] = placement_of(self._layout.attempts / attempt_id)
                for share in self._placements[attempt_id].shares:
                    ours.setdefault(share.node, set()).update(share.gpu_indices)
        return ours

    def _node(
        self, node: SlurmNode, strangers: Sequence[SlurmJob], ours: Mapping[str, set[int]], now: datetime
    ) -> Node:
        local = self._local_node(node)
        layout = node_gpus(node.gres)
        taken: set[int] = set()
        for job in strangers:
            if node.name in job.nodes:
                taken |= _held(layout, job, node.name)
        taken = beside(layout, taken, ours.get(node.name, set()))
        isolations: tuple[Isolation, ...] = self._drains.of(node)
        found = Node(
            node.name,
            local.gpus,
            local.vc,
            observed_at=now,
            cpus=node.cpus,
            isolations=isolations,
            taken_gpu_indices=frozenset(taken),
        )
        if node.states & (DOWN_STATES - {SLEEPING}):
            words = ", ".join(sorted(node.states))
            detail = f"Slurm says {words}" + (f": {node.reason}" if node.reason else "")
            return replace(found, condition=NodeCondition.UNOBSERVED, observed_at=None, detail=detail)
        if node.states & KEPT_FREE_STATES or all(gpu.index in found.isolated_gpu_indices for gpu in found.gpus):
            return replace(found, condition=NodeCondition.DRAINED, detail=node.reason or None)
        return replace(found, detail="asleep; Slurm wakes it for a job") if SLEEPING in node.states else found

    def _fresh_jobs(self, at_most_s: float) -> list[SlurmJob]:
        with self._guard:
            kept = self._jobs
        if kept is not None and time.monotonic() - kept[0] < at_most_s:
            return kept[1]
        jobs = self.commands.jobs()
        with self._guard:
            self._jobs = (time.monotonic(), jobs)
        return jobs

    def _fresh_nodes(self) -> dict[str, SlurmNode]:
        nodes = {node.name: node for node in self.commands.nodes() if self.is_ours(node)}
        with self._guard:
            self._nodes = (time.monotonic(), nodes)
        return nodes

    def _known_nodes(self) -> dict[str, SlurmNode]:
        """What changes rarely: names, partitions, gres."""
        with self._guard:
            kept = self._nodes
        if kept is not None and time.monotonic() - kept[0] < KNOWN_FOR_S:
            return kept[1]
        return self._fresh_nodes()

    def is_ours(self, node: SlurmNode) -> bool:
        """Whether a node has GPUs and lies in one of our partitions."""
        partitions = self._slurm.partitions
        return bool(node_gpus(node.gres).types) and (not partitions or any(p in partitions for p in node.partitions))

    def _forget_jobs(self) -> None:
        with self._guard:
            self._jobs = None

    def _forget_nodes(self) -> None:
        with self._guard:
            self._nodes = None


KNOWN_FOR_S = 60.0
FENCE_GENTLY_S, FENCE_PATIENCE_S, RECORD_PATIENCE_S = 4.0, 20.0, 1.0


def _install(source: Path, folder: Path, digest: str) -> Path:
    """A program's source on the shared disk, named by hash: nodes may run another Python than we do."""
    target = folder / f"{digest[:16]}.py"
    if not target.exists():
        temporary = target.with_name(f"{target.name}.{os.getpid()}.{os.urandom(4).hex()}.tmp")
        temporary.write_bytes(source.read_bytes())
        temporary.replace(target)
    return target


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _hand_over(request: LaunchRequest) -> None:
    """Make the job's folder its user's, who is going to write into it.

    Raises:
        InputError: there is no such user on this machine.
        OSError: we may not.
    """
    try:
        user = pwd.getpwnam(request.user or "")
    except KeyError as error:
        raise InputError(f"jobs run as their users, and this machine knows none named {request.user!r}") from error
    for folder, folders, files in os.walk(request.job_dir):
        for path in (Path(folder), *(Path(folder) / name for name in (*folders, *files))):
            if path.lstat().st_uid != user.pw_uid:
                os.lchown(path, user.pw_uid, user.pw_gid)


def _job_name(request: LaunchRequest) -> str:
    return f"lucid-{request.job_id}"[:200]


def _adopted_output(folder: Path) -> str | None:
    """Where a user's own batch job writes; ``None`` for jobs under our wrapper."""
    noted = read_submission(folder)
    return None if noted is None else noted.adopted_output


def _leftovers(folder: Path) -> int:
    record = read_record(folder, wrapper.EXIT)
    return 0 if record is None else exit_record(record).leftover_count or 0


def _placed_nodes(folder: Path) -> list[str]:
    spec = wrapper.read_json(str(folder / wrapper.SPEC), SPEC_BYTES)
    return [str(share["node"]) for share in spec["placement"]]


def _held(layout: NodeGpus, job: SlurmJob, node: str) -> frozenset[int]:
    """GPUs of a node that a job of somebody else holds; all of them when it holds some and does not say which."""
    position = job.nodes.index(node)
    detail = job.gres_detail[position] if position < len(job.gres_detail) else None
    everything = frozenset(range(len(layout.types)))
    if detail is None:
        return everything if asked_gpus(job.gres_request) or "shard" in job.gres_request else frozenset()
    held = held_indices(layout, detail)
    return everything if held is None else held


def _last_samples(folder: Path, now: datetime) -> list[GpuSample]:
    """The last line that the wrapper wrote into its samples."""
    with (folder / wrapper.SAMPLES).open("rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - 65536))
        row = json.loads(file.read().splitlines()[-1])
    spec = wrapper.read_json(str(folder / wrapper.SPEC), SPEC_BYTES)
    at = datetime.fromtimestamp(float(row["at"]), UTC)
    if now - at > timedelta(seconds=10 * float(spec["sample_interval_s"])):
        return []
    return [
        GpuSample(spec["node"], int(i), at, "nvml", wrapper.within(u, 100.0), wrapper.within(m, 100.0), used)
        for i, u, m, used in row["gpus"]
    ]
