"""What every policy offers to its drivers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Protocol, runtime_checkable

from lucid_pipelines.domain.decision import Decision
from lucid_pipelines.domain.job import Estimate
from lucid_pipelines.domain.view import ClusterView, QueuedJob
from lucid_pipelines.policies.profiling_rules import ProfilingRules

Estimator = Callable[[QueuedJob], Estimate | None]
"""Predicts a queued job's duration; asked once per job (again only when the driver changes its estimate)."""


@runtime_checkable
class Policy(Protocol):
    """Decides what to start, pack, stop, resize, lend and hold.

    A policy keeps caches (priorities, ordered queues), never facts: the same view gives the same decisions
    whatever the policy saw before.

    Attributes:
        name: as in the registry, with the variant (``lucid:no_packing``).
        preempts: whether it stops jobs for the sake of others.
        resizes: whether it gives jobs other numbers of GPUs than they ask for; only replays can carry that out.
        ages: whether it looks at who has overtaken whom.
        packs: whether it lets jobs share GPUs.
        knows_profiles: whether it foretells a job's profile from its code, before it has run.
        predicts: whether it asks for predicted durations.
        needs_news: whether it only ever decides something when a job has come, changed or gone in a virtual cluster
            in which jobs wait, or when a moment has come that ``next_pass_s`` named. A replay asks it only then.
        round_s: decisions are only taken at multiples of this; ``None`` = at any time.
        profiling: who is profiled before it enters its queue; ``None`` = nobody.
        fallbacks: how often each missing fact was replaced by the plain rule, by kind.
    """

    name: str
    preempts: bool
    resizes: bool
    ages: bool
    packs: bool
    knows_profiles: bool
    predicts: bool
    needs_news: bool
    round_s: float | None
    profiling: ProfilingRules | None
    fallbacks: Counter[str]

    def decide(self, view: ClusterView) -> list[Decision]:
        """Decisions in the order in which they must be applied."""
        ...

    def next_pass_s(self, view: ClusterView) -> float | None:
        """When to ask again although nothing happens; ``None`` = only after a change.

        Asked after the decisions were applied; the view's own moment means at once.
        """
        ...
