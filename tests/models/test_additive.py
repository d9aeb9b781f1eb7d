"""Additive models: equal to interpret's predictions, exact at the edges, and a sum of what they explain."""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interpret.glassbox import ExplainableBoostingRegressor

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.models.additive import AdditiveModel, Feature, FeatureKind
from lucid_pipelines.models.additive.binning import Binner
from lucid_pipelines.models.additive.fitting import FitProgress, fit_additive, from_ebm
from lucid_pipelines.models.additive.schema import encode
from tests.support_models.worlds import QUICK

FEATURES = (
    Feature("even"),
    Feature("heavy_tail"),
    Feature("count"),
    Feature("kind", FeatureKind.NOMINAL, categories=("a", "b", "c", "d", "never")),
    Feature("constant"),
    Feature("known"),
)


def table(rows: int = 1500) -> tuple[np.ndarray, np.ndarray]:
    source = np.random.default_rng(0)
    matrix = np.column_stack(
        [
            source.normal(size=rows),
            source.exponential(1e5, rows),
            np.round(source.exponential(3, rows)),
            source.integers(0, 4, rows).astype(float),
            np.full(rows, 3.0),
            source.normal(size=rows),
        ]
    )
    matrix[source.random(matrix.shape) < 0.08] = np.nan
    target = np.nan_to_num(matrix[:, 0]) ** 2 + np.nan_to_num(matrix[:, 3]) + 0.1 * source.normal(size=rows)
    return matrix, target


