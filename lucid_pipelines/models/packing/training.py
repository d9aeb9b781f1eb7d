"""Train a packing model from measured pairs, and judge it on workloads that it has not seen."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.models.artefacts.document import Trained, seal
from lucid_pipelines.models.kinds import ModelKind
from lucid_pipelines.models.packing.labels import Thresholds, mean_speeds
from lucid_pipelines.models.packing.model import PackingModel
from lucid_pipelines.models.packing.pairs import PairTable, profile_matrix
from lucid_pipelines.models.packing.scoring import fit_tree
from lucid_pipelines.models.packing.speeds import demands, fit_speeds, predict_pairs
from lucid_pipelines.models.tree import Tree

STAYS_ABOVE = 0.85
TARGET_STAY_FRAC = 0.981
"""Of the pairs that the paper's rule allows, so many keep at least 0.85 of their speed (section 8)."""
BOUNDS = tuple(round(0.80 + 0.005 * step, 3) for step in range(41))
_FULL_TRUST = 5.0

Flags = npt.NDArray[np.bool_]
Vector = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PackingSettings:
    """How a packing model is trained.

    Attributes:
        target_stay_frac: share of allowed pairs that shall stay at ``STAYS_ABOVE``, on workloads left out.
        capacity: sharing capacity of a GPU.
    """

    tiny_above: float = 0.95
    medium_above: float = 0.85
    target_stay_frac: float = TARGET_STAY_FRAC
    capacity: int = 2

    def thresholds(self) -> Thresholds:
        return Thresholds(self.tiny_above, self.medium_above)

    def to_json(self) -> dict[str, Any]:
        return {
            "tiny_above": self.tiny_above,
            "medium_above": self.medium_above,
            "target_stay_frac": self.target_stay_frac,
            "capacity": self.capacity,
        }


@dataclass(frozen=True, slots=True)
class PairQuality:
    """What a rule does with measured pairs.

    Attributes:
        allowed_frac: share of all pairs.
        stay_frac: of the allowed pairs, how many keep a mean speed of at least 0.85; ``None`` = none is allowed.
        used_frac: of the pairs that would stay, how many are allowed.
        both_stay_frac: of the allowed pairs, how many in which each of the two keeps 0.85.
    """

    pairs: int
    allowed_frac: float
    stay_frac: float | None
    used_frac: float | None
    both_stay_frac: float | None

    @classmethod
    def of(cls, allowed: Flags, speeds: Vector) -> PairQuality:
        good = speeds.mean(axis=1) >= STAYS_ABOVE
        each = speeds.min(axis=1) >= STAYS_ABOVE
        some = bool(allowed.any())
        return cls(
            len(allowed),
            float(allowed.mean()) if len(allowed) else 0.0,
            float(good[allowed].mean()) if some else None,
            float((allowed & good).sum() / good.sum()) if good.any() else None,
            float(each[allowed].mean()) if some else None,
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "pairs": self.pairs,
            "allowed_frac": self.allowed_frac,
            "stay_frac": self.stay_frac,
            "used_frac": self.used_frac,
            "both_stay_frac": self.both_stay_frac,
        }


@dataclass(frozen=True)
class HeldOut:
    """Predictions for pairs by models that never saw the workload left out.

    Attributes:
        pair: position of the pair; a pair of two workloads stands here once for each of them.
        workload: the one that was left out (of two, the first).
        speed: predicted mean speed; −∞ where a utilisation is unknown.
        score_sum: sum of both sharing scores by the tree; ∞ where one is unknown.
    """

    pair: npt.NDArray[np.intp]
    workload: npt.NDArray[np.str_]
    speed: Vector
    score_sum: Vector


def train_packing(
    table: PairTable,
    settings: PackingSettings | None = None,
    *,
    source: str = "",
    as_of: datetime | None = None,
    created_at: datetime | None = None,
    judge: bool = True,
) -> dict[str, Any]:
    """Train a packing model and seal it.

    The bound on the predicted speed is the smallest that keeps ``target_stay_frac`` on workloads left out.

    Args:
        judge: measure the quality on workloads left out and store it (one more level of cross-validation).

    Returns:
        The document; ``PackingModel.from_document`` reads it.

    Raises:
        InputError: too few measured configurations or workloads.
    """
    settings = settings or PackingSettings()
    model = fit_packing(table, settings)
    inputs = golden_profiles()
    return seal(
        ModelKind.PACKING,
        model.to_json(),
        Trained(len(table.pairs), table.sha256(), as_of, source, table.left_out, settings.to_json()),
        golden_inputs=inputs,
        golden_outputs=model.golden_answers(inputs),
        metrics=judge_packing(table, settings) if judge else {},
        created_at=created_at,
    )


