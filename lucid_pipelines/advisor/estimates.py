"""From similar past jobs to an estimate with its evidence, or a reason why there is none.

The language model or the code reader never names a duration: numbers come from measured jobs alone (paper
section 12). ``paper_estimate`` is the rule of the paper, the plain mean of the best three; ``estimate``
weighs by similarity and age, keeps modes apart, and gives an interval that it can stand for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from lucid_pipelines.advisor.evidence import EvidenceItem, Unused, WeighingRules, weigh
from lucid_pipelines.advisor.intervals import Interval, conformal_interval, empirical_interval
from lucid_pipelines.advisor.modes import DurationMode, duration_modes, duration_of
from lucid_pipelines.advisor.utilisation import measured_profile, throughput_surface
from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.domain.job import Estimate, Profile
from lucid_pipelines.domain.similarity import SimilarJobs, ThroughputPoint

BASIS = "advisor_history"
PAPER_BASIS = "advisor_top_mean"
PAPER_K = 3
MAX_EVIDENCE_IDS = 20


class Fallback(StrEnum):
    """Why there is no estimate, so that the profiler and the plain estimator are asked instead. Each is counted."""

    TOO_LITTLE_READ = "too_little_read"
    """Too few facts were determined for similarity to mean anything."""
    NO_HISTORY = "no_history"
    """No eligible past job at all."""
    NO_MATCH = "no_match"
    """None reaches the threshold."""
    NONE_COMPLETED = "none_completed"
    TOO_OLD = "too_old"
    TOO_FEW = "too_few"
    SEVERAL_MODES = "several_modes"
    TOO_SPREAD = "too_spread"
    CODE_NOT_READ = "code_not_read"
    """Reading failed or ran out of its time box."""
    HISTORY_AWAY = "history_away"
    """The index or the embedder did not answer."""


@dataclass(frozen=True, slots=True)
class EstimateRules:
    """When evidence is enough.

    Attributes:
        min_jobs: completed matches that are wanted.
        equal_similarity: one match at least this similar is enough on its own.
        gap_ratio: durations further apart than this belong to different modes.
        dominant_frac: share of the evidence from which one of several modes may stand for all.
        newest_runs: so many of the newest runs in one mode let it lead in their stead.
        max_scatter_ratio: scatter of a mode (one standard deviation, as a factor) beyond which it says too little.
        coverage_frac: what an interval should cover.
    """

    min_jobs: int = 2
    equal_similarity: float = 0.98
    gap_ratio: float = 2.5
    dominant_frac: float = 0.75
    newest_runs: int = 2
    max_scatter_ratio: float = 5.0
    coverage_frac: float = 0.8
    weighing: WeighingRules = field(default_factory=WeighingRules)

    def __post_init__(self) -> None:
        if self.min_jobs < 1 or self.gap_ratio <= 1 or not 0.5 < self.dominant_frac <= 1:
            raise InputError("min_jobs is at least 1, gap_ratio above 1, dominant_frac above 0.5 and at most 1")
        if not 0 < self.coverage_frac < 1 or self.max_scatter_ratio < 1:
            raise InputError("coverage_frac lies between 0 and 1, max_scatter_ratio is at least 1")


@dataclass(frozen=True, slots=True)
class AdvisedEstimate:
    """What history says of a job.

    Attributes:
        estimate: ``None`` when ``fallback`` says why not.
        detail: the reason for people, with numbers.
        evidence: every similar job that was found, also those that were not used.
        modes: groups of durations, the weightiest first; more than one are never averaged.
        profile: utilisation and memory that similar jobs showed.
        throughput: speeds that similar jobs reached, by GPU type, GPU count and batch.
    """

    estimate: Estimate | None
    fallback: Fallback | None
    detail: str
    evidence: tuple[EvidenceItem, ...] = ()
    modes: tuple[DurationMode, ...] = ()
    profile: Profile | None = None
    throughput: tuple[ThroughputPoint, ...] = ()


def estimate(
    similar: SimilarJobs,
    rules: EstimateRules | None = None,
    residuals: Sequence[float] = (),
    model_version: str | None = None,
) -> AdvisedEstimate:
    """Weigh similar jobs into an estimate.

    Args:
        similar: the answer of a history index.
        residuals: natural logarithms of actual over predicted of this advisor's past predictions, newest
            last; with enough of them the interval is conformal, else it rests on the evidence itself.
        model_version: what the estimate carries, e.g. the vector space.
    """
    how = rules or EstimateRules()
    items = weigh(similar, how.weighing)
    used = [item for item in items if item.weight > 0]
    profile, surface = measured_profile(used), throughput_surface(used)
    refusal = _too_little(similar, items, used, how)
    if refusal is not None:
        return AdvisedEstimate(None, *refusal, items, (), profile, surface)
    modes = duration_modes(used, how.gap_ratio)
    leading = _leading(modes, used, how)
    if leading is None:
        return AdvisedEstimate(None, Fallback.SEVERAL_MODES, _several(modes), items, modes, profile, surface)
    too_wide = _scatter(leading, how)
    if too_wide is not None:
        return AdvisedEstimate(None, Fallback.TOO_SPREAD, too_wide, items, modes, profile, surface)
    chosen = [item for item in used if item.job.job_id in set(leading.job_ids)]
    interval = conformal_interval(leading.center_s, residuals, how.coverage_frac) or empirical_interval(
        [duration_of(item) for item in chosen], how.coverage_frac
    )
    made = _estimate(leading.center_s, chosen, interval, BASIS, model_version)
    detail = f"{len(chosen)} completed jobs at a similarity of up to {leading.similarity:.3f}"
    if len(modes) > 1:
        detail += f"; {1 - leading.weight_frac:.0%} of the evidence lies in {len(modes) - 1} other groups of durations"
    return AdvisedEstimate(made, None, detail, items, modes, profile, surface)


def paper_estimate(similar: SimilarJobs, k: int = PAPER_K, model_version: str | None = None) -> AdvisedEstimate:
    """The mean of the ``k`` most similar completed jobs; one is enough (paper section 12)."""
    items = weigh(similar, WeighingRules())
    teaching = [item for item in items if item.unused in (None, Unused.TOO_OLD)][:k]
    profile, surface = measured_profile(teaching), throughput_surface(teaching)
    if not teaching:
        fallback, detail = _nothing(similar, items)
        return AdvisedEstimate(None, fallback, detail, items, (), profile, surface)
    mean_s = sum(duration_of(item) for item in teaching) / len(teaching)
    made = _estimate(mean_s, teaching, None, PAPER_BASIS, model_version)
    return AdvisedEstimate(made, None, f"mean of {len(teaching)} similar jobs", items, (), profile, surface)


def _too_little(
    similar: SimilarJobs, items: Sequence[EvidenceItem], used: Sequence[EvidenceItem], rules: EstimateRules
) -> tuple[Fallback, str] | None:
    if not used:
        return _nothing(similar, items)
    best = max(item.similarity for item in used)
    if len(used) < rules.min_jobs and best < rules.equal_similarity:
        wanted = f"{rules.min_jobs} are wanted, or one of at least {rules.equal_similarity:g}"
        return Fallback.TOO_FEW, f"{len(used)} completed match at a similarity of {best:.3f}; {wanted}"
    return None


def _nothing(similar: SimilarJobs, items: Sequence[EvidenceItem]) -> tuple[Fallback, str]:
    if similar.eligible_count == 0:
        return Fallback.NO_HISTORY, similar.reason or "no past job is eligible"
    if not items:
        return Fallback.NO_MATCH, similar.reason or "no past job reaches the threshold"
    if any(item.unused is Unused.TOO_OLD for item in items):
        return Fallback.TOO_OLD, f"every completed match of {len(items)} ended too long ago"
    outcomes = ", ".join(sorted({item.job.outcome.value for item in items}))
    return Fallback.NONE_COMPLETED, f"none of {len(items)} similar jobs ran to its end; they ended as: {outcomes}"


def _leading(modes: Sequence[DurationMode], used: Sequence[EvidenceItem], rules: EstimateRules) -> DurationMode | None:
    """The mode that may stand for the others: most of the evidence, or the newest runs all lie in it.

    Runs come in sessions: what somebody started last is what they mostly start again.
    """
    if modes[0].weight_frac >= rules.dominant_frac:
        return modes[0]
    newest = sorted(used, key=lambda item: item.age)[: rules.newest_runs]
    if len(newest) < rules.newest_runs:
        return None
    return next((mode for mode in modes if all(item.job.job_id in mode.job_ids for item in newest)), None)


def _several(modes: Sequence[DurationMode]) -> str:
    shown = ", ".join(f"{mode.center_s:.0f} s ({mode.weight_frac:.0%})" for mode in modes[:4])
    return f"similar jobs took {len(modes)} different durations: {shown}"


def _scatter(mode: DurationMode, rules: EstimateRules) -> str | None:
    if mode.scatter_ratio <= rules.max_scatter_ratio:
        return None
    return (
        f"similar jobs took from {mode.low_s:.0f} s to {mode.high_s:.0f} s; they scatter by a factor of "
        f"{mode.scatter_ratio:.1f}, and {rules.max_scatter_ratio:g} is allowed"
    )


def _estimate(
    duration_s: float, used: Sequence[EvidenceItem], interval: Interval | None, basis: str, version: str | None
) -> Estimate:
    newest = sorted(used, key=lambda item: item.job.ended_at, reverse=True)
    return Estimate(
        duration_s=duration_s,
        basis=basis,
        low_s=None if interval is None else interval.low_s,
        high_s=None if interval is None else interval.high_s,
        coverage_frac=None if interval is None else interval.coverage_frac,
        evidence_job_ids=tuple(item.job.job_id for item in newest[:MAX_EVIDENCE_IDS]),
        sample_count=len(used),
        model_version=version,
    )


def log_ratio(predicted_s: float, actual_s: float) -> float:
    """The residual of a prediction: ln(actual / predicted)."""
    return math.log(actual_s / predicted_s)
