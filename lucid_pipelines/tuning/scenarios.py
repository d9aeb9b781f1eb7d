"""What settings are tried on: pieces of a trace to search, and later days that the search never sees.

Every setting meets the same scenarios in the same order (common random numbers): jobs, workloads and arrivals are
equal, so the difference between two settings is theirs alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.domain.trace import ClusterSpec, TraceJob, ended_before

MIN_JOBS = 50
"""A piece with fewer jobs says nothing."""
RETRAINING_NOTE = (
    "durations were predicted from what had ended in the replay; the period of retraining was not searched"
)
_DAY_S = 86_400.0

Predictions = Mapping[float, Mapping[str, float]]
"""Period of retraining in days (0 = never) → job id → predicted seconds."""


@dataclass(frozen=True)
class Scenario:
    """One replay's input.

    Attributes:
        history: jobs that had ended before it begins.
        predictions: durations by period of retraining; empty = the replay learns from what has ended.
    """

    name: str
    jobs: tuple[TraceJob, ...]
    cluster: ClusterSpec
    history: tuple[TraceJob, ...] = ()
    predictions: Predictions = field(default_factory=dict)


@dataclass(frozen=True)
class ScenarioSet:
    """Scenarios to search on, and later ones to validate on.

    Attributes:
        unseen_days: length of the window that the search does not see.
    """

    search: tuple[Scenario, ...]
    unseen: tuple[Scenario, ...]
    unseen_days: float

    def fingerprint(self) -> str:
        """Digest of every job, the cluster and the predictions: a sweep is gone on with on the same ones only."""
        digest = hashlib.sha256()
        for scenario in (*self.search, *self.unseen):
            digest.update(repr((scenario.name, sorted(scenario.cluster.virtual_clusters.items()))).encode())
            for job in (*scenario.jobs, *scenario.history):
                row = (job.job_id, job.user, job.vc, job.name, job.gpus, job.submit_s, job.duration_s, job.gpu_util_pct)
                digest.update(repr(row).encode())
            for days in sorted(scenario.predictions):
                digest.update(repr((days, sorted(scenario.predictions[days].items()))).encode())
        return digest.hexdigest()


def scenarios_of(
    variants: Sequence[Sequence[TraceJob]],
    cluster: ClusterSpec,
    *,
    unseen_days: float = 7.0,
    pieces: int = 2,
    warmup_days: float = 0.0,
    predictions: Predictions | None = None,
) -> ScenarioSet:
    """Cut a trace into scenarios.

    Args:
        variants: the same jobs under different seeds of what the trace does not tell (their workloads). Where it tells
            everything they are alike, and count once: a copy is no second observation.
        unseen_days: length of the newest window, which is kept for the validation; at most a third of the trace.
        warmup_days: length of the oldest window, which is history only.
        pieces: into how many stretches of equal length the rest is cut, and the unseen window likewise.

    Raises:
        InputError: a piece would hold fewer than 50 jobs.
    """
    if pieces < 1 or not unseen_days > 0 or not variants or not variants[0]:
        raise InputError(f"give jobs, at least one piece and an unseen window; got {pieces} and {unseen_days} days")
    first = min(job.submit_s for job in variants[0]) + warmup_days * _DAY_S
    last = max(job.submit_s for job in variants[0])
    unseen_s = min(unseen_days * _DAY_S, (last - first) / 3.0)
    edge = last - unseen_s
    search: list[Scenario] = []
    unseen: list[Scenario] = []
    distinct: list[Sequence[TraceJob]] = []
    for jobs in variants:
        if jobs not in distinct:
            distinct.append(jobs)
    for number, jobs in enumerate(distinct):
        ordered = sorted(jobs, key=lambda job: job.submit_s)
        for into, name, begin, end in ((search, "search", first, edge), (unseen, "unseen", edge, last + 1e-6)):
            cuts = [begin + part * (end - begin) / pieces for part in range(pieces)]
            for part, window in enumerate(pairwise([*cuts, end])):
                into.append(_piece(f"{name}-{part}-seed-{number}", ordered, cluster, window, predictions))
    return ScenarioSet(tuple(search), tuple(unseen), unseen_s / _DAY_S)


def _piece(
    name: str,
    jobs: Sequence[TraceJob],
    cluster: ClusterSpec,
    window: tuple[float, float],
    predictions: Predictions | None,
) -> Scenario:
    begin, end = window
    chosen = tuple(job for job in jobs if begin <= job.submit_s < end)
    if len(chosen) < MIN_JOBS:
        raise InputError(
            f"a stretch of {(end - begin) / _DAY_S:.2f} days holds {len(chosen)} jobs; {MIN_JOBS} are needed: "
            "give a longer trace, or fewer pieces"
        )
    ids = {job.job_id for job in chosen}
    return Scenario(
        name,
        chosen,
        cluster,
        ended_before(jobs, begin),
        {days: {k: v for k, v in table.items() if k in ids} for days, table in (predictions or {}).items()},
    )
