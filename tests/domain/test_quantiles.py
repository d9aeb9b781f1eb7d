"""Quantiles beside numpy's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucid_pipelines.domain.quantiles import quantile

VALUES = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30)


@given(VALUES, st.floats(0.0, 1.0))
def test_it_is_numpys(values: list[float], share: float) -> None:
    assert quantile(sorted(values), share) == pytest.approx(float(np.quantile(values, share)), abs=1e-6)
