"""Which two jobs may share GPUs: sharing score, sharing capacity and the five rules (Lucid, section 8).

Every rule is one function and one switch, so that each can be tested and switched off alone. What a rule needs
and does not know forbids the pair (R-25).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from lucid_pipelines.domain.decision import Fact, Reason
from lucid_pipelines.domain.errors import InputError


class SharingMode(StrEnum):
    """How much sharing is allowed now; the sharing capacity (GSS) bounds the sum of sharing scores on a GPU."""

    DEFAULT = "default"
    APATHETIC = "apathetic"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class PairingRules:
    """The rules of the binder and their numbers.

    Attributes:
        sharing_score: the scores of both jobs may add up to the capacity of the mode.
        capacity, apathetic_capacity: GSS by mode.
        memory_safe: peak memory of both plus ``memory_margin_frac`` of the GPU must fit (R-22).
        memory_step_mib: each job's peak is rounded up to a multiple of this, which also lets jobs of like demand
            be looked at together.
        same_gpus: both ask for the same number of GPUs, or the slower half would hold up the faster.
        at_most_two: a GPU never holds three jobs.
        split_unstable: a pair whose resource use turns unstable is split, the later job requeued alone.
        no_distributed: jobs over several nodes are never packed, to keep their network to themselves.
        remaining_time: the joining job's predicted duration is at most ``max_ratio`` times what the partner
            is predicted to have left, and the partner has at least ``min_remaining_s`` left.
        credit_done: what the partner has done counts off its prediction; without, the whole prediction is
            taken for what is left, as in the published artifact.
        avoid_nodes: nobody joins a partner on a node that it is to avoid (R-19).
        same_user: only jobs of one user share GPUs (R-24); off because a virtual cluster is a tenant.
        full_gpu_memory_mib: memory of a GPU whose size the cluster does not tell.
    """

    sharing_score: bool = True
    capacity: int = 2
    apathetic_capacity: int = 1
    memory_safe: bool = True
    memory_margin_frac: float = 0.05
    memory_step_mib: float = 1024.0
    same_gpus: bool = True
    at_most_two: bool = True
    split_unstable: bool = True
    no_distributed: bool = True
    remaining_time: bool = True
    max_ratio: float = 2.0
    min_remaining_s: float = 60.0
    credit_done: bool = True
    avoid_nodes: bool = True
    same_user: bool = False
    full_gpu_memory_mib: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.memory_margin_frac < 1:
            raise InputError(f"memory_margin_frac must be in [0, 1); got {self.memory_margin_frac}")
        if not self.memory_step_mib > 0:
            raise InputError(f"memory_step_mib must be above 0; got {self.memory_step_mib}")
        if self.capacity < 0 or self.apathetic_capacity < 0:
            raise InputError(f"a sharing capacity must be at least 0; got {self.capacity}")

    def memory_demand_mib(self, peak_mib: float | None) -> float | None:
        """What a job with this peak counts for."""
        if peak_mib is None:
            return None
        return math.ceil(peak_mib / self.memory_step_mib) * self.memory_step_mib

    def capacity_in(self, mode: SharingMode) -> int:
        """The sharing capacity of a GPU; −1 when nothing may share."""
        if mode is SharingMode.OFF:
            return -1
        return self.capacity if mode is SharingMode.DEFAULT else self.apathetic_capacity


class Newcomer(NamedTuple):
    """A waiting job as the rules see it.

    Attributes:
        memory_mib: its peak on one GPU.
        predicted_s: its predicted duration.
        is_distributed: whether it needs more GPUs than a node has.
        never_pack: whether it must stay alone.
        avoid_nodes: nodes that it is to be kept off.
    """

    job_id: str
    gpus: int
    user: str
    sharing_score: int | None
    memory_mib: float | None
    predicted_s: float | None
    is_distributed: bool
    never_pack: bool
    avoid_nodes: frozenset[str] = frozenset()


class Resident(NamedTuple):
    """A running job as the rules see it.

    Attributes:
        scores, memory_mib: sums over all jobs on its GPUs; ``None`` when any is unknown.
        jobs_on_gpu: how many jobs share its GPUs, itself included.
        left_s, as_of_s, speed_frac: predicted time left at ``as_of_s`` and how fast it goes by; ``None`` when
            unknown.
        gpu_memory_mib: size of its GPUs.
        node_names: where it runs.
    """

    job_id: str
    gpus: int
    user: str
    scores: int | None
    memory_mib: float | None
    left_s: float | None
    as_of_s: float
    speed_frac: float
    is_distributed: bool
    never_pack: bool
    is_unstable: bool
    jobs_on_gpu: int
    gpu_memory_mib: float | None
    node_names: tuple[str, ...] = ()

    def remaining_s(self, now_s: float) -> float | None:
        """Predicted time left at ``now_s``; 0 for a job that has outlived its prediction."""
        if self.left_s is None:
            return None
        return max(self.left_s - (now_s - self.as_of_s) * self.speed_frac, 0.0)


class Moment(NamedTuple):
    """What the rules need besides the two jobs."""

    now_s: float
    mode: SharingMode
    capacity: int

    @classmethod
    def of(cls, now_s: float, mode: SharingMode, rules: PairingRules) -> Moment:
        return cls(now_s, mode, rules.capacity_in(mode))


Rule = Callable[[Newcomer, Resident, PairingRules, Moment], bool]


def within_capacity(job: Newcomer, partner: Resident, rules: PairingRules, at: Moment) -> bool:
    """The sharing scores add up to at most the capacity."""
    if job.sharing_score is None or partner.scores is None:
        return False
    return job.sharing_score + partner.scores <= at.capacity


def memory_safe(job: Newcomer, partner: Resident, rules: PairingRules, at: Moment) -> bool:
    """Both peaks and the margin fit into one GPU's memory."""
    size_mib = partner.gpu_memory_mib or rules.full_gpu_memory_mib
    if size_mib is None or job.memory_mib is None or partner.memory_mib is None:
        return False
    return job.memory_mib + partner.memory_mib + rules.memory_margin_frac * size_mib < size_mib


