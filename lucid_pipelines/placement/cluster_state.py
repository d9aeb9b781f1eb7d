"""The state behind a view: one object that drivers change and policies only see through ``view``.

The simulator keeps one for a whole replay; the live pass builds one from its records each time
(``ClusterState.of``). Both get the same views, so a policy cannot tell them apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from lucid_pipelines.domain.arrivals import Arrivals
from lucid_pipelines.domain.cluster import Node, NodeCondition, Placement
from lucid_pipelines.domain.decision import MAIN, Stage
from lucid_pipelines.domain.errors import InputError, NotFoundError, StateError, did_you_mean
from lucid_pipelines.domain.free_gpus import FreeGpus, NodeLayout, Slots, gpu_count_of
from lucid_pipelines.domain.view import (
    NODES,
    QUEUED,
    RELEASED,
    STARTED,
    UPDATED,
    WITHDRAWN,
    Change,
    ClusterView,
    Forecast,
    QueuedJob,
    RunningJob,
    VcView,
)
from lucid_pipelines.placement.consolidated import can_ever_fit

_CHANGES_KEPT = 4096


class _Vc:
    """Mutable side of a ``VcView``."""

    __slots__ = ("arrivals", "queued", "running", "view")

    def __init__(self, name: str, nodes: Iterable[Node]) -> None:
        self.queued: dict[str, QueuedJob] = {}
        self.running: dict[str, RunningJob] = {}
        self.arrivals = Arrivals()
        self.view = VcView(name, FreeGpus.of_nodes(nodes), self.queued, self.running, self.arrivals)


class ClusterState:
    """Queue, running set and free GPUs of every virtual cluster."""

    def __init__(
        self, nodes: Iterable[Node], *, track_arrivals: bool = True, lent: Mapping[str, str] | None = None
    ) -> None:
        """An empty cluster. Nodes that are not ready take no part.

        Args:
            lent: the virtual cluster that each lent node works for; the node keeps its own as owner.
            track_arrivals: keep account of who overtakes whom; only policies whose jobs age need it.

        Raises:
            InputError: two nodes have the same name.
        """
        by_vc: dict[str, list[Node]] = {}
        names: set[str] = set()
        for node in nodes:
            if node.name in names:
                raise InputError(f"every node needs a name of its own; {node.name!r} occurs twice")
            names.add(node.name)
            by_vc.setdefault(node.vc, [])
            usable = by_vc.setdefault((lent or {}).get(node.name, node.vc), [])
            if node.condition is NodeCondition.READY and node.gpus:
                usable.append(node)
        self._vcs = {name: _Vc(name, group) for name, group in by_vc.items()}
        self._views: dict[str, VcView] = {name: vc.view for name, vc in self._vcs.items()}
        self._vc_of_job: dict[str, _Vc] = {}
        self._changes: list[Change] = []
        self._forgotten_count = 0
        self._id = object()
        self._track_arrivals = track_arrivals
        self.used_gpus = 0
        """GPUs that at least one job holds."""
        self.waiting_count = 0
        """Jobs in all queues."""
        self.has_unstable = False
        """Whether any running job has turned unstable since the last view."""
        self.has_news = False
        """Whether anything has happened since the last view, but starts, in a virtual cluster in which jobs wait."""

    @classmethod
    def of(
        cls,
        nodes: Iterable[Node],
        queued: Iterable[QueuedJob] = (),
        running: Iterable[RunningJob] = (),
        unusable_gpus: Mapping[str, Iterable[int]] | None = None,
        ended_starts: Iterable[QueuedJob] = (),
        lent: Mapping[str, str] | None = None,
    ) -> ClusterState:
        """Build the state from plain lists, for a live pass.

        Args:
            running: only ``placement``, not ``slots``, is read. A share on a node that is unknown or not
                ready takes no GPU here. Those submitted after a waiting job count as having overtaken it.
            unusable_gpus: GPUs by node that nothing may be started on (isolated, or dirty, R-21).
            ended_starts: jobs that started and ended since the oldest waiting job was submitted; only needed
                for ``max_overtakes``.
            lent: the virtual cluster that each lent node works for.
        """
        state = cls(_without(nodes, unusable_gpus or {}), lent=lent)
        for job in queued:
            state.enqueue(job)
        for job in running:
            state.adopt(job)
        for job in ended_starts:
            state._vcs[job.vc].arrivals.count_start(job.submitted_s, job.sequence)
        state._forget_changes(0)  # nobody has seen this state before
        return state

    def view(
        self,
        now_s: float,
        *,
        forecast: Forecast | None = None,
        explain: bool = True,
        holds: bool | None = None,
        focus: str | None = None,
    ) -> ClusterView:
        """The cluster as a policy sees it; valid until the next change. See ``ClusterView``."""
        view = ClusterView(now_s, self._views, self._id, 0, self._changes, forecast, explain, holds, focus)
        self.refresh(view, now_s)
        return view

    def refresh(self, view: ClusterView, now_s: float) -> None:
        """Bring a view of this state up to the present. A replay looks too often to make a new one each time."""
        self.has_unstable = self.has_news = False
        if len(self._changes) > 2 * _CHANGES_KEPT:
            self._forget_changes(_CHANGES_KEPT)
        view.now_s = now_s
        view.revision = self._forgotten_count + len(self._changes)

    def layout(self, vc: str) -> NodeLayout:
        """The nodes of a virtual cluster."""
        return self._vcs[vc].view.free.layout

    def can_ever_fit(self, vc: str, gpus: int, gpu_type: str | None = None) -> bool:
        """Whether a virtual cluster could hold such a job if it were empty."""
        return vc in self._vcs and can_ever_fit(self._vcs[vc].view.free, gpus, gpu_type)

    def queue_length(self, vc: str) -> int:
        """How many jobs wait in a virtual cluster."""
        return len(self._vcs[vc].view.queued) if vc in self._vcs else 0

    def queued(self, job_id: str) -> QueuedJob:
        return self._queued(job_id)[1]

    def running(self, job_id: str) -> RunningJob:
        running = self._vc(job_id).running.get(job_id)
        if running is None:
            raise StateError(f"the job is queued, not running: {job_id!r}")
        return running

    def enqueue(self, job: QueuedJob) -> None:
        """Add a job to the queue of its virtual cluster, known or not.

        Raises:
            StateError: it is queued or running already.
        """
        job_id, name = job.job_id, job.vc
        if job_id in self._vc_of_job:
            raise StateError(f"a job is queued once; it is already there: {job_id!r}")
        if job.gpus < 1:
            raise InputError(f"a job needs at least 1 GPU; {job_id!r} asks for {job.gpus}")
        vc = self._vcs.get(name)
        if vc is None:
            vc = self._vcs[name] = _Vc(name, ())
            self._views[name] = vc.view
        vc.queued[job_id] = job
        self.waiting_count += 1
        self.has_news = True
        if self._track_arrivals:
            vc.arrivals.add(job.submitted_s, job.sequence, job_id)
        self._vc_of_job[job_id] = vc
        self._changes.append((QUEUED, name, job, None))

    def withdraw(self, job_id: str) -> QueuedJob:
        """Take a job out of the queue without starting it."""
        vc, job = self._queued(job_id)
        del vc.queued[job_id]
        self.waiting_count -= 1
        if self._track_arrivals:
            vc.arrivals.leave(job.submitted_s, job.sequence, job_id, started=False)
        del self._vc_of_job[job_id]
        self.has_news = self.has_news or bool(vc.queued)
        self._changes.append((WITHDRAWN, job.vc, job, None))
        return job

    def start(self, running: RunningJob, *, gpus: int | None = None) -> None:
        """Move a job from the queue onto free GPUs.

        Args:
            gpus: how many it gets; ``None`` = as many as it asks for.

        Raises:
            StateError: a GPU is not free, or the job is not queued.
        """
        vc, job = self._queued(running.job.job_id)
        self._start(vc, running, job.gpus if gpus is None else gpus)

    def place(
        self, job_id: str, placement: Placement, now_s: float, stage: Stage = MAIN, *, gpus: int | None = None
    ) -> RunningJob:
        """As ``start``, for a job that begins at ``now_s``; returns it as it runs."""
        vc = self._vc_of_job.get(job_id) or self._vc(job_id)
        job = vc.queued.get(job_id) or self._queued(job_id)[1]
        slots = vc.view.free.layout.slots(placement)
        running = RunningJob(job, placement, slots, now_s, now_s, 0.0, 1.0, (), False, stage)
        self._start(vc, running, job.gpus if gpus is None else gpus)
        return running

    def pack(self, running: RunningJob, partner_id: str) -> None:
        """Move a job from the queue onto GPUs of a running one; all that share them learn of each other.

        Raises:
            StateError: the GPUs are not the partner's, or the partner is not running.
        """
        vc, _ = self._queued(running.job.job_id)
        partner = vc.running.get(partner_id)
        if partner is None or not _covers(partner.slots, running.slots):
            raise StateError(f"a packed job takes its running partner's GPUs; got {partner_id!r}")
        sharers = (partner_id, *partner.partners)
        self._moved(vc, running._replace(partners=sharers))
        for sharer_id in sharers:
            sharer = vc.running[sharer_id]
            self.update(sharer._replace(partners=(*sharer.partners, running.job.job_id)))

    def exchange(self, moved: Sequence[RunningJob]) -> None:
        """Give running jobs other GPUs: all give theirs up before the first takes its new ones.

        Args:
            moved: the jobs as they are to be, alone on their GPUs before and after.

        Raises:
            StateError: a job is not running, shares GPUs, or is to get some that are not free then.
        """
        for running in moved:
            before = self.running(running.job.job_id)
            if before.partners:
                raise StateError(f"a job that shares GPUs cannot be moved: {running.job.job_id!r}")
            self._vc(running.job.job_id).view.free.release(before.slots)
            self.used_gpus -= gpu_count_of(before.slots)
        for running in moved:
            if not running.slots:
                raise StateError(f"{running.job.job_id} is to move to GPUs that are none: {running.placement}")
            self._vc(running.job.job_id).view.free.take(running.slots)
            self.used_gpus += gpu_count_of(running.slots)
            self.update(running)

    def update(self, running: RunningJob) -> None:
        """Replace what is known of a running job (speed, partner, stability)."""
        job = running.job
        vc = self._vc(job.job_id)
        if job.job_id not in vc.running:
            raise StateError(f"only a running job can be updated; got {job.job_id!r}")
        vc.running[job.job_id] = running
        if vc.queued:
            self.has_news = True
        self.has_unstable = self.has_unstable or running.is_unstable
        self._changes.append((UPDATED, job.vc, job, running))

    def release(self, job_id: str) -> RunningJob:
        """Take a job out of the running set; GPUs that nobody else uses become free."""
        vc = self._vc_of_job.get(job_id) or self._vc(job_id)
        running = vc.running.pop(job_id, None)
        if running is None:
            raise StateError(f"only a running job can be released; got {job_id!r}")
        del self._vc_of_job[job_id]
        freed = self._left_alone(vc, running) if running.partners else running.slots
        free = vc.view.free
        before = free.free_gpus
        free.release(freed)
        self.used_gpus -= free.free_gpus - before
        for partner_id in running.partners:
            partner = vc.running.get(partner_id)
            if partner is not None:
                others = tuple(p for p in partner.partners if p != job_id)
                self.update(partner._replace(partners=others))
        if vc.queued:
            self.has_news = True
        job = running.job
        self._changes.append((RELEASED, job.vc, job, None))
        return running

    def move_nodes(self, from_vc: str, to_vc: str, names: Iterable[str]) -> None:
        """Lend idle nodes to another virtual cluster, or give them back.

        Raises:
            StateError: a node is not there or not idle.
        """
        source, target = self._vcs[from_vc], self._vcs[to_vc]
        moving = set(names)
        layout = source.view.free.layout
        for name in moving:
            position = layout.index.get(name)
            if position is None or source.view.free.masks[position] != layout.capacity[position]:
                raise StateError(f"only idle nodes of {from_vc} can be lent; got {name!r}")
        staying = [node for node in layout.nodes if node.name not in moving]
        joining = [node for node in layout.nodes if node.name in moving]
        self._relayout(source, staying)
        self._relayout(target, [*target.view.free.layout.nodes, *joining])

    def _relayout(self, vc: _Vc, nodes: list[Node]) -> None:
        old = vc.view.free
        masks = dict(zip(old.layout.names, old.masks, strict=True))
        new = FreeGpus.of_nodes(nodes)
        layout = new.layout
        used = [(i, layout.capacity[i] & ~masks.get(name, -1)) for i, name in enumerate(layout.names)]
        new.take(tuple((position, mask) for position, mask in used if mask))
        vc.view.free = new
        for job_id, running in vc.running.items():
            vc.running[job_id] = running._replace(slots=layout.slots(running.placement))
        self.has_news = True
        self._changes.append((NODES, vc.view.name, None, None))

    def adopt(self, running: RunningJob) -> None:
        """Add a job that already runs, on whatever it holds; used when a state is built from records."""
        job = running.job
        if job.job_id in self._vc_of_job:
            raise StateError(f"a job runs once; it is already there: {job.job_id!r}")
        if job.vc not in self._vcs:
            self._vcs[job.vc] = _Vc(job.vc, ())
            self._views[job.vc] = self._vcs[job.vc].view
        vc = self._vcs[job.vc]
        layout = vc.view.free.layout
        # Of GPUs that nothing may be started on the state knows nothing.
        held = ((p, mask & layout.capacity[p]) for p, mask in layout.slots(running.placement))
        slots = tuple((p, mask) for p, mask in held if mask)
        vc.running[job.job_id] = running._replace(slots=slots)
        self._vc_of_job[job.job_id] = vc
        vc.arrivals.count_start(job.submitted_s, job.sequence)
        taken = tuple((p, mask & vc.view.free.masks[p]) for p, mask in slots)
        vc.view.free.take(taken)
        self.used_gpus += gpu_count_of(taken)

    def _left_alone(self, vc: _Vc, running: RunningJob) -> Slots:
        masks = dict(running.slots)
        for partner_id in running.partners:
            partner = vc.running.get(partner_id)
            for position, mask in partner.slots if partner is not None else ():
                masks[position] = masks.get(position, 0) & ~mask
        return tuple((position, mask) for position, mask in masks.items() if mask)

    def _start(self, vc: _Vc, running: RunningJob, gpus: int) -> None:
        if gpu_count_of(running.slots) != gpus:
            raise StateError(
                f"{running.job.job_id} needs {gpus} GPUs of {running.job.vc}'s nodes; got {running.placement}"
            )
        vc.view.free.take(running.slots)
        self.used_gpus += gpus
        self._moved(vc, running)

    def _moved(self, vc: _Vc, running: RunningJob) -> None:
        job = running.job
        job_id = job.job_id
        del vc.queued[job_id]
        self.waiting_count -= 1
        if self._track_arrivals:
            vc.arrivals.leave(job.submitted_s, job.sequence, job_id, started=True)
        vc.running[job_id] = running
        self._changes.append((STARTED, job.vc, job, running))

    def _vc(self, job_id: str) -> _Vc:
        vc = self._vc_of_job.get(job_id)
        if vc is None:
            hint = did_you_mean(job_id, self._vc_of_job) if len(self._vc_of_job) < 1000 else ""
            raise NotFoundError(f"no such job in the cluster's state{hint}: {job_id!r}")
        return vc

    def _queued(self, job_id: str) -> tuple[_Vc, QueuedJob]:
        vc = self._vc_of_job.get(job_id) or self._vc(job_id)
        job = vc.queued.get(job_id)
        if job is None:
            raise StateError(f"only a queued job can be started; it is running: {job_id!r}")
        return vc, job

    def _forget_changes(self, kept: int) -> None:
        forgotten = len(self._changes) - kept
        if forgotten > 0:
            del self._changes[:forgotten]
            self._forgotten_count += forgotten


def _covers(outer: Slots, inner: Slots) -> bool:
    masks = dict(outer)
    return all(masks.get(position, 0) & mask == mask for position, mask in inner)


def _without(nodes: Iterable[Node], unusable: Mapping[str, Iterable[int]]) -> Iterable[Node]:
    """The nodes without their unusable GPUs."""
    for node in nodes:
        gone = set(unusable.get(node.name, ()))
        kept = tuple(gpu for gpu in node.gpus if gpu.index not in gone)
        yield replace(node, gpus=kept) if gone else node
