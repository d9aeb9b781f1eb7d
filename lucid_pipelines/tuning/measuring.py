"""One replay of one scenario under one point of the space, and the numbers that are compared."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from lucid_pipelines.simulation import run_replay
from lucid_pipelines.simulation.options import ReplayOptions
from lucid_pipelines.simulation.record import Replay
from lucid_pipelines.simulation.scoring import FittedScorer
from lucid_pipelines.tuning.scenarios import Scenario
from lucid_pipelines.tuning.space import RETRAIN, Values, policy_values, scorer_values

POLICY = "lucid"
Measures = Mapping[str, float | None]
LARGE_GPUS = 8

_scenarios: dict[str, Scenario] = {}


def measure(scenario: Scenario, values: Values) -> dict[str, float | None]:
    """Replay and measure.

    ``avg_jct_s``, ``avg_queue_s``, ``p999_queue_s``; ``tail_large_s``: 99.9 % quantile of the wait of jobs above 8
    GPUs (without such jobs, of the largest ones); ``profiling_gpu_h``: GPU-hours spent in the profiler;
    ``packed_frac``; ``unended_jobs``; ``fallbacks``: how often a fact was missing.
    """
    predictions = scenario.predictions.get(values[RETRAIN]) if RETRAIN in values else None
    report = run_replay(
        scenario.jobs,
        scenario.cluster,
        [POLICY],
        settings={POLICY: policy_values(values)},
        predictions=predictions,
        history=scenario.history,
        options=ReplayOptions(scorer=replace(FittedScorer(), **scorer_values(values))),
    )
    summary, replay = report.summaries[0], report.replays[0]
    return {
        "avg_jct_s": summary.avg_jct_s,
        "avg_queue_s": summary.avg_queue_s,
        "p999_queue_s": summary.p999_queue_s,
        "tail_large_s": _tail_large_s(replay),
        "profiling_gpu_h": _profiling_gpu_h(replay),
        "packed_frac": summary.packed_frac,
        "unended_jobs": float(summary.unended_jobs),
        "fallbacks": float(sum(summary.fallbacks.values())),
        "wall_s": summary.wall_s,
    }


def prepare_worker(scenarios: tuple[Scenario, ...]) -> None:
    """What a worker process does once: take the scenarios, and give way to whatever else the machine does."""
    _scenarios.update({scenario.name: scenario for scenario in scenarios})
    os.nice(10)


def measure_in_worker(name: str, values: dict[str, float]) -> dict[str, float | None]:
    """``measure`` of a scenario that the worker holds."""
    return measure(_scenarios[name], values)


def _tail_large_s(replay: Replay) -> float | None:
    ended = ~np.isnan(replay.end_s)
    gpus = replay.gpus
    large = gpus > LARGE_GPUS if (gpus > LARGE_GPUS).any() else gpus == gpus.max()
    chosen: Any = replay.queue_s[large & ended]
    return float(np.quantile(chosen, 0.999)) if len(chosen) else None


def _profiling_gpu_h(replay: Replay) -> float:
    rows = replay.attempt_in_profiler
    held_s = (replay.attempt_end_s - replay.attempt_start_s)[rows]
    return float((held_s * replay.gpus[replay.attempt_job[rows]]).sum() / 3600.0)
