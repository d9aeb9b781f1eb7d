"""What a policy may know, from the rows: waiting and running jobs, nodes, and GPUs that nothing may be started on."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import compress
from operator import attrgetter, is_not
from typing import TYPE_CHECKING

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
_PLACED_ORDER = attrgetter("attempt.placed_at", "attempt.attempt_id")
_Context = tuple[str, bool, bool, tuple[str, ...]]


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


@dataclass(frozen=True, slots=True)
class _Owned:
    """Nodes as they were told, and what became of them."""

    told: tuple[Node, ...]
    pool: tuple[str | None, int | None]
    without_time: tuple[Node, ...]
    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class _Queued:
    """Waiting jobs and the rows that they were made of, which stay the same objects while nothing of them changes."""

    rows: Mapping[str, Job]
    pool: str | None
    apart: frozenset[str]
    made: dict[str, QueuedJob]


@dataclass(frozen=True, slots=True)
class _Running:
    """Running jobs and everything that they were made of."""

    items: Mapping[str, ActiveAttempt]
    pair_of: Mapping[str, Pair]
    vc_of_node: Mapping[str, str]
    apart: frozenset[str]
    kept_pairs: frozenset[str]
    contexts: dict[str, _Context]
    made: dict[str, RunningJob]


@dataclass
class FactMemory:
    """What was made of rows that have not changed since.

    Attributes:
        packing: scores jobs; ``None`` until it was looked up, once in a loop.
    """

    packing: PackingModel | None = None
    scores: dict[tuple[Profile, bool | None], int | None] = field(default_factory=dict)
    owned: _Owned | None = None
    queued: _Queued | None = None
    running: _Running | None = None

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
    nodes = _owned(system, inventory, memory)
    lent = {loan.node: loan.to_vc for loan in queue.loans}
    vc_of_node = {node.name: lent.get(node.name, node.vc) for node in nodes}
    apart = frozenset(restraint.apart)
    queued = _all_queued(queue, profiler_vc(system), apart, memory)
    running = _all_running(queue, vc_of_node, apart, frozenset(restraint.kept_pairs), memory)
    return Facts(nodes, queued, running, _unusable(inventory, queue, restraint.dirty), lent)


def _owned(system: System, inventory: Inventory, memory: FactMemory) -> tuple[Node, ...]:
    """The nodes, each in its own virtual cluster; the same objects while nothing of them changes."""
    rules = system.policy.profiling
    pool = (profiler_vc(system), None if rules is None else rules.profiler_nodes)
    known = memory.owned
    if known is not None and known.pool == pool and known.told is inventory.nodes:
        return known.nodes
    without_time = tuple([replace(node, observed_at=None) for node in inventory.nodes])
    same = known is not None and known.pool == pool and known.without_time == without_time
    nodes = known.nodes if known is not None and same else owned_nodes(system, without_time)
    memory.owned = _Owned(inventory.nodes, pool, without_time, nodes)
    return nodes


def queued_job(job: Job, vc: str, memory: FactMemory, *, stays_alone: bool = False) -> QueuedJob:
    """A waiting job as a policy knows it."""
    submitted_s = job.submitted_at.timestamp()
    return QueuedJob(
        job_id=job.job_id,
        vc=vc,
        gpus=job.spec.gpus,
        submitted_s=submitted_s,
        # Made of the job alone, so that it stays the same from pass to pass and in a replay, and in the order of
        # arrival, as in the simulator: among equals the one that came first goes first, then the smaller id.
        sequence=round(submitted_s * 1e6),
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


def _all_queued(queue: QueueView, pool: str | None, apart: frozenset[str], memory: FactMemory) -> dict[str, QueuedJob]:
    """Waiting jobs as a policy knows them; what changed since the last call is made anew."""
    known = memory.queued
    if known is None or known.pool != pool:
        known = _Queued({}, pool, apart, {})
    made = dict(known.made)
    changed = set(differing(known.rows, queue.jobs))
    for job_id in changed:
        made.pop(job_id, None)
    touched = [queue.jobs[job_id] for job_id in changed | (known.apart ^ apart) if job_id in queue.jobs]
    fresh = [job for job in touched if not job.state.is_active]
    for job in sorted(fresh, key=lambda job: (job.submitted_at, job.job_id)):
        if job.state is JobState.QUEUED:
            made[job.job_id] = queued_job(job, job.spec.vc, memory, stays_alone=job.job_id in apart)
        elif pool is not None:
            made[job.job_id] = queued_job(job, pool, memory, stays_alone=job.job_id in apart)
    memory.queued = _Queued(queue.jobs, pool, apart, made)
    return made


def _all_running(
    queue: QueueView,
    vc_of_node: Mapping[str, str],
    apart: frozenset[str],
    kept_pairs: frozenset[str],
    memory: FactMemory,
) -> dict[str, RunningJob]:
    """Running jobs as a policy knows them; what changed since the last call, or runs beside it, is made anew."""
    items = queue.running
    pair_of: dict[str, Pair] = {}
    for pair in queue.pairs:
        pair_of[pair.first_attempt_id] = pair_of[pair.later_attempt_id] = pair
    known = memory.running
    if known is None or known.vc_of_node != vc_of_node:
        known = _Running({}, {}, vc_of_node, apart, kept_pairs, {}, {})
    touched = {*differing(known.items, items), *differing(known.pair_of, pair_of), *(known.kept_pairs ^ kept_pairs)}
    moved = known.apart ^ apart
    if moved:
        touched |= {name for name, item in items.items() if item.job.job_id in moved}
    for name in tuple(touched):
        for item in (known.items.get(name), items.get(name)):
            if item is not None:
                touched.update(item.partner_attempt_ids)
    contexts, made = dict(known.contexts), dict(known.made)
    for name in touched & known.items.keys() - items.keys():
        contexts.pop(name)
        made.pop(known.items[name].job.job_id)
    for item in sorted((items[name] for name in touched if name in items), key=_PLACED_ORDER):
        attempt, job = item.attempt, item.job
        partners = [items[other] for other in item.partner_attempt_ids if other in items]
        pair = pair_of.get(attempt.attempt_id) if partners else None
        context = (
            vc_of_node.get(attempt.placement.shares[0].node, job.spec.vc),
            job.job_id in apart,
            pair is not None and _is_split(pair, partners, item, kept_pairs),
            tuple([partner.job.job_id for partner in partners]),
        )
        before = known.items.get(attempt.attempt_id)
        is_same_row = before is not None and before.job is job and before.attempt is attempt
        is_same_pair = known.pair_of.get(attempt.attempt_id) is pair_of.get(attempt.attempt_id)
        if is_same_row and is_same_pair and contexts.get(attempt.attempt_id) == context:
            continue
        contexts[attempt.attempt_id] = context
        made[job.job_id] = _running_job(item, *context[:3], pair, context[3], memory)
    memory.running = _Running(items, pair_of, vc_of_node, apart, kept_pairs, contexts, made)
    return made


def differing(one: Mapping[str, object], other: Mapping[str, object]) -> list[str]:
    """Keys that only one has, or under which they have different objects: first those of ``other``, in its order."""
    came = compress(other, map(is_not, map(one.get, other), other.values()))  # thousands are compared in every pass
    return [*came, *sorted(one.keys() - other.keys())]


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
    """Isolated GPUs, those of others, dirty ones, and slots without a running job."""
    found: dict[str, set[int]] = {}
    gpus_of = {node.name: [gpu.index for gpu in node.gpus] for node in inventory.nodes} if queue.isolated else {}
    for reason in queue.isolated:
        all_gpus = gpus_of.get(reason.node, [])
        found.setdefault(reason.node, set()).update(all_gpus if reason.gpu_index is None else [reason.gpu_index])
    for node in inventory.nodes:
        if node.isolations or node.taken_gpu_indices:
            found.setdefault(node.name, set()).update(node.isolated_gpu_indices | node.taken_gpu_indices)
    for ownerless in queue.held.keys() - queue.running.keys():
        for slot in queue.held[ownerless]:
            found.setdefault(slot.node, set()).add(slot.gpu_index)
    for name, index in dirty:
        found.setdefault(name, set()).add(index)
    return {name: frozenset(indices) for name, indices in found.items() if indices}


def age_s(moment: datetime, now: datetime) -> float:
    """Seconds since ``moment``, never below 0: a clock may have been set back."""
    return max(0.0, (now - moment).total_seconds())