@pytest.fixture(scope="module")
def machine() -> ExplainableBoostingRegressor:
    matrix, target = table()
    fitted = ExplainableBoostingRegressor(
        feature_names=[f.name for f in FEATURES],
        feature_types=[f.kind.value for f in FEATURES],
        outer_bags=2,
        max_rounds=100,
        max_bins=64,
        interactions=[(0, 1), (2, 3)],
        n_jobs=1,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted.fit(matrix, target)
    return fitted


def hostile_rows(machine: Any) -> np.ndarray:
    """Training rows, values on every cut and just below it, infinities, and a category that nobody has seen."""
    matrix, _ = table()
    rows = [matrix[:200]]
    for position in (0, 1, 2):
        for level in machine.bins_[position]:
            block = matrix[np.arange(2 * len(level)) % 200].copy()
            block[:, position] = np.concatenate([level, np.nextafter(level, -np.inf)])
            rows.append(block)
    extremes = matrix[:6].copy()
    extremes[:, :3] = np.array([[np.inf], [-np.inf], [1e308], [-1e308], [0.0], [np.nan]])
    unknown = matrix[:5].copy()
    unknown[:, 3] = -1
    return np.concatenate([*rows, extremes, unknown])


def test_predictions_equal_those_of_interpret(machine: Any) -> None:
    rows = hostile_rows(machine)
    ours = from_ebm(machine, FEATURES)
    assert np.abs(ours.predict(rows) - machine.predict(rows)).max() < 1e-9
    read = AdditiveModel.from_json(json.loads(json.dumps(ours.to_json())))
    assert np.array_equal(read.predict(rows), ours.predict(rows))


def test_contributions_and_intercept_sum_to_the_prediction(machine: Any) -> None:
    rows = hostile_rows(machine)
    model = from_ebm(machine, FEATURES, offset="known", offset_missing=0.25)
    total = model.contributions(rows).sum(axis=1) + model.offset_values(rows) + model.intercept
    assert np.abs(total - model.predict(rows)).max() < 1e-9
    unknown = np.where(np.isnan(rows[:, 5]), 0.25, rows[:, 5])
    assert np.allclose(model.offset_values(rows), unknown)


@given(
    cuts=st.lists(st.floats(allow_nan=False, allow_infinity=False, width=64), max_size=40, unique=True).map(sorted),
    values=st.lists(st.floats(allow_nan=True, allow_infinity=True, width=64), min_size=1, max_size=40),
)
@settings(max_examples=200)
def test_bins_are_those_of_a_binary_search(cuts: list[float], values: list[float]) -> None:
    edges = np.unique(np.array(cuts, dtype=np.float64))
    with np.errstate(over="ignore"):
        asked = np.array([*values, *edges, *np.nextafter(edges, -np.inf), *np.nextafter(edges, np.inf)])
    codes = Binner([Feature("x")], [edges]).codes(asked[None, :])[0]
    expected = np.where(np.isnan(asked), len(edges) + 1, np.searchsorted(edges, asked, side="right"))
    assert np.array_equal(codes, expected)


def test_crowded_cuts_are_told_apart() -> None:
    edges = np.concatenate([np.arange(50) * 1e-9, [1e6]])
    asked = np.concatenate([edges, edges - 1e-10, [np.nan, np.inf, -np.inf]])
    codes = Binner([Feature("x")], [edges]).codes(asked[None, :])[0]
    expected = np.where(np.isnan(asked), len(edges) + 1, np.searchsorted(edges, asked, side="right"))
    assert np.array_equal(codes, expected)


def test_an_offset_enters_with_slope_one() -> None:
    matrix, _ = table()
    target = 2.0 + np.nan_to_num(matrix[:, 5])
    reports: list[FitProgress] = []
    model = fit_additive(matrix, target, FEATURES, QUICK, offset="known", progress=reports.append)
    asked = np.tile([[0.0, 1.0, 1.0, 0.0, 3.0, np.nan]], (2, 1))
    asked[:, 5] = [0.3, 0.4]
    low, high = model.predict(asked)
    assert high - low == pytest.approx(0.1, abs=0.05)
    assert reports and {r.bag for r in reports} <= {0, 1}


def test_groups_are_held_back_whole() -> None:
    """Copies of few rows: held back one by one the fit would learn them by heart, by whole groups it does not."""
    source = np.random.default_rng(1)
    keys = np.repeat(np.arange(12), 60)
    matrix = np.column_stack([keys.astype(float), *[np.full(720, np.nan)] * 5])
    target = source.normal(size=12)[keys] + 0.05 * source.normal(size=720)
    alone = fit_additive(matrix, target, FEATURES, QUICK)
    together = fit_additive(matrix, target, FEATURES, QUICK, groups=keys)
    assert together.predict(matrix).std() < 0.7 * alone.predict(matrix).std()


@pytest.mark.parametrize(
    ("rows", "change", "message"),
    [
        (10, None, "at least 20 rows"),
        (50, np.nan, "must be finite"),
        (50, np.inf, "must be finite"),
    ],
)
def test_targets_that_cannot_be_learned_are_refused(rows: int, change: float | None, message: str) -> None:
    matrix, target = table(rows)
    if change is not None:
        target[3] = change
    with pytest.raises(InputError, match=message):
        fit_additive(matrix, target, FEATURES, QUICK)


def test_wrong_shapes_and_names_are_named(machine: Any) -> None:
    model = from_ebm(machine, FEATURES)
    with pytest.raises(InputError, match="6 columns"):
        model.predict(np.zeros((2, 5)))
    with pytest.raises(InputError, match="did you mean 'heavy_tail'"):
        model.position("heavytail")


def test_damaged_tables_are_refused(machine: Any) -> None:
    whole = from_ebm(machine, FEATURES).to_json()
    for damage in (
        lambda d: d["terms"][0]["scores"].pop(),
        lambda d: d["terms"][0]["cuts"][0].reverse(),
        lambda d: d["terms"][0]["features"].__setitem__(0, "nobody"),
        lambda d: d.pop("intercept"),
        lambda d: d["terms"][0]["scores"].__setitem__(0, None),
    ):
        document = json.loads(json.dumps(whole))
        damage(document)
        with pytest.raises(InputError):
            AdditiveModel.from_json(document)


def test_codes_of_nominal_values() -> None:
    assert np.array_equal(encode(["b", None, "z", "a"], ("a", "b")), [1.0, np.nan, -1.0, 0.0], equal_nan=True)
