"""Made-up histories, submissions and pair measurements whose truth is known."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from lucid_pipelines.domain.history import HistoryRow
from lucid_pipelines.domain.job import Profile
from lucid_pipelines.domain.states import Outcome
from lucid_pipelines.models.additive.fitting import FitSettings
from lucid_pipelines.models.packing import Configuration, MeasuredPair, PairTable
from lucid_pipelines.models.throughput import SubmissionSeries

START = datetime(2026, 3, 2, tzinfo=UTC)
"""A Monday."""
QUICK = FitSettings(bags=2, max_rounds=60, smoothing_rounds=10, learning_rate=0.1, min_samples_leaf=10, jobs=1)


def run(serial: int, **changes: Any) -> HistoryRow:
    """A completed run; ``at_h`` and ``run_s`` set its times."""
    at_h, run_s = changes.pop("at_h", float(serial)), changes.pop("run_s", 60.0)
    submitted_at = START + timedelta(hours=at_h)
    values: dict[str, Any] = {
        "attempt_id": f"a{serial}",
        "job_id": f"j{serial}",
        "number": 1,
        "user": "ada",
        "vc": "vc",
        "name": "train",
        "gpus": 1,
        "submitted_at": submitted_at,
        "started_at": submitted_at,
        "ended_at": submitted_at + timedelta(seconds=run_s if math.isfinite(run_s) else 0.0),
        "duration_s": run_s,
        "outcome": Outcome.COMPLETED,
        "cause": None,
        "profile": None,
        "placement": None,
        "packed": False,
        "profiling": False,
    }
    return HistoryRow(**{**values, **changes})


def habits(count: int, *, users: int = 6, days: float = 10.0, seed: int = 0, noise: float = 0.5) -> list[HistoryRow]:
    """Every user has three kinds of jobs, each with a typical duration; two of them only the name tells apart."""
    source = random.Random(seed)
    kinds = [
        (
            f"user{u}",
            ("train_resnet", "eval_bert", "debug")[k],
            (1, 1, 4)[k],
            (4.0, 7.5, 6.0)[k] + source.uniform(-1, 1),
        )
        for u in range(users)
        for k in range(3)
    ]
    rows: list[HistoryRow] = []
    for number in range(count):
        user, name, gpus, level = source.choice(kinds)
        rows.append(
            run(
                number,
                at_h=24.0 * days * number / count,
                run_s=math.expm1(source.gauss(level, noise)),
                user=user,
                name=f"{name}_{number}",
                gpus=gpus,
                outcome=source.choices([Outcome.COMPLETED, Outcome.CANCELLED, Outcome.FAILED_USER], [8, 1, 1])[0],
            )
        )
    return rows


def seasons(days: int = 14, seed: int = 0) -> SubmissionSeries:
    """Many submissions at noon, few at night, and noise."""
    source = np.random.default_rng(seed)
    hours = np.arange(days * 144) / 6.0 % 24
    jobs = source.poisson(2.0 + 6.0 * np.clip(np.sin((hours - 6) / 24 * 2 * np.pi), 0, None)).astype(float)
    return SubmissionSeries(START.timestamp(), 600.0, jobs, jobs * 2.0, {})


def pair_speed(demand_pct: float) -> float:
    """The law of the made-up GPU."""
    return max(1.0 - 0.4 * max(demand_pct / 100 - 0.9, 0.0), 0.4)


def pairs(networks: int = 5, seed: int = 0, noise: float = 0.01) -> PairTable:
    """Networks in four configurations each, every pair measured."""
    source = random.Random(seed)
    configurations = [
        Configuration(
            f"net{n}/data/{batch}/fp32",
            f"net{n}",
            Profile((util := min(100.0, 12 + 19 * n + 9 * batch)), util * 0.5, 2000.0 + 30 * util),
            False,
        )
        for n in range(networks)
        for batch in range(4)
    ]
    measured = [
        MeasuredPair(
            a.name,
            b.name,
            pair_speed(_util(a) + _util(b)) + source.gauss(0, noise),
            pair_speed(_util(a) + _util(b)) + source.gauss(0, noise),
        )
        for i, a in enumerate(configurations)
        for b in configurations[i:]
    ]
    return PairTable.of(configurations, measured)


def slower(table: PairTable, workload: str, by: float) -> PairTable:
    """The same measurements with other speeds wherever a workload takes part."""
    return PairTable.of(
        table.configurations,
        [
            MeasuredPair(p.first, p.second, p.first_speed_frac - by, p.second_speed_frac - by)
            if p.first.startswith(workload) or p.second.startswith(workload)
            else p
            for p in table.pairs
        ],
    )


def write_tables(table: PairTable, pairs_path: Any, profiles_path: Any) -> None:
    """The two CSV files of ``read_pair_table``."""
    solo = ["model,dataset,batchsize,amp,gpu_util,gmem_util,gmem"]
    for item in table.configurations:
        network, dataset, batch, _ = item.name.split("/")
        solo.append(",".join(map(str, (network, dataset, batch, 0, *_profile(item)))))
    profiles_path.write_text("\n".join(solo) + "\n")
    lines = ["model1,dataset1,batchsize1,amp1,speed1,model2,dataset2,batchsize2,amp2,speed2"]
    lines += [
        ",".join([*_side(pair.first, pair.first_speed_frac), *_side(pair.second, pair.second_speed_frac)])
        for pair in table.pairs
    ]
    pairs_path.write_text("\n".join(lines) + "\n")


def _side(name: str, speed: float) -> Sequence[str]:
    network, dataset, batch, _ = name.split("/")
    return (network, dataset, batch, "0", str(speed))


def _profile(item: Configuration) -> tuple[float | None, ...]:
    return (item.profile.gpu_util_pct, item.profile.memory_util_pct, item.profile.memory_peak_mib)


def _util(item: Configuration) -> float:
    assert item.profile.gpu_util_pct is not None
    return item.profile.gpu_util_pct
