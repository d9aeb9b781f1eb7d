"""The non-intrusive profiler: short first runs on nodes of their own (Lucid, section 7, algorithm 1).

Space-aware: jobs are ordered by GPU demand, so that a large one cannot hold up many small ones. Time-aware: when
the profiler's queue grows, it borrows an idle node and shortens the window; when it drains, it gives back.
The profiler is a virtual cluster like any other; its nodes never run anything else.
"""

from __future__ import annotations

from collections.abc import Iterable

from lucid_pipelines.domain.decision import PROFILE, Continue, LendNodes, Reason, Start, Stop, StopCause
from lucid_pipelines.domain.free_gpus import Slots
from lucid_pipelines.domain.view import ClusterView, QueuedJob, RunningJob, VcView
from lucid_pipelines.policies.ordered_queue import Key
from lucid_pipelines.policies.profiling_rules import ProfilingRules
from lucid_pipelines.policies.queue_policy import Bypass, Pass, QueuePolicy


class Profiler(QueuePolicy):
    """Decides for the profiler's virtual cluster, and which nodes it borrows."""

    def __init__(self, rules: ProfilingRules, bypass: Bypass = Bypass()) -> None:
        super().__init__("profiler", bypass)
        self.rules = rules

    def takes_part(self, vc: VcView) -> bool:
        return vc.name == self.rules.profiler_vc

    def acts_without_queue(self, vc: VcView) -> bool:
        return bool(vc.running)

    def key(self, job: QueuedJob) -> Key | None:
        if job.vc != self.rules.profiler_vc:
            return None
        return (job.gpus if self.rules.space_aware else 0,)

    def key_reason(self, job: QueuedJob, key: Key) -> Reason:
        return Reason("profile_smallest_first", {"gpus": job.gpus, "space_aware": self.rules.space_aware})

    def window_s(self, view: ClusterView, vc: VcView, job: QueuedJob | None = None) -> float:
        """The present profiling window (Tprof), of a job that starts slowly a longer one."""
        starts_slowly = job is not None and job.long_cold_start
        busy = not starts_slowly and self.rules.is_busy(len(vc.queued), view.forecast, view.now_s)
        return self.rules.longest_s(long_cold_start=starts_slowly, busy=busy)

    def look_at(self, view: ClusterView) -> Iterable[str]:
        names = self.queues.follow(view)
        name = self.rules.profiler_vc or ""
        if name in names:
            return (name,)
        due_s = self.next_pass_s(view)
        return (name,) if due_s is not None and due_s <= view.now_s else ()

    def decide_vc(self, this: Pass) -> None:
        away = sum([running.job.gpus for running in this.vc.running.values() if running.stage is not PROFILE])
        for over_s, running in self._ends_of_windows_s(this.view, this.vc):
            if this.view.now_s >= over_s:
                window_s = self.window_s(this.view, this.vc, running.job)
                facts = {"ran_s": this.view.now_s - running.started_s, "window_s": window_s}
                reasons = (Reason("profile_window_over", facts),)
                if away + running.job.gpus <= self.rules.continue_frac * this.vc.gpus:
                    away += running.job.gpus
                    shares = {"gpus_given_away": away, "gpus": this.vc.gpus, "at_most_frac": self.rules.continue_frac}
                    reasons = (*reasons, Reason("continue_in_place", shares))
                    this.decisions.append(Continue(running.job.job_id, reasons))
                    continue
                stop = Stop(running.job.job_id, StopCause.PROFILED, requeue=True, reasons=reasons)
                this.decisions.append(stop)
                this.give_back(running.slots)
        super().decide_vc(this)

    def start(self, this: Pass, job: QueuedJob, slots: Slots) -> None:
        reasons: tuple[Reason, ...] = ()
        if this.view.explain:
            facts = {
                "gpus": job.gpus,
                "window_s": self.window_s(this.view, this.vc, job),
                "waiting": len(this.vc.queued),
            }
            reasons = (*self.reasons(this, job), Reason("profile", facts))
        placement = this.vc.free.layout.placement(slots)
        this.decisions.append(Start(job.job_id, placement, reasons, PROFILE))
        this.take(job, slots)

    def next_pass_s(self, view: ClusterView) -> float | None:
        vc = view.vcs.get(self.rules.profiler_vc or "")
        if vc is None or not vc.running:
            return None
        due_s = min([over_s for over_s, _ in self._ends_of_windows_s(view, vc)], default=None)
        return None if due_s is None else max(due_s, view.now_s)

    def _ends_of_windows_s(self, view: ClusterView, vc: VcView) -> list[tuple[float, RunningJob]]:
        """When the window of each job that is profiled is over. One sum for all who ask: a difference may round to
        the other side. Whether there is a burst is found out once, not job by job."""
        window_s = self.window_s(view, vc)
        slow_window_s = self.rules.longest_s(long_cold_start=True)
        return [
            (running.started_s + (slow_window_s if running.job.long_cold_start else window_s), running)
            for running in vc.running.values()
            if running.stage is PROFILE
        ]

    def lending(self, view: ClusterView) -> list[LendNodes]:
        """Borrow an idle node for a long queue, or give an idle one back."""
        vc = view.vcs.get(self.rules.profiler_vc or "")
        if vc is None or not self.rules.time_aware or not self.rules.max_borrowed_nodes:
            return []
        borrowed = [node.name for node in vc.free.layout.nodes if node.vc != vc.name]
        waiting = len(vc.queued)
        if waiting > self.rules.borrow_above_jobs and len(borrowed) < self.rules.max_borrowed_nodes:
            return self._borrow(view, vc, waiting)
        if borrowed and waiting < self.rules.return_below_jobs:
            return self._give_back(view, vc, borrowed, waiting)
        return []

    def _borrow(self, view: ClusterView, vc: VcView, waiting: int) -> list[LendNodes]:
        lenders = [
            (len(idle), other.name, idle[-1])
            for other in view.vcs.values()
            if other is not vc and not other.queued and len(idle := idle_nodes(other)) > 1
        ]
        if not lenders:
            return []
        idle_count, lender, node = max(lenders)
        facts = {"waiting": waiting, "borrow_above_jobs": self.rules.borrow_above_jobs, "idle_nodes": idle_count}
        return [LendNodes(lender, vc.name, (node,), (Reason("profiler_queue_long", facts),))]

    def _give_back(self, view: ClusterView, vc: VcView, borrowed: list[str], waiting: int) -> list[LendNodes]:
        ahead = view.forecast.mean_gpus_ahead(view.now_s) if view.forecast is not None else None
        idle = set(idle_nodes(vc))
        for name in borrowed:
            owner = vc.free.layout.nodes[vc.free.layout.index[name]].vc
            is_missed = owner in view.vcs and bool(view.vcs[owner].queued)
            is_calm = ahead is None or ahead <= self.rules.return_below_gpus * len(borrowed)
            if name in idle and (is_missed or is_calm):
                facts = {"waiting": waiting, "gpus_ahead": ahead, "owner_waits": is_missed}
                return [LendNodes(vc.name, owner, (name,), (Reason("profiler_queue_short", facts),))]
        return []


def idle_nodes(vc: VcView) -> list[str]:
    """Nodes of which every GPU is free, in list order."""
    layout = vc.free.layout
    return [
        name
        for name, mask, capacity in zip(layout.names, vc.free.masks, layout.capacity, strict=True)
        if mask == capacity
    ]
