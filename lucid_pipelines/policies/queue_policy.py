"""The frame of every policy that never stops a job: an ordered queue per virtual cluster."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from lucid_pipelines.domain.arrivals import Arrival
from lucid_pipelines.domain.decision import Decision, Hold, HoldCause, Reason, Start
from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.domain.free_gpus import FreeGpus, Slots, gpu_count_of
from lucid_pipelines.domain.view import Change, ClusterView, QueuedJob, VcView
from lucid_pipelines.placement import avoid_reason, demand_of, find_place, find_slots, gives_way, has_place
from lucid_pipelines.policies.following import Queues
from lucid_pipelines.policies.holds import holds
from lucid_pipelines.policies.ordered_queue import Entry, Key, OrderedQueue
from lucid_pipelines.policies.profiling_rules import ProfilingRules

Bucket = tuple[Hashable, ...]
"""Jobs of one bucket are placed alike; the first two items are GPUs and GPU type."""
_Hook = TypeVar("_Hook", bound=Callable[..., None])


@dataclass(frozen=True, slots=True)
class Bypass:
    """How far a job may pass one that cannot start (R-27). The default is a strict order.

    Attributes:
        backfill: go on behind a job that cannot be placed and start whatever fits.
        max_overtakes: a job that this many later arrivals of its virtual cluster have overtaken is due: it
            comes first, and nobody else starts before it does. So no job is ever overtaken more often.
        max_wait_s: a job that has waited as long is due likewise.
    """

    backfill: bool = False
    max_overtakes: int | None = None
    max_wait_s: float | None = None

    def __post_init__(self) -> None:
        for name in ("max_overtakes", "max_wait_s"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise InputError(f"{name} must be at least 0, or left out for no bound; got {value}")

    @property
    def ages(self) -> bool:
        return self.max_overtakes is not None or self.max_wait_s is not None


class Pass:
    """One pass over one virtual cluster: what it decided so far and the GPUs that are left.

    Attributes:
        free_gpus: how many GPUs are left.
        arrivals: of the jobs that it started, ascending; only kept where jobs age.
    """

    __slots__ = ("_free", "_taken", "arrivals", "blocker", "decisions", "free_gpus", "queue", "started", "vc", "view")

    def __init__(
        self, view: ClusterView, vc: VcView, queue: OrderedQueue[Bucket], decisions: list[Decision], *, ages: bool
    ) -> None:
        self.view = view
        self.vc = vc
        self.queue = queue
        self.decisions = decisions
        self.started: set[str] = set()
        self.arrivals: list[Arrival] | None = [] if ages else None
        self.blocker: tuple[str, HoldCause] | None = None
        self.free_gpus = vc.free.free_gpus
        self._free = vc.free
        self._taken: list[Slots] = []

    @property
    def free(self) -> FreeGpus:
        """The GPUs that are left. Most passes start one job and never ask again, so they need no copy."""
        if self._taken:
            free = self._own()
            for slots in self._taken:
                free.take(slots)
            self._taken.clear()
        return self._free

    def find_place(self, job: QueuedJob) -> Slots | None:
        """GPUs for a job among those that are left."""
        if job.gpus > self.free_gpus:
            return None
        free = self.free if self._taken else self._free
        return find_place(free, job) if job.avoid_nodes else find_slots(free, job.gpus, job.gpu_type)

    def take(self, job: QueuedJob, slots: Slots) -> None:
        """Note that a job starts on GPUs that were left."""
        self._taken.append(slots)
        self.free_gpus -= job.gpus
        self.started.add(job.job_id)
        if self.arrivals is not None:
            self.note_start(job)

    def give_back(self, slots: Slots) -> None:
        """GPUs that a stop of this pass frees."""
        self._own().release(slots)
        self.free_gpus += gpu_count_of(slots)

    def note_start(self, job: QueuedJob) -> None:
        self.started.add(job.job_id)
        if self.arrivals is not None:
            insort(self.arrivals, (job.submitted_s, job.sequence))

    def _own(self) -> FreeGpus:
        if self._free is self.vc.free:
            self._free = self._free.copy()
        return self._free


class QueuePolicy:
    """Start jobs in order of a key; the first that cannot be placed blocks those behind it.

    Subclasses give the key. Jobs that could not be placed even on an empty virtual cluster are held and
    block nobody.
    """

    preempts: bool = False
    resizes: bool = False
    packs: bool = False
    knows_profiles: bool = False
    predicts: bool = False
    needs_news: bool = False
    round_s: float | None = None
    profiling: ProfilingRules | None = None

    def __init__(self, name: str, bypass: Bypass) -> None:
        self.name = name
        self.fallbacks: Counter[str] = Counter()
        self.bypass = bypass
        self.ages = bypass.ages
        self._blocking: dict[str, Entry] = {}
        self.queues = Queues(
            self.key,
            self.bucket,
            self._if_overridden(self.other_change),
            self._if_overridden(self.rebuilt),
            self._if_overridden(self.entered),
            self._if_overridden(self.left),
        )

    def takes_part(self, vc: VcView) -> bool:
        """Whether this policy decides for a virtual cluster."""
        return True

    def acts_without_queue(self, vc: VcView) -> bool:
        """Whether there may be something to decide although no job waits."""
        return False

    def other_change(self, change: Change) -> None:
        """Told of every change that is no entering or leaving of a queue."""

    def rebuilt(self, view: ClusterView) -> None:
        """Told when the view's state is a new one, before its jobs enter."""

    def entered(self, job: QueuedJob, key: Key) -> None:
        """Told of every job that enters a queue."""

    def left(self, job: QueuedJob, started: bool) -> None:
        """Told of every job that leaves a queue, and whether by starting."""

    def key(self, job: QueuedJob) -> Key | None:
        """The job's priority, small first; ``None`` when it cannot be ordered, or is not for this policy to decide.

        Asked once per queueing.
        """
        raise NotImplementedError

    def key_reason(self, job: QueuedJob, key: Key) -> Reason:
        """How the key came about."""
        raise NotImplementedError

    def bucket(self, job: QueuedJob) -> Bucket:
        """Jobs that are placed alike; the first two items are GPUs and GPU type."""
        return demand_of(job)

    def decide(self, view: ClusterView) -> list[Decision]:
        decisions: list[Decision] = []
        for name in self.look_at(view):
            vc = view.vcs[name]
            if not (vc.queued or self.acts_without_queue(vc)) or not self.takes_part(vc):
                continue
            queue = self.queues.of(name)
            if name in self._blocking and self._still_blocked(view, name, queue):
                continue
            this = Pass(view, vc, queue, decisions, ages=self.ages)
            before = len(decisions)
            self.decide_vc(this)
            count = len(decisions) - before
            if count:
                are_starts = not self.packs and count == len(this.started)
                self.queues.decided(name, count if are_starts else None)
            if view.holds:
                self.explain(this)
        return decisions

    def _if_overridden(self, hook: _Hook) -> _Hook | None:
        """A hook that a subclass fills in: to call an empty one for every change costs more than the change."""
        name = hook.__name__
        return None if getattr(type(self), name) is getattr(QueuePolicy, name) else hook

    def look_at(self, view: ClusterView) -> Iterable[str]:
        """The virtual clusters in which something may be decided now."""
        return self.queues.follow(view)

    def _still_blocked(self, view: ClusterView, vc: str, queue: OrderedQueue[Bucket]) -> bool:
        """Whether the job that ended the last pass is still the first, and nothing has happened but arrivals."""
        blocking = self._blocking.pop(vc)
        if view.holds or not self.queues.has_only_arrivals(vc) or queue.first() != blocking:
            return False
        self._blocking[vc] = blocking
        return True

    def explain(self, this: Pass) -> None:
        """Add a ``Hold`` for every job that was not started."""
        vc, queue = this.vc, this.queue
        found = holds(vc, this.free, queue, this.started, lambda job: self.hold_reasons(this, job), this.blocker)
        this.decisions.extend(found)
        for job_id, job in vc.queued.items():
            if job_id not in queue:
                cause = HoldCause.NO_TRUE_DURATION
                this.decisions.append(Hold(job_id, cause, job.gpus, this.free.free_gpus, len(found)))

    def next_pass_s(self, view: ClusterView) -> float | None:
        """The first moment at which a job becomes due by waiting; nothing else happens without a change."""
        max_wait_s = self.bypass.max_wait_s
        if max_wait_s is None:
            return None
        due = [due_s for vc in view.vcs.values() for due_s in _first_due_s(vc, view.now_s, max_wait_s)]
        return min(due, default=None)

    def decide_vc(self, this: Pass) -> None:
        """Add the decisions for one virtual cluster: due jobs first, then the others in order."""
        if not self.ages:
            self.walk(this)
            return
        while self.start_due(this) and self.walk(this):
            pass

    def walk(self, this: Pass) -> bool:
        """Start jobs in order of their keys; returns whether to begin again because a job became due."""
        walk = this.queue.walk()
        while (top := walk.peek()) is not None:
            entry, _ = top
            if entry[2] in this.started:
                walk.advance()
                continue
            job = this.vc.queued[entry[2]]
            slots = this.find_place(job)
            if slots is not None:
                self.start(this, job, slots)
                walk.advance()
                if self.bypass.max_overtakes is not None and self.due(this):
                    return True
            elif self.blocks(this, job):
                if not (self.packs or self.ages):
                    self._blocking[this.vc.name] = entry
                return False
            else:
                walk.drop_bucket()
        return False

    def blocks(self, this: Pass, job: QueuedJob) -> bool:
        """Whether a job that cannot be placed ends the pass."""
        if self.bypass.backfill or not has_place(this.vc.free, job):
            return False
        this.blocker = (job.job_id, HoldCause.BEHIND)
        return True

    def due(self, this: Pass) -> list[QueuedJob]:
        """Waiting jobs that nobody may overtake any more and that can be placed some day."""
        ids = this.vc.arrivals.due(
            this.view.now_s,
            self.bypass.max_overtakes,
            self.bypass.max_wait_s,
            this.started.__contains__,
            this.arrivals or [],
        )
        jobs = (this.vc.queued[job_id] for job_id in ids if job_id in this.queue)
        return [job for job in jobs if has_place(this.vc.free, job)]

    def start_due(self, this: Pass) -> bool:
        """Start due jobs, oldest first; returns whether others may start too."""
        while due := self.due(this):
            slots = this.find_place(due[0])
            if slots is None:
                this.blocker = (due[0].job_id, HoldCause.AGED_JOB)
                return False
            self.start(this, due[0], slots)
        return True

    def start(self, this: Pass, job: QueuedJob, slots: Slots) -> None:
        """Start ``job`` on free GPUs."""
        reasons: tuple[Reason, ...] = ()
        if job.avoid_nodes and gives_way(this.free, job):
            self.fallbacks["avoid_list_gave_way"] += 1
        if this.view.explain:
            facts = {"gpus": job.gpus, "gpus_free": this.free_gpus, "nodes": len(slots)}
            reasons = (*self.reasons(this, job), Reason("consolidated_placement", facts))
        this.decisions.append(Start(job.job_id, this.vc.free.layout.placement(slots), reasons))
        this.take(job, slots)

    def reasons(self, this: Pass, job: QueuedJob) -> tuple[Reason, ...]:
        """Why the job stands where it stands in the order."""
        order = [self.key_reason(job, this.queue.key(job.job_id))]
        if job.avoid_nodes:
            order.append(avoid_reason(this.free, job))
        if not self.bypass.ages:
            return tuple(order)
        facts = {
            "overtaken_count": this.vc.arrivals.overtaken_count(job.submitted_s, job.sequence),
            "max_overtakes": self.bypass.max_overtakes,
            "waited_s": this.view.now_s - job.submitted_s,
            "max_wait_s": self.bypass.max_wait_s,
        }
        return (*order, Reason("bounded_bypass", facts))

    def hold_reasons(self, this: Pass, job: QueuedJob) -> tuple[Reason, ...]:
        """Why a job that was not started waits."""
        return self.reasons(this, job)


def _first_due_s(vc: VcView, now_s: float, max_wait_s: float) -> list[float]:
    for submitted_s, _, _ in vc.arrivals.oldest():
        if submitted_s + max_wait_s > now_s:
            return [submitted_s + max_wait_s]
    return []
