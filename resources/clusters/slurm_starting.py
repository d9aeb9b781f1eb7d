"""How an attempt becomes a Slurm job: submitted under our wrapper, let into an open allocation, or released.

The attempt's id is the job's comment: whoever finds it again, after a crash between submission and note, finds it by
that tag.
"""

from __future__ import annotations

import hashlib
import logging
import os
import pwd
import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from lucid_pipelines.domain.errors import ExternalError, InputError
from lucid_pipelines.ports import LaunchRequest, LaunchResult
from lucid_pipelines.resources.clusters import holder, wrapper
from lucid_pipelines.resources.clusters.launcher import wrapper_source
from lucid_pipelines.resources.clusters.layout import Layout
from lucid_pipelines.resources.clusters.ranks import rank_environment
from lucid_pipelines.resources.clusters.request import WrapperOptions, wrapper_spec
from lucid_pipelines.resources.clusters.slurm_adoption import find_held, release
from lucid_pipelines.resources.clusters.slurm_gres import gres_request, node_gpus
from lucid_pipelines.resources.clusters.slurm_holding import host_of, open_allocation, placement_of
from lucid_pipelines.resources.clusters.slurm_options import SlurmOptions
from lucid_pipelines.resources.clusters.slurm_submissions import (
    OUTPUT,
    SUBMITTED,
    TAG,
    KnownJobs,
    Submission,
    submission_of,
    submitting,
)
from lucid_pipelines.resources.clusters.slurm_view import SlurmView

_log = logging.getLogger(__name__)


