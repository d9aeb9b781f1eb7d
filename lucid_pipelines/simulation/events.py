"""What is going to happen in a replay, in order of time."""

from __future__ import annotations

import heapq
import math
from enum import Enum

from lucid_pipelines.domain.trace import TraceJob
from lucid_pipelines.simulation.inputs import gave_up_s


class EventKind(Enum):
    END = 0
    GIVE_UP = 1
    """The user cancels a job that still waits."""
    SAMPLED = 2
    """Enough has been measured of a running job to know its profile."""
    WATCHED = 3
    """A packed job has been watched long enough to know whether the pair is stable."""


END, GIVE_UP, SAMPLED, WATCHED = EventKind
"""The members by themselves: to look one up in its class costs as much as a call."""


class ReplayedJob:
    """One job while it is replayed.

    Attributes:
        remaining_s: work left at ``as_of_s``, in seconds at exclusive speed.
        rate: present speed.
        since_s: when its present stay in the queue, or its present attempt, began.
        waited_s: how long it waited for its present attempt.
        placed_number: order of starting among all jobs.
        held_gpus: what it holds, or last held.
        shares: the jobs on the same GPUs, since when, and the speed beside that job alone.
        version: grows with every change of rate, so that an end that no longer holds is known.
        stay: grows with every entering and leaving of queue and running set, for all other events.
    """

    __slots__ = (
        "as_of_s",
        "give_up_s",
        "held_gpus",
        "in_profiler",
        "index",
        "is_running",
        "placed_number",
        "rate",
        "remaining_s",
        "shares",
        "since_s",
        "stay",
        "trace",
        "version",
        "waited_s",
    )

    def __init__(self, index: int, trace: TraceJob) -> None:
        self.index = index
        self.trace = trace
        self.remaining_s = trace.duration_s
        self.rate = 1.0
        self.as_of_s = trace.submit_s
        self.since_s = trace.submit_s
        self.waited_s = 0.0
        self.is_running = False
        self.in_profiler = False
        self.placed_number = 0
        self.held_gpus = int(trace.gpus)
        self.version = 0
        self.stay = 0
        self.shares: dict[ReplayedJob, tuple[float, float]] = {}
        self.give_up_s = None if trace.duration_s > 0 else gave_up_s(trace)


class Events:
    """A heap of events; one whose job has changed since is handed out as nothing."""

    __slots__ = ("_count", "_heap", "next_s")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, EventKind, ReplayedJob, int]] = []
        self._count = 0
        self.next_s = math.inf

    def add(self, time_s: float, kind: EventKind, job: ReplayedJob) -> None:
        self._count += 1
        token = job.version if kind is END else job.stay
        heapq.heappush(self._heap, (time_s, self._count, kind, job, token))
        if time_s < self.next_s:
            self.next_s = time_s

    def pop(self) -> tuple[EventKind, ReplayedJob | None]:
        heap = self._heap
        _, _, kind, job, token = heapq.heappop(heap)
        self.next_s = heap[0][0] if heap else math.inf
        is_valid = token == (job.version if kind is END else job.stay)
        return kind, job if is_valid else None
