"""Lucid: shortest predicted service first, indolent packing, a profiler in front (sections 7 to 9 of the digest).

priority(J) = GPUs(J) × predicted duration(J), ascending.

* Sharing off: exclusive, consolidated placement in that order; the first job that cannot be placed blocks.
* Sharing on: for each job in that order, an affine partner or an exclusive placement; jobs behind one that
  cannot be placed may go on (algorithm 2). ``share_first`` looks for the partner first, as the paper and its
  artifact do; without it only jobs that find no free GPUs share, so nobody is slowed down for nothing.
* Packed jobs whose resource use turns unstable are split.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass

from lucid_pipelines.domain.decision import Decision, LendNodes, Pack, Reason, Stop, StopCause
from lucid_pipelines.domain.free_gpus import Slots
from lucid_pipelines.domain.view import Change, ClusterView, Forecast, QueuedJob, RunningJob, VcView
from lucid_pipelines.placement import (
    ModeRules,
    Moment,
    Newcomer,
    PairingRules,
    Resident,
    SharingMode,
    choose_mode,
    demand_of,
    may_be_joined,
    next_mode_s,
    pair_reasons,
)
from lucid_pipelines.policies.base import Estimator
from lucid_pipelines.policies.binder import Binder
from lucid_pipelines.policies.estimates import Estimates
from lucid_pipelines.policies.ordered_queue import Key
from lucid_pipelines.policies.pair_queue import PairQueue
from lucid_pipelines.policies.profiler import Profiler
from lucid_pipelines.policies.profiling_rules import ProfilingRules
from lucid_pipelines.policies.queue_policy import Bucket, Bypass, Pass, QueuePolicy

_OFF = SharingMode.OFF


@dataclass(frozen=True, slots=True)
class OrderRules:
    """How Lucid orders its queue and when it packs.

    Attributes:
        use_estimates: order by predicted GPU-time; otherwise by GPU demand alone.
        pack: whether jobs share GPUs at all.
        share_first: look for a partner before free GPUs.
        lend: whether nodes move to the profiler and back; otherwise ``Lucid.lending`` only tells what would.
    """

    use_estimates: bool = True
    pack: bool = True
    share_first: bool = False
    lend: bool = True


class Lucid(QueuePolicy):
    """Orders, packs, profiles and lends."""

    def __init__(
        self,
        name: str = "lucid",
        *,
        estimator: Estimator | None = None,
        fallback_duration_s: float = 3600.0,
        order: OrderRules = OrderRules(),
        pairing: PairingRules = PairingRules(),
        modes: ModeRules = ModeRules(),
        profiling: ProfilingRules = ProfilingRules(),
        bypass: Bypass = Bypass(),
    ) -> None:
        """Args:
        estimator: asked for jobs that carry no estimate.
        fallback_duration_s: what a job without any estimate is taken for; each use is counted.
        """
        super().__init__(name, bypass)
        self._profiling_vc = profiling.profiler_vc
        self.profiling = profiling if profiling.profiler_vc is not None else None
        self.packs = order.pack
        self.predicts = order.use_estimates
        self._order = order
        self._pairing = pairing
        self._modes = modes
        self._estimates = Estimates(estimator, fallback_duration_s, self.fallbacks)
        self._binder = Binder(pairing, self._estimates if order.use_estimates else None, self.fallbacks)
        self._profiler = Profiler(profiling, bypass) if profiling.profiler_vc is not None else None
        self._at = Moment.of(0.0, SharingMode.OFF, pairing)
        self._sharing = _Sharing()
        self._mode_reason = Reason("sharing_mode", {"mode": SharingMode.OFF.value})
        self._vcs: Mapping[str, VcView] = {}
        self._pair_queues: dict[str, PairQueue] = {}
        self._lightest: dict[tuple[str, Hashable], Newcomer] = {}
        self._forecast: Forecast | None = None
        self._mode_from_s, self._mode_until_s = math.inf, -math.inf
        self._again = False
        self._packed: list[tuple[str, str]] = []
        # One walk may leave behind a job that could join one started after it; two walks do not, in pairs.
        self._looks_twice = order.share_first or not pairing.at_most_two

    def takes_part(self, vc: VcView) -> bool:
        return vc.name != self._profiling_vc

    def key(self, job: QueuedJob) -> Key | None:
        if job.vc == self._profiling_vc:
            return None
        if not self._order.use_estimates:
            return (job.gpus,)
        return (self._estimates.duration_s(job)[0] * job.gpus, job.gpus)

    def key_reason(self, job: QueuedJob, key: Key) -> Reason:
        if not self._order.use_estimates:
            return Reason("gpu_demand", {"gpus": job.gpus})
        facts = {
            "priority_gpu_s": key[0],
            "gpus": job.gpus,
            "predicted_duration_s": key[0] / job.gpus,
            "basis": self._estimates.basis(job),
        }
        return Reason("predicted_gpu_time", facts)

    def bucket(self, job: QueuedJob) -> Bucket:
        if self.packs and self._order.share_first:
            return (*demand_of(job), self._binder.pack_class(job))  # no pack class: it never shares
        return demand_of(job)

    def entered(self, job: QueuedJob, key: Key) -> None:
        if not self.packs or self._order.share_first:
            return
        pack_class = self._binder.pack_class(job)
        if pack_class is not None:
            bucket = (job.gpus, pack_class)
            lightest = self._lightest.get((job.vc, bucket))
            if lightest is None:
                lightest = self._lightest[(job.vc, bucket)] = self._binder.lightest(self._vcs[job.vc], job)
            if not (lightest.is_distributed and self._pairing.no_distributed):
                self._pair_queue(job.vc).enter(job, key, bucket, lightest)

    def left(self, job: QueuedJob, started: bool) -> None:
        self._binder.left(job.job_id)
        queue = self._pair_queue(job.vc)
        queue.leave(job.job_id)
        if not started:
            # It may have been given a partner that is free again.
            self._binder.forget()
            queue.wake()

    def other_change(self, change: Change) -> None:
        if change[1] != self._profiling_vc:
            self._binder.follow(change)

    def rebuilt(self, view: ClusterView) -> None:
        self._pair_queues, self._lightest = {}, {}
        self._binder.rebuild([vc for vc in view.vcs.values() if self.takes_part(vc)])

    def decide(self, view: ClusterView) -> list[Decision]:
        decisions: list[Decision] = []
        self._again = False
        if self._profiler is not None:
            lending = self._profiler.lending(view) if self._order.lend else []
            if lending:
                # Everything else is decided once the nodes have moved.
                self._again = True
                return [*lending]
            decisions += self._profiler.decide(view)
            # Profiled jobs wait in their virtual clusters once this is carried out.
            self._again = any(isinstance(decision, Stop) for decision in decisions)
        return decisions + super().decide(view)

    def lending(self, view: ClusterView) -> list[LendNodes]:
        """The nodes that would move now, whether or not this policy lends by itself."""
        return [] if self._profiler is None else self._profiler.lending(view)

    def next_pass_s(self, view: ClusterView) -> float | None:
        if self._again:
            return view.now_s
        next_s = super().next_pass_s(view)
        if self._profiler is not None:
            next_s = _earlier(next_s, self._profiler.next_pass_s(view))
        shares_less = self.packs and self._at.mode is not SharingMode.DEFAULT
        if shares_less and any([vc.queued for vc in view.vcs.values()]):
            next_s = _earlier(next_s, self._mode_until_s)
        return next_s

    def look_at(self, view: ClusterView) -> Collection[str]:
        self._vcs = view.vcs
        names = self.queues.follow(view)
        if not self.packs:
            return names
        self._look_again(view)
        new = self._binder.refresh(view)
        if self._choose_mode(view):
            for queue in self._pair_queues.values():
                queue.wake()
            return view.vcs
        for vc, resident in () if self._order.share_first else new:
            self._pair_queue(vc).wake_for(resident, self._may_join, same_gpus=self._pairing.same_gpus)
        return names

    def _look_again(self, view: ClusterView) -> None:
        """Jobs that were given a partner and wait all the same: nobody took the decision up."""
        for vc, job_id in self._packed:
            if vc in view.vcs and job_id in view.vcs[vc].queued:
                self._binder.forget()
                self._pair_queue(vc).wake()
        self._packed = []

    def _may_join(self, job: Newcomer, resident: Resident) -> bool:
        return self._binder.is_open(job, resident, self._at)

    def _choose_mode(self, view: ClusterView) -> bool:
        """Look at the forecast again if it may say something else; returns whether the mode changed."""
        if "forecast" in self._mode_reason.facts:
            self.fallbacks["no_forecast"] += 1
        if self._mode_from_s <= view.now_s < self._mode_until_s and view.forecast is self._forecast:
            if view.now_s != self._at.now_s:
                self._at = Moment(view.now_s, self._at.mode, self._at.capacity)
            return False
        mode, self._mode_reason = choose_mode(view.forecast, view.now_s, self._modes)
        until_s = next_mode_s(view.forecast, view.now_s, self._modes)
        self._forecast, self._mode_from_s = view.forecast, view.now_s
        self._mode_until_s = until_s if until_s is not None else math.inf
        has_changed = mode is not self._at.mode
        self._at = Moment.of(view.now_s, mode, self._pairing)
        return has_changed

    def acts_without_queue(self, vc: VcView) -> bool:
        return self._pairing.split_unstable and self._binder.has_unstable(vc.name)

    def decide_vc(self, this: Pass) -> None:
        if self.packs:
            self._sharing = _Sharing()
            if self.acts_without_queue(this.vc):
                self._split(this)
        super().decide_vc(this)
        if self._looks_twice and len(this.vc.queued) > len(this.started):
            sharing = self._sharing
            self._again = self._again or bool(sharing.fresh) or (bool(sharing.taken) and not self._pairing.at_most_two)

    def walk(self, this: Pass) -> bool:
        if not self.packs or self._at.mode is _OFF:
            return super().walk(this)
        if self._order.share_first:
            return self._walk_sharing(this)
        return self._walk_exclusive(this) or self._walk_pairs(this)

    def reasons(self, this: Pass, job: QueuedJob) -> tuple[Reason, ...]:
        given = super().reasons(this, job)
        return (*given, self._mode_reason) if self.packs else given

    def hold_reasons(self, this: Pass, job: QueuedJob) -> tuple[Reason, ...]:
        given = self.reasons(this, job)
        if not self.packs or this.view.focus not in (None, job.job_id):
            return given
        at = self._at
        found = (*given, self._binder.why_not(this.vc, job, at))
        return found if this.view.focus is None else (*found, *self._binder.verdict(this.vc, job, at))

    def _walk_exclusive(self, this: Pass) -> bool:
        """Free GPUs for whoever fits, in order; nobody blocks. Returns whether a job became due."""
        walk = this.queue.walk()
        while (top := walk.peek()) is not None:
            entry, _ = top
            if entry[2] in this.started:
                walk.advance()
                continue
            job = this.vc.queued[entry[2]]
            slots = this.find_place(job)
            if slots is None:
                walk.drop_bucket()
                continue
            self._start_fresh(this, job, slots)
            walk.advance()
            if self.bypass.max_overtakes is not None and self.due(this):
                return True
        return False

    def _walk_pairs(self, this: Pass) -> bool:
        """A partner for whoever found no free GPUs, in order. Returns whether a job became due."""
        queue = self._pair_queue(this.vc.name)
        for fresh in self._sharing.fresh.values():
            for resident in fresh:
                queue.wake_for(resident, self._may_join, same_gpus=self._pairing.same_gpus)
        walk = queue.walk()
        while (top := walk.peek()) is not None:
            entry, bucket = top
            if entry[2] in this.started:
                walk.advance()
                continue
            job = this.vc.queued[entry[2]]
            if not self._pack(this, job, bucket, entry[0][0]):
                walk.sleep()
                continue
            walk.advance()
            if self.bypass.max_overtakes is not None and self.due(this):
                return True
        return False

    def _walk_sharing(self, this: Pass) -> bool:
        """Algorithm 2 to the letter: for each job in order a partner, else free GPUs; nobody blocks."""
        full, asleep = self._find_asleep(this)
        if len(asleep) == len(this.queue.buckets):
            return False
        walk = this.queue.walk(leave_out=asleep)
        while (top := walk.peek()) is not None:
            entry, bucket = top
            if entry[2] in this.started:
                walk.advance()
                continue
            job, demand = this.vc.queued[entry[2]], bucket[:-1]
            if bucket[-1] is None or not self._pack(this, job, bucket, entry[0][0]):
                slots = None if demand in full else this.find_place(job)
                if slots is None:
                    full.add(demand)
                    walk.drop_bucket()
                    continue
                if self._start_fresh(this, job, slots):
                    woken = [b for b in asleep if not self._pairing.same_gpus or b[0] == job.gpus]
                    asleep.difference_update(woken)
                    walk.add_behind(this.queue, woken)
            walk.advance()
            if self.bypass.max_overtakes is not None and self.due(this):
                return True
        return False

    def _find_asleep(self, this: Pass) -> tuple[set[Bucket], set[Bucket]]:
        """Demands for which nothing is free, and buckets of such a demand that will find no partner either, unless
        a job that this pass starts lets them."""
        vc, at, is_hopeless = this.vc.name, self._at, self._binder.is_hopeless
        is_full: dict[Bucket, bool] = {}
        asleep: set[Bucket] = set()
        for bucket, entries in this.queue.buckets.items():
            demand, pack_class = bucket[:-1], bucket[-1]
            key, _, job_id = entries[0]
            full = is_full.get(demand)
            if full is None:
                full = is_full[demand] = this.find_place(this.vc.queued[job_id]) is None
            if full and (pack_class is None or is_hopeless(vc, bucket, key[0], at)):
                asleep.add(bucket)
        return {demand for demand, full in is_full.items() if full}, asleep

    def _start_fresh(self, this: Pass, job: QueuedJob, slots: Slots) -> bool:
        """Start a job; returns whether those behind it in this pass may share its GPUs."""
        self.start(this, job, slots)
        now_s = this.view.now_s
        running = RunningJob(job, this.vc.free.layout.placement(slots), slots, now_s, now_s)
        resident = self._binder.resident(this.vc, running)
        can_be_joined = may_be_joined(resident, self._pairing)
        if can_be_joined:
            self._sharing.add(resident, slots)
        return can_be_joined

    def _pack(self, this: Pass, job: QueuedJob, bucket: Hashable, key: float) -> bool:
        sharing = self._sharing
        partner = self._binder.find(this.vc, job, bucket, key, self._at, sharing.fresh.get(job.gpus, ()), sharing.taken)
        if partner is None:
            return False
        slots = sharing.slots.get(partner.job_id)
        if slots is None:
            slots = this.vc.running[partner.job_id].slots
        slots = self._binder.slots_on(slots, job)
        placement = this.vc.free.layout.placement(slots)
        reasons: tuple[Reason, ...] = ()
        if this.view.explain:
            newcomer = self._binder.newcomer(this.vc, job)
            reasons = (
                *super().reasons(this, job),
                *pair_reasons(newcomer, partner, self._pairing, self._at),
            )
        this.decisions.append(Pack(job.job_id, partner.job_id, placement, reasons))
        this.note_start(job)
        self._packed.append((this.vc.name, job.job_id))
        sharing.taken.add(partner.job_id)
        return True

    def _pair_queue(self, vc: str) -> PairQueue:
        queue = self._pair_queues.get(vc)
        if queue is None:
            queue = self._pair_queues[vc] = PairQueue()
        return queue

    def _split(self, this: Pass) -> None:
        """Stop the later of two jobs whose sharing has turned unstable."""
        stopped: set[str] = set()
        for running in this.vc.running.values():
            if not running.is_unstable or not running.partners:
                continue
            pair = [running, *(this.vc.running[p] for p in running.partners if p in this.vc.running)]
            last = max(pair, key=lambda member: (member.started_s, member.job.sequence))
            if any(member.job.job_id in stopped for member in pair):
                continue
            stopped.add(last.job.job_id)
            facts = {"job_id": running.job.job_id, "partner_job_ids": ", ".join(running.partners)}
            reasons = (Reason("split_unstable", facts),)
            job_id = last.job.job_id
            this.decisions.append(Stop(job_id, StopCause.UNSTABLE_PAIR, requeue=True, never_pack=True, reasons=reasons))


def _earlier(first_s: float | None, second_s: float | None) -> float | None:
    """The earlier of two moments; ``None`` = never."""
    if first_s is None or second_s is None:
        return second_s if first_s is None else first_s
    return min(first_s, second_s)


class _Sharing:
    """What one pass over one virtual cluster knows of sharing."""

    __slots__ = ("fresh", "slots", "taken")

    def __init__(self) -> None:
        self.fresh: dict[int, list[Resident]] = {}
        self.slots: dict[str, Slots] = {}
        self.taken: set[str] = set()

    def add(self, resident: Resident, slots: Slots) -> None:
        self.fresh.setdefault(resident.gpus, []).append(resident)
        self.slots[resident.job_id] = slots