class SlurmStarting:
    """Submits attempts, each of them once.

    Raises:
        OSError: the programs cannot be put on the shared disk.
    """

    def __init__(
        self,
        view: SlurmView,
        layout: Layout,
        slurm: SlurmOptions,
        options: WrapperOptions,
        now: Callable[[], datetime],
    ) -> None:
        self._view = view
        self._commands = view.commands
        self._layout = layout
        self._slurm = slurm
        self._options = options
        self._now = now
        self._wrapper = _install(wrapper_source(), layout.wrapper)
        self._holder = _install(Path(holder.__file__), layout.wrapper)

    def launch(self, request: LaunchRequest) -> LaunchResult:
        """Submit the attempt once, whoever else tries at the same time or died on the way."""
        spec = self._spec(request)
        if request.adopted is not None:
            return self._release(request, spec)
        try:
            folder = self._layout.place(request.attempt_id, request.job_dir, spec)
            for output in (spec["output_dir"], spec["checkpoint_dir"]):
                Path(output).mkdir(parents=True, exist_ok=True)
            self._layout.mark_live(request.attempt_id, folder)
            holds = self._view.holds(request.placement)
            if holds:
                open_allocation(folder)
            if self._slurm.submit_as_user:
                _hand_over(request)
            log_path = str(folder / wrapper.LOG)
            with submitting(folder, self._commands.timeout_s) as lock:
                names = (wrapper.EXIT, wrapper.STARTED, wrapper.FENCED, SUBMITTED)
                if any(os.path.lexists(folder / name) for name in names):
                    return LaunchResult(request.attempt_id, log_path, already=True)
                owner = folder.stat().st_uid
                known = KnownJobs.of(self._commands.jobs()).find(request.attempt_id, None, owner)
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
        self._view.forget_jobs()
        return LaunchResult(request.attempt_id, log_path, already)

    def _spec(self, request: LaunchRequest) -> dict[str, Any]:
        is_virtual, placement = self._view.is_virtual, request.placement
        spec = wrapper_spec(request, self._view.local_nodes(), self._options)
        first = placement.shares[0]
        devices = {share.node: ",".join(map(str, share.gpu_indices)) for share in placement.shares}
        ranks = {
            share.node: rank_environment(placement, rank, first.node, request.attempt_id)
            for rank, share in enumerate(placement.shares)
        }
        own = [gpu for gpu in spec["gpus"] if gpu["node"] == first.node]
        spec.update(
            inherit_env=[*sorted(self._options.base_env), "SLURM_*"],
            keep_devices=not is_virtual or self._view.pins(placement),
            cuda_visible_devices=devices[first.node],
            devices=devices,
            gpus=own if not is_virtual else spec["gpus"],
        )
        if len(devices) > 1:
            count = str(len(devices))
            spec["ranks"], spec["user_command"] = ranks, spec["command"]
            spec["launcher"] = [
                "srun", f"--nodes={count}", f"--ntasks={count}", "--ntasks-per-node=1", "--kill-on-bad-exit=1",
                "--label", "--export=ALL", *(["--overlap"] if self._view.holds(placement) else []),
                self._slurm.python, "-I", "-S", "-X", "utf8", str(self._wrapper), "--rank",
            ]  # fmt: skip
        return spec

    def _release(self, request: LaunchRequest, spec: Mapping[str, Any]) -> LaunchResult:
        """Pin a user's held job to the placement and release it; repeated after a crash it ends the same."""
        gres = self._gres(request, is_shared=False)
        tag = TAG + request.attempt_id
        try:
            folder = self._layout.place(request.attempt_id, request.job_dir, spec)
            self._layout.mark_live(request.attempt_id, folder)
            with submitting(folder, self._commands.timeout_s):
                if os.path.lexists(folder / wrapper.EXIT) or os.path.lexists(folder / wrapper.FENCED):
                    return LaunchResult(request.attempt_id, str(folder / wrapper.LOG), already=True)
                job, already = find_held(self._commands.jobs(), str(request.adopted), tag)
                output = self._commands.output_of(job.job_id)
                submission_of(job, adopted_output=output or "/dev/null").note(folder)
                if not already:
                    pinned = gres if self._view.pins(request.placement) else None
                    release(self._commands, job, tag, request.placement.node_names, pinned)
        except (OSError, ValueError) as error:
            raise ExternalError(f"the held job {request.adopted} cannot be started; call again: {error}") from error
        finally:
            self._view.forget_jobs()
        return LaunchResult(request.attempt_id, output or str(folder / wrapper.LOG), already)

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
            return self._commands.sbatch(self._arguments(request, folder), script, lock)
        except InputError as error:
            who = f" as user {request.user!r}" if self._slurm.submit_as_user else ""
            raise InputError(f"attempt {request.attempt_id!r} cannot be submitted{who}: {error}") from error

    def _arguments(self, request: LaunchRequest, folder: Path) -> list[str]:
        slurm, placement = self._slurm, request.placement
        gpu_count = max(len(share.gpu_indices) for share in placement.shares)
        arguments = [
            f"--job-name={_job_name(request)}",
            f"--comment={TAG}{request.attempt_id}",
            f"--nodes={len(placement.shares)}",
            "--ntasks-per-node=1",
            f"--nodelist={','.join(placement.node_names)}",
            f"--gres={self._gres(request, is_shared=slurm.share)}",
            "--no-requeue",
            f"--output={folder / OUTPUT}",
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

    def _gres(self, request: LaunchRequest, *, is_shared: bool) -> str:
        """What is asked of each node: Slurm takes one answer for all of them.

        Args:
            is_shared: ask for shards where there are any, so that a second job can be given the same GPU.
        """
        known = self._view.known_nodes()
        asked = {
            gres_request(gpus, share, is_shared=is_shared and gpus.can_share)
            for share in request.placement.shares
            for gpus in (node_gpus(known[share.node].gres),)
        }
        if len(asked) > 1:
            raise InputError(
                "a job on several nodes gets GPUs of the same numbers on each of them where GPUs are pinned by type; "
                f"got {request.placement}"
            )
        return next(iter(asked))

    def _partition(self, node: str) -> str:
        names = self._view.known_nodes()[node].partitions
        return next(name for name in names if not self._slurm.partitions or name in self._slurm.partitions)


def _install(source: Path, folder: Path) -> Path:
    """A program's source on the shared disk, named by hash: nodes may run another Python than we do."""
    content = source.read_bytes()
    target = folder / f"{hashlib.sha256(content).hexdigest()[:16]}.py"
    if not target.exists():
        temporary = target.with_name(f"{target.name}.{os.getpid()}.{os.urandom(4).hex()}.tmp")
        temporary.write_bytes(content)
        temporary.replace(target)
    return target


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
