"""Nodes that Slurm puts to sleep to save power: free to place on, and a start that takes long is no failure."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lucid_pipelines.domain.cluster import Node, NodeCondition, Placement
from lucid_pipelines.ports import Observation, Sight
from lucid_pipelines.resources.clusters.layout import Layout
from lucid_pipelines.resources.clusters.slurm import SlurmCluster
from lucid_pipelines.resources.clusters.slurm_commands import SlurmCommands
from lucid_pipelines.resources.clusters.slurm_drains import SlurmDrains
from lucid_pipelines.resources.clusters.slurm_findings import examine
from lucid_pipelines.resources.clusters.slurm_inventory import SlurmInventory
from lucid_pipelines.resources.clusters.slurm_options import SlurmOptions
from lucid_pipelines.resources.clusters.slurm_view import SlurmView
from tests.support_slurm import shapes
from tests.support_slurm.power import PowerSaving
from tests.support_slurm.slurm_cluster import SlurmTestbed, short_folder
from tests.support_slurm.slurm_harness import SlurmHarness, failing_commands

NOW = datetime.fromtimestamp(shapes.SUBMITTED_S, UTC)
RESUME_TIMEOUT_S = 15
RUN_ONCE = 'echo run >> "$LUCID_OUTPUT_DIR/runs"'
AWAKE = [
    (["IDLE", "CLOUD", "POWERED_DOWN"], "asleep"),
    (["IDLE", "POWERED_DOWN"], "asleep"),
    (["MIXED", "POWERED_DOWN"], "asleep"),
    (["IDLE", "POWERED_DOWN", "NOT_RESPONDING"], "asleep"),
    (["IDLE", "POWER_DOWN"], "going to sleep"),
    (["IDLE", "POWERING_DOWN"], "going to sleep"),
    (["IDLE", "NOT_RESPONDING", "POWERING_DOWN"], "going to sleep"),
    (["MIXED", "CLOUD", "NOT_RESPONDING", "POWERING_UP"], "waking up"),
    (["ALLOCATED", "NOT_RESPONDING", "POWERING_UP"], "waking up"),
    (["IDLE", "CLOUD"], None),
]
AWAY = [
    ["DOWN", "POWERED_DOWN", "NOT_RESPONDING"],
    ["DOWN", "CLOUD", "POWERED_DOWN"],
    ["IDLE", "NOT_RESPONDING"],
    ["IDLE", "CLOUD", "NOT_RESPONDING"],
]


def read_node(folder: Path, version: str, nodes: str) -> Node:
    """The one node of a Slurm of that version that says this."""
    programs = failing_commands(folder / "bin", "", status=0, out=nodes)
    (programs / "squeue").write_text(
        f"#!/bin/sh\ntest \"$1\" = --version && echo slurm {version} || echo '{shapes.old_jobs([])}'\n"
    )
    commands = SlurmCommands(folder=programs)
    layout = Layout(folder / "cluster")
    layout.create()
    view = SlurmView(commands, SlurmOptions(), {}, is_virtual=True)
    inventory = SlurmInventory(view, layout, SlurmDrains(layout.isolation, commands, lambda: NOW))
    (node,) = inventory.read(NOW).nodes
    return node


@pytest.mark.parametrize("version", ["22.05.8", "24.11.3"])
@pytest.mark.parametrize(("states", "words"), AWAKE)
def test_a_node_that_saves_power_is_free(tmp_path: Path, version: str, states: list[str], words: str | None) -> None:
    write = shapes.old_nodes if version < "23" else shapes.new_nodes
    node = read_node(tmp_path, version, write([shapes.node("n1", states)]))
    assert (node.condition, len(node.usable_gpus)) == (NodeCondition.READY, 8)
    assert node.detail is None if words is None else str(node.detail).startswith(words)


@pytest.mark.parametrize("version", ["22.05.8", "24.11.3"])
@pytest.mark.parametrize("states", AWAY)
def test_a_node_that_ought_to_answer_and_one_that_did_not_wake_are_not(
    tmp_path: Path, version: str, states: list[str]
) -> None:
    write = shapes.old_nodes if version < "23" else shapes.new_nodes
    node = read_node(tmp_path, version, write([shapes.node("n1", states, reason="ResumeTimeout reached")]))
    assert (node.condition, node.usable_gpus) == (NodeCondition.UNOBSERVED, ())
    assert "ResumeTimeout reached" in str(node.detail)


@pytest.mark.parametrize("version", ["22.05.8", "24.11.3"])
def test_a_sleeping_node_that_somebody_drained_is_drained(tmp_path: Path, version: str) -> None:
    write = shapes.old_nodes if version < "23" else shapes.new_nodes
    states = ["IDLE", "DRAIN", "POWERED_DOWN"]
    node = read_node(tmp_path, version, write([shapes.node("n1", states, reason="fan", reason_by="root")]))
    assert (node.condition, node.detail) == (NodeCondition.DRAINED, "fan")


@pytest.mark.parametrize(
    ("program", "private", "findings"),
    [
        ("(null)", "none", 0),
        ("/etc/slurm/suspend", "none", 2),
        ("/etc/slurm/suspend", "accounts,cloud", 1),
    ],
)
def test_it_is_said_what_power_saving_means_for_placing(
    tmp_path: Path, program: str, private: str, findings: int
) -> None:
    config = f"SuspendProgram          = {program}\nPrivateData             = {private}\nResumeTimeout = 600 sec\n"
    programs = failing_commands(tmp_path / "bin", "", status=0, out=config)
    (programs / "squeue").write_text("#!/bin/sh\necho slurm 22.05.8\n")
    (programs / "nodes").write_text(shapes.old_nodes([shapes.node("n1")]))
    (programs / "sinfo").write_text(f"#!/bin/sh\ncat {programs}/nodes\n")
    said = examine(SlurmCluster(tmp_path / "cluster", SlurmCommands(folder=programs)))
    about = [one for one in said if "sleep" in one.text]
    assert len(about) == findings
    assert not any(one.is_problem for one in about)
    texts = " ".join(f"{one.text} {one.advice or ''}" for one in about)
    assert ("600 sec" in texts, "set PrivateData=cloud" in texts) == (findings > 0, findings == 2)


@pytest.fixture(scope="module")
def power(tmp_path_factory: pytest.TempPathFactory) -> PowerSaving:
    folder = tmp_path_factory.mktemp("power")
    return PowerSaving(folder / "programs", RESUME_TIMEOUT_S)


@pytest.fixture(scope="module")
def testbed(power: PowerSaving) -> Iterator[SlurmTestbed]:
    folder = short_folder()
    testbed = SlurmTestbed(folder / "slurm", gpus=2, asleep=True, more=f"MessageTimeout=2\n{power.lines}")
    yield testbed
    testbed.close()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def harness(tmp_path: Path, testbed: SlurmTestbed) -> Iterator[SlurmHarness]:
    harness = SlurmHarness(tmp_path, testbed, partitions=("gpu",))
    harness.patience_s = 60.0
    yield harness
    harness.close()


def node_of(harness: SlurmHarness, name: str) -> Node:
    return next(node for node in harness.slurm.inventory().nodes if node.name == name)


def launched(harness: SlurmHarness, power: PowerSaving, name: str, script: str) -> str:
    """An attempt for which Slurm has begun to wake a node."""
    request = harness.shell(script, placement=Placement.of({name: [0]}))
    harness.slurm.launch(request)
    harness.wait(lambda: name in power.woken(), f"Slurm wakes {name}")
    return request.attempt_id


def waking(harness: SlurmHarness, attempt: str) -> Observation:
    seen = harness.see(attempt)
    assert (seen.sight, seen.is_let_in, seen.exit) == (Sight.QUEUED, True, None), seen
    return seen


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.slurm
class TestAsleep:
    """A real Slurm whose nodes are there on demand, each woken by the test's own hand."""

    def test_a_sleeping_node_wakes_for_a_job_and_sleeps_again(
        self, harness: SlurmHarness, testbed: SlurmTestbed, power: PowerSaving
    ) -> None:
        asleep = node_of(harness, "n1")
        assert (asleep.condition, len(asleep.usable_gpus)) == (NodeCondition.READY, 2)
        assert str(asleep.detail).startswith("asleep")
        texts = [finding.text for finding in examine(harness.slurm)]
        assert any(f"may take {RESUME_TIMEOUT_S} sec to wake" in text for text in texts)
        attempt = launched(harness, power, "n1", f"{RUN_ONCE}; exit 3")
        harness.wait(lambda: str(node_of(harness, "n1").detail).startswith("waking"), "it is said that it wakes")
        for _ in range(10):  # longer than a record may be late: nothing is concluded from the silence
            assert "n1" in str(waking(harness, attempt).detail)
            woken = node_of(harness, "n1")
            assert (woken.condition, len(woken.usable_gpus)) == (NodeCondition.READY, 2)
            time.sleep(0.7)
        testbed.start_node("n1", booted=True)
        assert harness.wait_end(attempt).exit_code == 3
        assert harness.output(attempt, "runs") == b"run\n"
        harness.wait(lambda: str(node_of(harness, "n1").detail).startswith("going to sleep"), "it is sent to sleep")
        assert node_of(harness, "n1").condition is NodeCondition.READY
        testbed.kill_node("n1")
        harness.wait(lambda: str(node_of(harness, "n1").detail).startswith("asleep"), "it sleeps")
        assert node_of(harness, "n1").condition is NodeCondition.READY

    def test_what_waits_for_a_node_to_wake_can_be_stopped_and_fenced(
        self, harness: SlurmHarness, testbed: SlurmTestbed, power: PowerSaving
    ) -> None:
        stopped = launched(harness, power, "n2", RUN_ONCE)
        fenced = launched(harness, power, "n3", RUN_ONCE)
        harness.slurm.stop(stopped, 5.0, "no longer wanted")
        assert harness.slurm.fence(fenced) == 0
        for attempt, reason in ((stopped, "stopped"), (fenced, "fenced")):  # and not only once its node is up
            record = harness.wait_end(attempt)
            assert (record.reason, record.started_at) == (reason, None)
        for name in ("n2", "n3"):
            testbed.start_node(name, booted=True)
            harness.wait(lambda n=name: "waking" not in str(node_of(harness, n).detail), f"{name} is up")
        assert all(harness.output(attempt, "runs") is None for attempt in (stopped, fenced))

    def test_a_node_that_does_not_wake_in_its_time_loses_nothing(
        self, harness: SlurmHarness, power: PowerSaving
    ) -> None:
        attempt = launched(harness, power, "n4", RUN_ONCE)
        waking(harness, attempt)
        seen = harness.wait_sight(attempt, Sight.VANISHED)
        assert seen.never_ran and seen.started_at is None
        assert "n4" in str(seen.detail) and "nothing of it had started" in str(seen.detail)
        down = node_of(harness, "n4")
        assert (down.condition, down.usable_gpus) == (NodeCondition.UNOBSERVED, ())
        assert "ResumeTimeout" in str(down.detail)
        assert harness.slurm.fence(attempt) == 0
        assert harness.output(attempt, "runs") is None
