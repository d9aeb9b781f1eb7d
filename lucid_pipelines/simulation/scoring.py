"""Sharing scores in a replay: from a table of profiled configurations, else from the fitted pair model."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

from lucid_pipelines.domain.trace import TraceJob
from lucid_pipelines.simulation.interference import FittedPairs
from lucid_pipelines.simulation.workloads import Profiles, nearest, workload_of

REFERENCE_UTIL_FRAC = (0.10, 0.14, 0.35, 0.44, 0.51, 0.58, 0.72, 0.85, 0.98, 1.0)
"""GPU utilisation of the partners that a score is a mean over: 5th, 15th, … 95th percentile of 50 profiled
training configurations (the Lucid authors' table)."""


@dataclass(slots=True)
class FittedScorer:
    """Score by mean speed beside a reference mix of partners: 0 above ``tiny``, 1 above ``medium``, else 2.

    Source: Lucid, section 8, with its default thresholds.
    """

    pairs: FittedPairs = field(default_factory=FittedPairs)
    tiny_above: float = 0.95
    medium_above: float = 0.85

    def score(self, job: TraceJob) -> int | None:
        if job.gpu_util_pct is None:
            return None
        util_frac = job.gpu_util_pct / 100.0
        speeds = [self.pairs.speed_of(util_frac, other) for other in REFERENCE_UTIL_FRAC]
        mean = sum(speeds) / len(speeds)
        if mean > self.tiny_above:
            return 0
        return 1 if mean > self.medium_above else 2


@dataclass(slots=True)
class MeasuredScorer:
    """Scores from a table; another configuration gets the mean score of the most alike, rounded up, and is counted.

    Rounded up because a score too low costs speed and one too high only a chance to share. (On the authors' table,
    leaving out one model at a time: 72 % right, 6 % too low; the fitted scorer 70 % and 16 %.)
    """

    profiles: Profiles
    neighbours: int = 5
    fallbacks: Counter[str] = field(default_factory=Counter)
    _known: dict[tuple[float, float | None], int] = field(default_factory=dict)

    def score(self, job: TraceJob) -> int | None:
        workload = workload_of(job)
        if workload is not None and workload in self.profiles:
            return self.profiles[workload].sharing_score
        self.fallbacks["score_not_measured"] += 1
        if job.gpu_util_pct is None or not self.profiles:
            return None
        key = (job.gpu_util_pct, job.memory_util_pct)
        if key not in self._known:
            alike = nearest(self.profiles, *key)[: self.neighbours]
            mean = sum(self.profiles[other].sharing_score for other in alike) / len(alike)
            self._known[key] = math.ceil(mean - 1e-9)
        return self._known[key]
