"""Replays against closed forms of queueing theory."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lucid_pipelines import policies
from lucid_pipelines.domain.trace import TraceJob
from lucid_pipelines.simulation import prepare, replay
from tests.support_simulation.cases import one_vc, trace_job

BATCHES = 20
T_975_19 = 2.093
"""97.5 % quantile of Student's t with 19 degrees of freedom."""


def poisson_jobs(rng: np.random.Generator, count: int, rate: float, durations: np.ndarray) -> list[TraceJob]:
    submits = np.cumsum(rng.exponential(1.0 / rate, count))
    return [trace_job(f"j{i}", float(s), float(d)) for i, (s, d) in enumerate(zip(submits, durations, strict=True))]


def batch_interval(values: np.ndarray) -> tuple[float, float]:
    """Mean and half width of its 95 % interval by batch means, after a tenth of warm-up."""
    kept = values[len(values) // 10 :]
    means = np.array([batch.mean() for batch in np.array_split(kept, BATCHES)])
    return float(means.mean()), float(T_975_19 * means.std(ddof=1) / math.sqrt(BATCHES))


def erlang_c(servers: int, load: float) -> float:
    """Probability of waiting in M/M/c, ``load`` = arrival rate × mean service."""
    inverse = 1.0
    for k in range(1, servers):
        inverse = 1.0 + inverse * k / load
    inverse = 1.0 + (inverse * servers / load) * (1.0 - load / servers)
    return 1.0 / inverse


def test_erlang_c_knows_textbook_values() -> None:
    assert erlang_c(1, 0.7) == pytest.approx(0.7)
    assert erlang_c(2, 1.5) == pytest.approx(0.642857, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "mean_square"), [("exponential", 2.0), ("constant", 1.0), ("lognormal", math.exp(1.0))]
)
def test_one_gpu_agrees_with_pollaczek_and_khinchine(kind: str, mean_square: float) -> None:
    rng = np.random.default_rng(11)
    count, rho = 15_000, 0.6
    durations = {
        "exponential": rng.exponential(1.0, count),
        "constant": np.ones(count),
        "lognormal": rng.lognormal(-0.5, 1.0, count),
    }[kind]
    result = replay(prepare(poisson_jobs(rng, count, rho, durations), one_vc(1, 1)), policies.get("fifo"))
    mean, half = batch_interval(result.queue_s)
    expected = rho * mean_square / (2 * (1 - rho))
    assert abs(mean - expected) <= max(1.5 * half, 0.02), (mean, half, expected)


def test_many_gpus_agree_with_erlang_c() -> None:
    rng = np.random.default_rng(5)
    count, servers, load = 15_000, 8, 6.4
    jobs = poisson_jobs(rng, count, load, rng.exponential(1.0, count))
    result = replay(prepare(jobs, one_vc(1, servers)), policies.get("fifo"))
    mean, half = batch_interval(result.queue_s)
    expected = erlang_c(servers, load) / (servers - load)
    assert abs(mean - expected) <= max(1.5 * half, 0.01), (mean, half, expected)


@pytest.mark.slow
def test_shortest_job_first_agrees_with_its_integral() -> None:
    """M/G/1 with non-preemptive SJF: W(x) = λE[S²]/2 / (1 − λ∫₀ˣ t f(t) dt)², averaged over exponential x."""
    rng = np.random.default_rng(3)
    count, rho = 15_000, 0.7
    jobs = poisson_jobs(rng, count, rho, rng.exponential(1.0, count))
    result = replay(prepare(jobs, one_vc(1, 1)), policies.get("sjf"))
    mean, half = batch_interval(result.queue_s)
    x = np.linspace(0.0, 40.0, 400_001)
    below = 1.0 - np.exp(-x) * (1.0 + x)
    expected = float(np.trapezoid(np.exp(-x) * rho / (1.0 - rho * below) ** 2, x))
    assert abs(mean - expected) <= max(1.5 * half, 0.02), (mean, half, expected)
