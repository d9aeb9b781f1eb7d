"""An additive model as score tables: what it predicts is an intercept plus one looked-up number per term.

Source: Lucid paper, section 10: ``ŷ = μ + Σ fᵢ(xᵢ) + Σ fᵢⱼ(xᵢ, xⱼ)``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lucid_pipelines.domain.errors import InputError, did_you_mean
from lucid_pipelines.models.additive.binning import Binner, Codes, Vector
from lucid_pipelines.models.additive.schema import Feature, FeatureKind, Matrix, require_matrix


@dataclass(frozen=True, slots=True)
class Term:
    """A shape function of one feature, or an interaction of two.

    Every axis of the tables has one entry per bin, then one for a missing value, and for a nominal feature one
    more for an unknown category. A continuous bin ``i`` holds ``cuts[i-1] <= x < cuts[i]``.

    Attributes:
        features: positions in the model's features.
        cuts: ascending cut points per axis; empty for a nominal feature.
        scores, errors, weights: contribution, its standard deviation over the bags, and training weight, by bin.
    """

    features: tuple[int, ...]
    cuts: tuple[Vector, ...]
    scores: npt.NDArray[np.float64]
    errors: npt.NDArray[np.float64]
    weights: npt.NDArray[np.float64]

    def importance(self) -> float:
        """Mean absolute contribution over the training rows."""
        total = float(self.weights.sum())
        return float((np.abs(self.scores) * self.weights).sum() / total) if total > 0 else 0.0


@dataclass(frozen=True)
class AdditiveModel:
    """Intercept, terms, and optionally one feature that enters with slope 1 (``offset``).

    The offset carries a strong plain estimate (for durations: the mean of the job's own history), so that the
    terms only learn where that estimate is wrong. A missing offset counts as ``offset_missing``.
    """

    features: tuple[Feature, ...]
    terms: tuple[Term, ...]
    intercept: float
    offset: int | None = None
    offset_missing: float = 0.0
    _binner: Binner = field(init=False, repr=False, compare=False)
    _mains: _Mains = field(init=False, repr=False, compare=False)
    _pairs: tuple[_Pair, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        unions = [self._union(position) for position in range(len(self.features))]
        object.__setattr__(self, "_binner", Binner(self.features, unions))
        object.__setattr__(self, "_mains", _Mains.of(self, unions))
        pairs = [_Pair.of(self, p, unions) for p, term in enumerate(self.terms) if len(term.features) == 2]
        object.__setattr__(self, "_pairs", tuple(pairs))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(feature.name for feature in self.features)

    def position(self, name: str) -> int:
        """Column of the named feature.

        Raises:
            InputError: no such feature; the nearest name is given.
        """
        if name not in self.names:
            raise InputError(f"the model has no feature {name!r}{did_you_mean(name, self.names)}")
        return self.names.index(name)

    def predict(self, matrix: npt.ArrayLike) -> Vector:
        """Predictions for the rows of ``matrix`` (rows × features, NaN = missing)."""
        columns = require_matrix(matrix, len(self.features)).T
        total = self._base(columns)
        codes = self._binner.codes(columns)
        total += self._mains.parts(codes).sum(axis=0)
        for pair in self._pairs:
            total += pair.part(codes)
        return total

    def contributions(self, matrix: npt.ArrayLike) -> Matrix:
        """Contribution of every term to each row; with ``intercept`` and the offset they sum to ``predict``.

        Returns:
            rows × terms; the offset's own part is ``offset_values(matrix)``.
        """
        columns = require_matrix(matrix, len(self.features)).T
        codes = self._binner.codes(columns)
        parts = np.zeros((columns.shape[1], len(self.terms)))
        parts[:, self._mains.terms] = self._mains.parts(codes).T
        for pair in self._pairs:
            parts[:, pair.term] = pair.part(codes)
        return parts

    def offset_values(self, matrix: npt.ArrayLike) -> Vector:
        """What the offset feature adds to each row; zeros for a model without one."""
        columns = require_matrix(matrix, len(self.features)).T
        return self._base(columns) - self.intercept

    def distributions(self, matrix: npt.ArrayLike) -> list[tuple[str, Vector, Vector]]:
        """For every feature with a shape function: its name, the training weight and the rows in each bin."""
        codes = self._binner.codes(require_matrix(matrix, len(self.features)).T)
        found: list[tuple[str, Vector, Vector]] = []
        for term in self.terms:
            if len(term.features) != 1:
                continue
            position = term.features[0]
            bins = _map_bins(self.features[position], self._union(position), term.cuts[0])[codes[position]]
            rows = np.bincount(bins, minlength=len(term.weights)).astype(np.float64)
            found.append((self.features[position].name, term.weights, rows))
        return found

    def term_of(self, *names: str) -> int:
        """Position of the term over exactly these features.

        Raises:
            InputError: the model has no such term.
        """
        wanted = tuple(self.position(name) for name in names)
        for position, term in enumerate(self.terms):
            if term.features == wanted:
                return position
        raise InputError(f"the model has no term over {' and '.join(names)}")

    def with_term(self, position: int, scores: npt.NDArray[np.float64]) -> AdditiveModel:
        """The same model with other scores in one term."""
        terms = list(self.terms)
        terms[position] = replace(terms[position], scores=scores)
        return replace(self, terms=tuple(terms))

    def term_name(self, position: int) -> str:
        return " × ".join(self.features[f].name for f in self.terms[position].features)

    def to_json(self) -> dict[str, Any]:
        return {
            "features": [feature.to_json() for feature in self.features],
            "intercept": self.intercept,
            "offset": None if self.offset is None else self.features[self.offset].name,
            "offset_missing": self.offset_missing,
            "terms": [
                {
                    "features": [self.features[f].name for f in term.features],
                    "cuts": [axis.tolist() for axis in term.cuts],
                    "scores": term.scores.tolist(),
                    "errors": term.errors.tolist(),
                    "weights": term.weights.tolist(),
                }
                for term in self.terms
            ],
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> AdditiveModel:
        """Read what ``to_json`` wrote.

        Raises:
            InputError: a part is missing, or a table does not fit its cuts.
        """
        try:
            features = tuple(Feature.from_json(item) for item in document["features"])
            position = {feature.name: index for index, feature in enumerate(features)}
            terms = tuple(_read_term(item, features, position) for item in document["terms"])
            offset = document["offset"]
            return cls(
                features,
                terms,
                float(document["intercept"]),
                None if offset is None else position[offset],
                float(document["offset_missing"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"this is no additive model; train it again: {error!r}") from error

    def _base(self, columns: Matrix) -> Vector:
        if self.offset is None:
            return np.full(columns.shape[1], self.intercept)
        offset = columns[self.offset]
        return np.where(np.isnan(offset), self.offset_missing, offset) + self.intercept

    def _union(self, position: int) -> Vector:
        """All cuts that any term makes in a feature."""
        found = [cuts for t in self.terms for f, cuts in zip(t.features, t.cuts, strict=True) if f == position]
        return np.unique(np.concatenate(found)) if found else np.array([])


@dataclass(frozen=True, slots=True)
class _Mains:
    """The shape functions of single features in one table, by the codes of the union of cuts."""

    terms: npt.NDArray[np.intp]
    columns: npt.NDArray[np.intp]
    offsets: Codes
    table: Vector

    @classmethod
    def of(cls, model: AdditiveModel, unions: Sequence[Vector]) -> _Mains:
        found = [(p, t) for p, t in enumerate(model.terms) if len(t.features) == 1]
        tables = [
            t.scores[_map_bins(model.features[t.features[0]], unions[t.features[0]], t.cuts[0])] for _, t in found
        ]
        offsets = np.cumsum([0, *(len(table) for table in tables)])[:-1].astype(np.intp)
        return cls(
            np.array([p for p, _ in found], dtype=np.intp),
            np.array([t.features[0] for _, t in found], dtype=np.intp),
            offsets[:, None],
            np.concatenate(tables) if tables else np.zeros(0),
        )

    def parts(self, codes: Codes) -> Matrix:
        """Contributions, terms × rows."""
        if not len(self.terms):
            return np.zeros((0, codes.shape[1]))
        return self.table.take(codes.take(self.columns, axis=0) + self.offsets)


@dataclass(frozen=True, slots=True)
class _Pair:
    """An interaction as one flat table."""

    term: int
    columns: tuple[int, int]
    rows: Codes
    cells: Codes
    table: Vector

    @classmethod
    def of(cls, model: AdditiveModel, position: int, unions: Sequence[Vector]) -> _Pair:
        term = model.terms[position]
        first, second = term.features
        rows = _map_bins(model.features[first], unions[first], term.cuts[0]) * term.scores.shape[1]
        cells = _map_bins(model.features[second], unions[second], term.cuts[1])
        return cls(position, (first, second), rows, cells, np.ascontiguousarray(term.scores).ravel())

    def part(self, codes: Codes) -> Vector:
        return self.table.take(self.rows.take(codes[self.columns[0]]) + self.cells.take(codes[self.columns[1]]))


def _map_bins(feature: Feature, union: Vector, cuts: Vector) -> Codes:
    """For each code of the union of all cuts the bin of a term that has only ``cuts``."""
    if feature.kind is FeatureKind.NOMINAL:
        return np.arange(len(feature.categories) + 2)
    # A bin of the union begins at its lower cut, which tells the term's bin; the first begins at −∞.
    bins = np.searchsorted(cuts, np.concatenate([[-np.inf], union]), side="right")
    return np.append(bins, len(cuts) + 1).astype(np.intp)


def _read_term(item: Mapping[str, Any], features: Sequence[Feature], position: Mapping[str, int]) -> Term:
    over = tuple(position[name] for name in item["features"])
    cuts = tuple(np.asarray(axis, dtype=np.float64) for axis in item["cuts"])
    tables = [np.asarray(item[name], dtype=np.float64) for name in ("scores", "errors", "weights")]
    shape = tuple(
        len(features[f].categories) + 2 if features[f].kind is FeatureKind.NOMINAL else len(axis) + 2
        for f, axis in zip(over, cuts, strict=True)
    )
    for table in tables:
        if table.shape != shape:
            raise ValueError(f"the term {item['features']} needs tables of shape {shape}; got {table.shape}")
        if not np.isfinite(table).all():
            raise ValueError(f"the term {item['features']} holds a number that is not finite")
    for axis in cuts:
        if not np.isfinite(axis).all() or (np.diff(axis) <= 0).any():
            raise ValueError(f"the cuts of the term {item['features']} must ascend; got {axis.tolist()}")
    return Term(over, cuts, *tables)
