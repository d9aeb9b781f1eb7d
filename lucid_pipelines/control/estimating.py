"""The plain duration estimate: the fall-back ladder of the Workload Estimate Model (Lucid paper, section 9).

A user with completed runs is predicted by the mean of those (of the same GPU count if there are some), a new
user by the mean of all runs with that GPU count, and else by the mean of everything. The trained model takes
this place once it is promoted; until then this is the estimate, and its basis says so.
"""

from __future__ import annotations

from lucid_pipelines.domain.history import DurationStats
from lucid_pipelines.domain.job import Estimate

NO_HISTORY = "no_history"
_COVERAGE_FRAC = 0.8


def ladder_estimate(stats: DurationStats) -> Estimate:
    """Turn what history says into an estimate.

    The interval spans the 10 % and 90 % quantiles of the same runs; with fewer than three it is unknown.
    """
    best = stats.best
    if best is None:
        return Estimate(duration_s=None, basis=NO_HISTORY)
    has_interval = best.count >= 3
    return Estimate(
        duration_s=best.mean_s,
        basis=best.rung.value,
        low_s=best.q10_s if has_interval else None,
        high_s=best.q90_s if has_interval else None,
        coverage_frac=_COVERAGE_FRAC if has_interval else None,
        evidence_job_ids=best.newest_job_ids,
        sample_count=best.count,
    )
