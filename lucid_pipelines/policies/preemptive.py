"""The frame of policies that stop running jobs: one order over waiting and running jobs, greedy by quota.

From first to last, a job is selected if its GPUs still fit into the quota (all GPUs of its virtual cluster).
Running jobs that are not selected are stopped, waiting ones that are selected are started with consolidated
placement; one that cannot be placed keeps its share of the quota and waits.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator

from lucid_pipelines.domain.decision import Decision, Hold, HoldCause, Reason, Start, Stop, StopCause
from lucid_pipelines.domain.free_gpus import FreeGpus
from lucid_pipelines.domain.view import Change, ChangeKind, ClusterView, QueuedJob, RunningJob, VcView
from lucid_pipelines.placement import can_ever_fit, find_slots
from lucid_pipelines.policies.following import Queues
from lucid_pipelines.policies.ordered_queue import Key, OrderedQueue
from lucid_pipelines.policies.profiling_rules import ProfilingRules


class PreemptivePolicy:
    """Keep two ordered queues per virtual cluster, of waiting and of running jobs, and merge them."""

    preempts: bool = True
    packs: bool = False
    profiling: ProfilingRules | None = None

    repass_s: float = 1.0
    """After decisions, when to look again: stopped jobs and new remainders may change the order."""

    running_first_on_ties: bool = False

    def __init__(self, name: str) -> None:
        self.name = name
        self.fallbacks: Counter[str] = Counter()
        self._queues = Queues(self.waiting_key, lambda job: job.gpus, self._changed, self._rebuilt)
        self._running: dict[str, OrderedQueue] = {}
        self._entered = 0
        self._pending: dict[str, float] = {}
        self._has_decided = False

    def waiting_key(self, job: QueuedJob) -> Key | None:
        """Order of a waiting job; ``None`` when it cannot be ordered."""
        raise NotImplementedError

    def running_key(self, running: RunningJob, now_s: float) -> Key | None:
        """Order of a running job; it stays valid but for ``shift``, until ``rekey``."""
        raise NotImplementedError

    def shift(self, now_s: float) -> float:
        """What to take from the first item of a running job's key to compare it with a waiting job's."""
        return 0.0

    def reason(self, view: ClusterView, job: QueuedJob, running: RunningJob | None) -> Reason:
        """Where the job stands in the order, with the numbers."""
        raise NotImplementedError

    def is_due(self, noted_s: float, now_s: float) -> bool:
        """Whether a change that was noted at ``noted_s`` is acted on at ``now_s``."""
        return True

    def reorder(self, view: ClusterView) -> None:
        """Bring the order of running jobs up to date with the time."""

    def decide(self, view: ClusterView) -> list[Decision]:
        now_s = view.now_s
        for name in self._queues.follow(view):
            self._pending.setdefault(name, now_s)
        self.reorder(view)
        self._has_decided = False
        decisions: list[Decision] = []
        for name, noted_s in list(self._pending.items()):
            if not self.is_due(noted_s, now_s):
                continue
            del self._pending[name]
            vc = view.vcs.get(name)
            if vc is not None and vc.queued and self._decide_vc(view, vc, decisions):
                self._queues.decided(name)
                self._has_decided = True
        if view.explain:
            self._explain(view, decisions)
        return decisions

    def next_pass_s(self, view: ClusterView) -> float | None:
        return view.now_s + self.repass_s if self._has_decided else None

    def has_pending(self, view: ClusterView) -> bool:
        """Whether a job waits in a virtual cluster in which something may change in the next round."""
        return self._has_decided or any(view.vcs[name].queued for name in self._pending if name in view.vcs)

    def mark(self, vc: str, noted_s: float) -> None:
        """Look at a virtual cluster although nothing entered or left it."""
        self._pending.setdefault(vc, noted_s)

    def forget(self) -> None:
        """Drop what was noted of running jobs: the state behind the view is another one."""

    def entered_running(self, running: RunningJob) -> None:
        """Told of every job that has begun to run."""

    def rekey(self, running: RunningJob, now_s: float) -> bool:
        """Move a running job to where it belongs in the order now; returns whether it moved."""
        job_id = running.job.job_id
        queue = self._running_named(running.job.vc)
        key = self.running_key(running, now_s)
        if key is None or job_id not in queue or queue.key(job_id) == key:
            return False
        sequence = queue.sequence(job_id)
        queue.discard(job_id)
        queue.add(job_id, key, sequence, running.job.gpus)
        return True

    def _decide_vc(self, view: ClusterView, vc: VcView, decisions: list[Decision]) -> bool:
        if not self._can_select(vc, view.now_s):
            return False
        kept: set[str] = set()
        starts: list[QueuedJob] = []
        for job_id, is_running in self._select(vc, view.now_s):
            if is_running:
                kept.add(job_id)
            else:
                starts.append(vc.queued[job_id])
        if not starts:
            return False
        free = vc.free.copy()
        stopped = [vc.running[job_id] for job_id in self._running_of(vc) if job_id not in kept]
        for running in stopped:
            free.release(running.slots)
            reasons = (self.reason(view, running.job, running),)
            decisions.append(Stop(running.job.job_id, StopCause.PREEMPTED, requeue=True, reasons=reasons))
        started = self._start(view, free, starts, decisions)
        return bool(stopped) or started

    def _can_select(self, vc: VcView, now_s: float) -> bool:
        """Whether any waiting job would be selected; spares the merge in most passes.

        Running jobs before the first selected waiting one all keep their GPUs. So a waiting job can be the
        first only if its demand fits beside the running jobs before it, and in each bucket the first entry
        has the fewest of those.
        """
        gpus = vc.gpus
        shift = self.shift(now_s)
        running = self._running_of(vc).buckets.items()
        for demand, entries in self._queues.of(vc.name).buckets.items():
            key = entries[0][0]
            limit = ((key[0] + shift, *key[1:]), math.inf if self.running_first_on_ties else -1)
            before = sum(size * bisect_left(others, limit) for size, others in running)  # pyright: ignore
            if before + demand <= gpus:  # pyright: ignore[reportOperatorIssue]  (buckets here are numbers)
                return True
        return False

    def _select(self, vc: VcView, now_s: float) -> Iterator[tuple[str, bool]]:
        """The jobs that should run, in order, and whether they do already."""
        quota = vc.gpus
        waiting, running = self._queues.of(vc.name).walk(), self._running_of(vc).walk()
        shift = self.shift(now_s)
        while quota > 0:
            first_waiting, first_running = waiting.peek(), running.peek()
            if first_waiting is None:
                if first_running is None:
                    return
                is_running = True
            elif first_running is None:
                is_running = False
            else:
                running_key = first_running[0][0]
                here = (running_key[0] - shift, *running_key[1:])
                there = first_waiting[0][0]
                is_running = here <= there if self.running_first_on_ties else here < there
            walk = running if is_running else waiting
            top = first_running if is_running else first_waiting
            assert top is not None
            entry, bucket = top
            gpus = bucket if isinstance(bucket, int) else 0
            if gpus > quota:
                walk.drop_bucket()
                continue
            if is_running or can_ever_fit(vc.free, gpus, vc.queued[entry[2]].gpu_type):
                quota -= gpus
                yield entry[2], is_running
            walk.advance()

    def _start(self, view: ClusterView, free: FreeGpus, starts: list[QueuedJob], decisions: list[Decision]) -> bool:
        started = False
        for job in starts:
            slots = find_slots(free, job.gpus, job.gpu_type)
            if slots is None:
                continue
            facts = {"gpus": job.gpus, "gpus_free": free.free_gpus, "nodes": len(slots)}
            reasons = (self.reason(view, job, None), Reason("consolidated_placement", facts))
            decisions.append(Start(job.job_id, free.layout.placement(slots), reasons))
            free.take(slots)
            started = True
        return started

    def _explain(self, view: ClusterView, decisions: list[Decision]) -> None:
        started = {d.job_id for d in decisions if isinstance(d, Start)}
        for vc in view.vcs.values():
            free_gpus = vc.free.free_gpus
            queue = self._queues.of(vc.name)
            cause = HoldCause.NEXT_ROUND if vc.name in self._pending else HoldCause.PREEMPTED_BY_ORDER
            waiting = [job_id for job_id in queue if job_id not in started]
            waiting += [job_id for job_id in vc.queued if job_id not in queue]
            for ahead, job_id in enumerate(waiting):
                job = vc.queued[job_id]
                its = cause if job_id in queue else HoldCause.NO_TRUE_DURATION
                if not vc.free.layout.names:
                    its = HoldCause.UNKNOWN_VC
                elif not can_ever_fit(vc.free, job.gpus, job.gpu_type):
                    its = HoldCause.TOO_LARGE
                reasons = (self.reason(view, job, None),) if job_id in queue else ()
                decisions.append(Hold(job_id, its, job.gpus, free_gpus, ahead, None, reasons))

    def _changed(self, change: Change) -> None:
        job = change.job
        if job is None:
            return
        if change.kind is ChangeKind.STARTED and change.running is not None:
            self._run(change.running)
        elif change.kind is ChangeKind.RELEASED:
            self._running_named(change.vc).discard(job.job_id)

    def _rebuilt(self, view: ClusterView) -> None:
        self._running = {}
        self.forget()
        for vc in view.vcs.values():
            for running in vc.running.values():
                self._run(running)

    def _run(self, running: RunningJob) -> None:
        key = self.running_key(running, running.as_of_s)
        if key is None:
            return
        self._entered += 1
        job = running.job
        self._running_named(job.vc).add(job.job_id, key, self._entered, job.gpus)
        self.entered_running(running)

    def _running_of(self, vc: VcView) -> OrderedQueue:
        return self._running_named(vc.name)

    def _running_named(self, vc: str) -> OrderedQueue:
        queue = self._running.get(vc)
        if queue is None:
            queue = self._running[vc] = OrderedQueue()
        return queue
