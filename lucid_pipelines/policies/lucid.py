"""Lucid's resource orchestrator: shortest predicted service first (Lucid, section 9 of the digest).

priority(J) = GPUs(J) × predicted duration(J), ascending; the job with the least predicted GPU-time goes first.
"""

from __future__ import annotations

from lucid_pipelines.domain.decision import Reason
from lucid_pipelines.domain.view import QueuedJob
from lucid_pipelines.policies.base import Estimator
from lucid_pipelines.policies.estimates import Estimates
from lucid_pipelines.policies.ordered_queue import Key
from lucid_pipelines.policies.queue_policy import QueuePolicy


class Lucid(QueuePolicy):
    """Order by predicted GPU-time."""

    def __init__(
        self,
        name: str = "lucid",
        *,
        estimator: Estimator | None = None,
        fallback_duration_s: float = 1000.0,
        backfill: bool = False,
    ) -> None:
        """Args:
        estimator: asked for jobs that carry no estimate.
        fallback_duration_s: what a job without any estimate is taken for; each use is counted.
        """
        super().__init__(name, backfill=backfill)
        self._estimates = Estimates(estimator, fallback_duration_s, self.fallbacks)

    def key(self, job: QueuedJob) -> Key:
        duration_s, _ = self._estimates.duration_s(job)
        return (duration_s * job.gpus,)

    def key_reason(self, job: QueuedJob, key: Key) -> Reason:
        basis = job.estimate.basis if job.estimate is not None else "estimator_or_fallback"
        facts = {
            "priority_gpu_s": key[0],
            "gpus": job.gpus,
            "predicted_duration_s": key[0] / job.gpus,
            "basis": basis,
        }
        return Reason("predicted_gpu_time", facts)
