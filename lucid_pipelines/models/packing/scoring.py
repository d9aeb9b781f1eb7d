"""The Packing Analyze Model's tree: from a profile to the mean speed of pairs, and so to a sharing score.

The leaves hold mean speeds and the thresholds turn them into Tiny, Medium and Jumbo, so that a threshold can be
tuned without training again. A heavier profile never means a faster pair: the tree is monotone in it. How far
it is pruned (minimal cost-complexity) is chosen by leaving whole workloads out.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from sklearn.tree import DecisionTreeRegressor

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.models.packing.pairs import PROFILE_FEATURES
from lucid_pipelines.models.tree import Tree

_MONOTONE = (-1, -1, -1, 0)
"""Speed falls with both utilisations and with the footprint; mixed precision may go either way."""
_MIN_LEAF = 5
_MAX_DEPTH = 5
MIN_CONFIGURATIONS = 8


def fit_tree(
    profiles: npt.NDArray[np.float64],
    speeds: npt.NDArray[np.float64],
    workloads: npt.NDArray[np.str_],
    weights: npt.NDArray[np.float64],
) -> tuple[Tree, dict[str, float]]:
    """Fit the tree to configurations with known mean pair speed.

    Args:
        profiles: configurations × ``PROFILE_FEATURES``, nothing missing.
        speeds: mean pair speed of each.
        workloads: the groups that cross-validation leaves out.
        weights: how much each mean is worth.

    Returns:
        The tree and the importance of each feature (they sum to 1, or are all 0 for a single leaf).

    Raises:
        InputError: fewer than ``MIN_CONFIGURATIONS``, or a missing value.
    """
    if len(profiles) < MIN_CONFIGURATIONS:
        raise InputError(f"a packing tree needs {MIN_CONFIGURATIONS} measured configurations; got {len(profiles)}")
    if np.isnan(profiles).any() or np.isnan(speeds).any():
        raise InputError("every configuration needs a whole profile and a mean speed; some are missing")
    alpha = _choose_pruning(profiles, speeds, workloads, weights)
    fitted = _tree(alpha).fit(profiles, speeds, sample_weight=weights)
    importance = dict(zip(PROFILE_FEATURES, (float(v) for v in fitted.feature_importances_), strict=True))
    return _as_arrays(fitted), importance


def _choose_pruning(
    profiles: npt.NDArray[np.float64],
    speeds: npt.NDArray[np.float64],
    workloads: npt.NDArray[np.str_],
    weights: npt.NDArray[np.float64],
) -> float:
    """The strongest pruning among those with the least weighted error on workloads left out."""
    path = _tree(0.0).cost_complexity_pruning_path(profiles, speeds, sample_weight=weights)
    candidates = np.unique(np.clip(path.ccp_alphas, 0, None))[::-1]
    groups = np.unique(workloads)
    if len(groups) < 2:
        return float(candidates[0])
    best, least = float(candidates[0]), np.inf
    for alpha in candidates:
        error = 0.0
        for group in groups:
            away = workloads == group
            if (~away).sum() < _MIN_LEAF:
                continue
            model = _tree(float(alpha)).fit(profiles[~away], speeds[~away], sample_weight=weights[~away])
            missed = (model.predict(profiles[away]) - speeds[away]) ** 2
            error += float((missed * weights[away]).sum())
        if error < least - 1e-12:
            best, least = float(alpha), error
    return best


def _tree(alpha: float) -> DecisionTreeRegressor:
    return DecisionTreeRegressor(
        ccp_alpha=alpha,
        min_samples_leaf=_MIN_LEAF,
        max_depth=_MAX_DEPTH,
        monotonic_cst=list(_MONOTONE),
        random_state=0,
    )


def _as_arrays(fitted: DecisionTreeRegressor) -> Tree:
    inner = fitted.tree_
    return Tree(
        PROFILE_FEATURES,
        np.where(inner.children_left < 0, -1, inner.feature).astype(np.intp),
        np.asarray(inner.threshold, dtype=np.float64),
        np.maximum(inner.children_left, 0).astype(np.intp),
        np.maximum(inner.children_right, 0).astype(np.intp),
        np.asarray(inner.value[:, 0, 0], dtype=np.float64),
        np.asarray(inner.n_node_samples, dtype=np.intp),
    )
