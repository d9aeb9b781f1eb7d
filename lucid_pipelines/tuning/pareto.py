"""Points that no other point beats in everything: mean JCT, tail wait of large jobs, profiling GPU-hours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from lucid_pipelines.tuning.space import Values
from lucid_pipelines.tuning.sweep import Sweep, Trial, mean_ratio


@dataclass(frozen=True, slots=True)
class ParetoPoint:
    """One point of the front.

    Attributes:
        jct_ratio, tail_ratio: to the default point, geometric mean over the scenarios; ``tail_ratio`` is ``None``
            where no job is large.
        profiling_gpu_h: mean over the scenarios.
    """

    number: int
    values: Values
    jct_ratio: float
    tail_ratio: float | None
    profiling_gpu_h: float

    @property
    def costs(self) -> tuple[float, float, float]:
        return (self.jct_ratio, 1.0 if self.tail_ratio is None else self.tail_ratio, self.profiling_gpu_h)

    def to_json(self) -> dict[str, object]:
        return {
            "trial": self.number,
            "values": dict(self.values),
            "jct_ratio": self.jct_ratio,
            "tail_ratio": self.tail_ratio,
            "profiling_gpu_h": self.profiling_gpu_h,
        }


def pareto_front(sweep: Sweep) -> list[ParetoPoint]:
    """The points that met every scenario and that none of the others dominates, by mean JCT."""
    points = [point for trial in sweep.complete if (point := _point(trial, sweep.default)) is not None]
    front = [p for p in points if not any(_dominates(other.costs, p.costs) for other in points)]
    return sorted(front, key=lambda p: p.costs)


def _point(trial: Trial, default: Trial) -> ParetoPoint | None:
    jct = mean_ratio(trial, default, "avg_jct_s")
    hours = [hours for m in trial.measures.values() if (hours := m.get("profiling_gpu_h")) is not None]
    if jct is None or not hours:
        return None
    return ParetoPoint(trial.number, trial.values, jct, mean_ratio(trial, default, "tail_large_s"), fmean(hours))


def _dominates(first: Sequence[float], second: Sequence[float]) -> bool:
    return all(a <= b for a, b in zip(first, second, strict=True)) and tuple(first) != tuple(second)
