"""A disk without room: a job's end is still recorded, and nothing starts that could not be."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lucid_pipelines.domain.errors import ExternalError
from lucid_pipelines.ports import Sight
from lucid_pipelines.resources.clusters import wrapper
from tests.support_clusters.local_harness import LocalHarness

FILL = 'head -c 100000000 /dev/zero > "$LUCID_OUTPUT_DIR/fill" 2> /dev/null; echo unheard'


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[LocalHarness]:
    """A local cluster on a file system of 1 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], capture_output=True, text=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"a small file system can only be mounted by root: {mounted.stderr.strip()}")
    harness = LocalHarness(disk, disk_retry_s=20.0)
    try:
        yield harness
    finally:
        harness.close()
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_an_exit_record_appears_on_a_full_disk(small_disk: LocalHarness) -> None:
    proof = 'if head -c 8192 /dev/zero > "$LUCID_OUTPUT_DIR/more" 2> /dev/null; then exit 9; fi'
    record = small_disk.wait_end(small_disk.start(f"{FILL}; {proof}; exit 3"))
    assert (record.exit_code, record.reason) == (3, "exited")


def test_a_job_is_stopped_on_a_full_disk(small_disk: LocalHarness) -> None:
    attempt = small_disk.start(f"{FILL}; trap 'exit 5' TERM; while :; do sleep 0.02; done")
    outputs = small_disk.requests[attempt].job_dir / "outputs" / "fill"
    small_disk.wait(lambda: outputs.exists() and outputs.stat().st_size > 300_000, "the disk fills")
    small_disk.cluster.stop(attempt, 5.0, "test")
    record = small_disk.wait_end(attempt)
    assert (record.reason, record.exit_code) in (("stopped", 5), ("stopped", None))


def test_a_vanished_job_is_fenced_on_a_full_disk(small_disk: LocalHarness) -> None:
    attempt = small_disk.start(f"{FILL}; exec sleep 60")
    outputs = small_disk.requests[attempt].job_dir / "outputs" / "fill"
    small_disk.wait(lambda: outputs.exists() and outputs.stat().st_size > 300_000, "the disk fills")
    small_disk.kill_wrapper(attempt)
    small_disk.wait_sight(attempt, Sight.VANISHED)
    assert small_disk.cluster.fence(attempt) >= 1
    assert small_disk.wait_end(attempt).reason == "fenced"
    assert small_disk.processes(attempt) == []


def test_nothing_is_launched_onto_a_full_disk_until_there_is_room(small_disk: LocalHarness) -> None:
    fill = small_disk.root / "fill"
    request = small_disk.shell("exit 4")
    with fill.open("wb") as file, pytest.raises(OSError, match="No space left"):
        while True:
            file.write(bytes(65_536))
            file.flush()
    with pytest.raises(ExternalError, match="launch it again"):
        small_disk.cluster.launch(request)
    assert small_disk.see(request.attempt_id).sight is Sight.NOT_STARTED
    fill.unlink()
    assert not small_disk.cluster.launch(request).already
    assert small_disk.wait_end(request.attempt_id).exit_code == 4


def test_a_record_waits_for_a_disk_that_refuses_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refusals = iter([True] * 3)
    rename = wrapper.os.rename

    def reluctant(source: str, target: str) -> None:
        if next(refusals, False):
            raise OSError(28, "No space left on device")
        rename(source, target)

    monkeypatch.setattr(wrapper.os, "rename", reluctant)
    spec = {"attempt_id": "a", "attempt_dir": str(tmp_path), "disk_retry_s": 5.0}
    reserve = wrapper.reserve_record(str(tmp_path))
    wrapper.write_exit(spec, wrapper.unstarted_record(spec, "stopped", "by a test"), reserve)
    wrapper.os.close(reserve)
    assert wrapper.read_json(str(tmp_path / wrapper.EXIT), 65_536)["reason"] == "stopped"
