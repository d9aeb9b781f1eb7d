"""The frame of policies that stop running jobs: one order over waiting and running jobs, greedy by quota.

From first to last, a job is selected if its GPUs still fit into the quota (all GPUs of its virtual cluster).
Running jobs that are not selected are stopped, waiting ones that are selected are started with consolidated
placement; one that cannot be placed keeps its share of the quota and waits.
"""

from __future__ import annotations

from collections import Counter

from lucid_pipelines.domain.decision import Decision, Hold, HoldCause, Reason, Start, Stop, StopCause
from lucid_pipelines.domain.free_gpus import FreeGpus
from lucid_pipelines.domain.view import Change, ChangeKind, ClusterView, QueuedJob, RunningJob, VcView
from lucid_pipelines.placement import avoid_reason, can_ever_fit, find_place, gives_way, has_place
from lucid_pipelines.policies.following import Queues
from lucid_pipelines.policies.ordered_queue import Key
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
    round_s: float | None = None
    profiling: ProfilingRules | None = None

    repass_s: float = 1.0
    """After a stop, when to look again: the stopped job has more left to do. Starts alone change no order."""

    running_first_on_ties: bool = False

    def __init__(self, name: str) -> None:
        self.name = name
        self.fallbacks: Counter[str] = Counter()
        self._queues = Queues(self.waiting_key, lambda job: job.gpus, self._changed, self._rebuilt)
        self._running: dict[str, RunningOrder] = {}
        self._entered = 0
        self._pending: dict[str, float] = {}
        self._has_stopped = False

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
        self._has_stopped = False
        decisions: list[Decision] = []
        for name, noted_s in list(self._pending.items()):
            if not self.is_due(noted_s, now_s):
                continue
            del self._pending[name]
            vc = view.vcs.get(name)
            before = len(decisions)
            if vc is not None and vc.queued and self._decide_vc(view, vc, decisions):
                are_starts = all(type(decision) is Start for decision in decisions[before:])
                self._queues.decided(name, len(decisions) - before if are_starts else None)
        if view.holds:
            self._explain(view, decisions)
        return decisions

    def next_pass_s(self, view: ClusterView) -> float | None:
        return view.now_s + self.repass_s if self._has_stopped else None

    def has_pending(self, view: ClusterView) -> bool:
        """Whether a job waits in a virtual cluster in which something may change in the next round."""
        return self._has_stopped or any(view.vcs[name].queued for name in self._pending if name in view.vcs)

    def mark(self, vc: str, noted_s: float) -> None:
        """Look at a virtual cluster although nothing entered or left it."""
        self._pending.setdefault(vc, noted_s)

    def forget(self) -> None:
        """Drop what was noted of running jobs: the state behind the view is another one."""

    def entered_running(self, running: RunningJob) -> None:
        """Told of every job that has begun to run."""

    def rekey(self, running: RunningJob, now_s: float) -> bool:
        """Move a running job to where it belongs in the order now; returns whether it moved."""
        key = self.running_key(running, now_s)
        return key is not None and self._running_named(running.job.vc).rekey(running.job.job_id, key)

    def _decide_vc(self, view: ClusterView, vc: VcView, decisions: list[Decision]) -> bool:
        running = self._running_named(vc.name)
        if not self._can_select(vc, running, view.now_s):
            return False
        starts, stopped_ids = self._select(vc, running, view.now_s)
        if not starts:
            return False
        free = vc.free.copy()
        for job_id in stopped_ids:
            stopped = vc.running[job_id]
            free.release(stopped.slots)
            reasons = (self.reason(view, stopped.job, stopped),) if view.explain else ()
            decisions.append(Stop(job_id, StopCause.PREEMPTED, requeue=True, reasons=reasons))
        started = self._start(view, free, starts, decisions)
        self._has_stopped = self._has_stopped or bool(stopped_ids)
        return bool(stopped_ids) or started

    def _limit(self, waiting_key: Key, now_s: float) -> Key:
        """The key of a running job that stands level with a waiting one."""
        return (waiting_key[0] + self.shift(now_s), *waiting_key[1:])

    def _can_select(self, vc: VcView, running: RunningOrder, now_s: float) -> bool:
        """Whether any waiting job would be selected; spares the merge in most passes.

        Running jobs before the first selected waiting one all keep their GPUs. So a waiting job can be the
        first only if its demand fits beside the running jobs before it, and in each bucket the first entry
        has the fewest of those.
        """
        gpus = vc.free.layout.gpus
        for demand, entries in self._queues.of(vc.name).buckets.items():
            limit = self._limit(entries[0][0], now_s)
            before = running.gpus_before(running.index(limit, after_equals=self.running_first_on_ties))
            if isinstance(demand, int) and before + demand <= gpus:
                return True
        return False

    def _select(self, vc: VcView, running: RunningOrder, now_s: float) -> tuple[list[QueuedJob], list[str]]:
        """Waiting jobs that should run and running jobs that should not, each in order."""
        quota = vc.free.layout.gpus
        entries = running.entries
        index = 0
        starts: list[QueuedJob] = []
        stopped: list[str] = []
        walk = self._queues.of(vc.name).walk()
        while quota > 0 and (top := walk.peek()) is not None:
            (key, _, job_id), demand = top
            until = running.index(self._limit(key, now_s), after_equals=self.running_first_on_ties)
            for _, _, running_id, gpus in entries[index:until]:
                if gpus <= quota:
                    quota -= gpus
                else:
                    stopped.append(running_id)
            index = max(index, until)
            if not isinstance(demand, int) or demand > quota:
                walk.drop_bucket()
                continue
            job = vc.queued[job_id]
            if has_place(vc.free, job):
                quota -= demand
                starts.append(job)
            walk.advance()
        for _, _, running_id, gpus in entries[index:]:
            if gpus <= quota:
                quota -= gpus
            else:
                stopped.append(running_id)
        return starts, stopped

    def _start(self, view: ClusterView, free: FreeGpus, starts: list[QueuedJob], decisions: list[Decision]) -> bool:
        started = False
        for job in starts:
            slots = find_place(free, job)
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
                elif not has_place(vc.free, job):
                    its = HoldCause.AVOIDED_NODES
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

    def _running_named(self, vc: str) -> RunningOrder:
        order = self._running.get(vc)
        if order is None:
            order = self._running[vc] = RunningOrder()
        return order
