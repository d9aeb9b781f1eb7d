"""How sure the failure handler may be: fit on some families, test on others, and write the table that is shipped.

Used by ``python -m benchmarks.failures calibrate``. Each failure is answered twice: with its own family taken out of
the rules and of the training lines, as if no rule had been written for it, and with everything.
"""

from __future__ import annotations

import itertools
import statistics
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lucid_pipelines.failures.calibration import Calibration, Curve, Ground

FOLDS = 5
BIN_EDGES = (0.0, 0.4, 0.6, 0.7, 0.85, 0.95, 1.01)
FOLDINGS = 6
_EDGES: Mapping[Ground, tuple[float, ...]] = {
    **dict.fromkeys(Ground, ()),
    Ground.SPECIFIC: (0.5,),
    Ground.GENERAL: (0.5,),
    Ground.SYMPTOM: (0.5,),
    Ground.OWN_CODE: (0.5,),
    Ground.PACKAGE_CODE: (0.8,),
    Ground.EXCEPTION_WORDS: (0.7, 0.85, 0.95),
    Ground.WORDS: (0.7,),
}
"""Where the bins of each ground part; few, because a ground has few failures."""
_WEIGHT_OF_ALL = 10.0
_WEIGHT_OF_GROUND = 10.0
"""How many families the mean of all, and that of the ground, count for beside those of a bin."""
UNSEEN_FRAC = 0.75
"""The weight of answers without the own family among both: at 0.75 an answer with all rules counts a third of one.

Chosen, not measured: how many failures of a site are of kinds without a rule nobody knows. At 1 the table suits those
and says far too little of the others; at 0.5 it says too much of the unknown ones again."""
_MOST = 0.97
"""No answer is surer, however small the count that speaks for it."""
_GUESSED: Mapping[Ground, Callable[[float], float]] = {
    Ground.HARDWARE: lambda _: 0.96,
    Ground.SPECIFIC: lambda _: 0.92,
    Ground.GENERAL: lambda _: 0.92,
    Ground.SYMPTOM: lambda _: 0.65,
    Ground.PASSING: lambda _: 0.92,
    Ground.ECHO: lambda _: 0.45,
    Ground.SHAPE: lambda _: 0.80,
    Ground.OWN_CODE: lambda _: 0.85,
    Ground.PACKAGE_CODE: lambda share: max(share, 0.85),
    Ground.EXCEPTION_WORDS: lambda share: min(share, 0.70),
    Ground.WORDS: lambda share: min(share, 0.70),
    Ground.BLAMELESS: lambda _: 0.90,
}
"""What was said before anything was measured, for comparison."""


@dataclass(frozen=True, slots=True)
class Row:
    """One answer.

    Attributes:
        family: the family that was taken away, else the failure's name. Answers of one family are right or wrong
            together: they count as one, and are never in training and test at once.
        most: the confidence that the answer itself allows, whatever was measured.
        is_right: category and component are those of the label.
        is_known: answered with all rules.
    """

    family: str
    ground: Ground
    support_frac: float | None
    most: float
    is_right: bool
    is_known: bool = False


Said = Callable[[Row], float]


def guessed(row: Row) -> float:
    """The confidence as it was before it was measured."""
    return min(row.most, _GUESSED[row.ground](row.support_frac if row.support_frac is not None else 0.0))


def certain() -> Calibration:
    """A table that is always sure: answers keep the confidence that they allow themselves."""
    return Calibration("", "", "", {ground: Curve((), (1.0,), 1.0, (0.0,), (0.0,)) for ground in Ground})


def fit(rows: Sequence[Row], *, version: str, date: str, source: str) -> Calibration:
    """Count, shrink small counts to the mean of their ground and of all, and let no bin fall below a lower one."""
    weights = _weights(rows)
    of_all = _share(rows, weights, 0.5, 0.0)
    curves: dict[Ground, Curve] = {}
    for ground in Ground:
        mine = [row for row in rows if row.ground is ground]
        of_ground = _share(mine, weights, of_all, _WEIGHT_OF_ALL)
        edges = _EDGES[ground]
        counts, right, means = [], [], []
        for low, high in itertools.pairwise((-1.0, *edges, 2.0)):
            inside = [row for row in mine if row.support_frac is not None and low <= row.support_frac < high]
            if not edges:
                inside = mine
            counts.append(sum(weights[row.family, row.ground, row.is_known] for row in inside))
            right.append(sum(weights[row.family, row.ground, row.is_known] for row in inside if row.is_right))
            means.append((right[-1] + _WEIGHT_OF_GROUND * of_ground) / (counts[-1] + _WEIGHT_OF_GROUND))
        levels = _not_falling(means, [n + _WEIGHT_OF_GROUND for n in counts]) if edges else [of_ground]
        curves[ground] = Curve(
            edges,
            tuple(round(min(level, _MOST), 3) for level in levels),
            round(min(of_ground, _MOST), 3),
            tuple(round(n, 1) for n in counts),
            tuple(round(n, 1) for n in right),
        )
    return Calibration(version, date, source, curves)


