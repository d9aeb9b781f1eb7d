"""Bins of feature values, for many rows and all features in one go.

A binary search per value costs more than the whole rest of a prediction. Here every value is put into one of
``_CELLS`` equal cells between the feature's outermost cuts; a table says how many cuts lie in lower cells, and
the few cuts inside the cell are compared. The cell of a number never decreases with the number, so a cut in a
lower cell is smaller and one in a higher cell is larger: the result is exact, not approximate.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from lucid_pipelines.models.additive.schema import Feature, FeatureKind, Matrix

Vector = npt.NDArray[np.float64]
Codes = npt.NDArray[np.intp]

_CELLS = 1024
_MAX_COMPARISONS = 3
"""A feature whose cuts crowd more than this into one cell is searched the plain way."""


class Binner:
    """Codes of values: 0 … n for the n + 1 bins between n cuts, n + 1 for a missing value.

    A nominal feature's code is its category, then comes missing, then unknown.
    """

    __slots__ = (
        "_bases",
        "_comparisons",
        "_gridded",
        "_lower",
        "_nominal",
        "_origins",
        "_scales",
        "_searched",
        "_tops",
    )

    def __init__(self, features: Sequence[Feature], cuts: Sequence[Vector]) -> None:
        """Args:
        cuts: ascending and distinct, per feature; ignored for a nominal one.
        """
        self._nominal = [(i, len(f.categories)) for i, f in enumerate(features) if f.kind is FeatureKind.NOMINAL]
        nominal = {i for i, _ in self._nominal}
        grids: list[tuple[int, float, float, npt.NDArray[np.intp], list[Vector]]] = []
        self._searched: list[tuple[int, Vector]] = []
        for position, edges in enumerate(cuts):
            if position in nominal:
                continue
            grid = _grid(edges)
            if grid is None:
                # NaN sorts behind everything, so that one search finds the missing values too.
                self._searched.append((position, np.append(edges, np.nan)))
            else:
                grids.append((position, *grid))
        self._gridded = np.array([g[0] for g in grids], dtype=np.intp)
        self._origins = np.array([g[1] for g in grids])[:, None]
        self._scales = np.array([g[2] for g in grids])[:, None]
        self._bases = (np.arange(len(grids)) * (_CELLS + 1))[:, None]
        self._lower = np.concatenate([g[3] for g in grids]) if grids else np.zeros(0, dtype=np.intp)
        depth = max((len(g[4]) for g in grids), default=0)
        never = np.full(_CELLS + 1, np.inf)
        self._comparisons = [
            np.concatenate([g[4][level] if level < len(g[4]) else never for g in grids]) for level in range(depth)
        ]
        # The infinite filler must not count for x = +∞.
        self._tops = np.array([len(cuts[g[0]]) for g in grids], dtype=np.intp)[:, None]

    def codes(self, columns: Matrix) -> Codes:
        """Codes for values given as features × rows."""
        codes = np.empty(columns.shape, dtype=np.intp)
        if len(self._gridded):
            everything = len(self._gridded) == len(columns)
            values = columns if everything else columns[self._gridded]
            with np.errstate(over="ignore", invalid="ignore"):
                place = (values - self._origins) * self._scales
            np.clip(place, 0, _CELLS - 1, out=place)
            missing = np.isnan(place)
            place[missing] = _CELLS
            cells = place.astype(np.intp)
            cells += self._bases
            found = self._lower.take(cells)
            for level in self._comparisons:
                found += values >= level.take(cells)
            if self._comparisons:
                np.minimum(found, self._tops + missing, out=found)
            if everything:
                codes = found
            else:
                codes[self._gridded] = found
        for position, edges in self._searched:
            codes[position] = np.searchsorted(edges, columns[position], side="right")
        for position, count in self._nominal:
            codes[position] = _nominal_codes(columns[position], count)
        return codes


def _grid(cuts: Vector) -> tuple[float, float, npt.NDArray[np.intp], list[Vector]] | None:
    """Origin, scale, cuts below each cell, and the cuts inside the cells by level; ``None`` where they crowd."""
    count = len(cuts)
    if count == 0:
        lower = np.zeros(_CELLS + 1, dtype=np.intp)
        lower[_CELLS] = 1
        return 0.0, 1.0, lower, []
    origin = float(cuts[0])
    width = float(cuts[-1]) - origin
    scale = (_CELLS - 1) / width if width > 0 else 1.0
    if not np.isfinite(scale) or not np.isfinite(width):
        return None
    # The same arithmetic as for values, so that both agree on every rounding.
    cells = np.clip((cuts - origin) * scale, 0, _CELLS - 1).astype(np.intp)
    inside = np.bincount(cells, minlength=_CELLS)
    if inside.max() > _MAX_COMPARISONS:
        return None
    lower = np.zeros(_CELLS + 1, dtype=np.intp)
    lower[1:_CELLS] = np.cumsum(inside)[:-1]
    lower[_CELLS] = count + 1
    levels: list[Vector] = []
    rank = np.arange(count) - lower[cells]
    for level in range(int(inside.max())):
        table = np.full(_CELLS + 1, np.inf)
        chosen = rank == level
        table[cells[chosen]] = cuts[chosen]
        levels.append(table)
    return origin, scale, lower, levels


def _nominal_codes(column: Vector, count: int) -> Codes:
    known = (column >= 0) & (column < count)
    codes = np.where(known, column, count + 1).astype(np.intp)
    codes[np.isnan(column)] = count
    return codes
