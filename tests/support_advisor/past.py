"""Past jobs and vectors for tests of the history index and of estimates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from lucid_pipelines.domain.job import Profile
from lucid_pipelines.domain.similarity import HistoryFilter, IndexEntry, PastJob, SimilarJob, SimilarJobs, VectorSpace
from lucid_pipelines.domain.states import Outcome

SPACE = VectorSpace("test", 16, 1)
T0 = datetime(2026, 1, 1, tzinfo=UTC)
LATER = T0 + timedelta(days=365)
ANYTHING = HistoryFilter()


def day(number: float) -> datetime:
    return T0 + timedelta(days=number)


def past(job_id: str, ended_day: float = 1.0, duration_s: float | None = 3600.0, **facts: Any) -> PastJob:
    """A completed job on one A100; other facts by name."""
    defaults: dict[str, Any] = {
        "fingerprint": f"model: {job_id}",
        "submitted_at": day(ended_day - 0.5),
        "ended_at": day(ended_day),
        "outcome": Outcome.COMPLETED,
        "duration_s": duration_s,
        "task_type": "image classification",
        "gpu_type": "NVIDIA A100-SXM4-80GB",
        "gpus": 1,
        "profile": Profile(gpu_util_pct=80.0, memory_peak_mib=20_000.0),
    }
    return PastJob(job_id=job_id, **{**defaults, **facts})


def at_angle(degrees: float, dimension: int = SPACE.dimension) -> list[float]:
    """A unit vector; the cosine of two of them is that of the difference of their angles."""
    vector = [0.0] * dimension
    vector[0], vector[1] = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return vector


def entry(job: PastJob, degrees: float = 0.0) -> IndexEntry:
    return IndexEntry(job, at_angle(degrees))


def random_unit(rng: np.random.Generator, dimension: int = SPACE.dimension) -> np.ndarray:
    vector = rng.normal(size=dimension).astype(np.float32)
    return vector / np.linalg.norm(vector)


def similar(
    found: Sequence[tuple[PastJob, float]], k: int = 10, threshold: float = 0.85, now: datetime = LATER
) -> SimilarJobs:
    """What an index would have answered."""
    matches = tuple(SimilarJob(job, similarity) for job, similarity in found)
    return SimilarJobs(matches, k, now, threshold, len(found), len(found), None, "only so many")
