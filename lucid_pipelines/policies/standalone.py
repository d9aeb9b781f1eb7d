"""SchedMate on its own: shortest predicted job first, never preempting (SchedMate paper, sections 5, 12 and 14).

The prediction is the mean of the three most similar past jobs; where none is similar enough it is the plain
estimator's, which is counted. How long a job will run decides, whatever its number of GPUs.
"""

from __future__ import annotations

from lucid_pipelines.domain.decision import Reason
from lucid_pipelines.domain.view import QueuedJob
from lucid_pipelines.policies.ordered_queue import Key
from lucid_pipelines.policies.qssf import Qssf

ADVISED = "advisor"
"""How the bases of estimates by similar jobs begin."""


class Standalone(Qssf):
    """Order by predicted duration, smaller demands first on ties."""

    def key(self, job: QueuedJob) -> Key:
        duration_s, basis = self.estimates.duration_s(job)
        if not basis.startswith(ADVISED):
            self.fallbacks["not_advised"] += 1
        return (duration_s, job.gpus)

    def key_reason(self, job: QueuedJob, key: Key) -> Reason:
        facts = {"predicted_duration_s": key[0], "gpus": job.gpus, "basis": self.estimates.basis(job)}
        return Reason("predicted_duration", facts)
