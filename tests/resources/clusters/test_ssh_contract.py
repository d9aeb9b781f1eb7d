"""The SSH cluster keeps the contract of the port, over real sshd programs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contracts.cluster_contract import ClusterContract
from tests.support_ssh.machines import Machines
from tests.support_ssh.ssh_harness import SshHarness

pytestmark = [pytest.mark.slow, pytest.mark.ssh]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshHarness]:
    root = tmp_path_factory.mktemp("ssh")
    machines = Machines(root / "machines", 2)
    harness = SshHarness(root, machines)
    yield harness
    harness.close()
    machines.close()


class TestSshCluster(ClusterContract):
    """Every test of the contract, on two machines with virtual GPUs."""

    @pytest.fixture
    def harness(self, place: SshHarness, tmp_path: Path) -> Iterator[SshHarness]:
        harness = SshHarness(place.root, place.machines, label=tmp_path.name[:40], shared=place.ssh)
        yield harness
        harness.close()
