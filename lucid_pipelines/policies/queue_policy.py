"""The frame of every policy that never stops a job: an ordered queue per virtual cluster, first come by key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from lucid_pipelines.domain.decision import Decision, Hold, HoldCause, Reason, Start
from lucid_pipelines.domain.free_gpus import FreeGpus, Slots
from lucid_pipelines.domain.view import ChangeKind, ClusterView, QueuedJob, VcView
from lucid_pipelines.placement import can_ever_fit, find_slots
from lucid_pipelines.policies.ordered_queue import Key, OrderedQueue, Walk


class QueuePolicy:
    """Start jobs in order of a key; the first that cannot be placed blocks those behind it.

    Subclasses give the key. Jobs that could not be placed even on an empty virtual cluster are held and
    block nobody.
    """

    def __init__(self, name: str, *, backfill: bool = False) -> None:
        """Args:
        backfill: go on behind a job that cannot be placed, and start whatever fits.
        """
        self.name = name
        self.fallbacks: Counter[str] = Counter()
        self._backfill = backfill
        self._queues: dict[str, OrderedQueue] = {}
        self._state_id: object = None
        self._revision = 0
        self._gave: set[str] = set()

    def key(self, job: QueuedJob) -> Key | None:
        """The job's priority, small first; ``None`` when it cannot be ordered. Asked once per queueing."""
        raise NotImplementedError

    def key_reason(self, job: QueuedJob, key: Key) -> Reason:
        """How the key came about."""
        raise NotImplementedError

    def decide(self, view: ClusterView) -> list[Decision]:
        decisions: list[Decision] = []
        dirty = self._follow(view)
        self._gave = set()
        for name in dirty:
            vc = view.vcs[name]
            queue = self._queues.get(name)
            if queue is None or not vc.queued:
                continue
            before = len(decisions)
            self.decide_vc(view, vc, queue, decisions)
            if any(not isinstance(d, Hold) for d in decisions[before:]):
                self._gave.add(name)
        return decisions

    def next_pass_s(self, view: ClusterView) -> float | None:
        """Nothing but a change can let a waiting job start."""
        return None

    def decide_vc(self, view: ClusterView, vc: VcView, queue: OrderedQueue, decisions: list[Decision]) -> None:
        """Add the decisions for one virtual cluster."""
        free = vc.free
        blocker: str | None = None
        started: set[str] = set()
        walk = queue.walk()
        while (top := walk.peek()) is not None:
            entry, _ = top
            job = vc.queued[entry[2]]
            slots = find_slots(free, job.gpus, job.gpu_type)
            if slots is not None:
                free = self._start(view, vc, free, job, slots, entry[0], decisions)
                started.add(job.job_id)
                walk.advance()
                continue
            fits = can_ever_fit(free, job.gpus, job.gpu_type)
            if blocker is None and not view.explain:
                decisions.append(_hold(vc, free, queue, job, None, fits, self.key_reason(job, entry[0])))
            if fits:
                blocker = blocker or job.job_id
                if not self._backfill:
                    break
            walk.drop_bucket()
        if view.explain:
            self.explain(vc, free, queue, started, None if self._backfill else blocker, decisions)

    def explain(
        self,
        vc: VcView,
        free: FreeGpus,
        queue: OrderedQueue,
        started: set[str],
        blocker: str | None,
        decisions: list[Decision],
    ) -> None:
        """Add a ``Hold`` for every job that was not started."""
        ahead = 0
        is_behind = False
        for job_id in queue:
            if job_id in started:
                continue
            job = vc.queued[job_id]
            fits = can_ever_fit(free, job.gpus, job.gpu_type)
            reason = self.key_reason(job, queue.key(job_id))
            decisions.append(_hold(vc, free, ahead, job, blocker if is_behind else None, fits, reason))
            ahead += 1
            is_behind = is_behind or job_id == blocker
        for job_id, job in vc.queued.items():
            if job_id not in queue:
                decisions.append(Hold(job_id, HoldCause.NO_TRUE_DURATION, job.gpus, free.free_gpus, ahead, None))

    def _start(
        self,
        view: ClusterView,
        vc: VcView,
        free: FreeGpus,
        job: QueuedJob,
        slots: Slots,
        key: Key,
        decisions: list[Decision],
    ) -> FreeGpus:
        facts = {"gpus": job.gpus, "gpus_free": free.free_gpus, "nodes": len(slots)}
        reasons = (self.key_reason(job, key), Reason("consolidated_placement", facts))
        decisions.append(Start(job.job_id, free.layout.placement(slots), reasons))
        if free is vc.free:
            free = free.copy()
        free.take(slots)
        return free

    def _follow(self, view: ClusterView) -> Iterable[str]:
        """Bring the queues up to date; returns the virtual clusters in which something may be decided."""
        changes = None if view.state_id is not self._state_id else view.changes_since(self._revision)
        self._revision = view.revision
        if changes is None:
            self._state_id = view.state_id
            self._queues = {}
            for vc in view.vcs.values():
                for job in vc.queued.values():
                    self._enter(job)
            return view.vcs
        dirty = dict.fromkeys(sorted(self._gave))
        for change in changes:
            job = change.job
            if change.kind is ChangeKind.STARTED:
                if job is not None:
                    self._leave(job)
                continue
            if job is not None and change.kind is ChangeKind.QUEUED:
                self._enter(job)
            elif job is not None and change.kind is ChangeKind.WITHDRAWN:
                self._leave(job)
            dirty[change.vc] = None
        if view.explain:
            return view.vcs
        return dirty

    def _enter(self, job: QueuedJob) -> None:
        key = self.key(job)
        if key is None:
            return
        queue = self._queues.get(job.vc)
        if queue is None:
            queue = self._queues[job.vc] = OrderedQueue()
        queue.add(job.job_id, key, job.sequence, (job.gpus, job.gpu_type))

    def _leave(self, job: QueuedJob) -> None:
        queue = self._queues.get(job.vc)
        if queue is not None:
            queue.discard(job.job_id)


def _hold(
    vc: VcView,
    free: FreeGpus,
    ahead: int | OrderedQueue,
    job: QueuedJob,
    blocker: str | None,
    fits: bool,
    reason: Reason,
) -> Hold:
    ahead_count = ahead if isinstance(ahead, int) else ahead.position(job.job_id)
    if not vc.free.layout.names:
        cause = HoldCause.UNKNOWN_VC
    elif not fits:
        cause = HoldCause.TOO_LARGE
    elif blocker is not None:
        cause = HoldCause.BEHIND
    elif free.free_gpus < job.gpus:
        cause = HoldCause.FREE_GPUS
    else:
        cause = HoldCause.FRAGMENTED
    reasons = (reason,)
    return Hold(job.job_id, cause, job.gpus, free.free_gpus, ahead_count, blocker, reasons)


__all__ = ["QueuePolicy", "Walk"]
