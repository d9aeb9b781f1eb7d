"""What advice costs against what it saves, for the daily report."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AdviceCost:
    """Cost of one piece of advice.

    Attributes:
        cpu_s: processor time of reading, embedding and searching.
        gpu_s: GPU time of a language model or embedder, where it has its own.
        saved_gpu_s: GPU time of the profiling run that the job did without; ``None`` = it was profiled all
            the same (no advice, or shadow mode).
    """

    cpu_s: float
    gpu_s: float = 0.0
    saved_gpu_s: float | None = None


@dataclass(frozen=True, slots=True)
class CostReport:
    """Cost of many pieces of advice. Hours; ``net_gpu_h`` above 0 = more was saved than spent."""

    jobs: int
    jobs_that_skipped_profiling: int
    cpu_h: float
    gpu_h: float
    saved_gpu_h: float

    @property
    def net_gpu_h(self) -> float:
        return self.saved_gpu_h - self.gpu_h


def cost_report(costs: Iterable[AdviceCost]) -> CostReport:
    """Sum up what a day's advice cost and saved."""
    rows = list(costs)
    saved = [row.saved_gpu_s for row in rows if row.saved_gpu_s is not None]
    return CostReport(
        jobs=len(rows),
        jobs_that_skipped_profiling=len(saved),
        cpu_h=sum(row.cpu_s for row in rows) / 3600,
        gpu_h=sum(row.gpu_s for row in rows) / 3600,
        saved_gpu_h=sum(saved) / 3600,
    )
