"""The fit recovers what a table was made of."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.simulation.fit import fit_pairs, main
from lucid_pipelines.simulation.interference import FittedPairs
from lucid_pipelines.simulation.workloads import ProfiledWorkload, Workload


def workload(name: str) -> Workload:
    return (name, "d", 32, False)


def made_table(
    noise: float,
) -> tuple[dict[tuple[Workload, Workload], tuple[float, float]], dict[Workload, ProfiledWorkload]]:
    rng = np.random.default_rng(4)
    utils = {workload(f"m{i}"): 10.0 * (i + 1) for i in range(10)}
    table = {}
    for one, u1 in utils.items():
        for other, u2 in utils.items():
            speed = 1.0 - 0.4 * max((u1 + u2) / 100 - 0.8, 0.0)
            table[one, other] = (speed + noise * rng.normal(), speed + noise * rng.normal())
    return table, {key: ProfiledWorkload(util, 0.0, 1) for key, util in utils.items()}


def test_exact_data_give_exact_coefficients() -> None:
    fit = fit_pairs(*made_table(0.0))
    assert (fit.slope, fit.knee) == (pytest.approx(0.4), 0.8)
    assert (fit.r2, fit.r2_unseen_model) == (pytest.approx(1.0), pytest.approx(1.0))


def test_noise_shows_in_the_error_and_not_in_the_coefficients() -> None:
    fit = fit_pairs(*made_table(0.05))
    assert fit.slope == pytest.approx(0.4, abs=0.06)
    assert fit.knee == pytest.approx(0.8, abs=0.1)
    assert 0.02 < fit.mean_error < 0.08
    assert fit.r2_unseen_model < 1.0


def test_one_model_is_not_enough() -> None:
    profiles = {workload("m"): ProfiledWorkload(50.0, 0.0, 1)}
    with pytest.raises(InputError, match="at least 2"):
        fit_pairs({(workload("m"), workload("m")): (0.9, 0.9)}, profiles)
    with pytest.raises(InputError, match="at least 2"):
        fit_pairs({}, profiles)


def test_the_shipped_coefficients_are_what_the_command_says(
    shared_data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tables = shared_data / "lucid"
    main(["--pairs", str(tables / "colocate_info.csv"), "--profiles", str(tables / "single_data.csv")])
    fit = json.loads(capsys.readouterr().out)
    shipped = FittedPairs()
    assert (fit["slope"], fit["knee"]) == (shipped.slope, shipped.knee)
    assert fit["r2_unseen_model"] > 0.5
