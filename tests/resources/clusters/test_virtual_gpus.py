"""Declared nodes: what their GPUs are asked for, and what their checks answer."""

from __future__ import annotations

import json

import pytest

from lucid_pipelines.domain.cluster import GpuSample, Placement
from lucid_pipelines.domain.errors import NotFoundError
from lucid_pipelines.ports import Sight
from lucid_pipelines.resources.clusters import wrapper
from lucid_pipelines.resources.clusters.local import LocalCluster
from lucid_pipelines.resources.clusters.nodes import DeclaredCheck, LocalNode
from tests.support_clusters.local_harness import LocalHarness

HALF = {"gpu_util_pct": 40.0, "memory_util_pct": 10.0, "memory_used_mib": 3_000.0}


def _sample(harness: LocalHarness, node: str, gpu: int) -> GpuSample:
    return next(s for s in harness.cluster.sample() if (s.node, s.gpu_index) == (node, gpu))


def _values(sample: GpuSample) -> tuple[float | None, float | None, float | None, int | None]:
    return sample.gpu_util_pct, sample.memory_util_pct, sample.memory_used_mib, sample.process_count


def test_an_idle_virtual_gpu_is_known_to_be_idle(harness: LocalHarness) -> None:
    samples = harness.cluster.sample()
    assert len(samples) == 8
    assert {(_values(s), s.source) for s in samples} == {((0.0, 0.0, 0.0, 0), "declared")}


def test_jobs_on_one_gpu_add_up_and_stop_counting_when_they_end(harness: LocalHarness) -> None:
    shared = Placement.of({"node-1": [1, 2]})
    first = harness.start("sleep 30", placement=shared, declared_load=HALF)
    second = harness.start(
        "sleep 30", placement=Placement.of({"node-1": [2]}), declared_load={**HALF, "gpu_util_pct": 90.0}
    )
    assert _values(_sample(harness, "node-1", 1)) == (40.0, 10.0, 3_000.0, 1)
    assert _values(_sample(harness, "node-1", 2)) == (100.0, 20.0, 6_000.0, 2)
    assert _values(_sample(harness, "node-2", 1)) == (0.0, 0.0, 0.0, 0)
    harness.cluster.stop(first, 0.5, "test")
    harness.wait_end(first)
    assert _values(_sample(harness, "node-1", 1)) == (0.0, 0.0, 0.0, 0)
    assert _values(_sample(harness, "node-1", 2)) == (90.0, 10.0, 3_000.0, 1)
    harness.cluster.fence(second)
    assert _values(_sample(harness, "node-1", 2)) == (0.0, 0.0, 0.0, 0)


def test_a_job_that_declares_nothing_is_unknown_and_not_idle(harness: LocalHarness) -> None:
    attempt = harness.start("sleep 30", placement=Placement.of({"node-1": [0]}))
    assert _values(_sample(harness, "node-1", 0)) == (None, None, None, 1)
    harness.cluster.fence(attempt)


def test_a_vanished_job_makes_its_gpus_unknown_until_it_is_fenced(harness: LocalHarness) -> None:
    attempt = harness.start("sleep 30", placement=Placement.of({"node-1": [0]}), declared_load=HALF)
    harness.kill_wrapper(attempt)
    harness.wait_sight(attempt, Sight.VANISHED)
    assert _values(_sample(harness, "node-1", 0))[:3] == (None, None, None)
    harness.cluster.fence(attempt)
    assert _values(_sample(harness, "node-1", 0)) == (0.0, 0.0, 0.0, 0)


def test_a_job_may_change_its_load_while_it_runs(harness: LocalHarness) -> None:
    script = """printf '{"gpu_util_pct": 75, "memory_used_mib": 500}' > "$LUCID_GPU_LOAD"
    echo > "$LUCID_OUTPUT_DIR/up"; sleep 30"""
    attempt = harness.start(script, placement=Placement.of({"node-1": [3]}), declared_load=HALF)
    harness.wait_output(attempt, "up")
    assert _values(_sample(harness, "node-1", 3)) == (75.0, None, 500.0, 1)
    harness.cluster.fence(attempt)


def test_a_restarted_control_plane_knows_the_loads(harness: LocalHarness) -> None:
    attempt = harness.start("sleep 30", placement=Placement.of({"node-2": [3]}), declared_load=HALF)
    sample = next(s for s in harness.reopen().sample() if (s.node, s.gpu_index) == ("node-2", 3))
    assert _values(sample) == (40.0, 10.0, 3_000.0, 1)
    harness.cluster.fence(attempt)


def test_a_profile_grows_while_the_job_runs_and_ends_in_its_record(harness: LocalHarness) -> None:
    attempt = harness.start("sleep 30", declared_load=HALF)
    samples = harness.folder(attempt) / wrapper.SAMPLES
    harness.wait(lambda: samples.exists() and len(samples.read_text().splitlines()) >= 5, "samples are taken")
    with samples.open("a") as file:
        file.write('{"at": 17')  # as if it were being written at this moment
    profile = harness.local.profile(attempt)
    assert profile is not None
    assert (profile.gpu_util_pct, profile.memory_util_pct, profile.memory_peak_mib) == (40.0, 10.0, 3_000.0)
    assert profile.source == "declared"
    harness.cluster.stop(attempt, 0.5, "the profiling window is over")
    final = harness.wait_end(attempt).profile
    assert final is not None
    assert (final.gpu_util_pct, final.memory_peak_mib) == (40.0, 3_000.0)
    assert final.sample_count >= profile.sample_count


def test_there_is_no_profile_of_what_never_ran(harness: LocalHarness) -> None:
    with pytest.raises(NotFoundError):
        harness.local.profile("never-launched")
    request = harness.shell("true")
    harness.cluster.stop(request.attempt_id, 0.0, "test")
    assert harness.local.profile(request.attempt_id) is None


def test_a_job_over_several_nodes_is_told_where_it_is(harness: LocalHarness) -> None:
    placement = Placement.of({"node-1": [2, 3], "node-2": [0, 1]})
    attempt = harness.start(
        'printf "%s|%s|%s" "$LUCID_PLACEMENT" "$CUDA_VISIBLE_DEVICES" "$LUCID_NODE"', placement=placement
    )
    harness.wait_end(attempt)
    said, devices, node = harness.log(attempt).decode().split("|")
    assert (Placement.from_json(json.loads(said)), devices, node) == (placement, "2,3,4,5", "node-1")


def test_declared_checks_answer_as_declared(harness: LocalHarness) -> None:
    failing = harness.cluster.check("node-2", "ecc")
    assert (failing.passed, failing.detail) == (False, "declared: 2 uncorrectable errors")
    unknown = harness.cluster.check("node-2", "ecc2")
    assert unknown.passed is None
    assert "did you mean 'ecc'?" in unknown.detail


def test_a_node_may_pass_whatever_is_not_declared(harness: LocalHarness) -> None:
    node = LocalNode.virtual(
        "n", 1, checks={"ecc": DeclaredCheck(False, "x")}, default_check=DeclaredCheck(True, "nothing is wrong")
    )
    cluster = LocalCluster(harness.root / "other", [node])
    assert [cluster.check("n", test).passed for test in ("ecc", "anything")] == [False, True]
