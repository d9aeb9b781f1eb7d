"""Whether what won the search wins on days that the search did not see; else nothing is recommended."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from lucid_pipelines.tuning.space import Values
from lucid_pipelines.tuning.sweep import Sweep, Trial, log_ratios, mean_ratio

CANDIDATES = 3
ERRORS = 2.0
"""A win is better than the default by more than so many standard errors over the unseen scenarios."""
MAX_TAIL_RATIO = 1.10
"""A better mean is not bought with a longer tail wait of large jobs (R-27)."""


@dataclass(frozen=True)
class Verdict:
    """One candidate on the unseen scenarios.

    Attributes:
        jct_ratio, queue_ratio, tail_ratio: to the default point there, geometric means; below 1 is better.
        jct_error: standard error of the log JCT ratio over the scenarios; ``None`` with only one.
        wins: it is recommended.
    """

    values: Values
    searched_jct_ratio: float
    jct_ratio: float
    jct_error: float | None
    queue_ratio: float | None
    tail_ratio: float | None
    wins: bool
    reason: str

    def to_json(self) -> dict[str, Any]:
        return {
            "values": dict(self.values),
            "searched_jct_ratio": self.searched_jct_ratio,
            "jct_ratio": self.jct_ratio,
            "jct_error": self.jct_error,
            "queue_ratio": self.queue_ratio,
            "tail_ratio": self.tail_ratio,
            "wins": self.wins,
            "reason": self.reason,
        }


def candidates_of(sweep: Sweep, most: int = CANDIDATES) -> list[Trial]:
    """The best points of the search, those that were better than the default point only."""
    rated = [
        (ratio, trial)
        for trial in sweep.complete
        if trial.number and (ratio := mean_ratio(trial, sweep.default, "avg_jct_s")) is not None and ratio < 1.0
    ]
    return [trial for _, trial in sorted(rated, key=lambda item: (item[0], item[1].number))[:most]]


def judge(searched: Sweep, unseen: Sequence[Trial]) -> list[Verdict]:
    """Hold candidates against the default point on the unseen scenarios.

    Args:
        unseen: the default point, then the candidates, each measured there.

    Returns:
        Verdicts in the order of the candidates; the first that wins is the recommendation.
    """
    default, *others = unseen
    by_values = {tuple(sorted(trial.values.items())): trial for trial in searched.trials}
    return [
        _verdict(trial, default, by_values[tuple(sorted(trial.values.items()))], searched.default) for trial in others
    ]


def _verdict(trial: Trial, default: Trial, searched: Trial, searched_default: Trial) -> Verdict:
    logs = log_ratios(trial, default, "avg_jct_s")
    mean = fmean(logs)
    error = stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else None
    tail = mean_ratio(trial, default, "tail_large_s")
    unended = sum(m.get("unended_jobs") or 0.0 for m in trial.measures.values())
    if unended > sum(m.get("unended_jobs") or 0.0 for m in default.measures.values()):
        wins, reason = False, f"{unended:g} jobs never ended"
    elif mean >= 0:
        wins, reason = (
            False,
            f"mean JCT is {math.exp(mean):.3f} of the default's on the unseen days: it does not win there",
        )
    elif error is not None and mean + ERRORS * error >= 0:
        wins, reason = (
            False,
            f"mean JCT is {math.exp(mean):.3f} of the default's, not clearly better (standard error {error:.3f})",
        )
    elif tail is not None and tail > MAX_TAIL_RATIO:
        wins, reason = (
            False,
            f"the tail wait of large jobs is {tail:.2f} of the default's; {MAX_TAIL_RATIO:g} is allowed",
        )
    else:
        spread = "" if error is None else f" (standard error {error:.3f})"
        wins, reason = True, f"mean JCT is {math.exp(mean):.3f} of the default's on the unseen days{spread}"
    return Verdict(
        trial.values,
        mean_ratio(searched, searched_default, "avg_jct_s") or 1.0,
        math.exp(mean),
        error,
        mean_ratio(trial, default, "avg_queue_s"),
        tail,
        wins,
        reason,
    )
