"""The Workload Estimate Model: log duration as an additive model of the job and of what its user ran before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.models.additive.model import AdditiveModel
from lucid_pipelines.models.additive.schema import Matrix, encode
from lucid_pipelines.models.artefacts.document import Header, read_matrix, unseal
from lucid_pipelines.models.conformal import Intervals
from lucid_pipelines.models.duration.features import duration_features
from lucid_pipelines.models.duration.selecting import Teaching
from lucid_pipelines.models.kinds import ModelKind
from lucid_pipelines.models.naming.buckets import NameBuckets

Vector = npt.NDArray[np.float64]
_COLUMNS = {feature.name: index for index, feature in enumerate(duration_features())}
_LARGEST_LOG = float(np.log1p(10 * 365 * 86_400.0))
"""Ten years: no estimate is longer."""


@dataclass(frozen=True)
class DurationModel:
    """Score tables, name buckets and intervals.

    Attributes:
        intervals: on the log scale, by how much history the user has; ``None`` = too few rows to calibrate.
    """

    additive: AdditiveModel
    buckets: NameBuckets
    teaching: Teaching
    intervals: Intervals | None = None
    header: Header | None = None

    @property
    def version(self) -> str | None:
        return None if self.header is None else self.header.version

    def with_codes(self, matrix: Matrix, users: Sequence[str], buckets: Sequence[str | None]) -> Matrix:
        """The matrix with its nominal columns filled as this model numbers them."""
        filled = matrix.copy()
        for name, values in (("user", users), ("bucket", buckets)):
            column = _COLUMNS[name]
            filled[:, column] = encode(values, self.additive.features[column].categories)
        return filled

    def predict_log(self, matrix: Matrix) -> Vector:
        """log(1 + seconds) by the score tables, whatever is known of the user."""
        return self.additive.predict(matrix)

    def served_log(self, matrix: Matrix) -> Vector:
        """What is served: the model, or for a stranger with a strange name the mean of the same GPU count.

        NaN where nothing at all is known.
        """
        predicted = self.predict_log(matrix)
        return np.where(is_cold(matrix), matrix[:, _COLUMNS["gpus_mean"]], predicted)

    def interval_log(self, matrix: Matrix, served: Vector, level: float) -> tuple[Vector, Vector] | None:
        """Ends of the intervals on the log scale; ``None`` when there are none."""
        if self.intervals is None:
            return None
        return self.intervals.of(served, evidence_groups(matrix), level)

    def to_json(self) -> dict[str, Any]:
        return {
            "additive": self.additive.to_json(),
            "buckets": self.buckets.to_json(),
            "teaching": self.teaching.value,
            "intervals": None if self.intervals is None else self.intervals.to_json(),
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> DurationModel:
        """Load a sealed model, or refuse.

        Raises:
            ArtefactError: damaged, another kind, or its golden answers changed.
        """
        model: DurationModel | None = None

        def score(inputs: Sequence[Sequence[float | None]]) -> Vector:
            nonlocal model
            model = cls._from_json(document["model"])
            return model.predict_log(read_matrix(inputs))

        header = unseal(document, ModelKind.DURATION, score)
        assert model is not None
        return cls(model.additive, model.buckets, model.teaching, model.intervals, header)

    @classmethod
    def _from_json(cls, document: Mapping[str, Any]) -> DurationModel:
        additive = AdditiveModel.from_json(document["additive"])
        if additive.names != tuple(_COLUMNS):
            raise InputError(
                f"this program computes other features than the model wants; train it again: {additive.names}"
            )
        intervals = None if document["intervals"] is None else Intervals.from_json(document["intervals"])
        return cls(additive, NameBuckets.from_json(document["buckets"]), Teaching(document["teaching"]), intervals)


def column(name: str) -> int:
    """Position of a duration feature."""
    return _COLUMNS[name]


def is_cold(matrix: Matrix) -> npt.NDArray[np.bool_]:
    """Neither the user nor such a name has run before with this GPU count."""
    return (matrix[:, _COLUMNS["user_count"]] == 0) & np.isnan(matrix[:, _COLUMNS["bucket_mean"]])


def evidence_groups(matrix: Matrix) -> list[str]:
    """How much history a prediction rests on: ``none``, ``few`` (below 5 runs), ``some`` (below 20) or ``many``."""
    counts = matrix[:, _COLUMNS["user_count"]]
    return [("none", "few", "some", "many")[int(g)] for g in np.searchsorted([1.0, 5.0, 20.0], counts, side="right")]


def seconds(log_values: Vector) -> Vector:
    """Seconds from log(1 + seconds), between 0 and ten years."""
    return np.expm1(np.clip(log_values, 0.0, _LARGEST_LOG))
