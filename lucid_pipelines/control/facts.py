"""What a policy may know, from the rows: waiting and running jobs, nodes, and GPUs that nothing may be started on."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING
from zlib import crc32

from lucid_pipelines.control.pool import owned_nodes, profiler_vc
from lucid_pipelines.domain.cluster import Inventory, Node
from lucid_pipelines.domain.decision import Stage
from lucid_pipelines.domain.job import Job, Profile
from lucid_pipelines.domain.states import AttemptState, JobState
from lucid_pipelines.domain.view import QueuedJob, RunningJob
from lucid_pipelines.store import ActiveAttempt, Pair, PairVerdict, QueueView

if TYPE_CHECKING:
    from lucid_pipelines.control.system import System
    from lucid_pipelines.models.packing import PackingModel

GpuKey = tuple[str, int]
_KnownRunning = tuple[ActiveAttempt, Pair | None, tuple[object, ...], RunningJob]


@dataclass(frozen=True, slots=True)
class Facts:
    """The cluster at one moment, as plain values.

    Attributes:
        unusable: GPUs by node that nothing may be started on.
        lent: the virtual cluster that each lent node works for.
    """

    nodes: tuple[Node, ...]
    queued: Mapping[str, QueuedJob]
    running: Mapping[str, RunningJob]
    unusable: Mapping[str, frozenset[int]]
    lent: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Restraint:
    """What holds the policy back beyond the rows.

    Attributes:
        apart: jobs, waiting or running, that are to stay alone for now: a proposal about them is open, or a pair was
            split on their GPUs a moment ago.
        kept_pairs: later attempts of pairs that are to be split, by their verdict, but not (yet) by this site's mode.
        dirty: GPUs that are free by our books and in use all the same (R-21).
    """

    apart: Collection[str] = ()
    kept_pairs: Collection[str] = ()
    dirty: Collection[GpuKey] = ()


@dataclass
class FactMemory:
    """What was made of rows that have not changed since.

    Attributes:
        packing: scores jobs; ``None`` until it was looked up, once in a loop.
    """

    packing: PackingModel | None = None
    scores: dict[tuple[Profile, bool | None], int | None] = field(default_factory=dict)
    queued: dict[str, tuple[Job, str, bool, QueuedJob]] = field(default_factory=dict)
    running: dict[str, _KnownRunning] = field(default_factory=dict)

    def score(self, profile: Profile | None, amp: bool | None) -> int | None:
        """The sharing score of the packing model; ``None`` = unknown, which forbids packing (R-25)."""
        if profile is None or profile.gpu_util_pct is None:
            return None
        key = (profile, amp)
        if key not in self.scores:
            from lucid_pipelines.models.packing import default_packing_model  # most commands score nothing

            if len(self.scores) > 20_000:
                self.scores.clear()
            self.scores[key] = (self.packing or default_packing_model()).score(profile, amp)
        return self.scores[key]


def gather(
    system: System,
    inventory: Inventory,
    queue: QueueView,
    memory: FactMemory | None = None,
    restraint: Restraint = Restraint(),
) -> Facts:
    """Everything that a policy may know, from one consistent reading of the state database."""
    memory = memory or FactMemory()
    if memory.packing is None:
        from lucid_pipelines.control.scoring import packing_in_service

        memory.packing = packing_in_service(system)
    nodes = tuple(replace(node, observed_at=None) for node in owned_nodes(system, inventory.nodes))
    lent = {loan.node: loan.to_vc for loan in queue.loans}
    vc_of_node = {node.name: lent.get(node.name, node.vc) for node in nodes}
    pool = profiler_vc(system)
    apart = frozenset(restraint.apart)
    queued: dict[str, QueuedJob] = {}
    for job in queue.waiting:
        if job.state is JobState.PROFILE_QUEUED and pool is None:
            continue
        vc = job.spec.vc if job.state is JobState.QUEUED else str(pool)
        queued[job.job_id] = _queued(job, vc, job.job_id in apart, memory)
    memory.queued = {job_id: memory.queued[job_id] for job_id in queued}
    running = _all_running(queue, vc_of_node, apart, restraint.kept_pairs, memory)
    return Facts(nodes, queued, running, _unusable(inventory, queue, restraint.dirty), lent)


def queued_job(job: Job, vc: str, memory: FactMemory, *, stays_alone: bool = False) -> QueuedJob:
    """A waiting job as a policy knows it."""
    submitted_s = job.submitted_at.timestamp()
    return QueuedJob(
        job_id=job.job_id,
        vc=vc,
        gpus=job.spec.gpus,
        submitted_s=submitted_s,
        # Made of the job alone, so that it stays the same from pass to pass and in a replay.
        sequence=crc32(job.job_id.encode()),
        user=job.spec.user,
        name=job.spec.name,
        estimate=job.estimate if job.estimate is not None and job.estimate.duration_s is not None else None,
        profile=job.profile,
        sharing_score=memory.score(job.profile, job.spec.amp),
        never_pack=job.never_pack or stays_alone,
        attempt_count=job.attempt_count,
        attained_gpu_s=job.ran_s * job.spec.gpus,
        # Whether earlier work was kept (a checkpoint) nobody knows: none is counted, as in a replay.
        attained_s=0.0,
        long_cold_start=job.spec.long_cold_start,
        avoid_nodes=job.avoid_nodes,
    )


def _queued(job: Job, vc: str, stays_alone: bool, memory: FactMemory) -> QueuedJob:
    known = memory.queued.get(job.job_id)
    if known is not None and known[0] is job and known[1:3] == (vc, stays_alone):
        return known[3]
    made = queued_job(job, vc, memory, stays_alone=stays_alone)
    memory.queued[job.job_id] = (job, vc, stays_alone, made)
    return made


def _all_running(
    queue: QueueView,
    vc_of_node: Mapping[str, str],
    apart: frozenset[str],
    kept_pairs: Collection[str],
    memory: FactMemory,
) -> dict[str, RunningJob]:
    by_attempt = {item.attempt.attempt_id: item for item in queue.active}
    pair_of: dict[str, Pair] = {}
    for pair in queue.pairs:
        pair_of[pair.first_attempt_id] = pair_of[pair.later_attempt_id] = pair
    running: dict[str, RunningJob] = {}
    kept: dict[str, _KnownRunning] = {}
    for item in queue.active:
        attempt, job = item.attempt, item.job
        partners = [by_attempt[other] for other in item.partner_attempt_ids if other in by_attempt]
        pair = pair_of.get(attempt.attempt_id) if partners else None
        vc = vc_of_node.get(attempt.placement.shares[0].node, job.spec.vc)
        stays_alone = job.job_id in apart
        splits = pair is not None and _is_split(pair, partners, item, kept_pairs)
        partner_ids = tuple([partner.job.job_id for partner in partners])
        context = (vc, stays_alone, splits, partner_ids)
        known = memory.running.get(job.job_id)
        # Rows that have not changed are the same objects (``Queue.view``).
        if (
            known is not None
            and known[0].job is job
            and known[0].attempt is attempt
            and known[1] is pair
            and known[2] == context
        ):
            made = known[3]
        else:
            made = _running_job(item, vc, stays_alone, splits, pair, partner_ids, memory)
        kept[job.job_id] = (item, pair, context, made)
        running[job.job_id] = made
    memory.running = kept
    return running


def _is_split(pair: Pair, partners: Iterable[ActiveAttempt], item: ActiveAttempt, kept: Collection[str]) -> bool:
    """Whether the policy is to take the pair apart: not when it may not, nor when one of the two goes already."""
    if pair.verdict is not PairVerdict.SPLIT or pair.later_attempt_id in kept:
        return False
    return all(member.attempt.state is not AttemptState.STOPPING for member in (item, *partners))


def _running_job(
    item: ActiveAttempt,
    vc: str,
    stays_alone: bool,
    splits: bool,
    pair: Pair | None,
    partner_ids: tuple[str, ...],
    memory: FactMemory,
) -> RunningJob:
    job, attempt = item.job, item.attempt
    is_stopping = attempt.state is AttemptState.STOPPING
    started = attempt.started_at or attempt.placed_at
    as_of, done_s, speed = started, 0.0, 1.0
    if pair is not None:
        as_of = max(started, pair.formed_at)
        done_s = (as_of - started).total_seconds()
        speed = _measured_speed(pair, job.job_id)
    return RunningJob(
        # What is being stopped holds its GPUs and is nobody's partner any more.
        job=queued_job(job, vc, memory, stays_alone=stays_alone or is_stopping),
        placement=attempt.placement,
        slots=(),
        started_s=started.timestamp(),
        as_of_s=as_of.timestamp(),
        done_s=done_s,
        speed_frac=speed,
        partners=partner_ids,
        is_unstable=splits,
        stage=Stage.PROFILE if attempt.profiling and not is_stopping else Stage.MAIN,
    )


def _measured_speed(pair: Pair, job_id: str) -> float | None:
    ratios = (pair.measured or {}).get("speed_frac") or {}
    value = ratios.get(job_id)
    return float(value) if isinstance(value, int | float) and value > 0 else None


def _unusable(inventory: Inventory, queue: QueueView, dirty: Collection[GpuKey]) -> dict[str, frozenset[int]]:
    """Isolated GPUs, dirty ones, and slots without a running job."""
    found: dict[str, set[int]] = {}
    gpus_of = {node.name: [gpu.index for gpu in node.gpus] for node in inventory.nodes}
    for reason in queue.isolated:
        all_gpus = gpus_of.get(reason.node, [])
        found.setdefault(reason.node, set()).update(all_gpus if reason.gpu_index is None else [reason.gpu_index])
    for node in inventory.nodes:
        if node.isolations:
            found.setdefault(node.name, set()).update(node.isolated_gpu_indices | node.taken_gpu_indices)
    held = {item.attempt.attempt_id for item in queue.active}
    for slot in queue.slots:
        if slot.attempt_id not in held:
            found.setdefault(slot.node, set()).add(slot.gpu_index)
    for name, index in dirty:
        found.setdefault(name, set()).add(index)
    return {name: frozenset(indices) for name, indices in found.items() if indices}


def age_s(moment: datetime, now: datetime) -> float:
    """Seconds since ``moment``, never below 0: a clock may have been set back."""
    return max(0.0, (now - moment).total_seconds())
