"""The Throughput Predict Model: submissions and GPU requests of the coming slots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.domain.view import Forecast
from lucid_pipelines.models.additive.model import AdditiveModel
from lucid_pipelines.models.artefacts.document import Header, read_matrix, unseal
from lucid_pipelines.models.conformal import Intervals
from lucid_pipelines.models.kinds import ModelKind
from lucid_pipelines.models.throughput.features import MAX_HORIZON, NAMES, Past, build
from lucid_pipelines.models.throughput.series import SubmissionSeries

Vector = npt.NDArray[np.float64]
TARGETS = ("jobs", "gpus")


@dataclass(frozen=True)
class Target:
    """One predicted count.

    Attributes:
        intervals: residual quantiles by predicted level; ``None`` = too few rows to calibrate.
        level_edges: predictions that separate the levels.
    """

    model: AdditiveModel
    intervals: Intervals | None = None
    level_edges: tuple[float, ...] = ()

    def levels(self, predicted: Vector) -> list[str]:
        return [str(int(level)) for level in np.searchsorted(np.asarray(self.level_edges), predicted)]


@dataclass(frozen=True)
class ThroughputModel:
    """Both counts, for 1 to ``MAX_HORIZON`` slots ahead."""

    slot_s: float
    targets: Mapping[str, Target]
    header: Header | None = None

    @property
    def version(self) -> str | None:
        return None if self.header is None else self.header.version

    def predict(self, matrix: npt.ArrayLike, target: str = "jobs") -> Vector:
        """Predicted counts for rows of ``throughput.features.FEATURES``; never below 0."""
        return np.maximum(self.targets[target].model.predict(matrix), 0.0)

    def interval(self, matrix: npt.ArrayLike, target: str = "jobs", level: float = 0.8) -> tuple[Vector, Vector]:
        """Ends of the prediction intervals.

        Raises:
            InputError: the model was trained on too few slots to have any.
        """
        chosen = self.targets[target]
        if chosen.intervals is None:
            raise InputError(f"this model has no intervals for {target}: it was trained on too few slots")
        predicted = self.predict(matrix, target)
        low, high = chosen.intervals.of(predicted, chosen.levels(predicted), level)
        return np.maximum(low, 0.0), np.maximum(high, 0.0)

    def forecast(self, known: SubmissionSeries, slots: int = MAX_HORIZON) -> Forecast:
        """The next slots after the last known one.

        Live, the slot that has begun is not over and so not known: it is the first that is predicted.

        Raises:
            InputError: more than ``MAX_HORIZON`` slots, another slot length, or nothing is known.
        """
        if not 1 <= slots <= MAX_HORIZON:
            raise InputError(f"the model looks 1 to {MAX_HORIZON} slots ahead; asked for {slots}")
        self._require(known)
        positions = np.arange(len(known), len(known) + slots)
        return self._forecast(known, positions, positions - len(known) + 1)

    def forecast_series(self, series: SubmissionSeries, horizon: int = MAX_HORIZON) -> Forecast:
        """Every slot of a series, each predicted ``horizon`` slots before: for replays."""
        if not 1 <= horizon <= MAX_HORIZON:
            raise InputError(f"the model looks 1 to {MAX_HORIZON} slots ahead; asked for {horizon}")
        self._require(series)
        return self._forecast(series, np.arange(len(series)), np.full(len(series), horizon))

    def to_json(self) -> dict[str, Any]:
        return {
            "slot_s": self.slot_s,
            "targets": {
                name: {
                    "model": target.model.to_json(),
                    "intervals": None if target.intervals is None else target.intervals.to_json(),
                    "level_edges": list(target.level_edges),
                }
                for name, target in self.targets.items()
            },
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> ThroughputModel:
        """Load a sealed model, or refuse.

        Raises:
            ArtefactError: damaged, another kind, or its golden answers changed.
        """
        model: ThroughputModel | None = None

        def score(inputs: Sequence[Sequence[float | None]]) -> Vector:
            nonlocal model
            model = cls._from_json(document["model"])
            return model.golden_answers(read_matrix(inputs))

        header = unseal(document, ModelKind.THROUGHPUT, score)
        assert model is not None
        return cls(model.slot_s, model.targets, header)

    def golden_answers(self, matrix: Vector) -> Vector:
        """What the model says of golden rows: every target's prediction, one after the other."""
        return np.concatenate([self.targets[name].model.predict(matrix) for name in TARGETS])

    @classmethod
    def _from_json(cls, document: Mapping[str, Any]) -> ThroughputModel:
        targets: dict[str, Target] = {}
        for name in TARGETS:
            item = document["targets"][name]
            model = AdditiveModel.from_json(item["model"])
            if model.names != NAMES:
                raise InputError(
                    f"this program computes other features than the model wants; train it again: {model.names}"
                )
            intervals = None if item["intervals"] is None else Intervals.from_json(item["intervals"])
            targets[name] = Target(model, intervals, tuple(float(edge) for edge in item["level_edges"]))
        return cls(float(document["slot_s"]), targets)

    def _forecast(
        self, series: SubmissionSeries, positions: npt.NDArray[np.intp], horizons: npt.NDArray[np.intp]
    ) -> Forecast:
        starts = np.asarray(series.begin_s + self.slot_s * positions, dtype=np.float64)
        counts = {
            name: self.predict(build(Past(values, self.slot_s), starts, positions, horizons), name).tolist()
            for name, values in (("jobs", series.jobs), ("gpus", series.gpus))
        }
        return Forecast(starts.tolist(), counts["jobs"], counts["gpus"])

    def _require(self, series: SubmissionSeries) -> None:
        if series.slot_s != self.slot_s:
            raise InputError(f"the model was trained on slots of {self.slot_s:g} s; got slots of {series.slot_s:g} s")
        if not len(series):
            raise InputError("a forecast needs at least one known slot; got none")
