"""What is sent to nodes, run by the Pythons that nodes have: the oldest that will do, the newest, and one too old."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from lucid_pipelines.domain.cluster import NodeCondition
from lucid_pipelines.ports import Sight
from lucid_pipelines.resources.clusters import holder, wrapper
from lucid_pipelines.resources.clusters.launcher import wrapper_source
from lucid_pipelines.resources.clusters.layout import write_once
from lucid_pipelines.resources.clusters.slurm_holding import open_allocation
from tests.contracts.cluster_contract import ClusterContract
from tests.support_clusters.local_harness import RUN_ID, RUN_MARKER, LocalHarness
from tests.support_clusters.pythons import OLDEST, newest_python, require_python
from tests.support_ssh.machines import Machines
from tests.support_ssh.ssh_harness import SshHarness

pytestmark = pytest.mark.slow
TOO_OLD = "3.8"


@pytest.fixture(params=["oldest", "newest"])
def python(request: pytest.FixtureRequest) -> Path:
    return require_python(OLDEST) if request.param == "oldest" else newest_python()


def run(python: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [str(python), "-I", "-S", "-X", "utf8", *map(str, words)]
    env = {"PATH": os.defpath, RUN_MARKER: RUN_ID, "GREETING": "grüß"}
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=env)


def test_a_wrapper_starts_an_attempt_and_writes_all_its_records(harness: LocalHarness, python: Path) -> None:
    attempt, folder = harness.prepare("echo hello; (sleep 60 &) ; sleep 0.5; exit 3")
    done = run(python, wrapper_source(), folder / wrapper.SPEC)
    assert (done.returncode, json.loads(done.stdout), done.stderr) == (0, {"state": "started"}, "")
    record = harness.wait_end(attempt)
    assert (record.exit_code, record.reason, record.leftover_count) == (3, "exited", 1)
    assert record.profile is not None
    assert harness.log(attempt) == b"hello\n"
    own_log = folder / wrapper.OWN_LOG
    assert not own_log.exists() or own_log.read_bytes() == b"", "nothing went wrong in it"


def test_a_wrapper_obeys_a_stop_and_a_fence(harness: LocalHarness, python: Path) -> None:
    for name, reason in ((wrapper.STOP, "stopped"), (wrapper.FENCED, "fenced")):
        attempt, folder = harness.prepare("trap 'exit 8' TERM; echo up; while :; do sleep 0.05; done")
        run(python, wrapper_source(), folder / wrapper.SPEC)
        harness.wait(lambda one=attempt: harness.log(one) == b"up\n", "it prints")
        (folder / name).write_text('{"grace_s": 5, "reason": "test"}')
        record = harness.wait_end(attempt)
        assert record.reason == reason
        assert harness.processes(attempt) == []


def test_a_wrapper_in_the_foreground_ends_as_its_command(harness: LocalHarness, python: Path) -> None:
    attempt, folder = harness.prepare("exit 5")
    assert run(python, wrapper_source(), "--foreground", folder / wrapper.SPEC).returncode == 5
    assert harness.wait_end(attempt).exit_code == 5
    killed, folder = harness.prepare("kill -9 $$")
    run(python, wrapper_source(), "--foreground", folder / wrapper.SPEC)
    assert harness.wait_end(killed).signal == signal.SIGKILL


def test_a_holder_runs_its_host_and_a_guest(harness: LocalHarness, python: Path) -> None:
    host, folder = harness.prepare("sleep 2; exit 6")
    guest, guests_folder = harness.prepare("exit 7")
    open_allocation(folder)
    write_once(folder / holder.GUESTS / f"{guest}.json", {"spec": str(guests_folder / wrapper.SPEC), "positions": None})
    assert run(python, holder.__file__, wrapper_source(), folder / wrapper.SPEC).returncode == 6
    assert [harness.wait_end(attempt).exit_code for attempt in (host, guest)] == [6, 7]
    assert (folder / holder.GUESTS / holder.CLOSED).exists()


def test_one_that_is_too_old_is_told_so_and_starts_nothing(harness: LocalHarness) -> None:
    old = require_python(TOO_OLD)
    attempt, folder = harness.prepare('echo run >> "$LUCID_OUTPUT_DIR/runs"')
    programs: Sequence[Sequence[str | Path]] = ((wrapper_source(),), (holder.__file__, wrapper_source()))
    for words in programs:
        done = run(old, *words, folder / wrapper.SPEC)
        assert done.returncode == 1
        assert "Python 3.9 or newer" in done.stderr and "Traceback" not in done.stderr
        assert f"{TOO_OLD}." in done.stderr
    assert (harness.output(attempt, "runs"), harness.see(attempt).sight) == (None, Sight.NOT_STARTED)


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    machines = Machines(tmp_path_factory.mktemp("machines"), 2)
    yield machines
    machines.close()


def cluster_with(root: Path, machines: Machines, python: Path) -> SshHarness:
    """A cluster whose nodes have that Python."""
    harness = SshHarness(root, machines)
    options = replace(harness.options_for_ssh(), python=str(python))
    harness.close()
    return SshHarness(root, machines, ssh=options)


@pytest.mark.ssh
def test_a_node_with_the_oldest_and_one_with_the_newest_run_a_job(
    tmp_path: Path, machines: Machines, python: Path
) -> None:
    harness = cluster_with(tmp_path, machines, python)
    try:
        assert harness.finish("exit 4").exit_code == 4
    finally:
        harness.close()


@pytest.mark.ssh
@pytest.mark.parametrize("version", ["3.8", "3.6"])
def test_a_node_whose_python_is_too_old_says_which_it_has(tmp_path: Path, machines: Machines, version: str) -> None:
    harness = cluster_with(tmp_path, machines, require_python(version))
    try:
        for node in harness.ssh.inventory().nodes:
            assert (node.condition, node.usable_gpus) == (NodeCondition.UNOBSERVED, ())
            assert f"Python {version}." in str(node.detail) and "3.9" in str(node.detail)
    finally:
        harness.close()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, machines: Machines) -> Iterator[SshHarness]:
    place = cluster_with(tmp_path_factory.mktemp("oldest"), machines, require_python(OLDEST))
    yield place
    place.close()


@pytest.mark.ssh
@pytest.mark.long
class TestSshNodesWithTheOldestPython(ClusterContract):
    """Every test of the contract on nodes that have the oldest Python: agent, wrapper and all that goes with them."""

    @pytest.fixture
    def harness(self, place: SshHarness, tmp_path: Path) -> Iterator[SshHarness]:
        harness = SshHarness(place.root, place.machines, label=tmp_path.name[:40], shared=place.ssh, **place.changes)
        yield harness
        harness.close()
