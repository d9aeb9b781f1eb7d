"""Similar past jobs weighed as evidence: how much each may say, and why some say nothing.

Similar code does not mean similar speed (paper section 18, concept drift): old jobs count less, jobs that did
not run to their end teach no duration, and every decision is kept so that it can be shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from lucid_pipelines.domain.similarity import PastJob, SimilarJobs


class Unused(StrEnum):
    """Why a similar job says nothing about the duration."""

    NOT_COMPLETED = "not_completed"
    """A crash after two minutes is not a duration."""
    NO_DURATION = "no_duration"
    TOO_OLD = "too_old"


@dataclass(frozen=True, slots=True)
class WeighingRules:
    """How evidence is weighed.

    Attributes:
        half_life: age at which a job counts half as much as a new one.
        max_age: age beyond which it says nothing any more.
        floor_frac: weight of a job that only just reaches the threshold, against one that is equal.
    """

    half_life: timedelta = timedelta(days=90)
    max_age: timedelta = timedelta(days=365)
    floor_frac: float = 0.1


@dataclass(frozen=True, slots=True)
class EvidenceItem:
    """One similar past job.

    Attributes:
        weight: 0 when it is not used.
        unused: why it is not used; ``None`` when it is.
    """

    job: PastJob
    similarity: float
    age: timedelta
    weight: float
    unused: Unused | None = None


def weigh(similar: SimilarJobs, rules: WeighingRules | None = None) -> tuple[EvidenceItem, ...]:
    """Weigh every similar job, most similar first."""
    how = rules or WeighingRules()
    return tuple(_item(match.job, match.similarity, similar.threshold, similar.as_of, how) for match in similar.matches)


def _item(job: PastJob, similarity: float, threshold: float, now: datetime, rules: WeighingRules) -> EvidenceItem:
    age = max(timedelta(0), now - job.ended_at)
    unused = _unused(job, age, rules)
    weight = 0.0 if unused else _nearness(similarity, threshold, rules) * 0.5 ** (age / rules.half_life)
    return EvidenceItem(job, similarity, age, weight, unused)


def _unused(job: PastJob, age: timedelta, rules: WeighingRules) -> Unused | None:
    if not job.outcome.teaches_duration:
        return Unused.NOT_COMPLETED
    if not job.teaches_duration:
        return Unused.NO_DURATION
    return Unused.TOO_OLD if age > rules.max_age else None


def _nearness(similarity: float, threshold: float, rules: WeighingRules) -> float:
    """From ``floor_frac`` at the threshold to 1 for an equal job, squared so that equals lead."""
    span = 1.0 - threshold
    place = 1.0 if span <= 0 else min(1.0, max(0.0, (similarity - threshold) / span))
    return rules.floor_frac + (1.0 - rules.floor_frac) * place * place
