"""What a column of a feature matrix means."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from lucid_pipelines.domain.errors import InputError

Matrix = npt.NDArray[np.float64]
MIN_ROWS = 20
"""A model learns from at least so many rows."""


class FeatureKind(StrEnum):
    """How a column is to be read."""

    CONTINUOUS = "continuous"
    NOMINAL = "nominal"


@dataclass(frozen=True, slots=True)
class Feature:
    """One column.

    A missing value is NaN in both kinds. A nominal column holds the position of its category, and −1 for a
    category that the model has never seen.

    Attributes:
        unit: of the values, e.g. ``s``, ``log(1+s)``; empty for a plain number.
        categories: of a nominal feature, in the order of their codes.
    """

    name: str
    kind: FeatureKind = FeatureKind.CONTINUOUS
    unit: str = ""
    description: str = ""
    categories: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        document: dict[str, Any] = {"name": self.name, "kind": self.kind.value}
        if self.unit:
            document["unit"] = self.unit
        if self.description:
            document["description"] = self.description
        if self.kind is FeatureKind.NOMINAL:
            document["categories"] = list(self.categories)
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Feature:
        return cls(
            str(document["name"]),
            FeatureKind(document["kind"]),
            str(document.get("unit", "")),
            str(document.get("description", "")),
            tuple(str(category) for category in document.get("categories", ())),
        )


def encode(values: Iterable[str | None], categories: Sequence[str]) -> npt.NDArray[np.float64]:
    """Codes of nominal values: the position in ``categories``, −1 for one that is not there, NaN for ``None``."""
    position = {category: float(index) for index, category in enumerate(categories)}
    return np.array([np.nan if v is None else position.get(v, -1.0) for v in values], dtype=np.float64)


def require_matrix(values: npt.ArrayLike, columns: int) -> Matrix:
    """The values as a float matrix of ``columns`` columns.

    Raises:
        InputError: another shape.
    """
    matrix = np.asarray(values, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[1] != columns:
        raise InputError(f"give a matrix with {columns} columns, one per feature; got the shape {matrix.shape}")
    return matrix
