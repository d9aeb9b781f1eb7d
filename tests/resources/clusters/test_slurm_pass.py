"""A scheduling pass in front of a live Slurm of sixteen nodes: how long it takes and how many commands it costs."""

from __future__ import annotations

import pytest

from benchmarks.slurm_pass import measure_live

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.slurm]


def test_a_pass_over_sixteen_live_nodes_is_short_and_costs_two_commands(capsys: pytest.CaptureFixture[str]) -> None:
    claims = measure_live(16, 32, 5)
    with capsys.disabled():
        print("\n" + "\n".join(f"{claim.name}: {claim.value:.3g}" for claim in claims))
    assert all(claim.holds for claim in claims)
