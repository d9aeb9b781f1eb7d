"""Quasi-shortest service first: predicted GPU-time, never preempting (Helios, SC'21, section 4.2; QSSF).

priority(J) = GPUs(J) × predicted duration(J), ascending, smaller demands first on ties.
"""

from __future__ import annotations

from lucid_pipelines.domain.decision import Reason
from lucid_pipelines.domain.view import QueuedJob
from lucid_pipelines.policies.base import Estimator
from lucid_pipelines.policies.estimates import Estimates
from lucid_pipelines.policies.ordered_queue import Key
from lucid_pipelines.policies.queue_policy import Bypass, QueuePolicy


class Qssf(QueuePolicy):
    """Order by predicted GPU-time."""

    predicts = True
    needs_news = True

    def __init__(
        self,
        name: str = "qssf",
        *,
        estimator: Estimator | None = None,
        fallback_duration_s: float = 3600.0,
        bypass: Bypass = Bypass(),
    ) -> None:
        """Args:
        estimator: asked for jobs that carry no estimate.
        fallback_duration_s: what a job without any estimate is taken for; each use is counted.
        """
        super().__init__(name, bypass)
        self.estimates = Estimates(estimator, fallback_duration_s, self.fallbacks)

    def key(self, job: QueuedJob) -> Key:
        duration_s, _ = self.estimates.duration_s(job)
        return (duration_s * job.gpus, job.gpus)

    def key_reason(self, job: QueuedJob, key: Key) -> Reason:
        facts = {
            "priority_gpu_s": key[0],
            "gpus": job.gpus,
            "predicted_duration_s": key[0] / job.gpus,
            "basis": self.estimates.basis(job),
        }
        return Reason("predicted_gpu_time", facts)
