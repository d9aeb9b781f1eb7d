"""The frame of policies that stop running jobs: one order over waiting and running jobs, greedy by quota.

From first to last, a job is selected if its GPUs still fit into the quota (all GPUs of its virtual cluster).
Running jobs that are not selected are stopped, waiting ones that are selected are started with consolidated
placement; one that cannot be placed keeps its share of the quota and waits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from lucid_pipelines.domain.decision import Decision, Hold, HoldCause, Reason, Start, Stop, StopCause
from lucid_pipelines.domain.free_gpus import FreeGpus
from lucid_pipelines.domain.view import RELEASED, STARTED, Change, ClusterView, QueuedJob, RunningJob, VcView
from lucid_pipelines.placement import avoid_reason, can_ever_fit, find_place, find_slots, gives_way, has_place
from lucid_pipelines.policies.following import Queues
from lucid_pipelines.policies.ordered_queue import Key, OrderedQueue
from lucid_pipelines.policies.profiling_rules import ProfilingRules
from lucid_pipelines.policies.running_order import RunningOrder


class PreemptivePolicy:
    """Keep two ordered queues per virtual cluster, of waiting and of running jobs, and merge them."""

    preempts: bool = True
    resizes: bool = False
    ages: bool = False
    packs: bool = False
    knows_profiles: bool = False
    predicts: bool = False
    needs_news: bool = True
    round_s: float | None = None
    profiling: ProfilingRules | None = None

    repass_s: float = 1.0
    """After a stop, when to look again: the stopped job has more left to do. Starts alone change no order."""

    running_first_on_ties: bool = False

    def __init__(self, name: str) -> None:
        self.name = name
        self.fallbacks: Counter[str] = Counter()
        self.queues = Queues(self.waiting_key, _gpus_of, self._changed, self._rebuilt)
        self._running: dict[str, RunningOrder] = {}
        self._entered = 0
        self.has_stopped = False
        """Whether the last pass stopped a job."""

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

    def look_at(self, view: ClusterView) -> Iterable[str]:
        """The virtual clusters in which something may be decided now, their running jobs in order."""
        return self.queues.follow(view)

    def is_next_round(self, vc: str) -> bool:
        """Whether a virtual cluster has to wait for the policy's next round."""
        return False

    def decide(self, view: ClusterView) -> list[Decision]:
        self.has_stopped = False
        decisions: list[Decision] = []
        for name in self.look_at(view):
            vc = view.vcs.get(name)
            if vc is None or not vc.queued:
                continue
            before = len(decisions)
            stopped_count = self._decide_vc(view, vc, decisions)
            count = len(decisions) - before
            if count:
                self.queues.decided(name, None if stopped_count else count)
        if view.holds:
            self._explain(view, decisions)
        return decisions

    def next_pass_s(self, view: ClusterView) -> float | None:
        return view.now_s + self.repass_s if self.has_stopped else None

    def forget(self) -> None:
        """Drop what was noted of running jobs: the state behind the view is another one."""

    def entered_running(self, running: RunningJob, key: Key, now_s: float) -> None:
        """Told of every job that has found its place in the order of those that run."""

    def rekey(self, running: RunningJob, now_s: float) -> bool:
        """Move a running job to where it belongs in the order now; returns whether it moved."""
        key = self.running_key(running, now_s)
        return key is not None and self._running_named(running.job.vc).rekey(running.job.job_id, key)

    def _decide_vc(self, view: ClusterView, vc: VcView, decisions: list[Decision]) -> int:
        """Add the decisions for one virtual cluster; returns how many jobs they stop."""
        running = self._running_named(vc.name)
        queue = self.queues.of(vc.name)
        quota = vc.free.layout.gpus
        stopped_ids: list[str] = []
        spare = quota - running.gpus
        if spare > 0 and sum([demand * len(entries) for demand, entries in queue.buckets.items()]) <= spare:
            starts = [vc.queued[job_id] for job_id in queue]  # all fit, so nobody has to stop
        else:
            if running.unsorted:
                self._sort_in(running, view.now_s)
            shift = self.shift(view.now_s)
            if not self._can_select(queue, running, quota, shift):
                return 0
            starts, stopped_ids = self._select(vc, queue, running, shift)
        if not starts:
            return 0
        # A single start takes GPUs that nobody behind it asks for.
        free = vc.free.copy() if stopped_ids or len(starts) > 1 else vc.free
        for job_id in stopped_ids:
            stopped = vc.running[job_id]
            free.release(stopped.slots)
            reasons = (self.reason(view, stopped.job, stopped),) if view.explain else ()
            decisions.append(Stop(job_id, StopCause.PREEMPTED, requeue=True, reasons=reasons))
        self._start(view, vc, free, starts, decisions)
        self.has_stopped = self.has_stopped or bool(stopped_ids)
        return len(stopped_ids)

    def _can_select(self, queue: OrderedQueue[int], running: RunningOrder, quota: int, shift: float) -> bool:
        """Whether any waiting job would be selected; spares the merge in most passes.

        Running jobs before the first selected waiting one all keep their GPUs. So a waiting job can be the
        first only if its demand fits beside the running jobs before it, and in each bucket the first entry
        has the fewest of those.
        """
        spare = quota - running.gpus
        for demand in queue.buckets:
            if demand <= spare:
                return True
        sums = running.sums()
        for demand, entries in queue.buckets.items():
            before = sums[running.index(entries[0][0], shift, after_equals=self.running_first_on_ties)]
            if before + demand <= quota:
                return True
        return False

    def _select(
        self, vc: VcView, queue: OrderedQueue[int], running: RunningOrder, shift: float
    ) -> tuple[list[QueuedJob], list[str]]:
        """Waiting jobs that should run and running jobs that should not, each in order.

        ``quota`` is what is left behind the ``index`` first running jobs and the selected waiting ones; ``spare`` is
        what is left beside all of them. As long as that is enough nobody has to stop, whatever the order.
        """
        quota = vc.free.layout.gpus
        spare = quota - running.gpus
        index = 0
        starts: list[QueuedJob] = []
        stopped: list[str] = []
        walk = queue.walk()
        while quota > 0 and (top := walk.peek()) is not None:
            (key, _, job_id), demand = top
            if demand > spare:
                until = running.index(key, shift, after_equals=self.running_first_on_ties)
                if until > index:
                    quota = _keep(running, index, until, quota, stopped)
                    index = until
                if demand > quota:
                    walk.drop_bucket()
                    continue
            job = vc.queued[job_id]
            if has_place(vc.free, job):
                quota -= demand
                spare -= demand
                starts.append(job)
            walk.advance()
        if spare < 0:
            _keep(running, index, len(running.entries), quota, stopped)
        return starts, stopped

    def _start(
        self, view: ClusterView, vc: VcView, free: FreeGpus, starts: list[QueuedJob], decisions: list[Decision]
    ) -> None:
        for job in starts:
            slots = find_place(free, job) if job.avoid_nodes else find_slots(free, job.gpus, job.gpu_type)
            if slots is None:
                continue
            if job.avoid_nodes and gives_way(free, job):
                self.fallbacks["avoid_list_gave_way"] += 1
            reasons: tuple[Reason, ...] = ()
            if view.explain:
                facts = {"gpus": job.gpus, "gpus_free": free.free_gpus, "nodes": len(slots)}
                avoid = (avoid_reason(free, job),) if job.avoid_nodes else ()
                reasons = (self.reason(view, job, None), *avoid, Reason("consolidated_placement", facts))
            decisions.append(Start(job.job_id, free.layout.placement(slots), reasons))
            if free is not vc.free:
                free.take(slots)

    def _explain(self, view: ClusterView, decisions: list[Decision]) -> None:
        started = {d.job_id for d in decisions if isinstance(d, Start)}
        for vc in view.vcs.values():
            free_gpus = vc.free.free_gpus
            queue = self.queues.of(vc.name)
            cause = HoldCause.NEXT_ROUND if self.is_next_round(vc.name) else HoldCause.PREEMPTED_BY_ORDER
            waiting = [job_id for job_id in queue if job_id not in started]
            waiting += [job_id for job_id in vc.queued if job_id not in queue]
            for ahead, job_id in enumerate(waiting):
                job = vc.queued[job_id]
                its = cause if job_id in queue else HoldCause.NO_TRUE_DURATION
                if not vc.free.layout.names:
                    its = HoldCause.UNKNOWN_VC
                elif not can_ever_fit(vc.free, job.gpus, job.gpu_type):
                    its = HoldCause.TOO_LARGE
                elif not has_place(vc.free, job):
                    its = HoldCause.AVOIDED_NODES
                reasons = (self.reason(view, job, None),) if job_id in queue else ()
                decisions.append(Hold(job_id, its, job.gpus, free_gpus, ahead, None, reasons))

    def _changed(self, change: Change) -> None:
        kind, vc, job, running = change
        if kind is STARTED and running is not None:
            (self._running.get(vc) or self._running_named(vc)).add_unsorted(running)
        elif kind is RELEASED and job is not None:
            (self._running.get(vc) or self._running_named(vc)).discard(job.job_id)

    def _rebuilt(self, view: ClusterView) -> None:
        self._running = {}
        self.forget()
        for vc in view.vcs.values():
            for running in vc.running.values():
                self._running_named(vc.name).add_unsorted(running)

    def _sort_in(self, order: RunningOrder, now_s: float) -> None:
        """Find the places of the jobs that have started since the order was last needed."""
        for running in order.take_unsorted():
            key = self.running_key(running, now_s)
            if key is not None:
                self._entered += 1
                order.add(running.job.job_id, key, self._entered, running.job.gpus)
                self.entered_running(running, key, now_s)

    def _running_named(self, vc: str) -> RunningOrder:
        order = self._running.get(vc)
        if order is None:
            order = self._running[vc] = RunningOrder()
        return order


def _gpus_of(job: QueuedJob) -> int:
    return job.gpus


def _keep(running: RunningOrder, begin: int, end: int, quota: int, stopped: list[str]) -> int:
    """Let the jobs from ``begin`` to ``end`` keep their GPUs as far as the quota goes; returns what is left of it."""
    sums = running.sums()
    needed = sums[end] - sums[begin]
    if needed <= quota:
        return quota - needed
    for _, _, job_id, gpus in running.entries[begin:end]:
        if gpus <= quota:
            quota -= gpus
        else:
            stopped.append(job_id)
    return quota
