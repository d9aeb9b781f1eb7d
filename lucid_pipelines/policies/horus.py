"""Horus: packing by predicted utilisation and least cost (Yeung et al., TPDS 2022; Lucid, section 4, as a baseline).

Jobs go in order of submission. Each goes where its cost is least: on free GPUs, else beside the running job of
equal demand whose GPUs are least loaded, as long as the predicted utilisations add up to at most
``max_util_frac`` and the peak memories fit. Horus predicts both from a job's computation graph before it starts,
for which it must read the user's model; a replay takes the job's own profile for the prediction, which flatters it.
"""

from __future__ import annotations

from dataclasses import dataclass

from lucid_pipelines.domain.decision import Pack, Reason
from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.domain.free_gpus import Slots, gpu_count_of
from lucid_pipelines.domain.job import Profile
from lucid_pipelines.domain.view import QueuedJob, RunningJob
from lucid_pipelines.placement import has_place
from lucid_pipelines.policies.fifo import Fifo
from lucid_pipelines.policies.queue_policy import Bypass, Pass


@dataclass(frozen=True, slots=True)
class CostRules:
    """What a place costs and what is too much.

    Attributes:
        util_weight, memory_weight: cost = weight × utilisation + weight × share of memory, both after joining.
        max_util_frac: the most that utilisations on a GPU may add up to.
        memory_margin_frac: share of the GPU's memory that stays free.
        max_jobs_per_gpu: how many jobs may share a GPU.
    """

    util_weight: float = 1.0
    memory_weight: float = 0.5
    max_util_frac: float = 1.0
    memory_margin_frac: float = 0.05
    max_jobs_per_gpu: int = 2

    def __post_init__(self) -> None:
        if self.max_jobs_per_gpu < 1:
            raise InputError(f"max_jobs_per_gpu must be at least 1; got {self.max_jobs_per_gpu}")
        if not 0 <= self.memory_margin_frac < 1:
            raise InputError(f"memory_margin_frac must be in [0, 1); got {self.memory_margin_frac}")


@dataclass(slots=True)
class _Load:
    """What the jobs on one set of GPUs add up to; ``None`` = unknown, which keeps others away (R-25)."""

    util_frac: float | None
    memory_mib: float | None
    jobs: int
    slots: Slots

    def add(self, profile: Profile | None) -> None:
        util_frac, memory_mib = _demand(profile)
        self.util_frac = None if util_frac is None or self.util_frac is None else self.util_frac + util_frac
        self.memory_mib = None if memory_mib is None or self.memory_mib is None else self.memory_mib + memory_mib
        self.jobs += 1


class Horus(Fifo):
    """Submission order, least cost."""

    packs = True
    knows_profiles = True
    needs_news = False

    def __init__(self, name: str = "horus", *, cost: CostRules = CostRules(), bypass: Bypass = Bypass()) -> None:
        super().__init__(name, bypass=bypass)
        self._cost = cost
        self._loads: dict[str, _Load] = {}

    def decide_vc(self, this: Pass) -> None:
        self._loads = {}
        super().decide_vc(this)

    def walk(self, this: Pass) -> bool:
        walk = this.queue.walk()
        while (top := walk.peek()) is not None:
            entry, _ = top
            job = this.vc.queued[entry[2]]
            if entry[2] in this.started:
                walk.advance()
                continue
            slots = this.find_place(job)
            if slots is not None:
                self.start(this, job, slots)
                load = self._loads[job.job_id] = _Load(0.0, 0.0, 0, slots)
                load.add(job.profile)
            elif not self._pack(this, job):
                if self.bypass.backfill or not has_place(this.vc.free, job):
                    walk.advance()
                    continue
                if self.blocks(this, job):
                    return False
            walk.advance()
            if self.bypass.max_overtakes is not None and self.due(this):
                return True
        return False

    def _pack(self, this: Pass, job: QueuedJob) -> bool:
        best: tuple[float, str] | None = None
        for partner_id, load in self._candidates(this, job):
            cost = self._cost_of(this, job, load)
            if cost is not None and (best is None or cost < best[0]):
                best = (cost, partner_id)
        if best is None:
            return False
        cost, partner_id = best
        load = self._loads[partner_id]
        reasons: tuple[Reason, ...] = ()
        if this.view.explain:
            facts = {"partner_job_id": partner_id, "cost": cost, "util_frac": load.util_frac}
            reasons = (*self.reasons(this, job), Reason("least_cost", facts))
        this.decisions.append(Pack(job.job_id, partner_id, this.vc.free.layout.placement(load.slots), reasons))
        load.add(job.profile)
        this.note_start(job)
        return True

    def _candidates(self, this: Pass, job: QueuedJob) -> list[tuple[str, _Load]]:
        """Running jobs of equal demand on one node, and those that this pass has started."""
        for job_id, running in this.vc.running.items():
            if running.job.gpus == job.gpus and job_id not in self._loads:
                self._loads[job_id] = self._load(this, running)
        layout = this.vc.free.layout
        return [
            (job_id, load)
            for job_id, load in self._loads.items()
            if len(load.slots) == 1
            and layout.names[load.slots[0][0]] not in job.avoid_nodes
            and gpu_count_of(load.slots) == job.gpus
            and (job.gpu_type is None or layout.groups[layout.group_of[load.slots[0][0]]].gpu_type == job.gpu_type)
        ]

    def _load(self, this: Pass, running: RunningJob) -> _Load:
        load = _Load(0.0, 0.0, 0, running.slots)
        load.add(running.job.profile)
        for partner_id in running.partners:
            partner = this.vc.running.get(partner_id)
            load.add(partner.job.profile if partner is not None else None)
        return load

    def _cost_of(self, this: Pass, job: QueuedJob, load: _Load) -> float | None:
        """Cost of joining; ``None`` when it is not allowed or not known to be safe."""
        rules = self._cost
        layout = this.vc.free.layout
        size_mib = layout.groups[layout.group_of[load.slots[0][0]]].memory_mib
        util_frac, memory_mib = _demand(job.profile)
        if (
            job.never_pack
            or load.jobs >= rules.max_jobs_per_gpu
            or util_frac is None
            or memory_mib is None
            or load.util_frac is None
            or load.memory_mib is None
            or size_mib is None
        ):
            return None
        util_frac += load.util_frac
        memory_frac = (memory_mib + load.memory_mib) / size_mib
        if util_frac > rules.max_util_frac or memory_frac > 1 - rules.memory_margin_frac:
            return None
        return rules.util_weight * util_frac + rules.memory_weight * memory_frac


def _demand(profile: Profile | None) -> tuple[float | None, float | None]:
    if profile is None:
        return None, None
    util_pct = profile.gpu_util_pct
    return (None if util_pct is None else util_pct / 100.0), profile.memory_peak_mib
