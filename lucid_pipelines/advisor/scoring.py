"""How advice fared: every prediction is held against its outcome (R-30)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from lucid_pipelines.advisor.estimates import Fallback, log_ratio
from lucid_pipelines.domain.job import Estimate
from lucid_pipelines.domain.states import Outcome

RIGHT_WITHIN = 1.0
"""Relative error up to which a duration counts as right (issue text: within 100 %)."""


class Verdict(StrEnum):
    """What became of one piece of advice."""

    HIT_RIGHT = "hit_right"
    HIT_WRONG = "hit_wrong"
    FALLBACK = "fallback"
    NOT_SCORED = "not_scored"
    """The job did not run to its end: its duration says nothing about the advice."""


@dataclass(frozen=True, slots=True)
class AdviceScore:
    """One scored piece of advice.

    Attributes:
        relative_error: |predicted - actual| / actual.
        residual: ln(actual / predicted), for conformal intervals.
        within: whether the interval held the truth; ``None`` without one.
    """

    verdict: Verdict
    fallback: Fallback | None = None
    relative_error: float | None = None
    residual: float | None = None
    within: bool | None = None


def score(
    predicted: Estimate | None, fallback: Fallback | None, outcome: Outcome, duration_s: float | None
) -> AdviceScore:
    """Hold a prediction against what happened."""
    if predicted is None or predicted.duration_s is None:
        return AdviceScore(Verdict.FALLBACK, fallback)
    if not outcome.teaches_duration or duration_s is None or duration_s <= 0:
        return AdviceScore(Verdict.NOT_SCORED)
    error = abs(predicted.duration_s - duration_s) / duration_s
    within = None
    if predicted.low_s is not None and predicted.high_s is not None:
        within = predicted.low_s <= duration_s <= predicted.high_s
    residual = log_ratio(predicted.duration_s, duration_s) if predicted.duration_s > 0 else None
    verdict = Verdict.HIT_RIGHT if error <= RIGHT_WITHIN else Verdict.HIT_WRONG
    return AdviceScore(verdict, None, error, residual, within)


@dataclass(frozen=True, slots=True)
class Scoreboard:
    """Counts over many pieces of advice.

    Attributes:
        right_frac: of the hits that could be scored; ``None`` without one.
        answered_frac: share that was no fallback.
        coverage_frac: share of intervals that held the truth.
        median_error: of the hits.
    """

    verdicts: Mapping[Verdict, int] = field(default_factory=lambda: MappingProxyType({}))
    fallbacks: Mapping[Fallback, int] = field(default_factory=lambda: MappingProxyType({}))
    right_frac: float | None = None
    answered_frac: float | None = None
    coverage_frac: float | None = None
    median_error: float | None = None


def scoreboard(scores: Iterable[AdviceScore]) -> Scoreboard:
    """Sum up scores."""
    rows = list(scores)
    verdicts = Counter(row.verdict for row in rows)
    hits = verdicts[Verdict.HIT_RIGHT] + verdicts[Verdict.HIT_WRONG]
    errors = sorted(row.relative_error for row in rows if row.relative_error is not None)
    held = [row.within for row in rows if row.within is not None]
    return Scoreboard(
        verdicts=MappingProxyType(dict(verdicts)),
        fallbacks=MappingProxyType(dict(Counter(row.fallback for row in rows if row.fallback is not None))),
        right_frac=verdicts[Verdict.HIT_RIGHT] / hits if hits else None,
        answered_frac=1 - verdicts[Verdict.FALLBACK] / len(rows) if rows else None,
        coverage_frac=sum(held) / len(held) if held else None,
        median_error=errors[len(errors) // 2] if errors else None,
    )
