"""One busy quarter of an hour of a small cluster: forty jobs, a burst, pairs, one of which does badly."""

from __future__ import annotations

import random
from collections.abc import Sequence

from lucid_pipelines.control.system import policy_settings
from lucid_pipelines.domain.job import Profile
from lucid_pipelines.domain.trace import ClusterSpec, NodeGroup, TraceJob
from lucid_pipelines.models.packing import default_packing_model
from lucid_pipelines.policies import get as get_policy
from lucid_pipelines.settings import Settings
from lucid_pipelines.simulation.engine import replay
from lucid_pipelines.simulation.estimators import GivenPredictions
from lucid_pipelines.simulation.inputs import prepare
from lucid_pipelines.simulation.options import ReplayOptions
from lucid_pipelines.simulation.record import Replay
from tests.support_control.scripted import MEMORY_MIB, ScriptedJob

NODES = (("n1", 4, "train"), ("i1", 4, "research"), ("i2", 4, "research"), ("p1", 4, "profiler"))
SECTIONS: dict[str, object] = {
    "profiling": {
        "window_s": 15.0,
        "busy_window_s": 8.0,
        "max_gpus": 4,
        "borrow_above_jobs": 6,
        "return_below_jobs": 2,
    },
    "packing": {"min_remaining_s": 10.0, "watch_after_s": 10.0, "cool_down_s": 30.0},
}
SHARED = 0.93
BAD = ("job-10", "job-16", "job-21")


def scenario(seed: int = 3, scale: float = 1.0) -> list[ScriptedJob]:
    """The jobs.

    Args:
        scale: all times are multiplied by it.
    """
    rng = random.Random(seed)
    jobs: list[ScriptedJob] = []
    for number in range(40):
        is_short = number % 10 in (2, 5, 7)
        at_s = 0.0 if number < 14 else rng.uniform(0.0, 60.0)
        jobs.append(
            ScriptedJob(
                f"job-{number:02d}",
                submit_s=round(at_s * scale, 1),
                gpus=1 if is_short else rng.choice((1, 1, 1, 2, 2, 4)),
                vc="train" if number < 34 else "research",
                user=f"user-{number % 3}",
                work_s=round((rng.uniform(3.0, 7.0) if is_short else rng.uniform(25.0, 90.0)) * scale, 1),
                util_pct=round(rng.uniform(12.0, 45.0)),
                memory_util_pct=round(rng.uniform(5.0, 20.0)),
                memory_mib=round(rng.uniform(2_000.0, 7_000.0)),
                shared=SHARED,
            )
        )
    return jobs


def with_bad_neighbours(jobs: list[ScriptedJob], names: Sequence[str] = BAD) -> list[ScriptedJob]:
    """The same jobs; whoever shares a GPU with one of these crawls."""
    return [
        ScriptedJob(**{**_fields(job), "beside": {name: 0.25 for name in names if name != job.name}})  # type: ignore[arg-type]
        for job in jobs
    ]


def simulate(jobs: list[ScriptedJob], settings: Settings, watch_s: float) -> Replay:
    """The same jobs and the same policy in the simulator."""
    by_name = {job.name: job for job in jobs}
    groups: dict[str, list[NodeGroup]] = {}
    for _, gpus, vc in NODES:
        groups.setdefault(vc, []).append(NodeGroup(1, gpus, "virtual", MEMORY_MIB))
    spec = ClusterSpec({vc: tuple(group) for vc, group in groups.items()})
    traces = [
        TraceJob(
            job_id=job.name,
            user=job.user,
            vc=job.vc,
            name=job.name,
            gpus=job.gpus,
            submit_s=job.submit_s,
            duration_s=job.work_s,
            gpu_util_pct=job.util_pct,
            memory_util_pct=job.memory_util_pct,
            memory_peak_mib=job.memory_mib,
        )
        for job in jobs
    ]
    options = ReplayOptions(
        pair_speeds=_Speeds(by_name),
        estimator=GivenPredictions({job.name: job.work_s for job in jobs}),
        scorer=_Scorer(),
        unstable_below_frac=settings.packing.min_speed_frac,
        watch_s=watch_s,
    )
    policy = get_policy(settings.scheduling.policy, **policy_settings(settings))
    return replay(prepare(traces, spec), policy, options)


class _Speeds:
    def __init__(self, jobs: dict[str, ScriptedJob]) -> None:
        self._jobs = jobs

    def speeds(self, first: TraceJob, second: TraceJob) -> tuple[float, float]:
        one, two = self._jobs[first.name], self._jobs[second.name]
        return one.beside.get(two.name, one.shared), two.beside.get(one.name, two.shared)


class _Scorer:
    def score(self, job: TraceJob) -> int | None:
        return default_packing_model().score(Profile(job.gpu_util_pct, job.memory_util_pct, job.memory_peak_mib))


def _fields(job: ScriptedJob) -> dict[str, object]:
    return {name: getattr(job, name) for name in job.__dataclass_fields__}
