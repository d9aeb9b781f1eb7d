"""One look at the GPUs of a machine through NVML, by ctypes: for nodes on which nothing can be installed.

Also sent to nodes (see ``agent_bundle.py``): standard library only, Python 3.9. The same facts as
``nvml.GpuReading``; a value that NVML refuses is ``None`` (R-25).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from lucid_pipelines.resources.clusters.wrapper import within

MIB = 1024 * 1024
_TEXT_BYTES = 96
_INSUFFICIENT_SIZE = 7
_UNCORRECTED, _VOLATILE, _TEMPERATURE_GPU = 1, 0, 0


class _ProcessInfo(ctypes.Structure):
    _fields_ = (
        ("pid", ctypes.c_uint),
        ("memory_bytes", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


def has_driver() -> bool:
    """Whether the driver's library can be loaded."""
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return False
    return True


def read_gpus() -> list[dict[str, Any]]:
    """The fields of ``GpuReading`` for every GPU. Raises ``OSError`` without a driver, or when it refuses."""
    library = ctypes.CDLL("libnvidia-ml.so.1")
    _must(library.nvmlInit_v2(), "nvmlInit")
    try:
        count = ctypes.c_uint()
        _must(library.nvmlDeviceGetCount_v2(ctypes.byref(count)), "nvmlDeviceGetCount")
        return [_read(library, index) for index in range(count.value)]
    finally:
        library.nvmlShutdown()


def _read(library: Any, index: int) -> dict[str, Any]:
    handle = ctypes.c_void_p()
    status = library.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(handle))
    uuid = None if status else _text(library.nvmlDeviceGetUUID, handle)
    if uuid is None:
        return {"index": index, "problem": _said(library, status or 999)}
    memory, rates = (ctypes.c_ulonglong * 3)(), (ctypes.c_uint * 2)()
    memory_status = library.nvmlDeviceGetMemoryInfo(handle, memory)
    rates_status = library.nvmlDeviceGetUtilizationRates(handle, rates)
    ecc, celsius = ctypes.c_ulonglong(), ctypes.c_uint()
    ecc_status = library.nvmlDeviceGetTotalEccErrors(handle, _UNCORRECTED, _VOLATILE, ctypes.byref(ecc))
    celsius_status = library.nvmlDeviceGetTemperature(handle, _TEMPERATURE_GPU, ctypes.byref(celsius))
    total_mib = None if memory_status else memory[0] / MIB
    return {
        "index": index,
        "uuid": uuid,
        "gpu_type": _text(library.nvmlDeviceGetName, handle),
        "memory_total_mib": total_mib or None,
        "memory_used_mib": None if memory_status else within(memory[2] / MIB, total_mib),
        "gpu_util_pct": None if rates_status else within(rates[0], 100.0),
        "memory_util_pct": None if rates_status else within(rates[1], 100.0),
        "process_ids": _processes(library, handle),
        "ecc_uncorrected": None if ecc_status else ecc.value,
        "temperature_c": None if celsius_status else float(celsius.value),
        "problem": _said(library, memory_status) if memory_status and rates_status else None,
    }


def _processes(library: Any, handle: ctypes.c_void_p) -> list[int] | None:
    ask = getattr(library, "nvmlDeviceGetComputeRunningProcesses_v3", None)
    if ask is None:
        return None  # a driver of before 2021
    room = 64
    while room <= 65536:
        count, infos = ctypes.c_uint(room), (_ProcessInfo * room)()
        status = ask(handle, ctypes.byref(count), infos)
        if status == 0:
            return sorted({int(info.pid) for info in infos[: count.value]})
        if status != _INSUFFICIENT_SIZE:
            return None
        room *= 4
    return None


def _text(function: Callable[..., int], handle: ctypes.c_void_p) -> str | None:
    buffer = ctypes.create_string_buffer(_TEXT_BYTES)
    if function(handle, buffer, ctypes.c_uint(_TEXT_BYTES)):
        return None
    return buffer.value.decode("utf-8", "replace")


def _said(library: Any, status: int) -> str:
    library.nvmlErrorString.restype = ctypes.c_char_p
    text = library.nvmlErrorString(status)
    return f"NVML error {status}" if text is None else text.decode("utf-8", "replace")


def _must(status: int, what: str) -> None:
    if status:
        raise OSError(f"{what} failed with NVML error {status}")
