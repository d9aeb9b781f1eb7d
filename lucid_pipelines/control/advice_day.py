"""One UTC day of advice: how right it was, why it fell back, and what it cost against what it saved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median

from lucid_pipelines.advisor.cost import AdviceCost, CostReport, cost_report
from lucid_pipelines.domain.states import Mode
from lucid_pipelines.store import AdviceRow, Store

VERDICTS = ("hit_right", "hit_wrong", "fallback", "not_scored")


@dataclass(frozen=True, slots=True)
class AdviceDay:
    """Advice that was given on a day, and advice whose jobs' ends were learned of on it."""

    made: tuple[AdviceRow, ...]
    scored: tuple[AdviceRow, ...]

    @property
    def costs(self) -> CostReport:
        """Hours spent by the day's advice, and GPU-hours of profiling that were not needed."""
        return cost_report(AdviceCost(row.cpu_s, row.gpu_s, row.saved_gpu_s) for row in self.made)


def advice_day(store: Store, day: datetime) -> AdviceDay:
    """The UTC day that begins at ``day``."""
    until = day + timedelta(days=1)
    return AdviceDay(
        tuple(store.advice.made(since=day, until=until)), tuple(store.advice.scored(since=day, until=until))
    )


def numbers(day: AdviceDay) -> dict[str, float | int]:
    """Numbers for the asset's metadata; what cannot be said is left out."""
    costs = day.costs
    found: dict[str, float | int] = {
        "advised": len(day.made),
        "answered": sum(row.estimate is not None for row in day.made),
        "used_live": sum(row.estimate is not None and row.mode == Mode.LIVE for row in day.made),
        "profiling_skipped": costs.jobs_that_skipped_profiling,
        "would_skip_profiling": sum(row.skip_mode == Mode.SHADOW for row in day.made),
        "cpu_h": costs.cpu_h,
        "advisor_gpu_h": costs.gpu_h,
        "saved_gpu_h": costs.saved_gpu_h,
        "net_gpu_h": costs.net_gpu_h,
        **{name: sum(row.verdict == name for row in day.scored) for name in VERDICTS},
    }
    waits = sorted(row.wall_s for row in day.made)
    if waits:
        found["advice_wall_s_p50"] = median(waits)
        found["advice_wall_s_p95"] = waits[min(len(waits) - 1, int(0.95 * len(waits)))]
    pairs = [(row.estimate.duration_s, row.actual_s) for row in day.scored if row.estimate is not None]
    ratios = [predicted / actual for predicted, actual in pairs if predicted and actual]
    if ratios:
        # Within 100 % relative error any prediction that is too short is right; this measure has no such side.
        found["within_factor_two_frac"] = sum(0.5 <= ratio <= 2 for ratio in ratios) / len(ratios)
    errors = [row.relative_error for row in day.scored if row.relative_error is not None]
    if errors:
        found["median_relative_error"] = median(errors)
        found["right_frac"] = found["hit_right"] / len(errors)
    held = [row.within for row in day.scored if row.within is not None]
    if held:
        found["interval_coverage_frac"] = sum(held) / len(held)
    return found


def markdown(day: AdviceDay) -> str:
    """Verdicts and fallbacks as two Markdown tables."""
    counts = [sum(row.verdict == name for row in day.scored) for name in VERDICTS]
    costs = day.costs
    spent = f"{costs.cpu_h:.4f} CPU-hours and {costs.gpu_h:.4f} GPU-hours of a language model"
    return "\n".join(
        [
            "| ended jobs | predicted right | predicted wrong | no prediction | not comparable |",
            "|---:|---:|---:|---:|---:|",
            f"| {len(day.scored)} | {' | '.join(map(str, counts))} |",
            "",
            "| why there was no prediction | jobs |",
            "|---|---:|",
            *(f"| {reason} | {count} |" for reason, count in _fallbacks(day.made)),
            "",
            f"Cost: {spent}; saved: {costs.saved_gpu_h:.3f} GPU-hours of profiling.",
        ]
    )


def _fallbacks(rows: Sequence[AdviceRow]) -> list[tuple[str, int]]:
    return Counter(row.basis for row in rows if row.estimate is None).most_common()
