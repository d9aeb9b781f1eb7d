"""Explanations of additive models: shape functions and importance of all rows, contributions to one."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lucid_pipelines.models.additive.model import AdditiveModel, Term
from lucid_pipelines.models.additive.schema import Feature, FeatureKind, require_matrix

MISSING, UNKNOWN = "missing", "unknown"


@dataclass(frozen=True, slots=True)
class Shape:
    """What one feature contributes over its range.

    Attributes:
        labels: of the bins, ``missing`` and for nominal features ``unknown`` among them.
        cuts: between the bins of a number; empty for a nominal feature.
        scores, errors, weights: contribution, its standard deviation over the bags, training weight, by label.
    """

    feature: str
    unit: str
    kind: FeatureKind
    labels: tuple[str, ...]
    cuts: tuple[float, ...]
    scores: tuple[float, ...]
    errors: tuple[float, ...]
    weights: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Interaction:
    """What two features contribute together beyond their own shapes; ``scores`` by row and column label."""

    features: tuple[str, str]
    row_labels: tuple[str, ...]
    column_labels: tuple[str, ...]
    scores: tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class GlobalExplanation:
    """A whole additive model.

    Attributes:
        importance: mean absolute contribution over the training rows, the largest first.
        offset: the feature that enters with slope 1 besides its shape.
    """

    intercept: float
    offset: str | None
    importance: tuple[tuple[str, float], ...]
    shapes: tuple[Shape, ...]
    interactions: tuple[Interaction, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "intercept": self.intercept,
            "offset": self.offset,
            "importance": [{"term": name, "importance": value} for name, value in self.importance],
            "shapes": [
                {
                    "feature": s.feature,
                    "unit": s.unit,
                    "kind": s.kind.value,
                    "labels": list(s.labels),
                    "cuts": list(s.cuts),
                    "scores": list(s.scores),
                    "errors": list(s.errors),
                    "weights": list(s.weights),
                }
                for s in self.shapes
            ],
            "interactions": [
                {
                    "features": list(i.features),
                    "row_labels": list(i.row_labels),
                    "column_labels": list(i.column_labels),
                    "scores": [list(row) for row in i.scores],
                }
                for i in self.interactions
            ],
        }


@dataclass(frozen=True, slots=True)
class Contribution:
    """One term's part of a prediction; ``value`` is what the feature was, for people."""

    term: str
    value: str
    contribution: float


@dataclass(frozen=True, slots=True)
class LocalExplanation:
    """One prediction taken apart: ``intercept`` and all contributions sum to ``prediction``."""

    prediction: float
    intercept: float
    contributions: tuple[Contribution, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "prediction": self.prediction,
            "intercept": self.intercept,
            "contributions": [
                {"term": c.term, "value": c.value, "contribution": c.contribution} for c in self.contributions
            ],
        }


def explain_globally(model: AdditiveModel) -> GlobalExplanation:
    """Importance, shapes with error bands, and interactions."""
    importance = sorted(
        ((model.term_name(i), term.importance()) for i, term in enumerate(model.terms)), key=lambda item: -item[1]
    )
    shapes = [_shape(model.features[t.features[0]], t) for t in model.terms if len(t.features) == 1]
    pairs = [_interaction(model, t) for t in model.terms if len(t.features) == 2]
    offset = None if model.offset is None else model.features[model.offset].name
    return GlobalExplanation(model.intercept, offset, tuple(importance), tuple(shapes), tuple(pairs))


def explain_locally(model: AdditiveModel, row: Sequence[float]) -> LocalExplanation:
    """The contributions to the prediction of one row of features, the largest first.

    The offset's contribution counts from its missing value, so that the intercept is what is said of nobody.
    """
    matrix = require_matrix([list(row)], len(model.features))
    prediction = float(model.predict(matrix)[0])
    parts = model.contributions(matrix)[0]
    found = [
        Contribution(model.term_name(i), _values(model, term, matrix[0]), float(parts[i]))
        for i, term in enumerate(model.terms)
    ]
    intercept = model.intercept
    if model.offset is not None:
        intercept += model.offset_missing
        feature = model.features[model.offset]
        added = float(model.offset_values(matrix)[0]) - model.offset_missing
        found.append(Contribution(f"{feature.name} (offset)", _value(feature, matrix[0][model.offset]), added))
    found.sort(key=lambda item: -abs(item.contribution))
    return LocalExplanation(prediction, intercept, tuple(found))


def _shape(feature: Feature, term: Term) -> Shape:
    return Shape(
        feature.name,
        feature.unit,
        feature.kind,
        _labels(feature, term.cuts[0].tolist()),
        tuple(term.cuts[0].tolist()),
        tuple(term.scores.tolist()),
        tuple(term.errors.tolist()),
        tuple(term.weights.tolist()),
    )


def _interaction(model: AdditiveModel, term: Term) -> Interaction:
    first, second = (model.features[f] for f in term.features)
    return Interaction(
        (first.name, second.name),
        _labels(first, term.cuts[0].tolist()),
        _labels(second, term.cuts[1].tolist()),
        tuple(tuple(row) for row in term.scores.tolist()),
    )


def _labels(feature: Feature, cuts: Sequence[float]) -> tuple[str, ...]:
    if feature.kind is FeatureKind.NOMINAL:
        return (*feature.categories, MISSING, UNKNOWN)
    if not cuts:
        return ("any", MISSING)
    inner = [f"{low:.4g} to {high:.4g}" for low, high in itertools.pairwise(cuts)]
    return (f"below {cuts[0]:.4g}", *inner, f"from {cuts[-1]:.4g}", MISSING)


def _values(model: AdditiveModel, term: Term, row: np.ndarray) -> str:
    return " × ".join(_value(model.features[f], row[f]) for f in term.features)


def _value(feature: Feature, value: float) -> str:
    if np.isnan(value):
        return MISSING
    if feature.kind is FeatureKind.NOMINAL:
        known = 0 <= value < len(feature.categories)
        return feature.categories[int(value)] if known else UNKNOWN
    return f"{value:.4g} {feature.unit}".strip()
