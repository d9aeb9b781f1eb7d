"""Monotone shape functions after training: pool-adjacent-violators, weighted by the training rows of each bin.

Source: Lucid paper, section 12 (System Tuner): an operator who knows that a job on more GPUs does not run
shorter lets the learned curve say so.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from sklearn.isotonic import isotonic_regression

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.models.additive.model import AdditiveModel
from lucid_pipelines.models.additive.schema import FeatureKind


class Direction(StrEnum):
    """Which way the contribution may go as the feature grows."""

    INCREASING = "increasing"
    DECREASING = "decreasing"


@dataclass(frozen=True, slots=True)
class MonotoneChange:
    """What the constraint did.

    Attributes:
        bins_changed: how many of ``bins`` bins got another score.
        largest_change: of any bin's score, in units of the target.
    """

    feature: str
    direction: Direction
    bins: int
    bins_changed: int
    largest_change: float


def make_monotone(model: AdditiveModel, feature: str, direction: Direction) -> tuple[AdditiveModel, MonotoneChange]:
    """The model with a monotone shape function of one continuous feature; its mean contribution stays.

    The bins of missing and unknown values keep their scores.

    Raises:
        InputError: no such feature, a nominal one, or one that an interaction or the offset also uses (the sum
            of both would still go up and down).
    """
    position = model.position(feature)
    if model.features[position].kind is FeatureKind.NOMINAL:
        raise InputError(f"only a number can be monotone; {feature!r} is nominal")
    if model.offset == position:
        raise InputError(f"{feature!r} is the offset of the model; a constraint on its shape function says nothing")
    shared = [model.term_name(i) for i, t in enumerate(model.terms) if position in t.features and len(t.features) > 1]
    if shared:
        raise InputError(f"train without the interactions of {feature!r} first; the model has {', '.join(shared)}")
    number = model.term_of(feature)
    term = model.terms[number]
    bins = len(term.scores) - 1
    before = term.scores[:bins]
    # An empty bin must not pull; it takes its neighbours' level.
    weights = np.maximum(term.weights[:bins], 1e-9)
    after = np.asarray(isotonic_regression(before, sample_weight=weights, increasing=direction is Direction.INCREASING))
    change = np.abs(after - before)
    scores = np.concatenate([after, term.scores[bins:]])
    report = MonotoneChange(feature, direction, bins, int((change > 1e-12).sum()), float(change.max(initial=0.0)))
    return model.with_term(number, scores), report
