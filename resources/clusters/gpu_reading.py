"""What was read of one GPU of a machine, and the sample that it makes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from lucid_pipelines.domain.cluster import GpuSample


@dataclass(frozen=True, slots=True)
class GpuReading:
    """Everything asked of one GPU at once; unknown is ``None``.

    Attributes:
        process_ids: processes that use it for computing.
        ecc_uncorrected: volatile uncorrectable errors since the driver was loaded.
        problem: why it could not be read, e.g. ``GPU is lost``.
        holds_index: ``False`` for a lost GPU whose number has passed to another one.
    """

    index: int
    uuid: str | None = None
    gpu_type: str | None = None
    memory_total_mib: float | None = None
    memory_used_mib: float | None = None
    gpu_util_pct: float | None = None
    memory_util_pct: float | None = None
    process_ids: tuple[int, ...] | None = None
    ecc_uncorrected: int | None = None
    temperature_c: float | None = None
    problem: str | None = None
    holds_index: bool = True


def gpu_sample(node: str, reading: GpuReading, at: datetime) -> GpuSample:
    """What a reading says of a GPU's use; of one that is lost, a sample without values."""
    return GpuSample(
        node=node,
        gpu_index=reading.index,
        sampled_at=at,
        source="nvml",
        gpu_util_pct=reading.gpu_util_pct,
        memory_util_pct=reading.memory_util_pct,
        memory_used_mib=reading.memory_used_mib,
        uuid=reading.uuid,
        process_count=None if reading.process_ids is None else len(reading.process_ids),
    )
