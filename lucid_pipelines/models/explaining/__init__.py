"""Why a model says what it says: as data, and as small SVG plots (``plots``, which needs matplotlib)."""

from lucid_pipelines.models.explaining.additive import (
    Contribution,
    GlobalExplanation,
    Interaction,
    LocalExplanation,
    Shape,
    explain_globally,
    explain_locally,
)

__all__ = [
    "Contribution",
    "GlobalExplanation",
    "Interaction",
    "LocalExplanation",
    "Shape",
    "explain_globally",
    "explain_locally",
]
