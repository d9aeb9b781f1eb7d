"""What a policy sees: queue, running set, free GPUs, forecast and time (ARCHITECTURE section 6).

Times are seconds since 1970-01-01 UTC (a replay of a trace without a calendar starts at its own zero).
A view is read-only and valid until its driver changes the state behind it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from lucid_pipelines.domain.arrivals import Arrivals
from lucid_pipelines.domain.cluster import Placement
from lucid_pipelines.domain.decision import MAIN, Stage
from lucid_pipelines.domain.free_gpus import FreeGpus, Slots
from lucid_pipelines.domain.job import Estimate, Profile


class QueuedJob(NamedTuple):
    """A job that waits, with everything that a policy may know of it. Unknown is ``None``.

    A named tuple, as ``RunningJob`` is: replays make millions of them, and a frozen dataclass takes four times
    as long to make.

    Attributes:
        submitted_s: when the user submitted it; a stopped and requeued job keeps it.
        sequence: order of arrival among equal times, unique within a view.
        estimate: predicted duration; policies ask for it once per job and model version.
        sharing_score: 0 tiny, 1 medium, 2 jumbo; ``None`` = unknown, which forbids packing (R-25).
        attained_gpu_s: GPU-seconds of service in earlier attempts.
        attained_s: seconds of work done and kept in earlier attempts, at exclusive speed.
        true_remaining_s: what is really left to do; only a replay knows.
        long_cold_start: its user says that it starts slowly: it is profiled for longer.
        avoid_nodes: nodes that placement keeps it off (R-19).
        must_avoid: it waits rather than run on one of them. Otherwise a list that leaves it no place even on an
            empty virtual cluster gives way: who failed everywhere has another cause than its nodes.
    """

    job_id: str
    vc: str
    gpus: int
    submitted_s: float
    sequence: int = 0
    user: str = ""
    name: str = ""
    gpu_type: str | None = None
    estimate: Estimate | None = None
    profile: Profile | None = None
    sharing_score: int | None = None
    never_pack: bool = False
    attempt_count: int = 0
    attained_gpu_s: float = 0.0
    attained_s: float = 0.0
    true_remaining_s: float | None = None
    long_cold_start: bool = False
    avoid_nodes: tuple[str, ...] = ()
    must_avoid: bool = False


class RunningJob(NamedTuple):
    """A job that holds GPUs.

    Attributes:
        job: as it was when it started.
        slots: its GPUs as bit sets of its virtual cluster's layout.
        partners: jobs on the same GPUs.
        speed_frac: present speed relative to running alone; ``None`` = not observed.
        done_s: work done in this attempt until ``as_of_s``, at exclusive speed.
        is_unstable: its resource use no longer fits what the packing was decided on.
    """

    job: QueuedJob
    placement: Placement
    slots: Slots
    started_s: float
    as_of_s: float
    done_s: float = 0.0
    speed_frac: float | None = 1.0
    partners: tuple[str, ...] = ()
    is_unstable: bool = False
    stage: Stage = MAIN

    def work_done_s(self, now_s: float) -> float:
        """Work done in all attempts until ``now_s``, at exclusive speed."""
        speed = 1.0 if self.speed_frac is None else self.speed_frac
        return self.job.attained_s + self.done_s + (now_s - self.as_of_s) * speed

    def true_remaining_s(self, now_s: float) -> float | None:
        if self.job.true_remaining_s is None:
            return None
        return self.job.true_remaining_s - (self.work_done_s(now_s) - self.job.attained_s)

    def attained_gpu_s(self, now_s: float) -> float:
        """GPU-seconds held in all attempts until ``now_s``."""
        return self.job.attained_gpu_s + self.job.gpus * (now_s - self.started_s)


@dataclass(frozen=True, slots=True)
class Forecast:
    """Predicted submissions per time slot.

    Attributes:
        starts_s: begin of each slot, ascending.
        jobs, gpus: predicted jobs and GPUs asked for in each slot.
    """

    starts_s: Sequence[float]
    jobs: Sequence[float]
    gpus: Sequence[float]

    def mean_jobs_ahead(self, now_s: float, slots: int = 5) -> float | None:
        """Mean predicted jobs of the next ``slots`` slots; ``None`` when the forecast has run out."""
        return _mean_ahead(self.starts_s, self.jobs, now_s, slots)

    def mean_gpus_ahead(self, now_s: float, slots: int = 5) -> float | None:
        """As ``mean_jobs_ahead``, for GPUs."""
        return _mean_ahead(self.starts_s, self.gpus, now_s, slots)

    def jobs_at(self, now_s: float) -> float | None:
        """Predicted jobs of the slot that ``now_s`` lies in; ``None`` before the first."""
        slot = bisect_right(self.starts_s, now_s) - 1
        return self.jobs[slot] if slot >= 0 else None

    def next_slot_s(self, now_s: float) -> float | None:
        """When the next slot begins."""
        slot = bisect_right(self.starts_s, now_s)
        return self.starts_s[slot] if slot < len(self.starts_s) else None


def _mean_ahead(starts: Sequence[float], values: Sequence[float], now_s: float, slots: int) -> float | None:
    begin = bisect_right(starts, now_s)
    ahead = values[begin : begin + slots]
    return sum(ahead) / len(ahead) if len(ahead) else None


class ChangeKind(StrEnum):
    """What happened to a virtual cluster since a policy last looked."""

    QUEUED = "queued"
    STARTED = "started"
    WITHDRAWN = "withdrawn"
    """Left the queue without starting."""
    RELEASED = "released"
    """Left the running set."""
    UPDATED = "updated"
    """A running job changed (partner, stability)."""
    NODES = "nodes"


QUEUED, STARTED, WITHDRAWN, RELEASED, UPDATED, NODES = ChangeKind
"""The members by themselves: to look one up in its class takes as long as all else that is done with a change."""

Change = tuple[ChangeKind, str, QueuedJob | None, RunningJob | None]
"""Kind, virtual cluster, job (``None`` for ``NODES``), and the job as it runs (for ``STARTED`` and ``UPDATED``).
A plain tuple, for a replay makes three for every job."""


class VcView:
    """One virtual cluster: its free GPUs, its queue and its running jobs, each in the order of entering."""

    __slots__ = ("arrivals", "free", "name", "queued", "running")

    def __init__(
        self,
        name: str,
        free: FreeGpus,
        queued: Mapping[str, QueuedJob],
        running: Mapping[str, RunningJob],
        arrivals: Arrivals,
    ) -> None:
        self.name = name
        self.free = free
        self.queued = queued
        self.running = running
        self.arrivals = arrivals

    @property
    def gpus(self) -> int:
        return self.free.layout.gpus


class ClusterView:
    """The cluster at ``now_s``.

    Attributes:
        state_id: identity of the state behind the view; a policy that sees another one starts afresh.
        revision: grows with every change of that state.
        explain: whether decisions carry reasons.
        holds: whether every job that is not started gets a ``Hold``. A replay does without both, a live pass
            without holds: they cost as much as all that wait.
        focus: the one job whose ``Hold`` shall say everything; ``None`` = all.
    """

    __slots__ = ("_changes", "explain", "focus", "forecast", "holds", "now_s", "revision", "state_id", "vcs")

    def __init__(
        self,
        now_s: float,
        vcs: Mapping[str, VcView],
        state_id: object,
        revision: int = 0,
        changes: Sequence[Change] = (),
        forecast: Forecast | None = None,
        explain: bool = True,
        holds: bool | None = None,
        focus: str | None = None,
    ) -> None:
        self.now_s = now_s
        self.vcs = vcs
        self.state_id = state_id
        self.revision = revision
        self.forecast = forecast
        self.explain = explain
        self.holds = explain if holds is None else holds
        self.focus = focus
        self._changes = changes

    def changes_since(self, revision: int) -> Sequence[Change] | None:
        """Changes after ``revision``, oldest first; ``None`` when they are no longer kept."""
        missing = self.revision - revision
        if missing < 0 or missing > len(self._changes):
            return None
        return self._changes[len(self._changes) - missing :]
