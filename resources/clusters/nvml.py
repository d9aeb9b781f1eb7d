"""Real GPUs of this machine, read through NVML (package ``nvidia-ml-py``).

GPUs are recognised by UUID: a driver restart may change their numbers. A value that NVML refuses, or that is
out of range, is unknown (R-25). Every conversation with the driver has a time limit: with a broken GPU it may
never answer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from lucid_pipelines.domain.cluster import Gpu, GpuSample
from lucid_pipelines.domain.errors import ExternalError
from lucid_pipelines.resources.clusters import wrapper
from lucid_pipelines.resources.clusters.gpu_numbers import GpuNumbers
from lucid_pipelines.resources.clusters.gpu_reading import GpuReading, gpu_sample

MIB = 1024 * 1024
T = TypeVar("T")


class NvmlSource:
    """The GPUs of this machine.

    Methods raise ``ExternalError`` when there is no driver or it does not answer in time.
    """

    def __init__(
        self,
        timeout_s: float = 10.0,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        numbers: GpuNumbers | None = None,
    ) -> None:
        """Args:
        numbers: keeps each GPU's number whatever the driver counts; without it the driver's are told.
        """
        self._timeout_s = timeout_s
        self._now = now
        self._numbers = numbers
        self._renumbered = False
        self._busy = threading.Lock()
        self._known: dict[str, GpuReading] = {}
        for gpu in () if numbers is None else numbers.gpus():
            self._known[str(gpu.uuid)] = GpuReading(gpu.index, gpu.uuid, gpu.gpu_type, gpu.memory_mib)
        self._started = False

    def readings(self) -> tuple[GpuReading, ...]:
        """One reading for every GPU that is there or has been, in the order of their numbers."""
        found = self._in_time(self._read_all)
        if self._numbers is not None:
            settled = self._numbers.settle(found)
            theirs = {reading.uuid: reading.index for reading in found}
            self._renumbered = any(reading.index != theirs[reading.uuid] for reading in settled if reading.uuid)
            found = settled
            numbers = {gpu.uuid for gpu in self._numbers.gpus()}
            self._known = {uuid: known for uuid, known in self._known.items() if uuid in numbers}
        present = {reading.uuid for reading in found}
        for reading in found:
            if reading.uuid is not None:
                self._known[reading.uuid] = reading
        lost = [known for uuid, known in self._known.items() if uuid not in present]
        named = {known.index for known in lost}
        kept = [reading for reading in found if reading.uuid is not None or reading.index not in named]
        gone = [_lost(known, found) for known in lost]
        return tuple(sorted([*kept, *gone], key=lambda reading: reading.index))

    def gpus(self, readings: Sequence[GpuReading] | None = None) -> tuple[Gpu, ...]:
        """The GPUs as an inventory lists them; from ``readings`` where the caller has some."""
        return tuple(
            Gpu(reading.index, reading.uuid, reading.gpu_type, reading.memory_total_mib)
            for reading in (self.readings() if readings is None else readings)
            if reading.holds_index
        )

    def known_gpus(self) -> tuple[Gpu, ...]:
        """What is written down of the GPUs of this machine, whether the driver answers or not."""
        return () if self._numbers is None else self._numbers.gpus()

    @property
    def is_renumbered(self) -> bool:
        """Whether the driver, when last asked, counted a GPU otherwise than our books do."""
        return self._renumbered

    def sample(self, node: str) -> tuple[GpuSample, ...]:
        """One sample a GPU; of one that is lost, a sample without values."""
        at = self._now()
        return tuple(gpu_sample(node, reading, at) for reading in self.readings())

    def _in_time(self, action: Callable[[], T]) -> T:
        """Run in a thread that may be given up; while it hangs, nobody else is sent after it."""
        hangs = ExternalError(f"NVML did not answer within {self._timeout_s:g} s; a GPU or its driver hangs")
        if not self._busy.acquire(timeout=self._timeout_s):
            raise hangs
        outcome: list[T | BaseException] = []

        def run() -> None:
            try:
                outcome.append(action())
            except BaseException as error:  # noqa: BLE001 - handed to the caller's thread
                outcome.append(error)
            finally:
                self._busy.release()

        thread = threading.Thread(target=run, name="nvml", daemon=True)
        thread.start()
        thread.join(self._timeout_s)
        if not outcome:
            raise hangs
        result = outcome[0]
        if isinstance(result, BaseException):
            raise result
        return result

    def _read_all(self) -> list[GpuReading]:
        import pynvml  # loaded where there is a driver to talk to

        for attempt in (1, 2):
            try:
                if not self._started:
                    pynvml.nvmlInit()
                    self._started = True
                return [_read_one(pynvml, index) for index in range(pynvml.nvmlDeviceGetCount())]
            except pynvml.NVMLError as error:
                if self._started:  # a restarted driver answers only to those who start afresh
                    self._started = False
                    with suppress(pynvml.NVMLError):
                        pynvml.nvmlShutdown()
                    if attempt == 1:
                        continue
                raise ExternalError(
                    f"NVML cannot be used; install the NVIDIA driver, or declare virtual GPUs: {error}"
                ) from error
        raise AssertionError("unreachable: the second try returns or raises")


@dataclass(frozen=True, slots=True)
class NvmlTelemetry:
    """The ``Telemetry`` port for one machine."""

    source: NvmlSource
    node: str

    def sample(self) -> tuple[GpuSample, ...]:
        return self.source.sample(self.node)


@dataclass(frozen=True, slots=True)
class Cleanliness:
    """Whether a GPU is as empty as an unused one (R-21); ``None`` = cannot be told."""

    gpu_index: int
    is_clean: bool | None
    detail: str


def cleanliness(reading: GpuReading, our_processes: frozenset[int] = frozenset()) -> Cleanliness:
    """Judge one GPU by its processes and memory. A dirty GPU is no job's error.

    Args:
        our_processes: processes of running attempts: they may use the GPU. Memory is judged only where none
            of them does. A driver's own reserve is allowed: 1 GiB, or 2 % of the memory where that is more.
    """
    if reading.process_ids is None or reading.memory_used_mib is None or reading.memory_total_mib is None:
        return Cleanliness(reading.index, None, reading.problem or "its processes or memory cannot be read")
    strangers = sorted(set(reading.process_ids) - our_processes)
    if strangers:
        return Cleanliness(reading.index, False, f"used by processes that are not ours: {strangers}")
    allowed_mib = max(1024.0, 0.02 * reading.memory_total_mib)
    if not reading.process_ids and reading.memory_used_mib > allowed_mib:
        used = f"{reading.memory_used_mib:.0f} MiB are in use and no process owns them"
        return Cleanliness(reading.index, False, f"{used} (allowed: {allowed_mib:.0f} MiB)")
    return Cleanliness(reading.index, True, "no foreign process, no foreign memory")


def _read_one(nvml: Any, index: int) -> GpuReading:
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        uuid = nvml.nvmlDeviceGetUUID(handle)
    except nvml.NVMLError as error:
        return GpuReading(index, problem=str(error))
    problems: list[str] = []

    def ask(function: Callable[..., T], *arguments: Any) -> T | None:
        try:
            return function(handle, *arguments)
        except nvml.NVMLError as error:
            problems.append(str(error))
            return None

    memory = ask(nvml.nvmlDeviceGetMemoryInfo)
    rates = ask(nvml.nvmlDeviceGetUtilizationRates)
    processes = ask(nvml.nvmlDeviceGetComputeRunningProcesses)
    total_mib = None if memory is None else memory.total / MIB
    name = ask(nvml.nvmlDeviceGetName)
    fatal = next((problem for problem in problems), None) if memory is None and rates is None else None
    return GpuReading(
        index=index,
        uuid=uuid,
        gpu_type=name,
        memory_total_mib=total_mib or None,
        memory_used_mib=None if memory is None else wrapper.within(memory.used / MIB, total_mib),
        gpu_util_pct=None if rates is None else wrapper.within(rates.gpu, 100.0),
        memory_util_pct=None if rates is None else wrapper.within(rates.memory, 100.0),
        process_ids=None if processes is None else tuple(sorted({int(p.pid) for p in processes})),
        ecc_uncorrected=ask(
            nvml.nvmlDeviceGetTotalEccErrors, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
        ),
        temperature_c=ask(nvml.nvmlDeviceGetTemperature, nvml.NVML_TEMPERATURE_GPU),
        problem=fatal,
    )


def _lost(known: GpuReading, found: list[GpuReading]) -> GpuReading:
    """A GPU that was there before: what it is stays known, what it does not."""
    taken = {reading.index for reading in found if reading.uuid is not None}
    said = next((r.problem for r in found if r.index == known.index and r.uuid is None), None)
    holds_index = known.index not in taken
    where = "" if holds_index else f"; its number {known.index} now belongs to another GPU"
    return GpuReading(
        known.index,
        known.uuid,
        known.gpu_type,
        known.memory_total_mib,
        problem=(said or "no longer listed") + where,
        holds_index=holds_index,
    )
