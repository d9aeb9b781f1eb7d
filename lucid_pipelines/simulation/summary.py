"""The numbers of one replay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from lucid_pipelines.simulation.record import AttemptEnd, Floats, Replay

SHORT_JOB_S = 60.0
LARGE_JOB_GPUS = 8


@dataclass(frozen=True, slots=True)
class Group:
    """Means of a part of the jobs."""

    jobs: int
    avg_jct_s: float | None
    avg_queue_s: float | None
    p999_queue_s: float | None


@dataclass(frozen=True, slots=True)
class Summary:
    """What a replay came to. Percentiles interpolate linearly; unknown is ``None``.

    Attributes:
        jobs: jobs that were replayed; ``unended_jobs`` of them never ended (held for ever).
        makespan_s: first submission to last end.
        gpu_allocated_frac: share of all GPU-time, over the makespan, that at least one job held.
        gpu_util_frac: mean utilisation of all GPUs, that of two packed jobs added up to at most 1.
        memory_used_mib: mean memory in use on all GPUs.
        profile_known_frac: share of the held GPU-time for which utilisation and memory are known.
        packed_frac: share of the held GPU-time that two jobs shared.
        short_jobs_waiting: mean number of waiting jobs that run for at most 60 s.
        lost_gpu_h: GPU-hours that did no lasting work, by kind.
    """

    policy: str
    jobs: int
    unended_jobs: int
    avg_jct_s: float
    median_jct_s: float
    p99_jct_s: float
    p999_jct_s: float
    avg_queue_s: float
    median_queue_s: float
    p99_queue_s: float
    p999_queue_s: float
    makespan_s: float
    gpu_allocated_frac: float
    gpu_util_frac: float | None
    memory_used_mib: float | None
    profile_known_frac: float
    packed_frac: float
    short_jobs: int
    short_jobs_waiting: float
    short_jobs_avg_queue_s: float | None
    preemptions: int
    ended_in_profiler_frac: float
    lost_gpu_h: Mapping[str, float]
    by_size: Mapping[str, Group]
    by_vc: Mapping[str, Group]
    fallbacks: Mapping[str, int]
    quarantined: Mapping[str, int]
    passes: int
    wall_s: float

    def to_json(self) -> dict[str, object]:
        return asdict(self)


def summarise(replay: Replay) -> Summary:
    """Boil a replay down. Jobs that never ended count in ``unended_jobs`` and in no mean."""
    jobs = replay.input.jobs
    ended = ~np.isnan(replay.end_s)
    jct_s, queue_s = replay.jct_s[ended], replay.queue_s[ended]
    gpus = replay.gpus
    submit_s = replay.submit_s
    end_s = replay.end_s[ended]
    makespan_s = float(end_s.max() - submit_s.min()) if len(end_s) else 0.0
    duration_s = np.array([job.duration_s for job in jobs])
    short = (duration_s <= SHORT_JOB_S) & ended
    vcs = np.array([job.vc for job in jobs])
    use = _use(replay)
    capacity_gpu_s = replay.input.gpus * makespan_s
    in_profiler = replay.attempt_in_profiler & (replay.attempt_end == AttemptEnd.DONE)
    return Summary(
        policy=replay.policy,
        jobs=len(jobs),
        unended_jobs=int((~ended).sum()),
        **_spread("jct_s", jct_s),
        **_spread("queue_s", queue_s),
        makespan_s=makespan_s,
        gpu_allocated_frac=_share(used_gpu_s(replay), capacity_gpu_s) or 0.0,
        gpu_util_frac=_share(use.util_gpu_s, capacity_gpu_s) if use.known_gpu_s else None,
        memory_used_mib=_share(use.memory_mib_gpu_s, capacity_gpu_s) if use.known_gpu_s else None,
        profile_known_frac=_share(use.known_gpu_s, use.held_gpu_s) or 0.0,
        packed_frac=_share(use.shared_gpu_s, used_gpu_s(replay)) or 0.0,
        short_jobs=int(short.sum()),
        short_jobs_waiting=_share(float(replay.queue_s[short].sum()), makespan_s) or 0.0,
        short_jobs_avg_queue_s=float(replay.queue_s[short].mean()) if short.any() else None,
        preemptions=int((replay.attempt_end == AttemptEnd.PREEMPTED).sum()),
        ended_in_profiler_frac=float(in_profiler.sum() / max(len(jobs), 1)),
        lost_gpu_h={kind: gpu_s / 3600 for kind, gpu_s in sorted(replay.lost_gpu_s.items())},
        by_size={
            f"up_to_{LARGE_JOB_GPUS}_gpus": _group(replay, ended & (gpus <= LARGE_JOB_GPUS)),
            f"above_{LARGE_JOB_GPUS}_gpus": _group(replay, ended & (gpus > LARGE_JOB_GPUS)),
        },
        by_vc={str(vc): _group(replay, ended & (vcs == vc)) for vc in sorted(set(vcs.tolist()))},
        fallbacks=dict(replay.fallbacks),
        quarantined=replay.input.quarantine_counts,
        passes=replay.passes,
        wall_s=replay.wall_s,
    )


def used_gpu_s(replay: Replay) -> float:
    """GPU-seconds during which at least one job held a GPU."""
    if len(replay.used_from_s) < 2:
        return 0.0
    return float((np.diff(replay.used_from_s) * replay.used_gpus[:-1]).sum())


@dataclass(frozen=True, slots=True)
class _Use:
    held_gpu_s: float
    shared_gpu_s: float
    known_gpu_s: float
    util_gpu_s: float
    memory_mib_gpu_s: float


def _use(replay: Replay) -> _Use:
    jobs = replay.input.jobs
    gpus = replay.gpus
    util = _column([job.gpu_util_pct for job in jobs]) / 100.0
    memory = _column([job.memory_peak_mib for job in jobs])
    known = ~np.isnan(util) & ~np.isnan(memory)
    row = replay.attempt_job
    held = (replay.attempt_end_s - replay.attempt_start_s) * replay.attempt_gpus
    its = known[row]
    first, second = replay.pair_first, replay.pair_second
    overlap = (replay.pair_end_s - replay.pair_start_s) * np.minimum(gpus[first], gpus[second])
    both = known[first] & known[second]
    above = np.maximum(util[first] + util[second] - 1.0, 0.0)
    return _Use(
        held_gpu_s=float(held.sum()),
        shared_gpu_s=float(overlap.sum()),
        known_gpu_s=float(held[its].sum()),
        util_gpu_s=float((held * util[row])[its].sum() - (overlap * above)[both].sum()),
        memory_mib_gpu_s=float((held * memory[row])[its].sum()),
    )


def _column(values: Sequence[float | None]) -> Floats:
    return np.array([np.nan if value is None else value for value in values], dtype=float)


def _spread(name: str, values: Floats) -> dict[str, float]:
    if not len(values):
        return {f"{kind}_{name}": 0.0 for kind in ("avg", "median", "p99", "p999")}
    median, p99, p999 = np.quantile(values, [0.5, 0.99, 0.999])
    return {
        f"avg_{name}": float(values.mean()),
        f"median_{name}": float(median),
        f"p99_{name}": float(p99),
        f"p999_{name}": float(p999),
    }


def _group(replay: Replay, rows: np.ndarray) -> Group:
    count = int(rows.sum())
    if not count:
        return Group(0, None, None, None)
    queue_s = replay.queue_s[rows]
    return Group(
        count,
        float(replay.jct_s[rows].mean()),
        float(queue_s.mean()),
        float(np.quantile(queue_s, 0.999)),
    )


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 else None
