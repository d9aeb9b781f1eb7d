"""How a job's speed depends on what it runs on, for policies that choose its number of GPUs (Pollux, Sia)."""

from __future__ import annotations

from typing import Protocol


class ScalingCurve(Protocol):
    """One job's speeds.

    Attributes:
        max_gpus: most GPUs that it can use.
        rescale_s: how long it makes no progress after each start and each change of its GPUs.
    """

    max_gpus: int
    rescale_s: float

    def speed(self, gpus: int, nodes: int, gpu_type: str | None) -> float:
        """Speed relative to the run that its ``true_remaining_s`` counts; 0 when it cannot run so."""
        ...
