"""A site without typed shards: the second of two jobs runs inside the allocation of the first, on the same GPUs."""

from __future__ import annotations

import ast
import os
import shutil
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lucid_pipelines.domain.cluster import Placement
from lucid_pipelines.ports import Sight
from lucid_pipelines.resources.clusters import holder
from lucid_pipelines.resources.clusters.slurm import SlurmCluster
from tests.support_clusters.nvml_double import NvmlDouble, gpu_line
from tests.support_slurm.slurm_cluster import SlurmTestbed, short_folder
from tests.support_slurm.slurm_harness import SlurmHarness

pytestmark = [pytest.mark.slow, pytest.mark.slurm]
TELL = 'echo "$CUDA_VISIBLE_DEVICES" > "$LUCID_OUTPUT_DIR/gpu"; exec sleep 120'
PLACE = Placement.of({"n1": [1, 2]})


@pytest.fixture(scope="module")
def testbed() -> Iterator[SlurmTestbed]:
    folder = short_folder()
    testbed = SlurmTestbed(folder / "slurm", nodes=2, gpus=4, sharing="plain")
    yield testbed
    testbed.close()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def harness(tmp_path: Path, testbed: SlurmTestbed) -> Iterator[SlurmHarness]:
    harness = SlurmHarness(tmp_path, testbed, hold=True)
    harness.gpus = "auto"
    harness.cluster = harness.slurm = harness.reopen()
    yield harness
    harness.close()


def joined(harness: SlurmHarness, script: str = TELL, placement: Placement = PLACE) -> str:
    attempt = harness.start(script, placement=placement)
    assert "host_attempt" in harness.record(attempt, "slurm.json")
    return attempt


def test_a_pair_runs_on_the_same_gpus_and_each_ends_by_itself(harness: SlurmHarness, testbed: SlurmTestbed) -> None:
    able = harness.slurm.capabilities
    assert (able.can_pack, able.pairs_by) == (True, "allocation")
    other = harness.start("sleep 120", placement=Placement.of({"n1": [0]}))  # so that Slurm's numbers are not ours
    first = harness.start(TELL, placement=PLACE)
    devices = harness.wait_output(first, "gpu")
    guest = joined(harness)
    assert harness.wait_output(guest, "gpu") == devices
    third = joined(harness, placement=Placement.of({"n1": [2]}))
    assert harness.wait_output(third, "gpu") == devices.strip().split(",")[1] + "\n", "the one that it was placed on"
    assert harness.submitted(first) == harness.submitted(guest) == harness.submitted(third)
    again = harness.slurm.launch(harness.requests[guest])
    assert again.already
    harness.slurm.stop(first, 1.0, "test")
    assert harness.wait_end(first).reason == "stopped"
    assert {harness.see(one).sight for one in (guest, third)} == {Sight.RUNNING}, "its end is nobody else's"
    assert harness.slurm.fence(guest) >= 1
    assert harness.wait_end(guest).reason == "fenced"
    late = joined(harness, "exit 7", Placement.of({"n1": [2]}))
    assert harness.wait_end(late).exit_code == 7
    harness.slurm.stop(third, 1.0, "test")
    assert harness.wait_end(third).reason == "stopped"
    harness.wait(lambda: "RUNNING" not in state_of(testbed, harness.submitted(first)), "the last one out locks up")
    fresh = harness.start("exit 3", placement=PLACE)
    assert harness.submitted(fresh) != harness.submitted(first)
    assert harness.wait_end(fresh).exit_code == 3
    harness.slurm.fence(other)


@pytest.mark.long
def test_a_wrapper_that_is_killed_or_hangs_costs_its_partner_nothing(harness: SlurmHarness) -> None:
    first, guest = harness.start(TELL, placement=PLACE), joined(harness)
    harness.kill_wrapper(guest)
    assert "goes on" in str(harness.wait_sight(guest, Sight.VANISHED).detail)
    harness.slurm.fence(guest)
    assert harness.wait_end(guest).reason == "fenced"
    hangs = joined(harness)
    os.kill(harness.wrapper_pid(hangs), signal.SIGSTOP)  # it obeys nobody
    main = harness.main_pid(hangs)
    harness.slurm.fence(hangs)
    assert harness.wait_end(hangs).reason == "fenced"
    assert not harness.is_alive(main), "its holder killed it"
    assert harness.see(first).sight is Sight.RUNNING
    harness.slurm.fence(first)
    assert harness.wait_end(first).reason == "fenced"


@pytest.mark.long
def test_what_slurm_ends_it_ends_for_both(harness: SlurmHarness, testbed: SlurmTestbed) -> None:
    pair = [harness.start(TELL, placement=PLACE), joined(harness)]
    testbed.run("scancel", str(harness.submitted(pair[0])))
    assert [harness.wait_end(attempt).reason for attempt in pair] == ["cancelled", "cancelled"]


@pytest.mark.long
def test_a_guest_over_two_nodes_gets_its_ranks(harness: SlurmHarness) -> None:
    both = Placement.of({"n1": [0, 1], "n2": [0, 1]})
    first = harness.start("sleep 120", placement=both)
    guest = joined(harness, 'echo "$NODE_RANK/$NNODES $CUDA_VISIBLE_DEVICES"; sleep 1', both)
    assert harness.wait_end(guest).exit_code == 0
    assert sorted(harness.log(guest).decode().splitlines()) == ["0: 0/2 0,1", "1: 1/2 0,1"]
    assert harness.see(first).sight is Sight.RUNNING
    harness.slurm.stop(first, 1.0, "test")
    assert harness.wait_end(first).reason == "stopped"


def state_of(testbed: SlurmTestbed, number: int) -> str:
    return testbed.run("squeue", "-h", "--states=all", "-j", str(number), "-o", "%T")


@pytest.mark.long
def test_without_the_option_nothing_is_held(harness: SlurmHarness) -> None:
    plain: SlurmCluster = harness.reopened(hold=False)
    request = harness.shell("exit 3")
    plain.launch(request)
    harness.wait_end(request.attempt_id)
    assert "holds" not in harness.record(request.attempt_id, "slurm.json")


@pytest.mark.long
def test_a_job_measures_the_gpus_that_slurm_gave_it_not_those_of_our_numbers(
    harness: SlurmHarness, tmp_path: Path
) -> None:
    folder = tmp_path / "nvml"
    folder.mkdir()
    double = NvmlDouble(folder)
    lines = [gpu_line(f"GPU-{n}", util=10 + n, used_mib=1000 * (n + 1)) for n in range(4)]
    double.state("driver 1\n" + "".join(lines))
    harness.options = replace(harness.options, base_env={**harness.options.base_env, **double.environment})
    harness.cluster = harness.slurm = harness.reopen()
    other = harness.start("sleep 120", placement=Placement.of({"n1": [3]}))  # Slurm gives it another, most likely 0
    attempt = harness.start(f"{TELL.partition(';')[0]}; sleep 1", placement=Placement.of({"n1": [0]}))
    given = int(harness.wait_output(attempt, "gpu"))
    profile = harness.wait_end(attempt).profile
    assert profile is not None and profile.memory_peak_mib == 1000.0 * (given + 1)
    harness.slurm.fence(other)


def test_the_holder_runs_on_the_oldest_python_that_nodes_may_have() -> None:
    ast.parse(Path(holder.__file__).read_text(), feature_version=(3, 9))
