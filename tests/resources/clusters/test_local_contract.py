"""The local cluster keeps the contract of the port."""

from tests.contracts.cluster_contract import ClusterContract


class TestLocalCluster(ClusterContract):
    """Every test of the contract, on virtual GPUs."""
