"""Training: an explainable boosting machine of ``interpret``, turned into our own score tables."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import joblib
import numpy as np
import numpy.typing as npt
from interpret.glassbox import ExplainableBoostingRegressor

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.models.additive.model import AdditiveModel, Term
from lucid_pipelines.models.additive.schema import MIN_ROWS, Feature, require_matrix

_SAY_EVERY = 50


@dataclass(frozen=True, slots=True)
class FitSettings:
    """How an additive model is trained.

    Attributes:
        bags: models that are averaged; their spread is the error band.
        validation_frac: share of the groups that a bag holds back to know when to stop.
        interactions: pairs of feature names, or how many pairs to look for.
        alone: features that none of the pairs found may hold.
        huber_delta: ``None`` = squared error; else errors beyond this many units of the target count linearly,
            which aims at the median and makes bursts harmless.
        jobs: threads.
    """

    bags: int = 6
    validation_frac: float = 0.2
    max_bins: int = 32
    min_samples_leaf: int = 30
    smoothing_rounds: int = 200
    max_rounds: int = 5000
    learning_rate: float = 0.04
    interactions: int | tuple[tuple[str, str], ...] = 0
    alone: tuple[str, ...] = ()
    huber_delta: float | None = None
    jobs: int = 2
    seed: int = 0

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class FitProgress:
    """One report from a running fit: which bag, how many boosting steps it has made, its validation error."""

    bag: int
    bags: int
    steps: int
    score: float


ProgressCallback = Callable[[FitProgress], None]


def fit_additive(
    matrix: npt.ArrayLike,
    target: npt.ArrayLike,
    features: Sequence[Feature],
    settings: FitSettings | None = None,
    *,
    groups: npt.ArrayLike | None = None,
    offset: str | None = None,
    progress: ProgressCallback | None = None,
) -> AdditiveModel:
    """Train an additive model.

    Args:
        matrix: rows × features; NaN = missing, nominal columns as codes.
        target: one finite number per row.
        groups: rows of one group (a user's day, a calendar day) are held back together. Without groups, near
            copies of a row stand on both sides of the split, and training goes on long after it has begun to
            learn the copies by heart.
        offset: feature that enters with slope 1; missing values become the mean of the target.

    Raises:
        InputError: fewer than ``MIN_ROWS`` rows, shapes that do not fit, or a target that is not finite.
    """
    settings = settings or FitSettings()
    values = require_matrix(matrix, len(features))
    wanted = np.asarray(target, dtype=np.float64)
    if wanted.shape != (len(values),):
        raise InputError(f"give one target per row; got {wanted.shape} for {len(values)} rows")
    if len(values) < MIN_ROWS:
        raise InputError(f"a model needs at least {MIN_ROWS} rows to learn from; got {len(values)}")
    if not np.isfinite(wanted).all():
        raise InputError(f"the target must be finite; {int((~np.isfinite(wanted)).sum())} rows are not")

    position = {feature.name: index for index, feature in enumerate(features)}
    missing = float(wanted.mean())
    if offset is not None:
        # With an identity link, an offset is the same as a target without it.
        known = values[:, position[offset]]
        wanted = wanted - np.where(np.isnan(known), missing, known)
    bags = _bags(len(values), groups, settings)
    machine = ExplainableBoostingRegressor(
        feature_names=[feature.name for feature in features],
        feature_types=[f.kind.value for f in features],
        outer_bags=bags.shape[1],
        max_bins=settings.max_bins,
        max_interaction_bins=min(settings.max_bins, 16),
        min_samples_leaf=settings.min_samples_leaf,
        smoothing_rounds=settings.smoothing_rounds,
        max_rounds=settings.max_rounds,
        learning_rate=settings.learning_rate,
        interactions=_interactions(settings, position),
        exclude=_excluded(settings, position),
        objective="rmse" if settings.huber_delta is None else f"pseudo_huber:delta={settings.huber_delta!r}",
        callback=None if progress is None else _reporter(progress, bags.shape[1]),
        n_jobs=settings.jobs,
        random_state=settings.seed,
    )
    with warnings.catch_warnings(), joblib.parallel_config(backend="threading"):
        # Missing values and constant columns are expected here, and handled.
        warnings.simplefilter("ignore")
        machine.fit(values, wanted, bags=bags)
    return from_ebm(machine, features, offset=offset, offset_missing=missing)


def from_ebm(
    machine: ExplainableBoostingRegressor,
    features: Sequence[Feature],
    *,
    offset: str | None = None,
    offset_missing: float = 0.0,
) -> AdditiveModel:
    """The score tables of a fitted machine with identity link.

    Nominal columns must have been given as the codes of ``features``.
    """
    terms = [
        _term(machine, tuple(int(f) for f in over), number, features)
        for number, over in enumerate(machine.term_features_)
    ]
    where = None if offset is None else [feature.name for feature in features].index(offset)
    return AdditiveModel(tuple(features), tuple(terms), float(machine.intercept_), where, offset_missing)


def _term(
    machine: ExplainableBoostingRegressor, over: tuple[int, ...], number: int, features: Sequence[Feature]
) -> Term:
    tables = [
        np.asarray(table[number], dtype=np.float64)
        for table in (machine.term_scores_, machine.standard_deviations_, machine.bin_weights_)
    ]
    cuts: list[npt.NDArray[np.float64]] = []
    for axis, position in enumerate(over):
        levels = machine.bins_[position]
        level = levels[min(len(levels), len(over)) - 1]
        if isinstance(level, dict):
            order = _nominal_order(level, len(features[position].categories))
            cuts.append(np.array([]))
        else:
            found = np.asarray(level, dtype=np.float64)
            # Theirs: missing, bins, unknown. A continuous value is never unknown.
            order = np.append(np.arange(1, len(found) + 2), 0)
            cuts.append(found)
        tables = [np.take(table, order, axis=axis) for table in tables]
    return Term(over, tuple(cuts), *tables)


def _nominal_order(level: dict[str, int], categories: int) -> npt.NDArray[np.intp]:
    """Their bins in our order: categories, missing, unknown. One that they never saw is unknown."""
    unknown = max(level.values(), default=0) + 1
    order = np.full(categories + 2, unknown, dtype=np.intp)
    order[categories] = 0
    for name, index in level.items():
        code = int(float(name))
        if 0 <= code < categories:
            order[code] = index
    return order


def _bags(rows: int, groups: npt.ArrayLike | None, settings: FitSettings) -> npt.NDArray[np.int8]:
    """For each row and bag +1 (training) or −1 (held back), by whole groups."""
    random = np.random.default_rng(settings.seed)
    members = np.arange(rows) if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1]
    count = int(members.max()) + 1
    held = max(1, round(settings.validation_frac * count)) if count > 1 else 0
    bags = np.ones((rows, settings.bags if held else 1), dtype=np.int8)
    for bag in range(bags.shape[1] if held else 0):
        away = np.zeros(count, dtype=bool)
        away[random.choice(count, held, replace=False)] = True
        bags[away[members], bag] = -1
    return bags


def _interactions(settings: FitSettings, position: dict[str, int]) -> int | list[tuple[int, int]]:
    if isinstance(settings.interactions, int):
        return settings.interactions
    return [(position[first], position[second]) for first, second in settings.interactions]


def _excluded(settings: FitSettings, position: dict[str, int]) -> list[tuple[int, int]] | None:
    pairs = [
        (min(position[name], other), max(position[name], other))
        for name in settings.alone
        for other in position.values()
        if other != position[name]
    ]
    return sorted(set(pairs)) or None


def _reporter(progress: ProgressCallback, bags: int) -> Callable[[int, int, bool, float], bool]:
    def report(bag: int, step: int, has_gained: bool, score: float) -> bool:
        del has_gained
        if step % _SAY_EVERY == 0:
            progress(FitProgress(int(bag), bags, int(step), float(score)))
        return False

    return report
