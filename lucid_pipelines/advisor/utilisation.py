"""What similar jobs needed of a GPU, and how fast they were: for packing, and for elastic schedulers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from lucid_pipelines.advisor.evidence import EvidenceItem
from lucid_pipelines.domain.job import Profile
from lucid_pipelines.domain.similarity import ThroughputPoint

SOURCE = "advisor"


def measured_profile(items: Sequence[EvidenceItem]) -> Profile | None:
    """Weighted mean utilisation, and the highest memory peak, since a job must fit; ``None`` without a profile.

    A job's size decides how it fills a GPU: only jobs of the same class of GPU counts come here (hard filter).
    """
    known = [item for item in items if item.job.profile is not None]
    peaks = [item.job.profile.memory_peak_mib for item in known if item.job.profile is not None]
    found = [peak for peak in peaks if peak is not None]
    util = _mean(known, lambda profile: profile.gpu_util_pct)
    memory_util = _mean(known, lambda profile: profile.memory_util_pct)
    if util is None and memory_util is None and not found:
        return None
    return Profile(util, memory_util, max(found, default=None), sample_count=len(known), source=SOURCE)


def throughput_surface(items: Sequence[EvidenceItem]) -> tuple[ThroughputPoint, ...]:
    """Measured speeds by GPU type, GPU count and batch; equal settings are averaged by weight."""
    cells: dict[tuple[str, int, int], list[tuple[float, float]]] = defaultdict(list)
    for item in items:
        for point in item.job.throughput:
            cells[point.gpu_type, point.gpus, point.batch_size].append((max(item.weight, 1e-9), point.samples_per_s))
    return tuple(
        ThroughputPoint(*place, sum(weight * speed for weight, speed in found) / sum(weight for weight, _ in found))
        for place, found in sorted(cells.items())
    )


def _mean(items: Sequence[EvidenceItem], read: Callable[[Profile], float | None]) -> float | None:
    pairs = [(max(item.weight, 1e-9), read(item.job.profile)) for item in items if item.job.profile is not None]
    known = [(weight, value) for weight, value in pairs if value is not None]
    if not known:
        return None
    return sum(weight * value for weight, value in known) / sum(weight for weight, _ in known)