def fit_packing(table: PairTable, settings: PackingSettings, chosen: Flags | None = None) -> PackingModel:
    """Fit tree, speeds and bound to the chosen pairs (default all)."""
    tree, importance = _fit_tree(table, chosen)
    speeds = fit_speeds(table.arrays(), table.configurations, chosen)
    bound = choose_bound(table, settings, chosen)
    return PackingModel(tree, settings.thresholds(), speeds, bound, importance)


def choose_bound(table: PairTable, settings: PackingSettings, chosen: Flags | None = None) -> float:
    """The smallest bound with which enough allowed pairs of left-out workloads stay fast.

    Where no bound reaches the target, the one with the largest share that stays; ties go to the smaller bound.
    """
    speeds = table.arrays().speeds
    held = hold_out(table, settings, _one_by_one(table, chosen), chosen)
    best, most = BOUNDS[-1], -1.0
    for bound in BOUNDS:
        stay = PairQuality.of(held.speed >= bound, speeds[held.pair]).stay_frac
        if stay is not None and stay >= settings.target_stay_frac:
            return bound
        if stay is not None and stay > most:
            best, most = bound, stay
    return best


def judge_packing(table: PairTable, settings: PackingSettings | None = None) -> dict[str, Any]:
    """Quality on workloads left out, the bound chosen anew each time from the other workloads only.

    ``held_out``: one workload is left out, its partners may have been measured. ``both_held_out``: neither of
    the two workloads of a pair has been seen. Beside them the tree's scores alone (sum at most the capacity), both
    rules together, and the plain rule that allows a pair whose utilisations add up to at most a fitted total.
    """
    settings = settings or PackingSettings()
    speeds = table.arrays().speeds
    names = _workloads(table, None)
    one = hold_out(table, settings, [(name,) for name in names], with_scores=True)
    bounds = {name: choose_bound(table, settings, _without(table, (name,))) for name in names}
    fast = one.speed >= np.array([bounds[name] for name in one.workload])
    fits = one.score_sum <= settings.capacity
    pairs = [(a, b) for i, a in enumerate(names) for b in names[i:]]
    return {
        "held_out": PairQuality.of(fast, speeds[one.pair]).to_json(),
        "held_out_by_workload": {
            name: PairQuality.of(fast[one.workload == name], speeds[one.pair[one.workload == name]]).to_json()
            for name in names
        },
        "both_held_out": _judge_strangers(table, settings, pairs).to_json(),
        "scores_held_out": PairQuality.of(fits, speeds[one.pair]).to_json(),
        "speed_and_scores_held_out": PairQuality.of(fits & fast, speeds[one.pair]).to_json(),
        "plain_rule": judge_plain_rule(table, settings).to_json(),
        "bounds": bounds,
    }


def judge_plain_rule(table: PairTable, settings: PackingSettings) -> PairQuality:
    """The no-model baseline: allow what adds up to at most T percent, T chosen on the other workloads."""
    arrays = table.arrays()
    demand = demands(arrays, table.configurations)
    allowed: list[Flags] = []
    speeds: list[Vector] = []
    for workload in _workloads(table, None):
        away = arrays.touches([workload])
        limit = _choose_demand(demand[~away], arrays.speeds[~away], settings.target_stay_frac)
        allowed.append(demand[away] <= limit)
        speeds.append(arrays.speeds[away])
    return PairQuality.of(np.concatenate(allowed), np.concatenate(speeds))


def golden_profiles() -> list[list[float | None]]:
    """Profiles over the whole range, known, partly known and unknown: no measured row is among them."""
    rows: list[list[float | None]] = [
        [util, util * 0.55, 2048.0 + 60.0 * util, amp] for util in range(0, 101, 10) for amp in (0.0, 1.0)
    ]
    return [*rows, [50.0, None, None, None], [None, 20.0, 4096.0, 0.0], [95.0, 70.0, 20000.0, None]]


