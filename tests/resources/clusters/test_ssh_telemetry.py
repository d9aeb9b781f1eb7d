"""Real GPUs of machines reached by SSH: read there by the agent through NVML, here its stand-in."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lucid_pipelines.domain.cluster import NodeCondition, Placement
from lucid_pipelines.resources.clusters import ssh
from lucid_pipelines.resources.clusters.ssh import SshNode
from tests.support_clusters.nvml_double import NvmlDouble, gpu_line
from tests.support_ssh.machines import Machines
from tests.support_ssh.ssh_harness import SshHarness

DRIVER = "driver 1\n"
pytestmark = [pytest.mark.slow, pytest.mark.ssh]


class RealGpus(SshHarness):
    """Its one node is named as its declared self; its GPUs are what its driver says."""

    def nodes(self) -> list[SshNode]:
        return list(super().nodes())[:1]


@pytest.fixture
def double(tmp_path: Path) -> NvmlDouble:
    folder = tmp_path / "nvml"
    folder.mkdir()
    return NvmlDouble(folder)


@pytest.fixture
def harness(tmp_path: Path, double: NvmlDouble) -> Iterator[RealGpus]:
    """A node whose Python finds the stand-in for the driver, as a login there would."""
    machines = Machines(tmp_path / "machines", 1)
    python = tmp_path / "python"
    exports = " ".join(f"{name}={value}" for name, value in double.environment.items())
    python.write_text(f'#!/bin/sh\nexport {exports}\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    plain = RealGpus(tmp_path, machines)
    harness = RealGpus(
        tmp_path,
        machines,
        gpus="auto",
        ssh=replace(plain.options_for_ssh(), python=str(python)),
        job_env=double.environment,
    )
    yield harness
    harness.close()
    plain.close()
    machines.close()


def test_gpus_are_found_and_sampled_and_what_is_lost_is_unknown(harness: RealGpus, double: NvmlDouble) -> None:
    double.state(
        DRIVER + gpu_line("GPU-a", util=70, mem_util=30, used_mib=9000, pids=(41, 42)) + gpu_line("GPU-b", util=0)
    )
    (node,) = harness.ssh.inventory().nodes
    assert node.condition is NodeCondition.READY
    assert [(gpu.uuid, gpu.gpu_type, gpu.is_virtual) for gpu in node.gpus] == [
        ("GPU-a", "H200", False),
        ("GPU-b", "H200", False),
    ]
    first, second = harness.ssh.sample()
    assert (first.source, first.gpu_util_pct, first.memory_util_pct) == ("nvml", 70.0, 30.0)
    assert (first.memory_used_mib, first.process_count) == (9000.0, 2)
    assert (second.gpu_util_pct, second.process_count) == (0.0, 0)
    double.state(DRIVER + gpu_line("GPU-a", lost=True) + gpu_line("GPU-b", util=5))
    lost, seen = harness.ssh.sample()
    assert (lost.gpu_util_pct, lost.memory_used_mib) == (None, None), "unknown, not idle"
    assert seen.gpu_util_pct == 5.0


def test_a_jobs_wrapper_measures_its_own_gpus_there(harness: RealGpus, double: NvmlDouble) -> None:
    double.state(DRIVER + gpu_line("GPU-a", util=5) + gpu_line("GPU-b", util=64, mem_util=31, used_mib=12_000))
    harness.ssh.inventory()
    attempt = harness.start("sleep 1.5", placement=Placement.of({"node-1": [1]}))
    profile = harness.wait_end(attempt).profile
    assert profile is not None and profile.source == "nvml"
    assert profile.memory_peak_mib == 12_000.0


def test_a_driver_that_goes_away_leaves_no_idle_gpu(
    harness: RealGpus, double: NvmlDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    double.state(DRIVER + gpu_line("GPU-a", util=50))
    assert [gpu.uuid for gpu in harness.ssh.inventory().nodes[0].gpus] == ["GPU-a"]
    (double.folder / "libnvidia-ml.so.1").rename(double.folder / "gone")
    harness.ssh.close()  # a library that was loaded once stays in an agent that goes on
    monkeypatch.setattr(ssh, "OBSERVED_FOR_S", 0.0)
    assert list(harness.ssh.sample()) == []
    (node,) = harness.ssh.inventory().nodes
    assert node.condition is NodeCondition.UNOBSERVED
    assert node.usable_gpus == ()
    assert node.detail is not None and "cannot be read" in node.detail
    (double.folder / "gone").rename(double.folder / "libnvidia-ml.so.1")
    harness.ssh.close()
    (node,) = harness.ssh.inventory().nodes
    assert (node.condition, len(node.usable_gpus)) == (NodeCondition.READY, 1)
