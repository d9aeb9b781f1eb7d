"""Sia: heterogeneity-aware allocation by integer programming (Jayaram Subramanya et al., SOSP'23; PEERS.md 2.4-2.6).

Every minute one program chooses for each job at most one configuration (number of GPUs, GPU type):

    minimise  Σ A[j,c] · x[j,c] + λ · (jobs without GPUs),   A[j,c] = (speed-up of j in c)^p

with the speed-up over the job's slowest configuration, p = −0.5 and λ = 1.1, within the GPUs of each type. A change
of a running job counts with the restart factor. A rigid job's speed-up is its number of GPUs.

What differs from the published artifact: goodput comes from the job's measured curve instead of a model that is
fitted while the job runs, A is not rounded, and ties are broken by submission. The solver is HiGHS.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.domain.scaling import ScalingCurve
from lucid_pipelines.domain.view import VcView
from lucid_pipelines.policies.elastic import Claimant, ElasticPolicy, Share

if TYPE_CHECKING:
    import numpy as np

_MOST_COST = 3000.0
_TIE = 1e-6


class Sia(ElasticPolicy):
    """The optimum of Sia's program."""

    def __init__(
        self,
        name: str = "sia",
        *,
        curves: Mapping[str, ScalingCurve] | None = None,
        interval_s: float = 60.0,
        restart_s: float = 30.0,
        power: float = -0.5,
        idle_cost: float = 1.1,
        solver_limit_s: float = 10.0,
    ) -> None:
        """Args:
        power: p.
        idle_cost: λ.
        solver_limit_s: after this the best solution found so far is taken; without one all keeps as it is.

        Raises:
            InputError: a power that is not below 0.
        """
        if not power < 0:
            raise InputError(f"power must be below 0; got {power}")
        super().__init__(name, curves, interval_s, restart_s)
        self._power = power
        self._idle_cost = idle_cost
        self._solver_limit_s = solver_limit_s

    def choose(self, vc: VcView, claimants: Sequence[Claimant]) -> Mapping[str, Share]:
        import numpy as np  # this policy alone needs it, and it takes longer than starting a command

        options = [
            (row, share, cost + _TIE * row / len(claimants))
            for row, claimant in enumerate(claimants)
            for share, cost in self._costs(claimant)
        ]
        if not options:
            return {}
        groups = vc.free.layout.groups
        limits = np.array([*(group.gpus for group in groups), *([1.0] * len(claimants))])
        matrix = np.zeros((len(limits), len(options)))
        type_row = {group.gpu_type: i for i, group in enumerate(groups)}
        for column, (row, share, _) in enumerate(options):
            matrix[type_row[share.gpu_type], column] = share.gpus
            matrix[len(groups) + row, column] = 1.0
        picked = self._solve(np.array([cost - self._idle_cost for _, _, cost in options]), matrix, limits)
        if picked is None:
            self.fallbacks["program_not_solved"] += 1
            return {claimant.job.job_id: claimant.now for claimant in claimants if claimant.now is not None}
        return {claimants[options[i][0]].job.job_id: options[i][1] for i in np.flatnonzero(picked > 0.5)}

    def _costs(self, claimant: Claimant) -> list[tuple[Share, float]]:
        now = claimant.now
        shares = {(share.gpu_type, share.gpus): share for share in claimant.shares}
        if now is not None:
            shares[(now.gpu_type, now.gpus)] = now
        slowest = max(min(share.speed for share in shares.values()), 1e-9)
        found: list[tuple[Share, float]] = []
        for share in shares.values():
            speed_up = claimant.worth(share) / slowest
            if claimant.curve is None:
                speed_up *= share.gpus
            cost = min(max(speed_up, 1e-9) ** self._power, _MOST_COST)
            found.append((share, cost))
        return found

    def _solve(self, costs: np.ndarray, matrix: np.ndarray, limits: np.ndarray) -> np.ndarray | None:
        import numpy as np
        from scipy.optimize import Bounds, LinearConstraint, milp

        with _silent_stdout():
            result = milp(
                costs,
                constraints=LinearConstraint(matrix, ub=limits),  # pyright: ignore[reportArgumentType]  (an array may be given)
                integrality=np.ones(len(costs)),
                bounds=Bounds(0, 1),
                # Presolving a program of this size costs more than it saves.
                options={"time_limit": self._solver_limit_s, "mip_rel_gap": 1e-4, "presolve": False},
            )
        return result.x


@contextmanager
def _silent_stdout() -> Iterator[None]:
    """HiGHS writes debugging lines to the process's standard output, which may be somebody's JSON."""
    sys.stdout.flush()
    kept = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)
