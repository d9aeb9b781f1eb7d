"""What was read of one GPU of a machine."""

from __future__ import annotations

from dataclasses import dataclass


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
