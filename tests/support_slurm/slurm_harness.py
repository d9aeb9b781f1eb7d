"""A cluster on a Slurm of our own, with the means to look and strike behind its back."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from lucid_pipelines.domain.cluster import Placement
from lucid_pipelines.ports import LaunchRequest, Sight
from lucid_pipelines.resources.clusters.slurm import SlurmCluster, SlurmOptions
from lucid_pipelines.resources.clusters.slurm_commands import SlurmCommands
from tests.support_clusters.local_harness import LocalHarness
from tests.support_slurm.slurm_cluster import SlurmTestbed


class SlurmHarness(LocalHarness):
    """Its nodes are daemons of this machine, so that the local harness's eyes see their processes too."""

    patience_s = 30.0
    jobs_outlive_wrappers = False
    gpus = "virtual"

    def __init__(self, root: Path, testbed: SlurmTestbed, *, label: str | None = None, **options: Any) -> None:
        self.testbed = testbed
        self.blinded = False
        self.changes = options
        super().__init__(root)
        self.label = label or self.label
        assert isinstance(self.cluster, SlurmCluster)
        self.slurm: SlurmCluster = self.cluster

    def reopened(self, **options: Any) -> SlurmCluster:
        """A new adapter with other options."""
        before, self.changes = self.changes, {**self.changes, **options}
        try:
            return self.reopen()
        finally:
            self.changes = before

    def reopen(self) -> SlurmCluster:  # pyright: ignore[reportIncompatibleMethodOverride]
        commands = SlurmCommands(self.testbed.conf, None, self.options.base_env, 20.0)
        chosen = SlurmOptions(**{"dead_node_fence_s": 1.0, **self.changes})
        return SlurmCluster(self.root / "cluster", commands, slurm=chosen, options=self.options, gpus=self.gpus)

    def request(self, *command: str, **changes: object) -> LaunchRequest:
        number = len(self.requests)
        placement = Placement.of({self.testbed.nodes[number // 8 % 2]: [number % 8]})
        request = super().request(*command)
        chosen = {"placement": placement, **changes}
        self.requests[request.attempt_id] = replace(request, **chosen)  # pyright: ignore[reportArgumentType]
        return self.requests[request.attempt_id]

    def start(self, script: str, **changes: object) -> str:
        """Slurm starts a job in its own time: wait until it did."""
        attempt_id = super().start(script, **changes)
        self.wait(lambda: self.see(attempt_id).sight is not Sight.QUEUED, "Slurm starts it")
        return attempt_id

    @contextmanager
    def blind(self, attempt_id: str) -> Iterator[None]:
        """The shared disk is away and Slurm's commands fail."""
        commands = self.slurm.commands
        right, commands.folder = (
            commands.folder,
            failing_commands(self.root / "failing", "Unable to contact slurm controller"),
        )
        try:
            with super().blind(attempt_id):
                yield
        finally:
            commands.folder = right

    def kill_wrapper(self, attempt_id: str) -> None:
        os.kill(self.wrapper_pid(attempt_id), 9)

    def submitted(self, attempt_id: str) -> int:
        number = self.record(attempt_id, "slurm.json")["slurm_job_id"]
        assert isinstance(number, int)
        return number


def failing_commands(folder: Path, said: str, *, status: int = 1, out: str = "") -> Path:
    """Programs in the place of Slurm's that say so and end so."""
    folder.mkdir(exist_ok=True)
    (folder / "out").write_text(out)
    for name in ("squeue", "sinfo", "sbatch", "scancel", "scontrol", "srun"):
        program = folder / name
        program.write_text(f"#!/bin/sh\ncat {folder}/out\necho '{said}' >&2\nexit {status}\n")
        program.chmod(0o755)
    return folder
