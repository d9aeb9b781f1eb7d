"""Shortest job first with true durations: the ideal of a policy that never preempts (Lucid, section 4).

Nobody knows true durations in production: jobs of a live view are held with ``NO_TRUE_DURATION``.
"""

from __future__ import annotations

from lucid_pipelines.domain.decision import Reason
from lucid_pipelines.domain.view import QueuedJob
from lucid_pipelines.policies.ordered_queue import Key
from lucid_pipelines.policies.queue_policy import Bypass, QueuePolicy


class Sjf(QueuePolicy):
    """Order by true duration."""

    needs_news = True

    def __init__(self, name: str = "sjf", *, bypass: Bypass = Bypass()) -> None:
        super().__init__(name, bypass)

    def key(self, job: QueuedJob) -> Key | None:
        return None if job.true_remaining_s is None else (job.true_remaining_s,)

    def key_reason(self, job: QueuedJob, key: Key) -> Reason:
        return Reason("true_duration", {"duration_s": key[0]})
