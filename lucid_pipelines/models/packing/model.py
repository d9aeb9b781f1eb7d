"""The Packing Analyze Model: sharing scores from profiles, and an opinion on a pair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.domain.job import Profile
from lucid_pipelines.models.artefacts.document import Header, unseal
from lucid_pipelines.models.kinds import ModelKind
from lucid_pipelines.models.packing.labels import Thresholds
from lucid_pipelines.models.packing.pairs import PROFILE_FEATURES, profile_row
from lucid_pipelines.models.packing.speeds import PairSpeeds
from lucid_pipelines.models.tree import Step, Tree

_AMP = PROFILE_FEATURES.index("amp")
_UTIL = PROFILE_FEATURES.index("gpu_util_pct")
DEFAULT_CAPACITY = 2
CLASSES = ("Tiny", "Medium", "Jumbo")


@dataclass(frozen=True, slots=True)
class Sharer:
    """A job as the packing model sees it.

    Attributes:
        configuration, workload: what it trains, where somebody knows; they find corrections measured earlier.
    """

    profile: Profile | None
    amp: bool | None = None
    configuration: str | None = None
    workload: str | None = None


@dataclass(frozen=True, slots=True)
class ScoreReason:
    """Why a job has its score.

    Attributes:
        score: 0 Tiny, 1 Medium, 2 Jumbo; ``None`` when something that it takes is unknown.
        mean_speed_frac: of the leaf.
        amp_assumed: mixed precision was not said and the tree asks for it: the heavier answer was taken.
        missing: the unknown feature that stopped it.
    """

    score: int | None
    mean_speed_frac: float | None
    path: tuple[Step, ...]
    rows: int | None
    amp_assumed: bool
    missing: str | None


@dataclass(frozen=True, slots=True)
class PairOpinion:
    """Whether two jobs should share a GPU, and the numbers behind it.

    Attributes:
        reason: ``allowed``, ``unknown_profile``, ``speed`` (too slow) or ``scores`` (beyond a reduced capacity).
        mean_speed_frac: predicted; ``None`` when a utilisation is unknown.
    """

    allowed: bool
    reason: str
    scores: tuple[int | None, int | None]
    speeds_frac: tuple[float, float] | None
    mean_speed_frac: float | None
    bound_frac: float


@dataclass(frozen=True)
class PackingModel:
    """Tree, thresholds, pair speeds and the bound that a pair's predicted speed must reach."""

    tree: Tree
    thresholds: Thresholds
    speeds: PairSpeeds
    bound_frac: float
    importance: Mapping[str, float] = field(default_factory=dict)
    header: Header | None = None

    @property
    def version(self) -> str | None:
        return None if self.header is None else self.header.version

    def scores(self, profiles: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Sharing scores of many jobs.

        Args:
            profiles: jobs × ``PROFILE_FEATURES``; unknown is NaN.

        Returns:
            0, 1 or 2; NaN where the GPU utilisation, or anything else that the tree asks for, is unknown. Unknown
            mixed precision: the heavier score.
        """
        matrix = np.asarray(profiles, dtype=np.float64).reshape(-1, len(PROFILE_FEATURES))
        unsaid = np.isnan(matrix[:, _AMP])
        scores = self.thresholds.scores(self.tree.predict(matrix))
        if unsaid.any():
            both = [self._with_amp(matrix[unsaid], amp) for amp in (0.0, 1.0)]
            scores[unsaid] = np.maximum(both[0], both[1])
        return np.where(np.isnan(matrix[:, _UTIL]), np.nan, scores)

    def score(self, profile: Profile | None, amp: bool | None = None) -> int | None:
        """Sharing score of one job; ``None`` = unknown, which forbids packing (R-25)."""
        return self.explain_score(profile, amp).score

    def explain_score(self, profile: Profile | None, amp: bool | None = None) -> ScoreReason:
        """The tree's way to a job's score."""
        row = profile_row(profile, amp)
        if np.isnan(row[_UTIL]):
            return ScoreReason(None, None, (), None, False, PROFILE_FEATURES[_UTIL])
        answers: list[tuple[float, list[float]]] = []
        for value in (0.0, 1.0) if amp is None else (float(amp),):
            filled = [*row[:_AMP], value]
            speed = float(self.tree.predict(np.array([filled]))[0])
            answers.append((speed, filled))
        asks_amp = len({speed for speed, _ in answers if not np.isnan(speed)}) > 1
        known = [answer for answer in answers if not np.isnan(answer[0])]
        speed, filled = min(known) if len(known) == len(answers) else answers[0]
        path = self.tree.path(filled)
        missing = next((step.feature for step in path if np.isnan(step.value)), None)
        if len(known) < len(answers):
            return ScoreReason(None, None, path, None, False, missing)
        leaf = int(self.tree.leaves(np.array([filled]))[0])
        score = int(self.thresholds.scores(np.array([speed]))[0])
        return ScoreReason(score, speed, path, int(self.tree.rows[leaf]), asks_amp, None)

    def pair_speeds(self, first: Sharer, second: Sharer) -> tuple[float, float] | None:
        """Predicted speeds of both relative to alone; ``None`` when a GPU utilisation is unknown."""
        utils = [None if job.profile is None else job.profile.gpu_util_pct for job in (first, second)]
        if utils[0] is None or utils[1] is None:
            return None
        return self.speeds.speeds(
            utils[0],
            utils[1],
            self.speeds.correction(first.configuration, first.workload),
            self.speeds.correction(second.configuration, second.workload),
        )

    def opinion(self, first: Sharer, second: Sharer, capacity: int = DEFAULT_CAPACITY) -> PairOpinion:
        """Whether the two should share a GPU with this sharing capacity.

        At the default capacity the predicted speed decides: on workloads left out it keeps more pairs fast and
        misses fewer than the sum of the scores. A smaller capacity (a quiet cluster) asks for the scores too.
        Memory, GPU count and the binder's other rules are not looked at here.
        """
        scores = (self.score(first.profile, first.amp), self.score(second.profile, second.amp))
        speeds = self.pair_speeds(first, second)
        mean = None if speeds is None else sum(speeds) / 2
        if mean is None or (capacity < DEFAULT_CAPACITY and None in scores):
            reason = "unknown_profile"
        elif mean < self.bound_frac:
            reason = "speed"
        else:
            total = sum(score or 0 for score in scores)
            reason = "scores" if capacity < DEFAULT_CAPACITY and total > capacity else "allowed"
        return PairOpinion(reason == "allowed", reason, scores, speeds, mean, self.bound_frac)

    def to_json(self) -> dict[str, Any]:
        return {
            "tree": self.tree.to_json(),
            "thresholds": {"tiny_above": self.thresholds.tiny_above, "medium_above": self.thresholds.medium_above},
            "speeds": self.speeds.to_json(),
            "bound_frac": self.bound_frac,
            "importance": dict(self.importance),
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> PackingModel:
        """Load a sealed model, or refuse.

        Raises:
            ArtefactError: damaged, another kind, or its golden answers changed.
        """
        model: PackingModel | None = None

        def score(inputs: Sequence[Sequence[float | None]]) -> npt.NDArray[np.float64]:
            nonlocal model
            model = cls._from_json(document["model"])
            return model.golden_answers(inputs)

        header = unseal(document, ModelKind.PACKING, score)
        assert model is not None
        return cls(model.tree, model.thresholds, model.speeds, model.bound_frac, model.importance, header)

    def golden_answers(self, inputs: Sequence[Sequence[float | None]]) -> npt.NDArray[np.float64]:
        """Leaf speed, score and speed beside an equal job, for golden profiles."""
        matrix = np.array([[np.nan if v is None else v for v in row] for row in inputs], dtype=np.float64)
        beside_equal = self.speeds.law(2.0 * matrix[:, 0] / 100.0)
        return np.concatenate([self.tree.predict(matrix), self.scores(matrix), beside_equal])

    @classmethod
    def _from_json(cls, model: Mapping[str, Any]) -> PackingModel:
        try:
            thresholds = Thresholds(
                float(model["thresholds"]["tiny_above"]), float(model["thresholds"]["medium_above"])
            )
            importance = {str(k): float(v) for k, v in model["importance"].items()}
            return cls(
                Tree.from_json(model["tree"]),
                thresholds,
                PairSpeeds.from_json(model["speeds"]),
                float(model["bound_frac"]),
                importance,
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"this is no packing model; train it again: {error!r}") from error

    def _with_amp(self, matrix: npt.NDArray[np.float64], amp: float) -> npt.NDArray[np.float64]:
        filled = matrix.copy()
        filled[:, _AMP] = amp
        return self.thresholds.scores(self.tree.predict(filled))
