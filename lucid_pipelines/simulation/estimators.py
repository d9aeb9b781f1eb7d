"""Predicted durations in a replay: given ones, or from what has ended so far."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping

from lucid_pipelines.domain.job import Estimate
from lucid_pipelines.domain.trace import TraceJob, TraceState
from lucid_pipelines.domain.view import QueuedJob

_DIGITS = re.compile(r"\d+")


class GivenPredictions:
    """Predictions by job id; a job without one has no estimate (the policy's fallback is counted)."""

    def __init__(self, duration_s: Mapping[str, float]) -> None:
        self._duration_s = duration_s

    def estimate(self, job: QueuedJob) -> Estimate | None:
        duration_s = self._duration_s.get(job.job_id)
        return None if duration_s is None else Estimate(duration_s, "given")

    def observe(self, job: TraceJob, ended_s: float) -> None:
        """Given predictions learn nothing."""


class HistoryEstimator:
    """Means over what has ended, from the nearest group that has enough: the paper's fall-back ladder (section 9).

    The rungs: same user, name (numbers left out) and GPUs; same user and GPUs; same user; same GPUs; all.
    """

    def __init__(self, history: Iterable[TraceJob] = (), min_count: int = 1) -> None:
        """Args:
        history: jobs that ended before the replay begins.
        min_count: how many ended jobs a rung needs.
        """
        self._sums: dict[Hashable, list[float]] = defaultdict(lambda: [0.0, 0.0])
        self._min_count = min_count
        for job in history:
            self.observe(job, job.submit_s)

    def estimate(self, job: QueuedJob) -> Estimate | None:
        for basis, key in _rungs(job.user, job.name, job.gpus):
            found = self._sums.get(key)
            if found is not None and found[1] >= self._min_count:
                return Estimate(found[0] / found[1], basis, sample_count=int(found[1]))
        return None

    def observe(self, job: TraceJob, ended_s: float) -> None:
        """Learn from a job that ran. Jobs that their users cancelled teach too: most of them have done what they
        were meant to, and a queue that never learns of them takes them for long ones."""
        if job.state is TraceState.CANCELLED and job.duration_s <= 0:
            return
        for _, key in _rungs(job.user, job.name, int(job.gpus)):
            entry = self._sums[key]
            entry[0] += job.duration_s
            entry[1] += 1


def _rungs(user: str, name: str, gpus: int) -> tuple[tuple[str, Hashable], ...]:
    stem = _DIGITS.sub("#", name)
    return (
        ("user_name_gpus", (user, stem, gpus)),
        ("user_gpus", (user, gpus)),
        ("user", (user,)),
        ("gpus", gpus),
        ("all", ()),
    )
