"""Fit the pair-speed model to a table of measured pairs.

``python -m lucid_pipelines.simulation.fit --pairs colocate_info.csv --profiles single_data.csv``

Prints slope, knee and how well the model does, in sample and on models that it has not seen. The result is what
``FittedPairs`` ships as its defaults.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.simulation.interference import PairTable, read_measured_pairs
from lucid_pipelines.simulation.workloads import Profiles, read_profiles

KNEES = tuple(round(0.5 + 0.05 * i, 2) for i in range(15))


@dataclass(frozen=True, slots=True)
class Fit:
    """``speed = 1 − slope × max(0, u1 + u2 − knee)``.

    Attributes:
        rows: measured speeds, two for each pair.
        r2: share of the variance that is explained; ``r2_unseen_model`` with both jobs of one model left out of the
            fit in turn.
        mean_error: mean absolute error on models left out.
    """

    slope: float
    knee: float
    rows: int
    r2: float
    r2_unseen_model: float
    mean_error: float


def fit_pairs(table: PairTable, profiles: Profiles) -> Fit:
    """Least squares for the slope at each knee; the knee that does best on unseen models wins.

    Raises:
        InputError: fewer than two models have both a profile and a measured pair.
    """
    load, speed, model, partner = _rows(table, profiles)
    if len(set(model)) < 2:
        raise InputError(f"a fit needs measured pairs of at least 2 profiled models; got {sorted(set(model))}")
    best: Fit | None = None
    for knee in KNEES:
        over = np.maximum(load - knee, 0.0)
        unseen = np.empty_like(speed)
        for left_out in set(model):
            seen = (model != left_out) & (partner != left_out)
            unseen[model == left_out] = 1.0 - _slope(over[seen], speed[seen]) * over[model == left_out]
        slope = _slope(over, speed)
        fit = Fit(
            slope=round(slope, 4),
            knee=knee,
            rows=len(speed),
            r2=_r2(speed, 1.0 - slope * over),
            r2_unseen_model=_r2(speed, unseen),
            mean_error=float(np.abs(speed - unseen).mean()),
        )
        if best is None or fit.r2_unseen_model + fit.r2 > best.r2_unseen_model + best.r2:
            best = fit
    assert best is not None
    return best


def _rows(table: PairTable, profiles: Profiles) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rows: list[tuple[float, float, str, str]] = []
    for (one, other), speeds in table.items():
        if one in profiles and other in profiles:
            load = (profiles[one].gpu_util_pct + profiles[other].gpu_util_pct) / 100.0
            rows.append((load, speeds[0], one[0], other[0]))
            rows.append((load, speeds[1], other[0], one[0]))
    load, speed, model, partner = zip(*rows, strict=True) if rows else ((), (), (), ())
    return np.array(load), np.array(speed), np.array(model), np.array(partner)


def _slope(over: np.ndarray, speed: np.ndarray) -> float:
    return float(max((over * (1.0 - speed)).sum() / max((over * over).sum(), 1e-12), 0.0))


def _r2(observed: np.ndarray, predicted: np.ndarray) -> float:
    return float(1.0 - ((observed - predicted) ** 2).mean() / observed.var())


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the tables and print the fit as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=Path, required=True)
    parser.add_argument("--profiles", type=Path, required=True)
    options = parser.parse_args(arguments)
    fit = fit_pairs(read_measured_pairs(options.pairs), read_profiles(options.profiles))
    print(json.dumps(asdict(fit)))


if __name__ == "__main__":
    main()
