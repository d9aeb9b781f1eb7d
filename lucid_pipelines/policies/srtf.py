"""Shortest remaining time first with true remainders and preemption (Lucid, section 4; the ideal with preemption).

Nobody knows true remainders in production: jobs of a live view are held with ``NO_TRUE_DURATION``.
"""

from __future__ import annotations

from lucid_pipelines.domain.decision import Reason
from lucid_pipelines.domain.view import ClusterView, QueuedJob, RunningJob
from lucid_pipelines.policies.ordered_queue import Key
from lucid_pipelines.policies.preemptive import PreemptivePolicy


class Srtf(PreemptivePolicy):
    """Order by true remaining time; all running jobs come nearer to their end at the same rate."""

    def __init__(self, name: str = "srtf") -> None:
        super().__init__(name)

    def waiting_key(self, job: QueuedJob) -> Key | None:
        return None if job.true_remaining_s is None else (job.true_remaining_s,)

    def running_key(self, running: RunningJob, now_s: float) -> Key | None:
        remaining_s = running.true_remaining_s(running.as_of_s)
        return None if remaining_s is None else (running.as_of_s + remaining_s,)

    def shift(self, now_s: float) -> float:
        return now_s

    def reason(self, view: ClusterView, job: QueuedJob, running: RunningJob | None) -> Reason:
        remaining_s = job.true_remaining_s if running is None else running.true_remaining_s(view.now_s)
        return Reason("true_remaining_time", {"remaining_s": remaining_s, "gpus": job.gpus})
