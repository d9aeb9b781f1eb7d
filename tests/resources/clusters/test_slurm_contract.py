"""The Slurm cluster keeps the contract of the port, against a real Slurm with fake GPUs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contracts.cluster_contract import ClusterContract
from tests.support_slurm.slurm_cluster import SlurmTestbed, short_folder
from tests.support_slurm.slurm_harness import SlurmHarness

pytestmark = [pytest.mark.slow, pytest.mark.slurm]


@pytest.fixture(scope="module")
def testbed() -> Iterator[SlurmTestbed]:
    folder = short_folder()
    testbed = SlurmTestbed(folder / "slurm")
    yield testbed
    testbed.close()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def plain() -> Iterator[SlurmTestbed]:
    folder = short_folder()
    testbed = SlurmTestbed(folder / "slurm", nodes=2, sharing="plain")
    yield testbed
    testbed.close()
    shutil.rmtree(folder, ignore_errors=True)


class TestSlurmCluster(ClusterContract):
    """Every test of the contract, on four nodes of eight fake GPUs."""

    @pytest.fixture
    def harness(self, testbed: SlurmTestbed, tmp_path: Path) -> Iterator[SlurmHarness]:
        harness = SlurmHarness(tmp_path, testbed)
        yield harness
        harness.close()


@pytest.mark.long
class TestHeldAllocations(ClusterContract):
    """The same where Slurm chooses the GPUs and allocations are kept open for a second job."""

    @pytest.fixture
    def harness(self, plain: SlurmTestbed, tmp_path: Path) -> Iterator[SlurmHarness]:
        harness = SlurmHarness(tmp_path, plain, hold=True)
        yield harness
        harness.close()
