"""Tiresias, discretised two-dimensional least attained service (NSDI'19, section 3; PEERS.md 1.6 for constants).

Attained service is GPUs × time held. Jobs lie in queues by attained service, submission order inside each;
lower queues go first. Decisions are taken every ``interval_s``.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left
from collections.abc import Sequence

from lucid_pipelines.domain.decision import Reason
from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.domain.view import ClusterView, QueuedJob, RunningJob
from lucid_pipelines.policies.ordered_queue import Key
from lucid_pipelines.policies.preemptive import PreemptivePolicy


class Tiresias(PreemptivePolicy):
    """Order by (queue of attained service, submission)."""

    running_first_on_ties = True

    def __init__(
        self,
        name: str = "tiresias",
        *,
        thresholds_gpu_s: Sequence[float] = (18_000.0,),
        interval_s: float = 60.0,
    ) -> None:
        """Args:
        thresholds_gpu_s: upper ends of all queues but the last, ascending; a job leaves a queue when its
            attained service exceeds the end.

        Raises:
            InputError: thresholds that do not ascend, or an interval that is not above 0.
        """
        if list(thresholds_gpu_s) != sorted(set(thresholds_gpu_s)):
            raise InputError(f"thresholds_gpu_s must ascend; got {list(thresholds_gpu_s)}")
        if not interval_s > 0:
            raise InputError(f"interval_s must be above 0; got {interval_s}")
        super().__init__(name)
        self.repass_s = interval_s
        self.round_s: float | None = interval_s
        self._interval_s = interval_s
        self._thresholds = tuple(thresholds_gpu_s)
        self._pending: dict[str, float] = {}
        """Virtual clusters in which something has happened and nothing been decided since, and from when on."""
        self._crossings: dict[str, list[tuple[float, str]]] = {}
        """By virtual cluster: when a running job leaves its service queue at the earliest, and its id."""

    def waiting_key(self, job: QueuedJob) -> Key:
        return (bisect_left(self._thresholds, job.attained_gpu_s), job.submitted_s)

    def running_key(self, running: RunningJob, now_s: float) -> Key:
        return (bisect_left(self._thresholds, running.attained_gpu_s(now_s)), running.job.submitted_s)

    def look_at(self, view: ClusterView) -> list[str]:
        now_s, pending = view.now_s, self._pending
        for name in self.queues.follow(view):
            pending.setdefault(name, now_s)
        self._reorder(view)
        round_s = now_s // self._interval_s * self._interval_s
        if now_s == round_s:
            self._pending = {}
            return list(pending)
        # A pass between two rounds makes up for one that was missed, no more.
        due = [name for name, noted_s in pending.items() if noted_s < round_s]
        for name in due:
            del pending[name]
        return due

    def is_next_round(self, vc: str) -> bool:
        return vc in self._pending

    def reason(self, view: ClusterView, job: QueuedJob, running: RunningJob | None) -> Reason:
        attained = job.attained_gpu_s if running is None else running.attained_gpu_s(view.now_s)
        level = bisect_left(self._thresholds, attained)
        threshold = self._thresholds[level] if level < len(self._thresholds) else None
        facts = {
            "attained_gpu_s": attained,
            "service_queue": level,
            "threshold_gpu_s": threshold,
            "submitted_s": job.submitted_s,
        }
        return Reason("attained_service", facts)

    def _reorder(self, view: ClusterView) -> None:
        """Bring the order of running jobs up to date with the time."""
        # Where nobody waits the order of those that run does not matter.
        now_s = view.now_s
        for vc in self.queues.busy:
            crossings = self._crossings.get(vc)
            while crossings and crossings[0][0] < now_s:
                time_s, job_id = heapq.heappop(crossings)
                running = view.vcs[vc].running.get(job_id)
                if running is None:
                    continue
                if self.rekey(running, now_s):
                    self._pending.setdefault(vc, time_s)
                    self._note_crossing(running, now_s)
                elif self._crossing_s(running, now_s) <= now_s:
                    heapq.heappush(crossings, (now_s, job_id))
                    break

    def next_pass_s(self, view: ClusterView) -> float | None:
        # A crossing counts once it is exceeded, so one that falls on a round waits for the next.
        pending = self._pending
        if self.has_stopped or (pending and any([view.vcs[name].queued for name in pending if name in view.vcs])):
            return self._round_after(view.now_s)
        due = [
            crossings[0][0] for vc in self.queues.busy if (crossings := self._crossings.get(vc)) and view.vcs[vc].queued
        ]
        return self._round_after(max(min(due), view.now_s)) if due else None

    def entered_running(self, running: RunningJob, key: Key, now_s: float) -> None:
        if key[0] < len(self._thresholds):
            self._note_crossing(running, now_s)

    def forget(self) -> None:
        self._crossings = {}

    def _round_after(self, time_s: float) -> float:
        return (time_s // self._interval_s + 1) * self._interval_s

    def _crossing_s(self, running: RunningJob, now_s: float) -> float:
        """When the job leaves its service queue, if it goes on running; infinite in the last one."""
        attained = running.attained_gpu_s(now_s)
        level = bisect_left(self._thresholds, attained)
        if level == len(self._thresholds):
            return math.inf
        return now_s + (self._thresholds[level] - attained) / running.job.gpus

    def _note_crossing(self, running: RunningJob, now_s: float) -> None:
        time_s = self._crossing_s(running, now_s)
        if time_s < math.inf:
            heapq.heappush(self._crossings.setdefault(running.job.vc, []), (time_s, running.job.job_id))
