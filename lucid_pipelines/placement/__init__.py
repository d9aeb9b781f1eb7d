"""Where jobs can go: consolidated placement, the state behind a policy's view, and safe pairs on one GPU."""

from lucid_pipelines.placement.avoiding import avoid_reason, demand_of, find_place, gives_way, has_place
from lucid_pipelines.placement.cluster_state import ClusterState
from lucid_pipelines.placement.consolidated import can_ever_fit, find_slots
from lucid_pipelines.placement.pairing import (
    PARTNER_RULES,
    RULES,
    Moment,
    Newcomer,
    PairingRules,
    Resident,
    SharingMode,
    broken_rules,
    enabled_rules,
    first_broken_rule,
    may_be_joined,
    off_avoided_nodes,
    pair_reasons,
)
from lucid_pipelines.placement.pool import default_pool_nodes, with_pool
from lucid_pipelines.placement.sharing_mode import ModeRules, choose_mode, next_mode_s

__all__ = [
    "PARTNER_RULES",
    "RULES",
    "ClusterState",
    "ModeRules",
    "Moment",
    "Newcomer",
    "PairingRules",
    "Resident",
    "SharingMode",
    "avoid_reason",
    "broken_rules",
    "can_ever_fit",
    "choose_mode",
    "default_pool_nodes",
    "demand_of",
    "enabled_rules",
    "find_place",
    "find_slots",
    "first_broken_rule",
    "gives_way",
    "has_place",
    "may_be_joined",
    "next_mode_s",
    "off_avoided_nodes",
    "pair_reasons",
    "with_pool",
]
