"""First in, first out: the order of submission, with strict head-of-line blocking."""

from __future__ import annotations

from lucid_pipelines.domain.decision import Reason
from lucid_pipelines.domain.view import QueuedJob
from lucid_pipelines.policies.ordered_queue import Key
from lucid_pipelines.policies.queue_policy import Bypass, QueuePolicy


class Fifo(QueuePolicy):
    """Order by time of submission."""

    needs_news = True

    def __init__(self, name: str = "fifo", *, bypass: Bypass = Bypass()) -> None:
        super().__init__(name, bypass)

    def key(self, job: QueuedJob) -> Key:
        return (job.submitted_s,)

    def key_reason(self, job: QueuedJob, key: Key) -> Reason:
        return Reason("submission_order", {"submitted_s": job.submitted_s})
