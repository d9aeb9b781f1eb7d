"""How fast two jobs run on the same GPUs: measured where somebody measured it, fitted from both profiles elsewhere.

There is no "no interference": what is unknown of a profile is taken for a busy GPU, and counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.domain.trace import TraceJob
from lucid_pipelines.simulation.options import PairSpeeds
from lucid_pipelines.simulation.workloads import Profiles, Workload, nearest, read_rows, workload_of

PairTable = Mapping[tuple[Workload, Workload], tuple[float, float]]
"""Speed of the first and of the second, relative to running alone."""


@dataclass(slots=True)
class FittedPairs:
    """Pair speed from GPU utilisation: ``1 − slope × max(0, u1 + u2 − knee)``, equal for both, at least ``floor``.

    Utilisations are fractions. The coefficients were fitted by ``python -m lucid_pipelines.simulation.fit`` to
    676 measured pairs of 50 configurations (RTX 3090, the Lucid authors' table): R² 0.548, leaving out one
    model at a time 0.536, mean error 0.067. Neither memory utilisation nor a gradient-boosted model did better
    on models left out.

    Attributes:
        unknown_util_frac: taken for a job whose utilisation is unknown; each use is counted.
    """

    slope: float = 0.3895
    knee: float = 0.95
    floor: float = 0.4
    unknown_util_frac: float = 1.0
    fallbacks: Counter[str] = field(default_factory=Counter)

    def speeds(self, first: TraceJob, second: TraceJob) -> tuple[float, float]:
        speed = self.speed_of(self.util_frac(first), self.util_frac(second))
        return speed, speed

    def speed_of(self, first_util_frac: float, second_util_frac: float) -> float:
        over = max(first_util_frac + second_util_frac - self.knee, 0.0)
        return max(1.0 - self.slope * over, self.floor)

    def util_frac(self, job: TraceJob) -> float:
        if job.gpu_util_pct is None:
            self.fallbacks["unknown_gpu_util"] += 1
            return self.unknown_util_frac
        return job.gpu_util_pct / 100.0


@dataclass(slots=True)
class MeasuredPairs:
    """Speeds from a table of measured pairs.

    Where only one of the two is in the table, the fitted speed is corrected by how far the model was off for that
    one beside the ``neighbours`` most like the other. (On the authors' table, leaving out one model at a time:
    R² 0.59 against 0.49 for the fitted model alone.) Where none is, the fitted model answers. Both are counted.
    """

    table: PairTable
    profiles: Profiles
    fitted: FittedPairs = field(default_factory=FittedPairs)
    neighbours: int = 10
    fallbacks: Counter[str] = field(default_factory=Counter)
    _corrections: dict[tuple[Workload, float, float | None], tuple[float, float]] = field(default_factory=dict)

    def speeds(self, first: TraceJob, second: TraceJob) -> tuple[float, float]:
        one, other = workload_of(first), workload_of(second)
        measured = self._measured(one, other) if one is not None and other is not None else None
        if measured is not None:
            return measured
        self.fallbacks["pair_not_measured"] += 1
        speed = self.fitted.speeds(first, second)[0]
        if one is not None and one in self.profiles:
            own, beside = self._correction(one, second)
            return self._bounded(speed + own), self._bounded(speed + beside)
        if other is not None and other in self.profiles:
            own, beside = self._correction(other, first)
            return self._bounded(speed + beside), self._bounded(speed + own)
        return speed, speed

    def _measured(self, one: Workload, other: Workload) -> tuple[float, float] | None:
        found = self.table.get((one, other))
        if found is not None:
            return found
        turned = self.table.get((other, one))
        return None if turned is None else (turned[1], turned[0])

    def _correction(self, known: Workload, unknown: TraceJob) -> tuple[float, float]:
        """Mean error of the fitted model for ``known`` and for its partners, over partners like ``unknown``."""
        if unknown.gpu_util_pct is None:
            return 0.0, 0.0
        key = (known, unknown.gpu_util_pct, unknown.memory_util_pct)
        if key not in self._corrections:
            self._corrections[key] = self._find_correction(known, unknown.gpu_util_pct, unknown.memory_util_pct)
        return self._corrections[key]

    def _find_correction(self, known: Workload, util_pct: float, memory_pct: float | None) -> tuple[float, float]:
        own: list[float] = []
        beside: list[float] = []
        for candidate in nearest(self.profiles, util_pct, memory_pct):
            measured = self._measured(known, candidate)
            if measured is None:
                continue
            utils = self.profiles[known].gpu_util_pct / 100, self.profiles[candidate].gpu_util_pct / 100
            fitted = self.fitted.speed_of(*utils)
            own.append(measured[0] - fitted)
            beside.append(measured[1] - fitted)
            if len(own) == self.neighbours:
                break
        return (sum(own) / len(own), sum(beside) / len(beside)) if own else (0.0, 0.0)

    def _bounded(self, speed: float) -> float:
        return max(speed, self.fitted.floor)


@dataclass(slots=True)
class UnaffectedModels:
    """Pairs with certain models run at full speed: a fault of the published artifact (docs/lucid-vs-artifact.md)."""

    models: Collection[str]
    otherwise: PairSpeeds

    def speeds(self, first: TraceJob, second: TraceJob) -> tuple[float, float]:
        if first.model in self.models or second.model in self.models:
            return 1.0, 1.0
        return self.otherwise.speeds(first, second)


_PAIR_COLUMNS = tuple(f"{name}{i}" for i in (1, 2) for name in ("model", "dataset", "batchsize", "amp", "speed"))


def read_measured_pairs(path: Path) -> dict[tuple[Workload, Workload], tuple[float, float]]:
    """Read a table with ``model1,dataset1,batchsize1,amp1,speed1,model2,…,speed2``, speeds relative to alone.

    Raises:
        InputError: no such file, a column is missing, or a speed is no number above 0.
    """
    table: dict[tuple[Workload, Workload], tuple[float, float]] = {}
    for number, row in enumerate(read_rows(path, _PAIR_COLUMNS), start=2):
        try:
            speeds = (float(row["speed1"]), float(row["speed2"]))
            pair = (_workload(row, "1"), _workload(row, "2"))
        except ValueError as error:
            raise InputError(f"{path}, line {number}: a number is wrong: {error}") from error
        if not min(speeds) > 0:
            raise InputError(f"{path}, line {number}: speeds must be above 0; got {speeds}")
        table.setdefault(pair, speeds)
    return table


def _workload(row: Mapping[str, str], suffix: str) -> Workload:
    return (
        row[f"model{suffix}"],
        row[f"dataset{suffix}"],
        int(row[f"batchsize{suffix}"]),
        bool(int(row[f"amp{suffix}"])),
    )
