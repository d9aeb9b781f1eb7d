"""What a policy may decide, each with its reasons as data (ARCHITECTURE section 6).

Decisions are given in the order in which they must be applied: a ``Stop`` comes before the ``Start`` that
needs its GPUs, and the ``Start`` of a partner before the ``Pack`` that joins it.

Decisions are named tuples: a replay makes hundreds of thousands of them, and a frozen dataclass takes more than
twice as long to make.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from lucid_pipelines.domain.cluster import Placement

Fact = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Reason:
    """One rule that took part in a decision and the numbers that it saw."""

    rule: str
    facts: Mapping[str, Fact]

    def to_json(self) -> dict[str, object]:
        return {"rule": self.rule, **self.facts}


class Stage(StrEnum):
    """Why a job holds GPUs."""

    MAIN = "main"
    PROFILE = "profile"


MAIN, PROFILE = Stage
"""The members by themselves: to look one up in its class costs as much as a call."""


class HoldCause(StrEnum):
    """What a job that was not started waits for."""

    FREE_GPUS = "free_gpus"
    """Its virtual cluster has fewer free GPUs than it needs."""
    FRAGMENTED = "fragmented"
    """Enough GPUs are free, but not close enough together."""
    BEHIND = "behind"
    """A job ahead of it in the order must start first."""
    AGED_JOB = "aged_job"
    """A job that waited too long must start before anyone may pass it."""
    AVOIDED_NODES = "avoided_nodes"
    """What is free, or all that could ever hold it, lies on nodes that it must avoid."""
    TOO_LARGE = "too_large"
    """It can never fit: its virtual cluster has no such GPUs, even when empty."""
    UNKNOWN_VC = "unknown_vc"
    """No node of the cluster belongs to its virtual cluster."""
    NO_TRUE_DURATION = "no_true_duration"
    """The policy orders by true durations, which only a replay knows."""
    PREEMPTED_BY_ORDER = "preempted_by_order"
    """Jobs ahead of it in the order take all GPUs."""
    NEXT_ROUND = "next_round"
    """The policy decides at fixed intervals only."""


class StopCause(StrEnum):
    """Why a policy stops a running job."""

    PREEMPTED = "preempted"
    UNSTABLE_PAIR = "unstable_pair"
    SLOW_PAIR = "slow_pair"
    PROFILED = "profiled"


class Start(NamedTuple):
    """Start a queued job on free GPUs."""

    job_id: str
    placement: Placement
    reasons: tuple[Reason, ...] = ()
    stage: Stage = MAIN


class Pack(NamedTuple):
    """Start a queued job on exactly the GPUs of a running one."""

    job_id: str
    partner_job_id: str
    placement: Placement
    reasons: tuple[Reason, ...] = ()


class Stop(NamedTuple):
    """Stop a running job; ``requeue`` puts it back, ``never_pack`` keeps it alone from then on."""

    job_id: str
    cause: StopCause
    requeue: bool
    never_pack: bool = False
    reasons: tuple[Reason, ...] = ()


class Continue(NamedTuple):
    """Let a job whose profile is taken go on where it is, as one that runs; its GPUs come back when it ends."""

    job_id: str
    reasons: tuple[Reason, ...] = ()


class Resize(NamedTuple):
    """Move a running job to another placement, possibly with another number of GPUs.

    Resizes that follow one another are one exchange: all of them give up their GPUs before the first takes new ones.
    """

    job_id: str
    placement: Placement
    reasons: tuple[Reason, ...] = ()


class LendNodes(NamedTuple):
    """Move idle nodes from one virtual cluster to another; a return is the same with the ends swapped."""

    from_vc: str
    to_vc: str
    nodes: tuple[str, ...]
    reasons: tuple[Reason, ...] = ()


class Hold(NamedTuple):
    """Leave a job queued.

    Attributes:
        gpus_needed: what the job asks for.
        gpus_free: free GPUs of its virtual cluster after the decisions before this one.
        ahead_count: queued jobs of its virtual cluster that come before it in the order.
        blocked_by: the job that must start first, for ``BEHIND`` and ``AGED_JOB``.
    """

    job_id: str
    cause: HoldCause
    gpus_needed: int
    gpus_free: int
    ahead_count: int
    blocked_by: str | None = None
    reasons: tuple[Reason, ...] = ()


Decision = Start | Pack | Stop | Continue | Resize | LendNodes | Hold
