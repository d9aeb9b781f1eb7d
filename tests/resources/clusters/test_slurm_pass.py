"""A scheduling pass in front of Slurm, recorded and live: how long it takes and how many commands it costs."""

from __future__ import annotations

import pytest

from benchmarks.slurm_pass import measure_live, measure_recorded


def test_a_pass_over_a_thousand_jobs_on_128_nodes_costs_two_commands() -> None:
    asked = [claim for claim in measure_recorded(1000, 128, 2) if "commands" in claim.name]
    assert [claim.value for claim in asked] == [2.0, 2.0]


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.slurm
def test_a_pass_over_sixteen_live_nodes_is_short_and_costs_two_commands(capsys: pytest.CaptureFixture[str]) -> None:
    claims = measure_live(16, 32, 5)
    with capsys.disabled():
        print("\n" + "\n".join(f"{claim.name}: {claim.value:.3g}" for claim in claims))
    assert all(claim.holds for claim in claims)
