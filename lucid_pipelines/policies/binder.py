"""The affine-jobpair binder: finds a running job whose GPUs a waiting job may share (Lucid, section 8).

It keeps one record per running job, so that a pass only looks at candidates of the right size. A job that has
just been started in a pass is a candidate for those behind it: so two waiting jobs can become a pair, too.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Hashable, Iterable, Sequence

from lucid_pipelines.domain.decision import Fact, Reason
from lucid_pipelines.domain.free_gpus import Slots, gpu_count_of, lowest_bits
from lucid_pipelines.domain.view import Change, ClusterView, QueuedJob, RunningJob, VcView
from lucid_pipelines.placement import (
    PARTNER_RULES,
    Moment,
    Newcomer,
    PairingRules,
    Resident,
    broken_rules,
    enabled_rules,
    first_broken_rule,
    may_be_joined,
    off_avoided_nodes,
    pair_reasons,
)
from lucid_pipelines.policies.candidates import Candidates
from lucid_pipelines.policies.estimates import Estimates

_Search = tuple[Candidates, int, int, float]
"""A search that found nobody: the candidates, their mark, capacity, key of the job."""

PackClass = Hashable
"""Jobs of one class obey or break the same rules with the same partner, but for the remaining time."""


class Binder:
    """Candidates for sharing, by virtual cluster and number of GPUs."""

    def __init__(self, rules: PairingRules, estimates: Estimates | None, fallbacks: Counter[str]) -> None:
        """Args:
        estimates: predicted durations; ``None`` when the policy works without.
        fallbacks: counts the jobs that cannot share because a fact is missing.
        """
        self.rules = rules
        self._fallbacks = fallbacks
        self._estimates = estimates
        checked = PARTNER_RULES if rules.same_gpus else PARTNER_RULES[1:]
        self._open = enabled_rules(rules, without=(*checked, "avoid_nodes"))
        self._residents: dict[str, dict[str, Resident]] = {}
        self._candidates: dict[str, dict[int, Candidates]] = {}
        self._hopeless: dict[str, dict[Hashable, _Search]] = defaultdict(dict)
        self._touched: dict[str, dict[str, int]] = {}
        self._newcomers: dict[str, Newcomer] = {}
        self._unstable: dict[str, set[str]] = {}
        self._orders: dict[str, int] = {}
        self._order = 0

    def pack_class(self, job: QueuedJob) -> PackClass | None:
        """The job's class; ``None`` when it can never share."""
        rules = self.rules
        memory_mib = job.profile.memory_peak_mib if job.profile is not None else None
        if (
            (job.never_pack and rules.split_unstable)
            or (memory_mib is None and rules.memory_safe)
            or (job.sharing_score is None and rules.sharing_score)
        ):
            return None
        score = job.sharing_score if rules.sharing_score else 0
        memory_class = rules.memory_demand_mib(memory_mib) if rules.memory_safe else 0
        avoid = job.avoid_nodes if rules.avoid_nodes else ()
        return (score, memory_class, job.user if rules.same_user else "", avoid)

    def lightest(self, vc: VcView, job: QueuedJob) -> Newcomer:
        """A job of the same class that takes no time."""
        return self.newcomer(vc, job)._replace(predicted_s=0.0)

    def newcomer(self, vc: VcView, job: QueuedJob) -> Newcomer:
        """A waiting job as the pairing rules see it; remembered until it ``left``."""
        known = self._newcomers.get(job.job_id)
        if known is None:
            known = self._newcomers[job.job_id] = self._newcomer(vc, job)
        return known

    def left(self, job_id: str) -> None:
        """A job waits no more."""
        self._newcomers.pop(job_id, None)

    def _newcomer(self, vc: VcView, job: QueuedJob) -> Newcomer:
        memory_mib = job.profile.memory_peak_mib if job.profile is not None else None
        return Newcomer(
            job_id=job.job_id,
            gpus=job.gpus,
            user=job.user,
            sharing_score=job.sharing_score,
            memory_mib=self.rules.memory_demand_mib(memory_mib),
            predicted_s=self._predicted_s(job),
            is_distributed=all(job.gpus > group.largest_node for group in vc.free.layout.groups),
            never_pack=job.never_pack,
            avoid_nodes=frozenset(job.avoid_nodes),
        )

    def find(
        self,
        vc: VcView,
        job: QueuedJob,
        bucket: Hashable,
        key: float,
        at: Moment,
        fresh: Sequence[Resident] = (),
        taken: Container[str] = (),
    ) -> Resident | None:
        """The first affine partner in order of start.

        Args:
            bucket, key: the job's place in the ordered queue. When no partner is found, none exists for the
                jobs behind it in its bucket either, as long as the candidates stay the same.
            fresh: jobs that the present pass has started and that ``may_be_joined``; the last candidates.
            taken: jobs that the present pass has given a partner already.
        """
        candidates = self._of(vc.name, job.gpus)
        mark = 0
        hopeless = self._hopeless[vc.name]
        last = hopeless.get(bucket)
        if last is not None and last[2] == at.capacity and key >= last[3]:
            mark = last[1]
            if mark == candidates.mark and not fresh:
                return None
        newcomer = self._newcomers.get(job.job_id) or self.newcomer(vc, job)
        if not (newcomer.is_distributed and self.rules.no_distributed):
            # The rule that leaves out the most, looked at before any is called.
            score = newcomer.sharing_score if self.rules.sharing_score else None
            for resident in candidates.since(mark):
                if score is not None and resident.scores is not None and score + resident.scores > at.capacity:
                    continue
                if resident.job_id not in taken and self.is_open(newcomer, resident, at):
                    return resident
            for resident in fresh:
                if resident.job_id not in taken and self.is_open(newcomer, resident, at):
                    return resident
        # Whoever is ``taken`` will be no candidate any more; should that come to nothing, ``forget`` is called.
        hopeless[bucket] = (candidates, candidates.mark, at.capacity, key)
        return None

    def is_hopeless(self, vc: str, bucket: Hashable, key: float, at: Moment) -> bool:
        """Whether ``find`` is known to find nobody for a bucket, the first of which has ``key``: it did not the last
        time, and nothing has changed since."""
        last = self._hopeless[vc].get(bucket)
        if last is None:
            return False
        candidates, mark, capacity, its_key = last
        return candidates.mark == mark and capacity == at.capacity and key >= its_key

    def why_not(self, vc: VcView, job: QueuedJob, at: Moment) -> Reason:
        """Which rules keep the job from every candidate."""
        newcomer = self.newcomer(vc, job)
        facts: dict[str, Fact] = {"mode": at.mode.value, "candidates": 0}
        for resident in self._residents.get(vc.name, {}).values():
            facts["candidates"] = int(facts["candidates"] or 0) + 1
            rule = first_broken_rule(newcomer, resident, self.rules, at)
            if rule is not None:
                facts[f"broken_{rule}"] = int(facts.get(f"broken_{rule}") or 0) + 1
        return Reason("no_affine_partner", facts)

    def verdict(self, vc: VcView, job: QueuedJob, at: Moment) -> tuple[Reason, ...]:
        """What every rule says of the running job that breaks the fewest; empty when nobody runs."""
        newcomer = self.newcomer(vc, job)
        best: tuple[int, int, Resident] | None = None
        for order, resident in enumerate(self._residents.get(vc.name, {}).values()):
            broken = len(broken_rules(newcomer, resident, self.rules, at))
            if best is None or broken < best[0]:
                best = (broken, order, resident)
        if best is None:
            return ()
        broken_names = broken_rules(newcomer, best[2], self.rules, at)
        head, *rules = pair_reasons(newcomer, best[2], self.rules, at)
        facts = {**head.facts, "broken": ", ".join(broken_names) or None}
        return (
            Reason("best_candidate", facts),
            *(Reason(rule.rule, {**rule.facts, "holds": rule.rule not in broken_names}) for rule in rules),
        )

    def slots_on(self, slots: Slots, job: QueuedJob) -> Slots:
        """The partner's GPUs, or the first of them if the job needs fewer."""
        if job.gpus == gpu_count_of(slots):
            return slots
        position, mask = slots[0]
        return ((position, lowest_bits(mask, job.gpus)),)

    def follow(self, change: Change) -> None:
        """Take note of a job that started, changed or left; ``refresh`` then looks at it."""
        _, vc, job, _ = change
        if job is not None:
            self._touched.setdefault(vc, {})[job.job_id] = job.gpus

    def rebuild(self, vcs: Iterable[VcView]) -> None:
        """Begin anew with the running jobs of these virtual clusters."""
        self._residents, self._candidates, self._orders = {}, {}, {}
        self._hopeless.clear()
        self._unstable, self._newcomers = {}, {}
        self._touched = {vc.name: {job_id: running.job.gpus for job_id, running in vc.running.items()} for vc in vcs}

    def refresh(self, view: ClusterView) -> list[tuple[str, Resident]]:
        """Bring the candidates up to date after ``follow`` or ``rebuild``.

        Returns who may be joined from now on, by virtual cluster.
        """
        new: list[tuple[str, Resident]] = []
        for name, jobs in self._touched.items():
            vc = view.vcs[name]
            residents = self._residents.setdefault(name, {})
            for job_id, gpus in jobs.items():
                candidates = self._of(name, gpus)
                running = vc.running.get(job_id)
                if running is None:
                    residents.pop(job_id, None)
                    self._unstable.get(name, set()).discard(job_id)
                    self._orders.pop(job_id, None)
                    candidates.remove(job_id)
                    continue
                order = self._orders.get(job_id)
                if order is None:
                    self._order += 1
                    order = self._orders[job_id] = self._order
                resident = self.resident(vc, running)
                if job_id not in residents and self._lacks_memory_size(resident):
                    self._fallbacks["unknown_gpu_memory"] += 1
                residents[job_id] = resident
                if running.is_unstable:
                    self._unstable.setdefault(name, set()).add(job_id)
                is_whole = gpu_count_of(running.slots) == gpus
                if is_whole and may_be_joined(resident, self.rules):
                    candidates.put(order, resident)
                    new.append((name, resident))
                else:
                    candidates.remove(job_id)
        self._touched = {}
        return new

    def has_unstable(self, vc: str) -> bool:
        """Whether any running job of a virtual cluster has turned unstable."""
        return bool(self._unstable.get(vc))

    def resident(self, vc: VcView, running: RunningJob) -> Resident:
        """A running job as the pairing rules see it."""
        job, rules, layout = running.job, self.rules, vc.free.layout
        sharers = [job]
        if running.partners:
            sharers += [vc.running[p].job for p in running.partners if p in vc.running]
        scores: int | None = 0
        memory_mib: float | None = 0.0
        for sharer in sharers:
            profile, score = sharer.profile, sharer.sharing_score
            its_mib = rules.memory_demand_mib(profile.memory_peak_mib) if profile is not None else None
            scores = None if scores is None or score is None else scores + score
            memory_mib = None if memory_mib is None or its_mib is None else memory_mib + its_mib
        left_s, speed_frac = self._predicted_s(job), 0.0
        if left_s is not None and rules.credit_done:
            left_s -= running.work_done_s(running.as_of_s)
            speed_frac = 1.0 if running.speed_frac is None else running.speed_frac
        return Resident(
            job.job_id,
            job.gpus,
            job.user,
            scores,
            memory_mib,
            left_s,
            running.as_of_s,
            speed_frac,
            is_distributed=len(running.slots) != 1,
            never_pack=job.never_pack,
            is_unstable=running.is_unstable,
            jobs_on_gpu=len(sharers),
            gpu_memory_mib=layout.groups[layout.group_of[running.slots[0][0]]].memory_mib if running.slots else None,
            node_names=running.placement.node_names,
        )

    def _lacks_memory_size(self, resident: Resident) -> bool:
        rules = self.rules
        return rules.memory_safe and resident.gpu_memory_mib is None and rules.full_gpu_memory_mib is None

    def _of(self, vc: str, gpus: int) -> Candidates:
        size = gpus if self.rules.same_gpus else 0
        of_vc = self._candidates.get(vc)
        if of_vc is None:
            of_vc = self._candidates[vc] = {}
        candidates = of_vc.get(size)
        if candidates is None:
            candidates = of_vc[size] = Candidates()
        return candidates

    def forget(self) -> None:
        """Forget who found no partner: what was decided has not happened."""
        self._hopeless.clear()

    def is_open(self, job: Newcomer, resident: Resident, at: Moment) -> bool:
        """Whether the rules allow the pair, for a resident that ``may_be_joined`` has let through."""
        rules = self.rules
        for rule in self._open:
            if not rule(job, resident, rules, at):
                return False
        # Few jobs have nodes to avoid: the rule is not even called for the others.
        if job.avoid_nodes and rules.avoid_nodes and not off_avoided_nodes(job, resident, rules, at):
            return False
        return resident.gpus >= job.gpus

    def _predicted_s(self, job: QueuedJob) -> float | None:
        """The predicted duration; ``None`` when the policy only guesses."""
        if self._estimates is None:
            return None
        duration_s, basis = self._estimates.duration_s(job)
        return None if basis == "fallback" else duration_s
