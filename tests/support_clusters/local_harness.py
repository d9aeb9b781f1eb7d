"""The local cluster under test, with the means to look and strike behind its back."""

from __future__ import annotations

import json
import os
import signal
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from zlib import crc32

from lucid_pipelines.domain.cluster import Placement
from lucid_pipelines.ports import LaunchRequest, Sight
from lucid_pipelines.resources.clusters import wrapper
from lucid_pipelines.resources.clusters.layout import write_once
from lucid_pipelines.resources.clusters.local import LocalCluster
from lucid_pipelines.resources.clusters.nodes import DeclaredCheck, LocalNode
from lucid_pipelines.resources.clusters.request import WrapperOptions, inherited_environment, wrapper_spec
from tests.contracts.cluster_contract import ClusterHarness

RUN_MARKER = "LUCID_TEST_RUN"
RUN_ID = uuid.uuid4().hex
"""Every wrapper and job of this test run carries it, so that what is left behind can be found."""

NODES = (
    LocalNode.virtual("node-1", 4, vc="vision", gpu_type="virtual", memory_mib=24_000.0),
    LocalNode.virtual(
        "node-2", 4, vc="nlp", memory_mib=24_000.0, checks={"ecc": DeclaredCheck(False, "2 uncorrectable errors")}
    ),
)


class LocalHarness(ClusterHarness):
    """A local cluster of two virtual nodes in a folder of its own."""

    def __init__(self, root: Path, **options: float) -> None:
        self.root = root
        # Of the whole path: attempts are fenced by their name on the whole machine, and tests run side by side.
        self.label = f"{root.name[:30]}-{crc32(os.fsencode(root)):08x}"
        self.options = WrapperOptions(
            **{"sample_interval_s": 0.1, "warmup_s": 0.0, "leftover_grace_s": 0.3, **options},
            base_env={**inherited_environment(os.environ), RUN_MARKER: RUN_ID},
        )
        self.local = self.reopen()
        self.cluster = self.local
        self.requests: dict[str, LaunchRequest] = {}

    def reopen(self) -> LocalCluster:
        return LocalCluster(self.root / "cluster", NODES, options=self.options)

    def request(self, *command: str, **changes: object) -> LaunchRequest:
        job_id = f"j{len(self.requests) + 1:03}-{self.label}"
        job_dir = self.root / "jobs" / job_id
        code_dir = job_dir / "code"
        code_dir.mkdir(parents=True)
        request = LaunchRequest(
            attempt_id=f"{job_id}-a1",
            job_id=job_id,
            attempt_number=1,
            command=command,
            env={},
            placement=Placement.of({"node-1": [len(self.requests) % 4]}),
            job_dir=job_dir,
            code_dir=code_dir,
            workdir=".",
            grace_s=1.0,
        )
        self.requests[request.attempt_id] = request
        return replace(request, **changes)  # pyright: ignore[reportArgumentType]

    def prepare(self, script: str) -> tuple[str, Path]:
        """An attempt that is placed but not started: its id and folder."""
        request = self.shell(script)
        spec = wrapper_spec(request, {node.name: node for node in NODES}, self.options)
        folder = Path(spec["attempt_dir"])
        for name in (folder, Path(spec["output_dir"])):
            name.mkdir(parents=True)
        write_once(folder / wrapper.SPEC, spec)
        (self.root / "cluster" / "attempts" / request.attempt_id).symlink_to(folder)
        return request.attempt_id, folder

    def folder(self, attempt_id: str) -> Path:
        return (self.root / "cluster" / "attempts" / attempt_id).resolve()

    def record(self, attempt_id: str, name: str) -> dict[str, object]:
        return json.loads((self.folder(attempt_id) / name).read_text())

    def output(self, attempt_id: str, name: str) -> bytes | None:
        path = self.requests[attempt_id].job_dir / "outputs" / name
        return path.read_bytes() if path.exists() else None

    def processes(self, attempt_id: str) -> list[int]:
        found = wrapper.marked(wrapper.process_table().values(), attempt_id)
        return [process.pid for process in found if process.state != "Z"]

    def is_alive(self, pid: int) -> bool:
        process = wrapper.read_process(pid)
        return process is not None and process.state != "Z"

    def wrapper_pid(self, attempt_id: str) -> int:
        return self._pid(attempt_id, "wrapper")

    def main_pid(self, attempt_id: str) -> int:
        return self._pid(attempt_id, "main")

    def kill_wrapper(self, attempt_id: str) -> None:
        os.kill(self.wrapper_pid(attempt_id), signal.SIGKILL)

    @contextmanager
    def blind(self, attempt_id: str) -> Iterator[None]:
        """The attempt's folder is gone, as on a disk that is no longer mounted."""
        folder = self.folder(attempt_id)
        aside = folder.with_name(folder.name + ".aside")
        folder.rename(aside)
        try:
            yield
        finally:
            aside.rename(folder)

    def close(self) -> None:
        """End what a failed test left running."""
        for attempt_id, observation in self.cluster.poll([*self.requests]).items():
            if observation.sight is not Sight.EXITED:
                self.cluster.fence(attempt_id)

    def _pid(self, attempt_id: str, who: str) -> int:
        started = self.record(attempt_id, wrapper.STARTED)[who]
        assert isinstance(started, dict)
        return int(started["pid"])


def left_behind(patience_s: float = 5.0) -> list[str]:
    """Command lines of processes of this test run that still live after a while."""
    deadline = time.monotonic() + patience_s
    while True:
        table = wrapper.process_table()
        found = wrapper.marked(table.values(), RUN_ID, RUN_MARKER)
        found = [process for process in found if process.state != "Z" and process.pid != os.getpid()]
        if not found or time.monotonic() > deadline:
            return [f"{p.pid}: {Path(f'/proc/{p.pid}/cmdline').read_bytes()!r}" for p in found]
        time.sleep(0.05)
