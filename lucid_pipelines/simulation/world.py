"""What decisions do to jobs in a replay: work, speeds, profiles, ends."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from lucid_pipelines.domain.decision import MAIN, PROFILE, Continue, Pack, Resize, Start, Stop, StopCause
from lucid_pipelines.domain.errors import InputError, StateError
from lucid_pipelines.domain.job import Profile
from lucid_pipelines.domain.trace import TraceJob
from lucid_pipelines.domain.view import QueuedJob, RunningJob
from lucid_pipelines.placement import ClusterState
from lucid_pipelines.policies import ProfilingRules
from lucid_pipelines.simulation.events import END, GIVE_UP, SAMPLED, WATCHED, Events, ReplayedJob
from lucid_pipelines.simulation.options import PairSpeeds, ReplayOptions
from lucid_pipelines.simulation.record import AttemptEnd, Recorder
from lucid_pipelines.simulation.whole_seconds import count_down, whole_seconds_left

_DONE = AttemptEnd.DONE
_ENDS = {
    StopCause.PREEMPTED: AttemptEnd.PREEMPTED,
    StopCause.PROFILED: AttemptEnd.PROFILED,
    StopCause.UNSTABLE_PAIR: AttemptEnd.UNPACKED,
    StopCause.SLOW_PAIR: AttemptEnd.UNPACKED,
}
_UNPROFILED = ProfilingRules()
"""How long a job runs until its profile is known where nobody profiles."""


def _as_queued(trace: TraceJob, gpus: int, index: int, profile: Profile | None, score: int | None) -> QueuedJob:
    """A job as it is submitted. By position: by name takes twice as long, and every job of every replay is one."""
    return QueuedJob(
        trace.job_id,
        trace.vc,
        gpus,
        trace.submit_s,
        index,
        trace.user,
        trace.name,
        trace.gpu_type,
        None,  # estimate
        profile,
        score,
        False,  # never pack
        0,  # attempts
        0.0,  # attained GPU-seconds
        0.0,  # attained seconds
        trace.duration_s,
    )


@lru_cache(maxsize=4096)
def _profile(gpu_util_pct: float | None, memory_util_pct: float | None, memory_peak_mib: float) -> Profile:
    """Most jobs of a trace are like others, and a frozen dataclass takes long to make."""
    return Profile(gpu_util_pct, memory_util_pct, memory_peak_mib, source="replay")


class World:
    """Carries out decisions and keeps account of what they cost."""

    def __init__(
        self,
        state: ClusterState,
        events: Events,
        recorder: Recorder,
        options: ReplayOptions,
        profiling: ProfilingRules | None,
        *,
        preempts: bool,
        resizes: bool,
    ) -> None:
        self._state = state
        self._resizes = resizes
        self._events = events
        self._record = recorder
        self._options = options
        self._estimator = options.estimator
        self._scorer = options.scorer
        self._uses_profiles = options.profiles_known or options.reuse_profiles
        self._whole_seconds = options.faults.whole_seconds
        self._profiling = profiling
        self._placed_count = 0
        self._jobs: dict[str, ReplayedJob] = {}
        self._known_profiles: dict[tuple[str, str, float], TraceJob] = {}
        lag_s = options.end_lag_s
        self._end_lag_s = (1.0 if preempts else 0.0) if lag_s is None else lag_s

    def arrive(self, index: int, trace: TraceJob) -> None:
        """A job is submitted: it is profiled first, or enters its virtual cluster's queue."""
        job = ReplayedJob(index, trace)
        self._jobs[trace.job_id] = job
        profiler_vc = None if self._profiling is None else self._profiler_for(self._profiling, job)
        measured = self._past_profile(trace) if self._uses_profiles and profiler_vc is None else None
        profile, score = (None, None) if measured is None else self._profile_of(measured)
        queued = _as_queued(trace, job.held_gpus, index, profile, score)
        if self._options.avoid_nodes:
            queued = queued._replace(avoid_nodes=self._options.avoid_nodes.get(trace.job_id, ()))
        if trace.job_id in self._options.long_cold_start:
            queued = queued._replace(long_cold_start=True)
        if profiler_vc is not None:
            self._state.enqueue(queued._replace(vc=profiler_vc))
        else:
            self._enter_main_queue(queued)
        if job.give_up_s is not None:
            self._events.add(job.give_up_s, GIVE_UP, job)

    def start(self, decision: Start, now_s: float) -> None:
        job_id, placement, _, stage = decision
        job = self._jobs[job_id]
        if self._resizes:
            job.held_gpus = placement.gpu_count
            running = self._state.place(job_id, placement, now_s, stage, gpus=job.held_gpus)
        else:
            running = self._state.place(job_id, placement, now_s, stage)
        self._begin(job, now_s)
        job.in_profiler = stage is PROFILE
        self._set_rate(job, self._settle_in(job, running) if self._resizes else 1.0)
        if self._scorer is not None and running.job.profile is None and not job.in_profiler:
            window_s = (self._profiling or _UNPROFILED).longest_s(long_cold_start=running.job.long_cold_start)
            self._events.add(now_s + window_s, SAMPLED, job)

    def pack(self, decision: Pack, now_s: float) -> None:
        job, partner = self._jobs[decision.job_id], self._jobs[decision.partner_job_id]
        queued = self._state.queued(decision.job_id)
        slots = self._state.layout(queued.vc).slots(decision.placement)
        self._state.pack(RunningJob(queued, decision.placement, slots, now_s, now_s), decision.partner_job_id)
        self._begin(job, now_s)
        self._set_rate(job, 1.0)
        sharers = [partner, *partner.shares]
        for sharer in sharers:
            speed, its_speed = self._pair_speeds().speeds(job.trace, sharer.trace)
            job.shares[sharer] = (now_s, speed)
            sharer.shares[job] = (now_s, its_speed)
        for sharer in (job, *sharers):
            self._change_rate(sharer, self._shared_rate(sharer), now_s)
            if self._options.unstable_below_frac is not None:
                self._events.add(now_s + self._options.watch_s, WATCHED, sharer)

    def resize(self, decisions: Sequence[Resize], now_s: float) -> None:
        """Running jobs go on with other GPUs, all at once."""
        moved: list[RunningJob] = []
        for decision in decisions:
            job = self._jobs[decision.job_id]
            running = self._state.running(decision.job_id)
            queued = running.job._replace(attempt_count=running.job.attempt_count + 1)
            slots = self._state.layout(queued.vc).slots(decision.placement)
            moved.append(running._replace(job=queued, placement=decision.placement, slots=slots))
            self._ended(job, now_s, AttemptEnd.RESIZED)
        self._state.exchange(moved)
        for running in moved:
            job = self._jobs[running.job.job_id]
            done_s = (now_s - job.as_of_s) * job.rate
            self._settle(job, now_s)
            job.since_s = now_s
            job.held_gpus = running.placement.gpu_count
            if job.remaining_s > 0:
                self._set_rate(job, self._settle_in(job, running))
            self._state.update(running._replace(as_of_s=now_s, done_s=running.done_s + done_s, speed_frac=job.rate))

    def stop(self, decision: Stop, now_s: float) -> None:
        if not decision.requeue:
            raise StateError(f"a replayed job is only stopped to run again; got {decision!r}")
        job = self._jobs[decision.job_id]
        running = self._state.release(decision.job_id)
        if job.shares:
            self._part(job, now_s)
        self._settle(job, now_s)
        job.version += 1
        job.stay += 1
        job.is_running = False
        self._ended(job, now_s, _ENDS[decision.cause])
        lost_s = self._lost_work_s(job, decision, now_s)
        job.remaining_s += lost_s
        job.since_s = now_s
        queued = running.job._replace(
            attempt_count=running.job.attempt_count + 1,
            attained_gpu_s=running.attained_gpu_s(now_s),
            never_pack=running.job.never_pack or decision.never_pack,
            attained_s=max(running.work_done_s(now_s) - lost_s, 0.0),
            true_remaining_s=job.remaining_s,
        )
        if decision.cause is StopCause.PROFILED:
            job.in_profiler = False
            queued = queued._replace(vc=job.trace.vc, attained_gpu_s=0.0)
            self._enter_main_queue(self._with_profile(queued, job.trace))
        else:
            self._state.enqueue(queued)
        if job.give_up_s is not None:
            self._events.add(max(job.give_up_s, now_s), GIVE_UP, job)

    def go_on(self, decision: Continue) -> None:
        """A profiled job stays where it is, now as one that runs."""
        job = self._jobs[decision.job_id]
        running = self._state.running(decision.job_id)
        job.in_profiler = False
        self._state.update(running._replace(stage=MAIN, job=self._with_profile(running.job, job.trace)))

    def end(self, job: ReplayedJob, now_s: float) -> None:
        trace = job.trace
        self._state.release(trace.job_id)
        if job.shares:
            self._part(job, now_s)
        self._ended(job, now_s, _DONE)
        self._leave(job, now_s)
        if self._options.reuse_profiles and trace.memory_peak_mib is not None:
            self._known_profiles[trace.user, trace.name, trace.gpus] = trace
        if self._estimator is not None:
            self._estimator.observe(trace, now_s)

    def give_up(self, job: ReplayedJob, now_s: float) -> None:
        """The user cancels: a waiting job leaves, a running one ends."""
        if job.is_running:
            self.end(job, now_s)
            return
        self._state.withdraw(job.trace.job_id)
        self._record.give_up(job.index, now_s - job.since_s)
        self._leave(job, now_s)

    def sampled(self, job: ReplayedJob) -> None:
        """A job that was not profiled before has run long enough to know its profile (section 7)."""
        running = self._state.running(job.trace.job_id)
        self._state.update(running._replace(job=self._with_profile(running.job, job.trace)))

    def watch(self, job: ReplayedJob) -> None:
        """A packed job has been watched: too slow means unstable."""
        threshold = self._options.unstable_below_frac
        if job.shares and threshold is not None and job.rate < threshold:
            running = self._state.running(job.trace.job_id)
            self._state.update(running._replace(is_unstable=True))

    def _lost_work_s(self, job: ReplayedJob, decision: Stop, now_s: float) -> float:
        """Work that has to be done again, or is added, because of a stop."""
        gpus = int(job.trace.gpus)
        if decision.cause is StopCause.PREEMPTED:
            if job.trace.job_id in self._options.curves:
                return 0.0  # its restart is paid for when it begins again
            lost_s = self._options.preemption_cost_of(gpus)
            self._record.lose("preemption", lost_s * gpus)
            return lost_s
        # Nobody asked the job to write a checkpoint: it begins again.
        kind = "profiling" if decision.cause is StopCause.PROFILED else "failed_packing"
        self._record.lose(kind, (now_s - job.since_s) * gpus)
        return job.trace.duration_s - job.remaining_s

    def _enter_main_queue(self, queued: QueuedJob) -> None:
        if self._estimator is not None:
            queued = queued._replace(estimate=self._estimator.estimate(queued))
        self._state.enqueue(queued)

    def _profiler_for(self, profiling: ProfilingRules, job: ReplayedJob) -> str | None:
        """The profiler's virtual cluster, if the job is to be profiled and fits there."""
        vc, gpus = profiling.profiler_vc, job.held_gpus
        if vc is None:
            return None
        waiting = self._state.queue_length(vc)
        if not profiling.wants_now(gpus, waiting, self._options.forecast, job.trace.submit_s):
            return None
        return vc if self._state.can_ever_fit(vc, gpus, job.trace.gpu_type) else None

    def _past_profile(self, trace: TraceJob) -> TraceJob | None:
        if self._options.profiles_known:
            return trace
        return self._known_profiles.get((trace.user, trace.name, trace.gpus))

    def _with_profile(self, queued: QueuedJob, measured: TraceJob) -> QueuedJob:
        if measured.memory_peak_mib is None:
            return queued
        profile, score = self._profile_of(measured)
        return queued._replace(profile=profile, sharing_score=score)

    def _profile_of(self, measured: TraceJob) -> tuple[Profile | None, int | None]:
        """What profiling such a job finds, and its sharing score."""
        if measured.memory_peak_mib is None:
            return None, None
        profile = _profile(measured.gpu_util_pct, measured.memory_util_pct, measured.memory_peak_mib)
        return profile, self._scorer.score(measured) if self._scorer is not None else None

    def _begin(self, job: ReplayedJob, now_s: float) -> None:
        job.waited_s = now_s - job.since_s
        job.since_s = job.as_of_s = now_s
        job.is_running = True
        self._placed_count += 1
        job.placed_number = self._placed_count
        job.stay += 1
        job.rate = 1.0
        if job.give_up_s is not None:
            job.remaining_s = max(job.give_up_s - now_s, 0.0)

    def _ended(self, job: ReplayedJob, now_s: float, end: AttemptEnd) -> None:
        self._record.attempt(job.index, job.waited_s, job.since_s, now_s, end, job.in_profiler, job.held_gpus)
        job.waited_s = 0.0

    def _settle(self, job: ReplayedJob, now_s: float) -> None:
        if self._whole_seconds:
            job.remaining_s = count_down(job.remaining_s, job.rate, round(now_s - job.as_of_s))
        else:
            job.remaining_s -= (now_s - job.as_of_s) * job.rate
        job.as_of_s = now_s

    def _set_rate(self, job: ReplayedJob, rate: float) -> None:
        """Schedule the end at a new rate; the work done so far is settled."""
        job.rate = rate
        job.version += 1
        if self._whole_seconds:
            left_s = whole_seconds_left(job.remaining_s, rate)
        else:
            left_s = job.remaining_s / rate if job.remaining_s > 0.0 else 0.0
        self._events.add(job.as_of_s + left_s + self._end_lag_s, END, job)

    def _settle_in(self, job: ReplayedJob, running: RunningJob) -> float:
        """The rate on new GPUs; the time without progress before that is added to the work. Policies that resize."""
        curve = self._options.curves.get(job.trace.job_id)
        if curve is None:
            return 1.0
        layout = self._state.layout(running.job.vc)
        gpu_type = layout.groups[layout.group_of[running.slots[0][0]]].gpu_type
        rate = curve.speed(job.held_gpus, len(running.slots), gpu_type)
        if not rate > 0:
            raise StateError(f"{job.trace.job_id} cannot run on such GPUs: {running.placement}")
        job.remaining_s += curve.rescale_s * rate
        self._record.lose("rescaling", curve.rescale_s * job.held_gpus)
        return rate

    def _change_rate(self, job: ReplayedJob, rate: float, now_s: float) -> None:
        done_s = (now_s - job.as_of_s) * job.rate
        self._settle(job, now_s)
        if job.remaining_s > 0:
            self._set_rate(job, rate)
        # Otherwise its work is done and its end already under way.
        running = self._state.running(job.trace.job_id)
        self._state.update(running._replace(as_of_s=now_s, done_s=running.done_s + done_s, speed_frac=rate))

    def _shared_rate(self, job: ReplayedJob) -> float:
        """Speed beside the present partners. With more than one the slow-downs multiply: nobody measured triples,
        and the paper (section 3) only says that they are severe."""
        rate = 1.0
        for _, speed in job.shares.values():
            rate *= speed
        return rate

    def _pair_speeds(self) -> PairSpeeds:
        speeds = self._options.pair_speeds
        if speeds is None:
            raise InputError("a policy that packs jobs needs pair_speeds, measured or fitted; got None")
        return speeds

    def _part(self, job: ReplayedJob, now_s: float) -> None:
        """``job`` leaves the GPUs that it shared; those that stay go on without it."""
        for partner, (since_s, _) in job.shares.items():
            self._record.pair(job.index, partner.index, since_s, now_s)
            del partner.shares[job]
            if self._options.faults.partner_stays_slow and job.placed_number < partner.placed_number:
                running = self._state.running(partner.trace.job_id)
                self._state.update(running._replace(job=running.job._replace(never_pack=True)))
            else:
                self._change_rate(partner, self._shared_rate(partner), now_s)
        job.shares = {}

    def _leave(self, job: ReplayedJob, now_s: float) -> None:
        self._record.end_s[job.index] = now_s
        job.version += 1
        job.stay += 1
        del self._jobs[job.trace.job_id]
