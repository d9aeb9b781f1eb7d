"""Ordered queues that follow a view from pass to pass."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Generic

from lucid_pipelines.domain.view import QUEUED, STARTED, WITHDRAWN, Change, ClusterView, QueuedJob
from lucid_pipelines.policies.ordered_queue import AnyBucket, Key, OrderedQueue


class Queues(Generic[AnyBucket]):
    """One ``OrderedQueue`` per virtual cluster, brought up to date by what changed since the last view.

    A job's key is asked for once per queueing; after a view of another state everything is asked again.
    """

    def __init__(
        self,
        key: Callable[[QueuedJob], Key | None],
        bucket: Callable[[QueuedJob], AnyBucket],
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
        self._queues: dict[str, OrderedQueue[AnyBucket]] = {}
        self.busy: dict[str, None] = {}
        """Virtual clusters in which jobs wait, as of the last view; in the order in which they became busy."""
        self._state_id: object = None
        self._revision = 0
        self._decided: dict[str, int | None] = {}
        self._dirty: dict[str, bool] = {}

    def follow(self, view: ClusterView) -> Collection[str]:
        """Returns the virtual clusters in which something may be decided now."""
        changes = None if view.state_id is not self._state_id else view.changes_since(self._revision)
        self._revision = view.revision
        if changes is None:
            self._begin_anew(view)
            return view.vcs
        decided, self._decided = self._decided, {}
        dirty: dict[str, bool] = {}
        other_change = self._other_change
        for change in changes:
            kind, vc, job, _ = change
            if kind is QUEUED and job is not None:
                self._enter(job)
                if vc not in dirty:
                    dirty[vc] = False
                continue
            if kind is STARTED and job is not None:
                self._leave(vc, job, True)
                if other_change is not None:
                    other_change(change)
                if expected := decided.get(vc):
                    decided[vc] = expected - 1
                continue
            if kind is WITHDRAWN and job is not None:
                self._leave(vc, job, False)
            elif other_change is not None:
                other_change(change)
            dirty[vc] = True
        for vc, expected in decided.items():
            if expected != 0:
                dirty[vc] = True
        self._dirty = dirty
        return view.vcs if view.holds else dirty

    def has_only_arrivals(self, vc: str) -> bool:
        """Whether the last ``follow`` saw nothing in a virtual cluster but jobs that entered its queue."""
        return self._dirty.get(vc) is False

    def of(self, vc: str) -> OrderedQueue[AnyBucket]:
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

    def _begin_anew(self, view: ClusterView) -> None:
        self._state_id = view.state_id
        self._queues, self._decided, self._dirty = {}, {}, {}
        self.busy = {}
        if self._rebuilt is not None:
            self._rebuilt(view)
        for vc in view.vcs.values():
            for job in vc.queued.values():
                self._enter(job)

    def _enter(self, job: QueuedJob) -> None:
        key = self._key(job)
        if key is None:
            return
        queue = self._queues.get(job.vc)
        if queue is None:
            queue = self.of(job.vc)
        queue.add(job.job_id, key, job.sequence, self._bucket(job))
        self.busy[job.vc] = None
        if self._entered is not None:
            self._entered(job, key)

    def _leave(self, vc: str, job: QueuedJob, started: bool) -> None:
        queue = self._queues.get(vc)
        if queue is not None and queue.discard(job.job_id) and not queue.buckets:
            del self.busy[vc]
        if self._left is not None:
            self._left(job, started)
