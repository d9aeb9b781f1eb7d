"""A cluster of two machines reached by SSH, with the means to look and strike behind its back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lucid_pipelines.ports import LaunchRequest
from lucid_pipelines.resources.clusters.nodes import DeclaredCheck, LocalNode
from lucid_pipelines.resources.clusters.ssh import SshCluster, SshNode, SshOptions
from tests.support_clusters.local_harness import RUN_ID, RUN_MARKER, LocalHarness
from tests.support_ssh.machines import Machine, Machines


class SshHarness(LocalHarness):
    """Its machines are processes of this one, so that the local harness's eyes see them too."""

    patience_s = 20.0

    def __init__(
        self,
        root: Path,
        machines: Machines,
        *,
        label: str | None = None,
        shared: SshCluster | None = None,
        **cluster: Any,
    ) -> None:
        """With ``shared`` the tests of a module use one cluster (its connections cost the most) in one ``root``."""
        self.machines = machines
        self.made: list[SshCluster] = []
        self.changes = cluster
        self.shared = shared
        super().__init__(root)
        self.label = label or self.label
        if shared is not None:
            self.cluster = shared
        self.ssh = shared or self.made[0]

    def reopen(self) -> SshCluster:  # pyright: ignore[reportIncompatibleMethodOverride]
        arguments: dict[str, Any] = {
            "ssh": self.options_for_ssh(),
            "options": replace(self.options, base_env={}),
            "gpus": "virtual",
            "job_env": {RUN_MARKER: RUN_ID},
            **self.changes,
        }
        cluster = SshCluster(self.root / "cluster", self.nodes(), **arguments)
        self.made.append(cluster)
        return cluster

    def options_for_ssh(self) -> SshOptions:
        return SshOptions(
            key_file=self.machines.key,
            known_hosts=(self.machines.known_hosts,),
            root=str(self.root / "nodes"),
            connect_timeout_s=5.0,
            call_timeout_s=30.0,
        )

    def nodes(self) -> Sequence[SshNode]:
        return [
            SshNode(
                LocalNode.virtual(
                    f"node-{number}",
                    4,
                    vc="vision" if number == 1 else "nlp",
                    memory_mib=24_000.0,
                    checks={"ecc": DeclaredCheck(False, "2 uncorrectable errors")} if number == 2 else {},
                ),
                machine.host,
                machine.port,
            )
            for number, machine in enumerate(self.machines.machines, start=1)
        ]

    def machine(self, node: str) -> Machine:
        return self.machines[int(node.rpartition("-")[2]) - 1]

    def request(self, *command: str, **changes: object) -> LaunchRequest:
        request = super().request(*command)
        (request.code_dir / "placeholder").write_text("a job has some code\n")
        return replace(request, **changes)  # pyright: ignore[reportArgumentType]

    def folder(self, attempt_id: str) -> Path:
        return (self.root / "nodes" / "attempts" / attempt_id).resolve()

    def output(self, attempt_id: str, name: str) -> bytes | None:
        path = self.root / "nodes" / "jobs" / self.requests[attempt_id].job_id / "outputs" / name
        return path.read_bytes() if path.exists() else None

    def close(self) -> None:
        super().close()
        for cluster in self.made:
            cluster.close()