def hold_out(
    table: PairTable,
    settings: PackingSettings,
    folds: Iterable[tuple[str, ...]],
    chosen: Flags | None = None,
    *,
    with_scores: bool = False,
) -> HeldOut:
    """Predict pairs with models that saw none of a fold's workloads.

    Args:
        folds: one workload: all its pairs are predicted; two: the pairs between them.
        with_scores: fit the tree too; else ``score_sum`` is ∞.
    """
    arrays = table.arrays()
    use = np.ones(len(arrays.first), dtype=bool) if chosen is None else chosen
    profiles = profile_matrix(table.configurations)
    parts: list[tuple[npt.NDArray[np.intp], str, Vector, Vector]] = []
    for fold in folds:
        where = np.flatnonzero(use & arrays.between(fold))
        if not len(where):
            continue
        rest = use & ~arrays.touches(fold)
        speeds = fit_speeds(arrays, table.configurations, rest)
        predicted = predict_pairs(speeds, arrays, table.configurations).mean(axis=1)[where]
        total = np.full(len(where), np.inf)
        if with_scores:
            tree, _ = _fit_tree(table, rest)
            scores = PackingModel(tree, settings.thresholds(), speeds, 0.0).scores(profiles)
            total = scores[arrays.first[where]] + scores[arrays.second[where]]
        parts.append((where, fold[0], np.where(np.isnan(predicted), -np.inf, predicted), total))
    return HeldOut(
        np.concatenate([part[0] for part in parts]),
        np.concatenate([np.full(len(part[0]), part[1]) for part in parts]),
        np.concatenate([part[2] for part in parts]),
        np.concatenate([np.where(np.isnan(part[3]), np.inf, part[3]) for part in parts]),
    )


def _fit_tree(table: PairTable, chosen: Flags | None) -> tuple[Tree, dict[str, float]]:
    means, counts = mean_speeds(table.arrays(), len(table.configurations), chosen)
    profiles = profile_matrix(table.configurations)
    # Mixed precision that nobody declared is off.
    profiles[:, 3] = np.nan_to_num(profiles[:, 3], nan=0.0)
    usable = (counts > 0) & ~np.isnan(profiles).any(axis=1)
    workloads = np.array([item.workload for item in table.configurations])
    weights = counts / (counts + _FULL_TRUST)
    return fit_tree(profiles[usable], means[usable], workloads[usable], weights[usable])


def _judge_strangers(table: PairTable, settings: PackingSettings, folds: Iterable[tuple[str, str]]) -> PairQuality:
    """Neither workload seen, neither by the model nor by the choice of its bound."""
    speeds = table.arrays().speeds
    allowed: list[Flags] = []
    where: list[npt.NDArray[np.intp]] = []
    for fold in folds:
        if not table.arrays().between(fold).any():
            continue
        held = hold_out(table, settings, [fold])
        rest = _without(table, fold)
        allowed.append(held.speed >= choose_bound(table, settings, rest))
        where.append(held.pair)
    return PairQuality.of(np.concatenate(allowed), speeds[np.concatenate(where)])


def _one_by_one(table: PairTable, chosen: Flags | None) -> list[tuple[str, ...]]:
    return [(name,) for name in _workloads(table, chosen)]


def _without(table: PairTable, workloads: Iterable[str]) -> Flags:
    return ~table.arrays().touches(workloads)


def _choose_demand(demand: Vector, speeds: Vector, target: float) -> float:
    """The largest total utilisation up to which enough pairs stay fast."""
    best = 0.0
    for limit in np.unique(demand[~np.isnan(demand)]):
        stay = PairQuality.of(demand <= limit, speeds).stay_frac
        if stay is not None and stay >= target:
            best = float(limit)
    return best


def _workloads(table: PairTable, chosen: Flags | None) -> tuple[str, ...]:
    if chosen is None:
        names = table.workloads
    else:
        arrays = table.arrays()
        names = tuple(sorted({*arrays.first_workload[chosen].tolist(), *arrays.second_workload[chosen].tolist()}))
    if len(names) < 2:
        raise InputError(f"judging a packing model needs pairs of at least two workloads; got {', '.join(names)}")
    return names
