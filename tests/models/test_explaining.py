"""Explanations: parts that sum to the whole, and plots that are small, valid and harmless."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import numpy as np
import pytest

from lucid_pipelines.models.additive import AdditiveModel, Feature, FeatureKind
from lucid_pipelines.models.additive.fitting import FitSettings, fit_additive
from lucid_pipelines.models.explaining import explain_globally, explain_locally, plots
from lucid_pipelines.models.packing import default_packing_model
from tests.support_models.worlds import QUICK

HOSTILE = '<script>alert("x")</script> $\\frac{1}{0}$ \x1b[31m & "quoted"'
FEATURES = (
    Feature("size", unit="MiB"),
    Feature("who", FeatureKind.NOMINAL, categories=("ada", HOSTILE)),
    Feature("nothing"),
    Feature("history"),
)


@pytest.fixture(scope="module")
def model() -> AdditiveModel:
    source = np.random.default_rng(0)
    matrix = np.column_stack(
        [source.exponential(100, 600), source.integers(0, 2, 600), np.full(600, np.nan), source.normal(size=600)]
    )
    target = np.log1p(matrix[:, 0]) + matrix[:, 1] + matrix[:, 3]
    settings = FitSettings(**{**QUICK.to_json(), "interactions": (("size", "who"),)})
    return fit_additive(matrix, target, FEATURES, settings, offset="history")


@pytest.mark.parametrize(
    "row", [[50.0, 1.0, 7.0, 0.3], [float("nan")] * 4, [1e300, -1.0, float("inf"), -2.0], [0.0, 0.0, 0.0, 0.0]]
)
def test_contributions_sum_to_the_prediction(model: AdditiveModel, row: list[float]) -> None:
    found = explain_locally(model, row)
    assert found.intercept + sum(c.contribution for c in found.contributions) == pytest.approx(found.prediction)
    assert found.prediction == pytest.approx(float(model.predict([row])[0]))
    sizes = [abs(c.contribution) for c in found.contributions]
    assert sizes == sorted(sizes, reverse=True)
    json.dumps(found.to_json())


def test_values_are_told_in_words(model: AdditiveModel) -> None:
    told = {c.term: c.value for c in explain_locally(model, [50.0, -1.0, float("nan"), 0.3]).contributions}
    assert told["size"] == "50 MiB"
    assert told["who"] == "unknown"
    assert told["nothing"] == "missing"
    assert told["size × who"] == "50 MiB × unknown"
    assert told["history (offset)"] == "0.3"


def test_a_global_explanation_holds_every_term(model: AdditiveModel) -> None:
    found = explain_globally(model)
    assert found.importance[0][0] in ("size", "who")
    assert {s.feature for s in found.shapes} == {"size", "who", "nothing", "history"}
    assert [i.features for i in found.interactions] == [("size", "who")]
    for shape in found.shapes:
        assert len(shape.labels) == len(shape.scores) == len(shape.errors) == len(shape.weights)
        assert min(shape.errors) >= 0
    nominal = next(s for s in found.shapes if s.feature == "who")
    assert nominal.labels == ("ada", HOSTILE, "missing", "unknown")
    json.dumps(found.to_json(), allow_nan=False)


def test_plots_are_valid_small_and_repeatable(model: AdditiveModel) -> None:
    whole = explain_globally(model)
    packing = default_packing_model()
    drawn = {
        "importance": lambda: plots.importance_svg(whole, HOSTILE),
        "shapes": lambda: plots.shape_svg(whole.shapes[0]),
        "nominal": lambda: plots.shape_svg(next(s for s in whole.shapes if s.feature == "who")),
        "unused": lambda: plots.shape_svg(next(s for s in whole.shapes if s.feature == "nothing")),
        "pair": lambda: plots.interaction_svg(whole.interactions[0]),
        "local": lambda: plots.local_svg(explain_locally(model, [50.0, 1.0, 7.0, 0.3]), HOSTILE),
        "tree": lambda: plots.tree_svg(packing.tree, packing.thresholds),
    }
    for name, draw in drawn.items():
        text = draw()
        root = ElementTree.fromstring(text)
        assert root.tag.endswith("svg"), name
        assert not [e for e in root.iter() if e.tag.endswith("script")], name
        assert len(text) < 40_000, name
        assert name != "pair" or draw() == text, name
    tree = plots.tree_svg(packing.tree, packing.thresholds)
    assert "Jumbo" in tree and "gpu_util_pct" in tree
