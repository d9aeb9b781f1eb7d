"""What a replay writes down: columns, one row per job, per attempt and per time spent packed."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lucid_pipelines.simulation.inputs import ReplayInput

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class AttemptEnd(IntEnum):
    """Why an attempt ended."""

    DONE = 0
    """The job ended as the trace says."""
    PREEMPTED = 1
    PROFILED = 2
    """Its profiling window was over."""
    UNPACKED = 3
    """Stopped because the pair was unstable or slow."""
    RESIZED = 4
    """Went on with other GPUs."""


class Recorder:
    """Collects rows while a replay runs. Jobs are numbers: their position in the input."""

    def __init__(self, job_count: int) -> None:
        # Arrays of the standard library: one item of a NumPy array costs several times as much to change.
        self.end_s = array("d", [math.nan]) * job_count
        # Row by row in one array: one call adds a row.
        self.attempts = array("d")
        self.gave_up = array("d")
        self.pairs = array("d")
        self.used_from_s = array("d")
        self.used_gpus = array("q")
        self.lost_gpu_s: dict[str, float] = {}
        self.passes = 0

    def attempt(
        self, job: int, waited_s: float, start_s: float, end_s: float, end: AttemptEnd, in_profiler: bool, gpus: int
    ) -> None:
        """An attempt is over. ``waited_s``: how long the job waited for it."""
        self.attempts.extend((job, start_s, end_s, end, in_profiler, gpus, waited_s))

    def give_up(self, job: int, waited_s: float) -> None:
        """A job left the queue without running."""
        self.gave_up.extend((job, waited_s))

    def pair(self, first: int, second: int, start_s: float, end_s: float) -> None:
        if end_s > start_s:
            self.pairs.extend((first, second, start_s, end_s))

    def use(self, now_s: float, used_gpus: int) -> None:
        """Note that another number of GPUs is held from ``now_s`` on."""
        self.used_from_s.append(now_s)
        self.used_gpus.append(used_gpus)

    def lose(self, what: str, gpu_s: float) -> None:
        self.lost_gpu_s[what] = self.lost_gpu_s.get(what, 0.0) + gpu_s


@dataclass(frozen=True)
class Replay:
    """The outcome of one policy on one input.

    Attributes:
        start_s: first start of each job; NaN when it never started.
        end_s: NaN when it was still waiting or running at the end (only if the policy held it forever).
        queue_s: time spent waiting, all stays together.
        held_s: time spent holding GPUs, all attempts together.
        attempt_job, …: one row per attempt; ``pair_first``, …: one row per stretch of shared GPUs.
        used_from_s, used_gpus: GPUs held by at least one job, from each moment at which that changed.
        lost_gpu_s: GPU-seconds that did no lasting work, by kind: ``preemption``, ``profiling``,
            ``failed_packing``, ``rescaling``.
        fallbacks: how often each missing fact was replaced by the plain rule.
    """

    policy: str
    input: ReplayInput
    start_s: Floats
    end_s: Floats
    queue_s: Floats
    held_s: Floats
    attempt_count: NDArray[np.int32]
    attempt_job: Ints
    attempt_start_s: Floats
    attempt_end_s: Floats
    attempt_end: Ints
    attempt_in_profiler: NDArray[np.bool_]
    attempt_gpus: Ints
    pair_first: Ints
    pair_second: Ints
    pair_start_s: Floats
    pair_end_s: Floats
    used_from_s: Floats
    used_gpus: Ints
    lost_gpu_s: Mapping[str, float]
    fallbacks: Mapping[str, int]
    passes: int
    wall_s: float

    @cached_property
    def submit_s(self) -> Floats:
        return np.array([job.submit_s for job in self.input.jobs])

    @cached_property
    def gpus(self) -> Floats:
        return np.array([job.gpus for job in self.input.jobs])

    @cached_property
    def jct_s(self) -> Floats:
        """Submission to end; NaN for a job that did not end."""
        return self.end_s - self.submit_s


def finish(recorder: Recorder, policy: str, given: ReplayInput, fallbacks: Mapping[str, int], wall_s: float) -> Replay:
    """Turn what was collected into arrays."""
    attempts = np.array(recorder.attempts, np.float64).reshape(-1, 7).T
    attempt_job, count = attempts[0].astype(np.int64), len(given.jobs)
    start_s = np.full(count, np.nan)
    start_s[attempt_job[::-1]] = attempts[1][::-1]  # the first attempt is written last
    gave_up = np.array(recorder.gave_up, np.float64).reshape(-1, 2).T
    waiting_job, waited_s = np.append(attempt_job, gave_up[0].astype(np.int64)), np.append(attempts[6], gave_up[1])
    pairs = np.array(recorder.pairs, np.float64).reshape(-1, 4).T
    return Replay(
        policy=policy,
        input=given,
        start_s=start_s,
        end_s=np.array(recorder.end_s, np.float64),
        queue_s=np.bincount(waiting_job, waited_s, minlength=count).astype(np.float64, copy=False),
        held_s=np.bincount(attempt_job, attempts[2] - attempts[1], minlength=count).astype(np.float64, copy=False),
        attempt_count=np.bincount(attempt_job, minlength=count).astype(np.int32),
        attempt_job=attempt_job,
        attempt_start_s=attempts[1].copy(),
        attempt_end_s=attempts[2].copy(),
        attempt_end=attempts[3].astype(np.int64),
        attempt_in_profiler=attempts[4].astype(np.bool_),
        attempt_gpus=attempts[5].astype(np.int64),
        pair_first=pairs[0].astype(np.int64),
        pair_second=pairs[1].astype(np.int64),
        pair_start_s=pairs[2].copy(),
        pair_end_s=pairs[3].copy(),
        used_from_s=np.array(recorder.used_from_s, np.float64),
        used_gpus=np.array(recorder.used_gpus, np.int64),
        lost_gpu_s=dict(recorder.lost_gpu_s),
        fallbacks=dict(fallbacks),
        passes=recorder.passes,
        wall_s=wall_s,
    )
