"""Pool-adjacent-violators on a shape function."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.models.additive import AdditiveModel, Feature, FeatureKind, Term
from lucid_pipelines.models.additive.monotone import Direction, make_monotone


def model_of(scores: list[float], weights: list[float]) -> AdditiveModel:
    bins = len(scores) - 1
    cuts = np.arange(1, bins, dtype=float)
    term = Term((0,), (cuts,), np.array(scores), np.zeros(bins + 1), np.array(weights))
    return AdditiveModel((Feature("gpus"), Feature("user", FeatureKind.NOMINAL, categories=("a",))), (term,), 1.0)


def pooled(values: list[float], weights: list[float]) -> list[float]:
    """Textbook pool-adjacent-violators, increasing."""
    blocks: list[list[float]] = []
    for value, weight in zip(values, weights, strict=True):
        blocks.append([value, weight, 1])
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            v, w, n = blocks.pop()
            blocks[-1] = [
                (blocks[-1][0] * blocks[-1][1] + v * w) / (blocks[-1][1] + w),
                blocks[-1][1] + w,
                blocks[-1][2] + n,
            ]
    return [v for v, _, n in blocks for _ in range(int(n))]


@given(st.lists(st.tuples(st.floats(-5, 5), st.floats(0.1, 100)), min_size=2, max_size=30))
@settings(max_examples=100)
def test_it_is_the_weighted_isotonic_fit(items: list[tuple[float, float]]) -> None:
    scores, weights = [s for s, _ in items], [w for _, w in items]
    model = model_of([*scores, 9.0], [*weights, 1.0])
    rising, change = make_monotone(model, "gpus", Direction.INCREASING)
    found = rising.terms[0].scores
    assert np.allclose(found[:-1], pooled(scores, weights), atol=1e-8)
    assert found[-1] == 9.0  # a missing value has no place in the order
    assert (np.diff(found[:-1]) >= -1e-12).all()
    assert np.average(found[:-1], weights=weights) == pytest.approx(np.average(scores, weights=weights), abs=1e-8)
    assert change.bins_changed == int((np.abs(found[:-1] - scores) > 1e-12).sum())
    again, nothing = make_monotone(rising, "gpus", Direction.INCREASING)
    assert np.allclose(again.terms[0].scores, found)
    assert nothing.largest_change < 1e-9


def test_decreasing_mirrors_increasing() -> None:
    model = model_of([1.0, 3.0, 2.0, 0.0], [1.0, 1.0, 1.0, 1.0])
    falling, _ = make_monotone(model, "gpus", Direction.DECREASING)
    assert np.allclose(falling.terms[0].scores, [2.0, 2.0, 2.0, 0.0])


def test_what_cannot_be_monotone_is_refused() -> None:
    model = model_of([1.0, 0.0, 0.0], [1.0, 1.0, 1.0])
    with pytest.raises(InputError, match="nominal"):
        make_monotone(model, "user", Direction.INCREASING)
    pair = Term((0, 1), (np.array([1.0]), np.array([])), np.zeros((3, 3)), np.zeros((3, 3)), np.ones((3, 3)))
    crossed = AdditiveModel(model.features, (*model.terms, pair), 0.0)
    with pytest.raises(InputError, match="without the interactions"):
        make_monotone(crossed, "gpus", Direction.INCREASING)
    with pytest.raises(InputError, match="offset"):
        make_monotone(AdditiveModel(model.features, model.terms, 0.0, offset=0), "gpus", Direction.INCREASING)
