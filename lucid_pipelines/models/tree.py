"""A regression tree as arrays: predictions for many rows, the path of one, and its drawing as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lucid_pipelines.domain.errors import InputError

Vector = npt.NDArray[np.float64]
_LEAF = -1


@dataclass(frozen=True, slots=True)
class Step:
    """One question on the way to a leaf."""

    feature: str
    value: float
    threshold: float

    @property
    def goes_left(self) -> bool:
        return self.value <= self.threshold


@dataclass(frozen=True)
class Tree:
    """Nodes in arrays, the root first; ``x[feature] <= threshold`` goes left.

    Attributes:
        feature: column asked by each node, −1 for a leaf.
        value: mean target of the training rows in each node.
        rows: how many there were.
    """

    features: tuple[str, ...]
    feature: npt.NDArray[np.intp]
    threshold: Vector
    left: npt.NDArray[np.intp]
    right: npt.NDArray[np.intp]
    value: Vector
    rows: npt.NDArray[np.intp]

    def leaves(self, matrix: Vector) -> npt.NDArray[np.intp]:
        """The leaf of each row; −1 where a question meets a missing value."""
        node = np.zeros(len(matrix), dtype=np.intp)
        every = np.arange(len(matrix))
        for _ in range(len(self.feature)):
            asked = self.feature[node]
            inner = asked != _LEAF
            inner &= node >= 0
            if not inner.any():
                break
            value = matrix[every, np.maximum(asked, 0)]
            following = np.where(value <= self.threshold[node], self.left[node], self.right[node])
            following[np.isnan(value)] = -1
            node = np.where(inner, following, node)
        return node

    def predict(self, matrix: Vector) -> Vector:
        """The leaf's value; NaN where a question meets a missing value."""
        leaves = self.leaves(matrix)
        return np.where(leaves >= 0, self.value[np.maximum(leaves, 0)], np.nan)

    def path(self, row: Sequence[float]) -> tuple[Step, ...]:
        """The questions that one row meets, the last of them perhaps about a missing value."""
        steps: list[Step] = []
        node = 0
        while self.feature[node] != _LEAF:
            asked = int(self.feature[node])
            step = Step(self.features[asked], float(row[asked]), float(self.threshold[node]))
            steps.append(step)
            if np.isnan(step.value):
                break
            node = int(self.left[node] if step.goes_left else self.right[node])
        return tuple(steps)

    def to_json(self) -> dict[str, Any]:
        return {
            "features": list(self.features),
            "nodes": [
                {"value": float(v), "rows": int(n)}
                if f == _LEAF
                else {
                    "feature": self.features[f],
                    "threshold": float(t),
                    "left": int(a),
                    "right": int(b),
                    "value": float(v),
                    "rows": int(n),
                }
                for f, t, a, b, v, n in zip(
                    self.feature, self.threshold, self.left, self.right, self.value, self.rows, strict=True
                )
            ],
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Tree:
        """Read what ``to_json`` wrote.

        Raises:
            InputError: a part is missing, or a child does not stand behind its parent.
        """
        try:
            features = tuple(str(name) for name in document["features"])
            nodes = document["nodes"]
            for index, node in enumerate(nodes):
                if "feature" in node and not all(index < node[side] < len(nodes) for side in ("left", "right")):
                    raise ValueError(f"node {index} must point behind itself")
            return cls(
                features,
                np.array([features.index(n["feature"]) if "feature" in n else _LEAF for n in nodes], dtype=np.intp),
                np.array([float(n.get("threshold", 0.0)) for n in nodes]),
                np.array([int(n.get("left", 0)) for n in nodes], dtype=np.intp),
                np.array([int(n.get("right", 0)) for n in nodes], dtype=np.intp),
                np.array([float(n["value"]) for n in nodes]),
                np.array([int(n["rows"]) for n in nodes], dtype=np.intp),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"this is no tree; train it again: {error!r}") from error