def same_gpus(job: Newcomer, partner: Resident, rules: PairingRules, at: Moment) -> bool:
    """Both ask for the same number of GPUs."""
    return job.gpus == partner.gpus


def at_most_two(job: Newcomer, partner: Resident, rules: PairingRules, at: Moment) -> bool:
    """The partner is alone on its GPUs."""
    return partner.jobs_on_gpu == 1


def stable(job: Newcomer, partner: Resident, rules: PairingRules, at: Moment) -> bool:
    """Neither has shown unstable resource use while it shared GPUs."""
    return not (job.never_pack or partner.never_pack or partner.is_unstable)


def not_distributed(job: Newcomer, partner: Resident, rules: PairingRules, at: Moment) -> bool:
    """Neither runs over several nodes."""
    return not (job.is_distributed or partner.is_distributed)


def enough_time_left(job: Newcomer, partner: Resident, rules: PairingRules, at: Moment) -> bool:
    """The partner will be there long enough to be worth slowing down, and will not be held up for long."""
    remaining_s = partner.remaining_s(at.now_s)
    if job.predicted_s is None or remaining_s is None or remaining_s < rules.min_remaining_s:
        return False
    return job.predicted_s <= rules.max_ratio * remaining_s


def off_avoided_nodes(job: Newcomer, partner: Resident, rules: PairingRules, at: Moment) -> bool:
    """The partner is on no node that the newcomer is to avoid."""
    return job.avoid_nodes.isdisjoint(partner.node_names)


def one_user(job: Newcomer, partner: Resident, rules: PairingRules, at: Moment) -> bool:
    """Both belong to one user."""
    return job.user == partner.user


RULES: dict[str, Rule] = {
    "same_gpus": same_gpus,
    "at_most_two": at_most_two,
    "sharing_score": within_capacity,
    "memory_safe": memory_safe,
    "split_unstable": stable,
    "no_distributed": not_distributed,
    "remaining_time": enough_time_left,
    "avoid_nodes": off_avoided_nodes,
    "same_user": one_user,
}
"""Every rule by the name of its switch in ``PairingRules``, the cheapest first."""


PARTNER_RULES = ("same_gpus", "at_most_two", "split_unstable", "no_distributed")
"""What ``may_be_joined`` and a search by size leave nothing of to check, but for the newcomer's own part."""


def enabled_rules(rules: PairingRules, *, without: Collection[str] = ()) -> tuple[Rule, ...]:
    """The rules that are switched on, but for those named."""
    return tuple(rule for name, rule in RULES.items() if getattr(rules, name) and name not in without)


def may_be_joined(partner: Resident, rules: PairingRules) -> bool:
    """Whether the rules that look at the partner alone allow anybody to join it."""
    return not (
        (rules.at_most_two and partner.jobs_on_gpu > 1)
        or (rules.split_unstable and (partner.never_pack or partner.is_unstable))
        or (rules.no_distributed and partner.is_distributed)
        or (rules.sharing_score and partner.scores is None)
        or (rules.memory_safe and partner.memory_mib is None)
    )


def first_broken_rule(job: Newcomer, partner: Resident, rules: PairingRules, at: Moment) -> str | None:
    """The name of the first rule that forbids the pair; ``None`` when it is an affine pair."""
    if at.mode is SharingMode.OFF:
        return "mode"
    for name, rule in RULES.items():
        if getattr(rules, name) and not rule(job, partner, rules, at):
            return name
    return None


def broken_rules(job: Newcomer, partner: Resident, rules: PairingRules, at: Moment) -> tuple[str, ...]:
    """The names of all rules that forbid the pair, the mode first."""
    mode = ("mode",) if at.mode is SharingMode.OFF else ()
    named = (name for name, rule in RULES.items() if getattr(rules, name) and not rule(job, partner, rules, at))
    return (*mode, *named)


def pair_reasons(job: Newcomer, partner: Resident, rules: PairingRules, at: Moment) -> tuple[Reason, ...]:
    """What each rule saw, for the decision's record."""
    facts: dict[str, dict[str, Fact]] = {
        "same_gpus": {"gpus": job.gpus},
        "at_most_two": {"jobs_on_gpu": partner.jobs_on_gpu + 1},
        "sharing_score": {
            "sharing_score": job.sharing_score,
            "partner_sharing_score": partner.scores,
            "capacity": at.capacity,
        },
        "memory_safe": {
            "memory_peak_mib": job.memory_mib,
            "partner_memory_peak_mib": partner.memory_mib,
            "margin_frac": rules.memory_margin_frac,
            "gpu_memory_mib": partner.gpu_memory_mib or rules.full_gpu_memory_mib,
        },
        "split_unstable": {"partner_is_unstable": partner.is_unstable},
        "no_distributed": {"is_distributed": job.is_distributed},
        "remaining_time": {
            "predicted_duration_s": job.predicted_s,
            "partner_remaining_s": partner.remaining_s(at.now_s),
            "max_ratio": rules.max_ratio,
            "min_remaining_s": rules.min_remaining_s,
        },
        "avoid_nodes": {"avoid_nodes": ", ".join(sorted(job.avoid_nodes)), "nodes": ", ".join(partner.node_names)},
        "same_user": {"user": job.user, "partner_user": partner.user},
    }
    head = Reason("affine_pair", {"partner_job_id": partner.job_id, "mode": at.mode.value})
    return (head, *(Reason(name, facts[name]) for name in RULES if getattr(rules, name)))
