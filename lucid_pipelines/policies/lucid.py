"""Lucid's resource orchestrator: shortest predicted service first (Lucid, section 9 of the digest).

priority(J) = GPUs(J) × predicted duration(J), ascending; the job with the least predicted GPU-time goes first.
"""

from __future__ import annotations

from lucid_pipelines.policies.base import Estimator
from lucid_pipelines.policies.qssf import Qssf
from lucid_pipelines.policies.queue_policy import Bypass


class Lucid(Qssf):
    """Order by predicted GPU-time."""

    def __init__(
        self,
        name: str = "lucid",
        *,
        estimator: Estimator | None = None,
        fallback_duration_s: float = 3600.0,
        bypass: Bypass = Bypass(),
    ) -> None:
        super().__init__(name, estimator=estimator, fallback_duration_s=fallback_duration_s, bypass=bypass)