def applied(calibration: Calibration) -> Said:
    """The confidence that a table gives to an answer."""
    return lambda row: min(row.most, calibration.confidence(row.ground, row.support_frac))


def cross_fitted(rows: Sequence[Row], folding: int = 0) -> Said:
    """The confidence of each answer by a table that saw no answer of its family.

    Args:
        folding: which of the ways to part the families.
    """
    tables = [
        applied(fit([row for row in rows if _fold(row, folding) != fold], version="", date="", source="cross-fitted"))
        for fold in range(FOLDS)
    ]
    return lambda row: tables[_fold(row, folding)](row)


def cross_fitted_reliability(rows: Sequence[Row], everything: Sequence[Row]) -> dict[str, object]:
    """The reliability over several foldings: all their answers together in bins, and the spread of the error."""
    errors: list[float] = []
    pairs: list[tuple[Row, float]] = []
    for folding in range(FOLDINGS):
        said = cross_fitted(everything, folding)
        errors.append(_error([(said(row), row.is_right) for row in rows]))
        pairs += [(row, said(row)) for row in rows]
    found = _reliability([(x, row.is_right) for row, x in pairs])
    spread = {"ece": round(statistics.fmean(errors), 3), "ece_sd": round(statistics.pstdev(errors), 3)}
    return {**found, "foldings": FOLDINGS, **spread}


def reliability(rows: Sequence[Row], said: Said) -> dict[str, object]:
    """What was said and what was right, by bins of what was said, with the expected calibration error."""
    return _reliability([(said(row), row.is_right) for row in rows])


def _reliability(pairs: Sequence[tuple[float, bool]]) -> dict[str, object]:
    bins: list[dict[str, object]] = []
    for low, high, inside in _bins(pairs):
        mean, right = statistics.fmean(x for x, _ in inside), sum(ok for _, ok in inside) / len(inside)
        found = {"answers": len(inside), "said": round(mean, 3), "right": round(right, 3)}
        bins.append({"from": low, "to": min(high, 1.0), **found})
    brier = statistics.fmean((x - ok) ** 2 for x, ok in pairs) if pairs else 0.0
    return {"answers": len(pairs), "ece": round(_error(pairs), 3), "brier": round(brier, 3), "bins": bins}


def _bins(pairs: Sequence[tuple[float, bool]]) -> list[tuple[float, float, list[tuple[float, bool]]]]:
    edges = itertools.pairwise(BIN_EDGES)
    parted = [(low, high, [(x, ok) for x, ok in pairs if low <= x < high]) for low, high in edges]
    return [(low, high, inside) for low, high, inside in parted if inside]


def _error(pairs: Sequence[tuple[float, bool]]) -> float:
    """Expected calibration error: how far said and right are apart, in the mean over all answers."""
    return sum(abs(sum(x - ok for x, ok in inside)) for _, _, inside in _bins(pairs)) / max(1, len(pairs))


def by_ground(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """How many answers of each ground there are, and how many are right."""
    found: defaultdict[str, list[bool]] = defaultdict(list)
    for row in rows:
        found[row.ground.value].append(row.is_right)
    return {name: {"answers": len(x), "right": round(sum(x) / len(x), 3)} for name, x in sorted(found.items())}


def _fold(row: Row, folding: int) -> int:
    return zlib.crc32(f"{folding} {row.family}".encode()) % FOLDS


def _weights(rows: Sequence[Row]) -> Mapping[tuple[str, Ground, bool], float]:
    """One for all answers of a family on one ground; less for those that were given with all rules."""
    counts = Counter((row.family, row.ground, row.is_known) for row in rows)
    return {key: ((1 - UNSEEN_FRAC) / UNSEEN_FRAC if key[2] else 1.0) / n for key, n in counts.items()}


def _share(
    rows: Sequence[Row], weights: Mapping[tuple[str, Ground, bool], float], prior: float, weight: float
) -> float:
    count = sum(weights[row.family, row.ground, row.is_known] for row in rows)
    right = sum(weights[row.family, row.ground, row.is_known] for row in rows if row.is_right)
    return (right + weight * prior) / (count + weight) if count + weight else prior


def _not_falling(means: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Pool neighbours until no mean is below the one before it."""
    blocks: list[tuple[float, float, int]] = []
    for mean, weight in zip(means, weights, strict=True):
        blocks.append((mean, weight, 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (a, n, i), (b, m, j) = blocks[-2:]
            blocks[-2:] = [((a * n + b * m) / (n + m), n + m, i + j)]
    return [mean for mean, _, size in blocks for _ in range(size)]
