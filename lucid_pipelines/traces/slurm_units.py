"""Slurm's ways to write quantities: TRES lists, unit suffixes, elapsed times."""

from __future__ import annotations

import math
import re
from functools import lru_cache

_NUMBER = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]?)")
_FACTORS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_ELAPSED = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+(?:\.\d+)?)")
_GRES_GPU = re.compile(r"(?:gres[/:])?gpu(?::([^:=(]+))?[:=]([^(,]*)(?:\(.*)?")


@lru_cache(maxsize=4096)
def scaled_number(text: str) -> float:
    """A count such as ``8``, ``1.5K``; NaN when it is not one. Counts are scaled by 1,000 (memory is not)."""
    match = _NUMBER.fullmatch(text.strip())
    return float(match[1]) * _FACTORS[match[2]] if match else math.nan


def elapsed_s(text: str) -> float:
    """``[days-][hours:]minutes:seconds`` in seconds; NaN when it is not of that form."""
    match = _ELAPSED.fullmatch(text.strip())
    if not match:
        return math.nan
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


@lru_cache(maxsize=65_536)
def gpus_of(text: str) -> tuple[float, str | None]:
    """GPUs and their type in a TRES or GRES list.

    ``billing=8,cpu=64,gres/gpu=8,gres/gpu:a100=8,node=1`` and the older ``gpu:tesla:2`` are read. The total
    without a type counts; lists that give only counts by type are summed, and the type is the one that has
    most. 0 without GPUs, NaN when the count is not a number.
    """
    total: float | None = None
    by_type: dict[str, float] = {}
    for item in re.split(r",(?![^(]*\))", text):
        match = _GRES_GPU.fullmatch(item.strip())
        if not match:
            if item.strip() == "gpu":
                total = 1.0
            continue
        kind, count = match[1], scaled_number(match[2])
        if kind is not None and math.isnan(count) and ":" not in match[2]:
            return math.nan, None
        if kind is None:
            # ``gpu:tesla`` without a count asks for one GPU of that type.
            if math.isnan(count) and item.strip().startswith("gpu:"):
                by_type[match[2]] = by_type.get(match[2], 0.0) + 1.0
            elif math.isnan(count):
                return math.nan, None
            else:
                total = (total or 0.0) + count
        else:
            by_type[kind] = by_type.get(kind, 0.0) + count
    kind = max(by_type, key=lambda name: by_type[name]) if by_type else None
    return (sum(by_type.values()) if total is None else total), kind
