"""The three models by name, importable without what they need."""

from __future__ import annotations

from enum import StrEnum


class ModelKind(StrEnum):
    """The three models."""

    PACKING = "packing"
    THROUGHPUT = "throughput"
    DURATION = "duration"
