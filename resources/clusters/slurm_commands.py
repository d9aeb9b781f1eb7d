"""Slurm's own commands, each with a time limit. They are counted, because a pass may cost only a few."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lucid_pipelines.domain.errors import ExternalError, InputError, UnreachableError
from lucid_pipelines.resources.clusters.slurm_json import SlurmJob, SlurmNode, parse_jobs, parse_nodes
from lucid_pipelines.resources.clusters.slurm_states import is_ending

_NEVER = tuple(f"invalid {what}" for what in ("user", "--uid", "group", "account", "qos", "partition", "gres"))
"""What no second try can cure, in the words of sbatch."""


@dataclass
class SlurmCommands:
    """Runs them.

    Attributes:
        conf: the site's slurm.conf; ``None`` = ``SLURM_CONF`` in our environment, else Slurm's own default.
        folder: where the commands lie; ``None`` = the PATH.
        env: what every submitted job's environment begins with.
    """

    conf: Path | None = None
    folder: Path | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = 30.0

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}
        self._version: tuple[int, int] | None = None

    @property
    def counts(self) -> dict[str, int]:
        """How often each command was run."""
        return dict(self._counts)

    def version(self) -> tuple[int, int]:
        """Major and minor version, asked once."""
        if self._version is None:
            said = self.run("squeue", "--version")
            try:
                major, minor = said.split()[1].split(".")[:2]
                self._version = int(major), int(minor)
            except (IndexError, ValueError) as error:
                raise ExternalError(f"Slurm's version cannot be read: {said[:80]!r}") from error
        return self._version

    def jobs(self) -> list[SlurmJob]:
        """Every job that the controller remembers, ended ones too. One command."""
        try:
            return parse_jobs(self.run("squeue", "--json", "--all", "--states=all"))
        except ValueError as error:
            raise ExternalError(f"squeue's answer cannot be understood; nothing is concluded: {error}") from error

    def nodes(self) -> list[SlurmNode]:
        """Every node. One command."""
        new = self.version() >= (23, 2)
        words = ("scontrol", "show", "nodes", "--json") if new else ("sinfo", "--json", "--all")
        try:
            return parse_nodes(self.run(*words))
        except ValueError as error:
            raise ExternalError(f"the list of nodes cannot be understood; nothing is concluded: {error}") from error

    def sbatch(self, arguments: Sequence[str], script: str, keep_open: int) -> int:
        """Submit a batch script. Returns the job's number.

        Args:
            keep_open: a descriptor that sbatch inherits: a lock stays held as long as it lives, also when its
                caller is killed.

        Raises:
            InputError: Slurm refuses the request for good.
            ExternalError: it was not accepted, or nobody knows.
        """
        said = self.run("sbatch", "--parsable", *arguments, script=script, keep_open=keep_open)
        try:
            return int(said.strip().splitlines()[-1].partition(";")[0])
        except (IndexError, ValueError) as error:
            raise ExternalError(f"sbatch gave no job number: {said[:120]!r}") from error

    def output_of(self, job_id: int) -> str | None:
        """Where a job's standard output goes, with Slurm's patterns filled in; ``None`` when it does not say."""
        for line in self.run("scontrol", "show", "job", str(job_id)).splitlines():
            if line.strip().startswith("StdOut="):
                return line.strip().removeprefix("StdOut=") or None
        return None

    def run(
        self,
        name: str,
        *arguments: str,
        script: str | None = None,
        keep_open: int | None = None,
        more_env: Mapping[str, str] | None = None,
    ) -> str:
        """Run one command to its end.

        Raises:
            UnreachableError: the controller does not answer.
            ExternalError: the command failed; ``InputError`` for what can never succeed.
        """
        with self._lock:
            self._counts[name] = self._counts.get(name, 0) + 1
        program = str(self.folder / name) if self.folder is not None else shutil.which(name, path=_path()) or name
        env = {**self.env, **(more_env or {})}
        env.setdefault("PATH", _path())
        conf = self.conf or os.environ.get("SLURM_CONF")
        if conf:
            env["SLURM_CONF"] = str(conf)
        try:
            done = subprocess.run(
                [program, *arguments],
                input=script,
                stdin=subprocess.DEVNULL if script is None else None,
                capture_output=True,
                text=True,
                encoding="utf-8",
                errors="replace",
                env=env,
                timeout=self.timeout_s,
                pass_fds=() if keep_open is None else (keep_open,),
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise UnreachableError(f"Slurm's {name} did not answer within {self.timeout_s:g} s") from error
        except OSError as error:
            raise ExternalError(
                f"Slurm's {name} cannot be run; install slurm-client or set cluster.slurm.bin_dir: {error}"
            ) from error
        if done.returncode != 0:
            said = " ".join(done.stderr.split())[-600:] or f"exit status {done.returncode}"
            if "Unable to contact slurm controller" in said or "Connection refused" in said:
                who = "accounting" if name == "sacct" else "controller"
                raise UnreachableError(f"Slurm's {who} does not answer: {said}")
            if name == "sbatch" and any(word in said.lower() for word in _NEVER):
                raise InputError(f"Slurm refuses the job: {said}")
            if "Could not establish a configuration source" in said:
                said = f"it finds no slurm.conf; name it under cluster.slurm.conf, or in SLURM_CONF: {said}"
            raise ExternalError(f"Slurm's {name} failed: {said}")
        return done.stdout

    def cancel(self, job_id: int, *options: str) -> None:
        """Ask ``scancel`` for an end or a signal; a job that ends at that moment by itself is no failure.

        Between our look and our call a job may end. Slurm then says "Invalid job id", "already completing", or nothing
        with a status of its own, depending on the moment; so it is asked whether the job has ended instead.

        Raises:
            UnreachableError: the controller does not answer.
            ExternalError: Slurm refuses, and the job has not ended.
        """
        try:
            self.run("scancel", *options, str(job_id))
        except UnreachableError:
            raise
        except ExternalError:
            job = next((job for job in self.jobs() if job.job_id == job_id), None)
            if job is not None and not is_ending(job):
                raise


def _path() -> str:
    return os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
