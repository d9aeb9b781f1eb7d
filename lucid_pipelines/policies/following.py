"""Ordered queues that follow a view from pass to pass."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable

from lucid_pipelines.domain.view import Change, ChangeKind, ClusterView, QueuedJob
from lucid_pipelines.policies.ordered_queue import Key, OrderedQueue


class Queues:
    """One ``OrderedQueue`` per virtual cluster, brought up to date by what changed since the last view.

    A job's key is asked for once per queueing; after a view of another state everything is asked again.
    """

    def __init__(
        self,
        key: Callable[[QueuedJob], Key | None],
        bucket: Callable[[QueuedJob], Hashable],
        other_change: Callable[[Change], None] | None = None,
        rebuilt: Callable[[ClusterView], None] | None = None,
        entered: Callable[[QueuedJob, Key], None] | None = None,
        left: Callable[[QueuedJob, bool], None] | None = None,
    ) -> None:
        """Args:
        other_change: told of every change that is no entering or leaving of a queue, and of every start.
        rebuilt: told before the queues are built anew from a view.
        entered, left: told of every job that enters a queue, and that leaves it (and whether by starting).
        """
        self._entered = entered
        self._left = left
        self._key = key
        self._bucket = bucket
        self._other_change = other_change
        self._rebuilt = rebuilt
        self._queues: dict[str, OrderedQueue] = {}
        self._state_id: object = None
        self._revision = 0
        self._decided: dict[str, int | None] = {}
        self._dirty: dict[str, bool] = {}

    def follow(self, view: ClusterView) -> Collection[str]:
        """Returns the virtual clusters in which something may be decided now."""
        changes = None if view.state_id is not self._state_id else view.changes_since(self._revision)
        self._revision = view.revision
        if changes is None:
            self._state_id = view.state_id
            self._queues, self._decided, self._dirty = {}, {}, {}
            if self._rebuilt is not None:
                self._rebuilt(view)
            for vc in view.vcs.values():
                for job in vc.queued.values():
                    self._enter(job)
            return view.vcs
        decided, self._decided = self._decided, {}
        dirty: dict[str, bool] = {}
        for change in changes:
            kind = change.kind
            if kind is ChangeKind.QUEUED:
                self._enter(change.job)  # pyright: ignore[reportArgumentType]  (never None for this kind)
                dirty.setdefault(change.vc, False)
                continue
            if kind is ChangeKind.STARTED:
                self._leave(change)
                if self._other_change is not None:
                    self._other_change(change)
                expected = decided.get(change.vc)
                if expected:
                    decided[change.vc] = expected - 1
                continue
            if kind is ChangeKind.WITHDRAWN:
                self._leave(change)
            elif self._other_change is not None:
                self._other_change(change)
            dirty[change.vc] = True
        for vc, expected in decided.items():
            if expected != 0:
                dirty[vc] = True
        self._dirty = dirty
        return view.vcs if view.holds else dirty

    def has_only_arrivals(self, vc: str) -> bool:
        """Whether the last ``follow`` saw nothing in a virtual cluster but jobs that entered its queue."""
        return self._dirty.get(vc) is False

    def of(self, vc: str) -> OrderedQueue:
        queue = self._queues.get(vc)
        if queue is None:
            queue = self._queues[vc] = OrderedQueue()
        return queue

    @property
    def has_decided(self) -> bool:
        """Whether decisions were given since the last view."""
        return bool(self._decided)

    def decided(self, vc: str, starts: int | None = None) -> None:
        """Note that decisions were given for ``vc``: it is looked at again, for they may come to nothing.

        Args:
            starts: how many they were, if all of them are starts: once as many jobs have started, nothing is left to
                look at. ``None`` = look again in any case.
        """
        self._decided[vc] = starts

    def _enter(self, job: QueuedJob) -> None:
        key = self._key(job)
        if key is None:
            return
        self.of(job.vc).add(job.job_id, key, job.sequence, self._bucket(job))
        if self._entered is not None:
            self._entered(job, key)

    def _leave(self, change: Change) -> None:
        if change.job is not None:
            self.of(change.vc).discard(change.job.job_id)
            if self._left is not None:
                self._left(change.job, change.kind is ChangeKind.STARTED)
