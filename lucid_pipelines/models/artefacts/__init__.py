"""Trained models as files: one JSON document each, and a registry that knows which one is in service (R-40)."""

from lucid_pipelines.models.artefacts.document import (
    ArtefactError,
    Header,
    Trained,
    describe,
    seal,
    unseal,
    with_evaluation,
)
from lucid_pipelines.models.artefacts.registry import Change, Entry, Registry
from lucid_pipelines.models.kinds import ModelKind

__all__ = [
    "ArtefactError",
    "Change",
    "Entry",
    "Header",
    "ModelKind",
    "Registry",
    "Trained",
    "describe",
    "seal",
    "unseal",
    "with_evaluation",
]
