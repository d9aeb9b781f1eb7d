"""Where jobs can go: consolidated placement, the state behind a policy's view, and safe pairs on one GPU."""

from lucid_pipelines.placement.cluster_state import ClusterState
from lucid_pipelines.placement.consolidated import can_ever_fit, find_slots

__all__ = ["ClusterState", "can_ever_fit", "find_slots"]
