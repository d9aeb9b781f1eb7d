"""Typed doors to pandas: its own annotations leave open whether a column or a table comes back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pandas as pd

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Objects = npt.NDArray[np.object_]


def column(frame: pd.DataFrame, name: str) -> pd.Series:
    """One column."""
    return cast("pd.Series", frame[name])


def floats(frame: pd.DataFrame, name: str) -> Floats:
    """One column as floats, NaN where missing."""
    return column(frame, name).to_numpy(np.float64, na_value=np.nan)


def rows(frame: pd.DataFrame, mask: Any) -> pd.DataFrame:
    """The rows where the mask is true."""
    return cast("pd.DataFrame", frame[mask])


def columns(frame: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Several columns in this order."""
    return cast("pd.DataFrame", frame[list(names)])


def by_group(values: pd.Series, keys: Any, how: str) -> pd.Series:
    """Aggregate ``values`` by equal ``keys``; categories without rows do not appear."""
    return cast("pd.Series", values.groupby(keys, observed=True).agg(how))


def parsed_numbers(values: Sequence[object] | npt.NDArray[Any] | pd.Series) -> Floats:
    """Texts as floats, NaN for what is not a number; a fresh array."""
    series = pd.Series(list(values), dtype=object)
    numbers = cast("pd.Series", pd.to_numeric(series, errors="coerce"))
    return numbers.to_numpy(np.float64, copy=True, na_value=np.nan)


def is_none(values: Objects) -> Bools:
    """Where an object array holds ``None``."""
    return np.equal(values, cast("Any", None)).astype(bool)
