"""The frame of policies that choose how many GPUs a job gets, and change it while the job runs.

At every round the policy chooses a share (number of GPUs, GPU type) for each job of a virtual cluster. Jobs whose
share stays keep their GPUs; the others give theirs up and are placed anew, the largest first. Who finds no place of
the chosen size takes the next smaller one that it can use.

These policies need jobs that can be stopped and resized at any time and whose speed on other numbers of GPUs is
known (``ScalingCurve``). A job without a curve is rigid: it gets what it asks for, or nothing. They are baselines for
replays: the live scheduler never changes a job's number of GPUs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lucid_pipelines.domain.decision import Decision, Hold, HoldCause, Reason, Resize, Start, Stop, StopCause
from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.domain.free_gpus import FreeGpus, Slots
from lucid_pipelines.domain.scaling import ScalingCurve
from lucid_pipelines.domain.view import ClusterView, QueuedJob, RunningJob, VcView
from lucid_pipelines.placement import find_place, has_place
from lucid_pipelines.policies.profiling_rules import ProfilingRules


@dataclass(frozen=True, slots=True)
class Share:
    """What a job may get: GPUs of one type, and its speed with them."""

    gpus: int
    gpu_type: str | None
    speed: float


@dataclass(frozen=True, slots=True)
class Claimant:
    """A job that waits or runs, as a round sees it.

    Attributes:
        shares: what it may get, small first; never empty.
        now: what it has; ``None`` when it waits.
        restart_factor: what a change leaves of its speed, for the time that a restart costs (Pollux, section 4.2.1).
    """

    job: QueuedJob
    running: RunningJob | None
    curve: ScalingCurve | None
    shares: tuple[Share, ...]
    now: Share | None
    restart_factor: float

    def worth(self, share: Share) -> float:
        """Speed with ``share``, less what changing to it costs."""
        if self.now is None or (share.gpus, share.gpu_type) == (self.now.gpus, self.now.gpu_type):
            return share.speed
        return share.speed * self.restart_factor


class ElasticPolicy:
    """Subclasses choose the shares."""

    preempts: bool = True
    resizes: bool = True
    sees_types: bool = True
    """Whether a share's GPU type is binding."""

    ages: bool = False
    packs: bool = False
    knows_profiles: bool = False
    predicts: bool = False
    needs_news: bool = False
    profiling: ProfilingRules | None = None

    def __init__(
        self, name: str, curves: Mapping[str, ScalingCurve] | None, interval_s: float, restart_s: float
    ) -> None:
        """Args:
        curves: by job id.
        restart_s: what the policy takes a restart to cost.

        Raises:
            InputError: an interval that is not above 0.
        """
        if not interval_s > 0:
            raise InputError(f"interval_s must be above 0; got {interval_s}")
        self.name = name
        self.fallbacks: Counter[str] = Counter()
        self.round_s: float | None = interval_s
        self._interval_s = interval_s
        self._restart_s = restart_s
        self._curves = curves or {}
        self._counted: set[str] = set()

    def choose(self, vc: VcView, claimants: Sequence[Claimant]) -> Mapping[str, Share]:
        """What each job should get; who is left out gets nothing. Claimants are in order of submission."""
        raise NotImplementedError

    def decide(self, view: ClusterView) -> list[Decision]:
        decisions: list[Decision] = []
        is_round = view.now_s % self._interval_s == 0
        for vc in view.vcs.values():
            started: set[str] = set()
            free = vc.free
            if is_round and (vc.queued or vc.running) and vc.free.layout.names:
                free, started = self._decide_vc(view, vc, decisions)
            if view.explain:
                decisions += self._holds(vc, free, started, is_round=is_round)
        return decisions

    def next_pass_s(self, view: ClusterView) -> float | None:
        """Every round, as long as there is a job."""
        if any(vc.queued or vc.running for vc in view.vcs.values()):
            return (view.now_s // self._interval_s + 1) * self._interval_s
        return None

    def _decide_vc(self, view: ClusterView, vc: VcView, decisions: list[Decision]) -> tuple[FreeGpus, set[str]]:
        claimants = self._claimants(view, vc)
        chosen = self.choose(vc, claimants)
        free = vc.free.copy()
        placing: list[tuple[Claimant, Share]] = []
        for claimant in claimants:
            share = chosen.get(claimant.job.job_id)
            running, now = claimant.running, claimant.now
            if running is not None and now is not None:
                if share is not None and (share.gpus, share.gpu_type) == (now.gpus, now.gpu_type):
                    continue
                free.release(running.slots)
            if share is not None:
                placing.append((claimant, share))
        placing.sort(key=lambda item: -item[1].gpus)
        places: dict[str, Slots] = {}
        for claimant, share in placing:
            slots = self._find(free, claimant, share)
            if slots is not None:
                free.take(slots)
                places[claimant.job.job_id] = slots
        return free, self._write_down(view, vc, claimants, chosen, places, decisions)

    def _write_down(
        self,
        view: ClusterView,
        vc: VcView,
        claimants: Sequence[Claimant],
        chosen: Mapping[str, Share],
        places: Mapping[str, Slots],
        decisions: list[Decision],
    ) -> set[str]:
        """Stops, then one exchange of GPUs among running jobs, then starts. Returns who started."""
        stops: list[Decision] = []
        resizes: list[Decision] = []
        starts: list[Decision] = []
        started: set[str] = set()
        for claimant in claimants:
            job_id, running, now = claimant.job.job_id, claimant.running, claimant.now
            share, slots = chosen.get(job_id), places.get(job_id)
            reasons = (self._reason(claimant, share),) if view.explain else ()
            if running is None or now is None:
                if slots is not None:
                    starts.append(Start(job_id, vc.free.layout.placement(slots), reasons))
                    started.add(job_id)
            elif slots is None and (share is None or (share.gpus, share.gpu_type) != (now.gpus, now.gpu_type)):
                stops.append(Stop(job_id, StopCause.PREEMPTED, requeue=True, reasons=reasons))
            elif slots is not None and slots != running.slots:
                resizes.append(Resize(job_id, vc.free.layout.placement(slots), reasons))
        decisions += [*stops, *resizes, *starts]
        return started

    def _claimants(self, view: ClusterView, vc: VcView) -> list[Claimant]:
        jobs: list[tuple[QueuedJob, RunningJob | None]] = [(job, None) for job in vc.queued.values()]
        jobs += [(running.job, running) for running in vc.running.values()]
        jobs.sort(key=lambda item: (item[0].submitted_s, item[0].sequence))
        found: list[Claimant] = []
        for job, running in jobs:
            if running is not None and (running.partners or not running.slots):
                continue  # on GPUs that it shares, or that are none of this virtual cluster's: not to be moved
            curve = self._curves.get(job.job_id)
            if curve is None and job.job_id not in self._counted:
                self._counted.add(job.job_id)
                self.fallbacks["no_scaling_curve"] += 1
            now = _share_of(vc, running, curve) if running is not None else None
            shares = shares_of(vc.free, job, curve, now.gpus if now is not None else 0)
            if not shares and now is None:
                continue
            found.append(Claimant(job, running, curve, shares, now, self._restart_factor(view, job)))
        return found

    def _find(self, free: FreeGpus, claimant: Claimant, share: Share) -> Slots | None:
        """GPUs for the share, or for the next smaller one that can be placed."""
        for smaller in (share, *reversed(claimant.shares)):
            is_same_type = smaller.gpu_type == share.gpu_type or not self.sees_types
            if is_same_type and smaller.gpus <= share.gpus:
                slots = find_place(free, claimant.job._replace(gpus=smaller.gpus, gpu_type=smaller.gpu_type))
                if slots is not None:
                    return slots
        return None

    def _restart_factor(self, view: ClusterView, job: QueuedJob) -> float:
        age_s = view.now_s - job.submitted_s
        if age_s < self._restart_s:
            return 1.0
        return max(age_s - job.attempt_count * self._restart_s, 0.0) / (age_s + self._restart_s)

    def _reason(self, claimant: Claimant, share: Share | None) -> Reason:
        facts = {
            "gpus": share.gpus if share is not None else 0,
            "gpu_type": share.gpu_type if share is not None else None,
            "speed": share.speed if share is not None else 0.0,
            "gpus_before": claimant.now.gpus if claimant.now is not None else 0,
            "restart_factor": claimant.restart_factor,
            "is_rigid": claimant.curve is None,
        }
        return Reason("chosen_share", facts)

    def _holds(self, vc: VcView, free: FreeGpus, started: set[str], *, is_round: bool) -> list[Decision]:
        held: list[Decision] = []
        for job_id, job in vc.queued.items():
            if job_id in started:
                continue
            cause = HoldCause.PREEMPTED_BY_ORDER if is_round else HoldCause.NEXT_ROUND
            if not vc.free.layout.names:
                cause = HoldCause.UNKNOWN_VC
            elif not shares_of(vc.free, job, self._curves.get(job_id), 0):
                cause = (
                    HoldCause.TOO_LARGE if has_place(vc.free, job) or not job.avoid_nodes else HoldCause.AVOIDED_NODES
                )
            held.append(Hold(job_id, cause, job.gpus, free.free_gpus, len(held)))
        return held


def shares_of(free: FreeGpus, job: QueuedJob, curve: ScalingCurve | None, gpus_now: int) -> tuple[Share, ...]:
    """What a job may get on this virtual cluster, small first.

    On one node 1, 2, 4, … GPUs and a whole node; above, whole nodes. A job starts with one GPU and at most doubles
    at a time, as in Pollux and Sia, whose models of a job know nothing beyond what it has run on.
    """
    found: list[Share] = []
    for group in free.layout.groups:
        if job.gpu_type is not None and group.gpu_type != job.gpu_type:
            continue
        if curve is None:
            sizes = [job.gpus] if has_place(free, job._replace(gpu_type=group.gpu_type)) else []
        else:
            most = min(curve.max_gpus, max(2 * gpus_now, 1), group.gpus)
            sizes = [size for size in _sizes(group.largest_node, group.gpus) if size <= most]
        for size in sizes:
            nodes = -(-size // group.largest_node)
            speed = 1.0 if curve is None else curve.speed(size, nodes, group.gpu_type)
            if speed > 0:
                found.append(Share(size, group.gpu_type, speed))
    return tuple(sorted(found, key=lambda share: share.gpus))


def _sizes(largest_node: int, gpus: int) -> list[int]:
    sizes: list[int] = []
    size = 1
    while size < largest_node:
        sizes.append(size)
        size *= 2
    return [*sizes, *range(largest_node, gpus + 1, largest_node)]


def _share_of(vc: VcView, running: RunningJob, curve: ScalingCurve | None) -> Share:
    gpus = sum(mask.bit_count() for _, mask in running.slots)
    layout = vc.free.layout
    gpu_type = layout.groups[layout.group_of[running.slots[0][0]]].gpu_type if running.slots else None
    speed = 1.0 if curve is None else curve.speed(gpus, len(running.slots), gpu_type)
    return Share(gpus, gpu_type, speed)
